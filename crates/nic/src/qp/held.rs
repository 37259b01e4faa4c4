//! Requests that wait until the READs before them have been answered.
//!
//! A READ's bytes are taken packet by packet, when its responses are sent. A WRITE, SEND or atomic
//! that follows it must not change them before. Such a request, and everything behind it, is put
//! into this queue as it arrived, before its PSN is checked, as if it were still on the wire. The
//! queue is bounded: a request that finds it full is dropped as if lost, and the peer resends it
//! when the sequence error reaches it, behind the last READ response. A READ that waits for a
//! packet buffer empties the queue instead, since held packets may occupy the buffers.
//!
//! A queue pair whose READ responses are sent by reference holds nothing: its owner has promised
//! not to change the bytes being read.

use crate::received::Received;
use rackweave_base::Packet;
use std::collections::VecDeque;

/// Maximum requests held per queue pair.
pub(crate) const HELD_MAX: usize = 64;

/// A request as it arrived.
pub(crate) struct Held {
    pub(crate) headers: Received,
    pub(crate) packet: Packet,
}

/// The queue. It allocates no memory until it is first used.
#[derive(Default)]
pub(crate) struct HeldQueue(VecDeque<Held>);

/// Bytes of a full queue.
pub(crate) const fn bytes_max() -> usize {
    HELD_MAX * size_of::<Held>()
}

impl HeldQueue {
    /// Appends a request. Returns false if the queue is full.
    pub(crate) fn push(&mut self, headers: Received, packet: Packet) -> bool {
        if self.0.capacity() == 0 {
            self.0.reserve_exact(HELD_MAX);
        }
        if self.0.len() == HELD_MAX {
            return false;
        }
        self.0.push_back(Held { headers, packet });
        true
    }

    pub(crate) fn pop(&mut self) -> Option<Held> {
        self.0.pop_front()
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Drops all requests and returns their number.
    pub(crate) fn clear(&mut self) -> usize {
        let count = self.0.len();
        self.0.clear();
        count
    }
}
