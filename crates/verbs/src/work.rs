//! Work requests.

use rackweave_base::{Lkey, Rkey};

/// Bytes of a local region: address, length, key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// The address of the first byte, within the region's addresses.
    pub address: u64,
    /// The number of bytes.
    pub length: u32,
    /// The key of the region.
    pub lkey: Lkey,
}

/// What a send work request does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// SEND, with immediate data if given.
    Send {
        /// Immediate data, delivered with the receive completion.
        immediate: Option<u32>,
    },
    /// RDMA WRITE, with immediate data if given; which consumes a receive request of the peer.
    Write {
        /// The target, in the peer's addresses.
        address: u64,
        /// The peer's key.
        rkey: Rkey,
        /// Immediate data, delivered with the receive completion.
        immediate: Option<u32>,
    },
    /// RDMA READ into the local segments.
    Read {
        /// The source, in the peer's addresses.
        address: u64,
        /// The peer's key.
        rkey: Rkey,
    },
    /// Adds to a peer's 64-bit word; its old value is stored in the local segment of 8 bytes.
    FetchAdd {
        /// The address of the word, a multiple of eight.
        address: u64,
        /// The peer's key.
        rkey: Rkey,
        /// The number to add, modulo 2^64.
        add: u64,
    },
    /// Replaces a peer's 64-bit word if it equals `compare`; its old value is stored in the local
    /// segment of 8 bytes.
    CompareSwap {
        /// The address of the word, a multiple of eight.
        address: u64,
        /// The peer's key.
        rkey: Rkey,
        /// The expected value.
        compare: u64,
        /// The new value.
        swap: u64,
    },
}

/// Maximum segments in one work request.
pub const SEGMENTS_MAX: usize = 4;

/// A request for the send queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WorkRequest {
    /// Returned in the completion.
    pub id: u64,
    /// The operation.
    pub operation: Operation,
    segments: [Segment; SEGMENTS_MAX],
    segment_count: u8,
    /// Whether success produces a completion; failure always does.
    pub signaled: bool,
    /// Whether to wait until earlier READs and atomics are complete.
    pub fence: bool,
    /// Whether the receive completion at the peer is marked solicited.
    pub solicited: bool,
}

/// A request for the receive queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReceiveRequest {
    /// Returned in the completion.
    pub id: u64,
    segments: [Segment; SEGMENTS_MAX],
    segment_count: u8,
}

const NO_SEGMENT: Segment = Segment {
    address: 0,
    length: 0,
    lkey: Lkey(0),
};

fn collect(segments: &[Segment]) -> ([Segment; SEGMENTS_MAX], u8) {
    assert!(
        segments.len() <= SEGMENTS_MAX,
        "at most {SEGMENTS_MAX} segments in a work request"
    );
    let mut all = [NO_SEGMENT; SEGMENTS_MAX];
    all[..segments.len()].copy_from_slice(segments);
    (all, segments.len() as u8)
}

impl WorkRequest {
    /// A signaled request without fence.
    ///
    /// # Panics
    /// With more than [`SEGMENTS_MAX`] segments.
    pub fn new(id: u64, operation: Operation, segments: &[Segment]) -> Self {
        let (segments, segment_count) = collect(segments);
        Self {
            id,
            operation,
            segments,
            segment_count,
            signaled: true,
            fence: false,
            solicited: false,
        }
    }

    /// The local segments, in order.
    pub fn segments(&self) -> &[Segment] {
        &self.segments[..self.segment_count as usize]
    }
}

impl ReceiveRequest {
    /// A receive into `segments`.
    ///
    /// # Panics
    /// With more than [`SEGMENTS_MAX`] segments.
    pub fn new(id: u64, segments: &[Segment]) -> Self {
        let (segments, segment_count) = collect(segments);
        Self {
            id,
            segments,
            segment_count,
        }
    }

    /// The local segments, in order.
    pub fn segments(&self) -> &[Segment] {
        &self.segments[..self.segment_count as usize]
    }
}
