//! Doorbells notify the switch at once of what its next poll would find (zero-sided RDMA, section
//! 6.2). Only processing units that can post work requests ring them.

use rackweave_base::{Lkey, Qpn};
use rackweave_verbs::{Operation, PostError, Segment, Verbs, WorkRequest};
use rackweave_wire::fabric::ring::NODE_WORD;

/// Called after every change of a ring's node word; it decides when to ring the doorbell.
pub trait Notify: core::fmt::Debug + Send {
    /// The end has stored its word.
    fn changed(&mut self);
}

/// The doorbell of one ring.
///
/// The message is the ring's node word as it is in memory when the NIC sends it. So a doorbell that
/// is rung late, or after several changes, carries the current state, and a redundant doorbell does
/// no harm.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Doorbell {
    qpn: Qpn,
    address: u64,
    lkey: Lkey,
}

impl Doorbell {
    /// The doorbell of the ring at `address`, over a queue pair that is connected to the switch.
    pub fn new(qpn: Qpn, address: u64, lkey: Lkey) -> Self {
        Self { qpn, address, lkey }
    }

    /// The queue pair that it uses.
    pub fn qpn(&self) -> Qpn {
        self.qpn
    }

    /// The work request that rings it: a SEND of eight bytes without a completion.
    pub fn request(&self) -> WorkRequest {
        let word = Segment {
            address: self.address + NODE_WORD,
            length: 8,
            lkey: self.lkey,
        };
        let mut request = WorkRequest::new(0, Operation::Send { immediate: None }, &[word]);
        request.signaled = false;
        request
    }

    /// Rings the doorbell, after items were committed or released.
    ///
    /// # Errors
    /// If the NIC does not accept the request. A full send queue needs no retry: the doorbells in
    /// it will carry the same state. Without a doorbell the switch finds the change by polling.
    pub fn ring(&self, verbs: &mut dyn Verbs) -> Result<(), PostError> {
        verbs.post_send(self.qpn, self.request())
    }
}
