//! Private data of the RDMA connection manager (RDMA 3.2; Fabrics 7.3.6).
//!
//! If host and target connect through the RDMA connection manager, its messages contain these 32
//! bytes. A Rackweave rack connects queue pairs from its controller and does not need them; they
//! are here for hosts that follow the specification.

use super::NvmeError;
use super::error::first;
use zerocopy::byteorder::little_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of a request's and an acceptance's private data.
pub const LEN: usize = 32;
/// Bytes of a rejection's private data.
pub const REJECT_LEN: usize = 4;

/// The private data of a host's connection request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CmRequest {
    /// The queue that Connect will have; 0 is the admin queue.
    pub queue_id: u16,
    /// Receive requests that the host posts: the maximum responses in flight.
    pub host_receive_size: u16,
    /// Entries of the submission queue, counted from zero: the maximum commands in flight.
    pub host_send_size: u16,
    /// The controller of an I/O queue; zero in formats before Fabrics 1.1.
    pub controller_id: u16,
}

/// The private data with which a target accepts a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CmAccept {
    /// Receive requests that the target posts.
    pub controller_receive_size: u16,
}

/// The private data with which a target refuses a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CmReject {
    /// The reason.
    pub status: u16,
}

/// Why a connection is refused (RDMA 3.2).
pub mod reject {
    /// The private data has an invalid length.
    pub const LENGTH: u16 = 0x01;
    /// The record format is unknown.
    pub const FORMAT: u16 = 0x02;
    /// The queue id is out of range.
    pub const QUEUE_ID: u16 = 0x03;
    /// The host's send queue has an invalid size.
    pub const SEND_SIZE: u16 = 0x04;
    /// The host's receive queue has an invalid size.
    pub const RECEIVE_SIZE: u16 = 0x05;
    /// The target has no free resources.
    pub const RESOURCES: u16 = 0x06;
    /// The host wants more READs in flight towards it than allowed.
    pub const READS_IN: u16 = 0x07;
    /// The host wants fewer READs in flight from it than are needed.
    pub const READS_OUT: u16 = 0x08;
    /// The controller id is wrong.
    pub const CONTROLLER_ID: u16 = 0x09;
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RequestLayout {
    format: U16,
    queue_id: U16,
    host_receive_size: U16,
    host_send_size: U16,
    controller_id: U16,
    reserved: [u8; 22],
}
const _: () = assert!(size_of::<RequestLayout>() == LEN);

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct AcceptLayout {
    format: U16,
    controller_receive_size: U16,
    reserved: [u8; 28],
}
const _: () = assert!(size_of::<AcceptLayout>() == LEN);

/// Only format 0 is known.
fn check_format(format: U16) -> Result<(), NvmeError> {
    match format.get() {
        0 => Ok(()),
        format => Err(NvmeError::RecordFormat(format)),
    }
}

impl CmRequest {
    /// Parses a request's private data.
    ///
    /// # Errors
    /// If there are fewer than 32 bytes or the format is unknown.
    pub fn parse(bytes: &[u8]) -> Result<Self, NvmeError> {
        let layout: RequestLayout = zerocopy::transmute!(first::<LEN>(bytes, "a CM request")?);
        check_format(layout.format)?;
        Ok(Self {
            queue_id: layout.queue_id.get(),
            host_receive_size: layout.host_receive_size.get(),
            host_send_size: layout.host_send_size.get(),
            controller_id: layout.controller_id.get(),
        })
    }

    /// The private data's bytes.
    pub fn emit(&self) -> [u8; LEN] {
        zerocopy::transmute!(RequestLayout {
            format: U16::ZERO,
            queue_id: U16::new(self.queue_id),
            host_receive_size: U16::new(self.host_receive_size),
            host_send_size: U16::new(self.host_send_size),
            controller_id: U16::new(self.controller_id),
            reserved: [0; 22],
        })
    }
}

impl CmAccept {
    /// Parses an acceptance's private data.
    ///
    /// # Errors
    /// If there are fewer than 32 bytes or the format is unknown.
    pub fn parse(bytes: &[u8]) -> Result<Self, NvmeError> {
        let layout: AcceptLayout = zerocopy::transmute!(first::<LEN>(bytes, "a CM acceptance")?);
        check_format(layout.format)?;
        Ok(Self {
            controller_receive_size: layout.controller_receive_size.get(),
        })
    }

    /// The private data's bytes.
    pub fn emit(&self) -> [u8; LEN] {
        zerocopy::transmute!(AcceptLayout {
            format: U16::ZERO,
            controller_receive_size: U16::new(self.controller_receive_size),
            reserved: [0; 28],
        })
    }
}

impl CmReject {
    /// Parses a rejection's private data.
    ///
    /// # Errors
    /// If there are fewer than 4 bytes or the format is unknown.
    pub fn parse(bytes: &[u8]) -> Result<Self, NvmeError> {
        let [f0, f1, s0, s1] = first::<REJECT_LEN>(bytes, "a CM rejection")?;
        check_format(U16::from_bytes([f0, f1]))?;
        Ok(Self {
            status: u16::from_le_bytes([s0, s1]),
        })
    }

    /// The private data's bytes.
    pub fn emit(&self) -> [u8; REJECT_LEN] {
        let [s0, s1] = self.status.to_le_bytes();
        [0, 0, s0, s1]
    }
}
