//! What the controller enters for pages: nodes, channels, slots, stores, and the roles of lanes.

use rackweave_base::{Psn, Rkey};
use rackweave_switch::transfer::LaneId;
use rackweave_wire::fabric::page::control::PoolLayout;
use serde::{Deserialize, Serialize};

/// The sizes of the page directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PagesConfig {
    /// Pages indexed at a time; zero: no page directory in this switch.
    pub entries: u32,
    /// Channels: workers that request pages.
    pub channels: u16,
    /// Slots of all channels together: requests in flight.
    pub slots: u16,
    /// Stores: namespaces of NVMe targets.
    pub stores: u8,
    /// Nodes with buffer frames, numbered from zero.
    pub nodes: u16,
    /// Bytes of a buffer frame: of the smallest page.
    pub frame_size: u32,
    /// Requests for a page that is not indexed after which it is reported to the controller as hot,
    /// rounded up to a power of two; zero: never.
    pub promote_at: u32,
}

impl NodeEntry {
    /// The address of a buffer frame.
    #[inline]
    pub const fn frame(&self, frame: u32) -> u64 {
        self.address + self.layout.frame_at(frame)
    }

    /// Whether a page of this many bytes that begins at a buffer frame is within them, or in the
    /// spare one.
    #[inline]
    pub const fn has(&self, frame: u32, page_size: u32) -> bool {
        self.layout.frame_at(frame) + page_size as u64 <= self.layout.state_at(0)
    }
}

impl PagesConfig {
    /// No page directory.
    pub const NONE: PagesConfig = PagesConfig {
        entries: 0,
        channels: 0,
        slots: 0,
        stores: 0,
        nodes: 0,
        frame_size: 0,
        promote_at: 0,
    };
}

/// A node's buffer frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodeEntry {
    /// Address of the first.
    pub address: u64,
    /// The key of their region.
    pub rkey: Rkey,
    /// Where its frames and words are.
    pub layout: PoolLayout,
    /// The first of its [`super::SOURCES`] source lanes; the lane for its lease words follows them.
    pub first_source: LaneId,
    /// The stores that are open to it.
    pub stores: StoreSet,
}

/// A set of stores, by number.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StoreSet([u64; 4]);

impl StoreSet {
    /// Every store.
    pub const ALL: StoreSet = StoreSet([u64::MAX; 4]);

    /// Whether this store is in it.
    #[inline]
    pub const fn has(&self, store: u8) -> bool {
        self.0[store as usize / 64] >> (store % 64) & 1 == 1
    }

    /// Adds or removes a store.
    pub const fn set(&mut self, store: u8, has: bool) {
        let (word, bit) = (store as usize / 64, 1 << (store % 64));
        if has {
            self.0[word] |= bit;
        } else {
            self.0[word] &= !bit;
        }
    }
}

/// A worker's connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChannelEntry {
    /// Its node.
    pub node: u16,
    /// The lane that its requests come on.
    pub lane: LaneId,
    /// The PSN of its first request.
    pub first: Psn,
    /// Its first slot.
    pub first_slot: u16,
    /// Number of slots.
    pub slots: u16,
}

/// A slot: the lanes for the data of one request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlotEntry {
    /// The requester's node.
    pub node: u16,
    /// WRITEs of transfers into the requester's buffer frames.
    pub target: LaneId,
    /// Its completions.
    pub word: LaneId,
    /// An NVMe target's WRITEs and READs, passed on.
    pub relay: LaneId,
}

/// A store: a namespace of an NVMe target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoreEntry {
    /// Pages.
    pub pages: u64,
    /// Bytes of a page: a multiple of a buffer frame's.
    pub page_size: u32,
    /// Logical blocks of a page.
    pub blocks_per_page: u32,
    /// How many source lanes of a node carry such pages ([`super::transfers_at_a_time`]).
    pub lanes: u8,
    /// The namespace.
    pub nsid: u32,
    /// The I/O queue of the first slot; the other slots' follow.
    pub first_queue: LaneId,
    /// Whether the target is connected.
    pub connected: bool,
}

/// The role of a lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PageRole {
    /// Requests of a channel.
    Requests(u16),
    /// Transfers into the buffer frames of a slot's node.
    Target(u16),
    /// Completions of a slot.
    Word(u16),
    /// Transfers out of the buffer frames of a node: which of its source lanes.
    Source {
        /// The node.
        node: u16,
        /// The lane's bit.
        bit: u8,
    },
    /// Lease words of a node.
    Lease(u16),
    /// An NVMe target's requests, passed on to the slot's node.
    Relay(u16),
    /// An I/O queue of an NVMe target.
    Queue {
        /// The slot that it serves.
        slot: u16,
        /// The store.
        store: u8,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_does_not_reach_beyond_the_buffer_frames() {
        let sizes = [4096, 16384].into_iter();
        let node = NodeEntry {
            address: 1 << 20,
            rkey: Rkey(1),
            layout: PoolLayout::new(4096, 8).with_page_sizes(sizes),
            first_source: LaneId(0),
            stores: StoreSet::ALL,
        };
        assert_eq!(node.frame(3), (1 << 20) + 3 * 4096);
        // Frame 8 is the spare one, of the largest page.
        for (frame, page_size, fits) in [
            (7, 4096, true),
            (4, 16384, true),
            (8, 16384, true),
            (9, 16384, false),
            (12, 4096, false),
            (u32::MAX, 1 << 20, false),
        ] {
            assert_eq!(
                node.has(frame, page_size),
                fits,
                "{page_size} bytes at {frame}"
            );
        }
    }
}
