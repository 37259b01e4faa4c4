//! A NIC of this project, as the tests use it, wherever it is.

use crate::failure::{Failure, Outcome};
use rackweave_base::{Memory, Psn, Qpn};
use rackweave_controller::connect::PairAttributes;
use rackweave_verbs::{Access, CqId, PdId, QpCapabilities, Region, Verbs};
use std::net::Ipv4Addr;

/// A queue pair, and the PSN of its first request.
pub type QueuePair = (Qpn, Psn);

/// A NIC of this project.
pub trait OurNic {
    /// Calls `act` with its verbs.
    fn act(&self, act: &mut dyn FnMut(&mut dyn Verbs));

    /// The arena of its regions.
    fn memory(&self) -> &Memory;

    /// The protection domain of all regions and queue pairs.
    fn pd(&self) -> PdId;

    /// Its IP address.
    fn ip(&self) -> Ipv4Addr;

    /// Connects a queue pair in state Reset to one of a guest.
    fn connect(
        &self,
        own: QueuePair,
        guest: u8,
        theirs: QueuePair,
        attributes: &PairAttributes,
    ) -> Outcome;

    /// One of its counters.
    fn counter(&self, name: &str) -> u64;
}

impl dyn OurNic + '_ {
    /// Calls `act` with its verbs, and returns the result.
    pub fn with<R>(&self, act: impl FnOnce(&mut dyn Verbs) -> R) -> R {
        let (mut act, mut result) = (Some(act), None);
        self.act(&mut |verbs| {
            if let Some(act) = act.take() {
                result = Some(act(verbs));
            }
        });
        result.expect("the NIC is in this process")
    }

    /// A queue pair and its completion queue.
    pub fn queue_pair(&self, capabilities: QpCapabilities) -> Outcome<(CqId, Qpn)> {
        self.with(|verbs| {
            let cq = verbs.create_cq(capabilities.send_max + capabilities.receive_max);
            let cq = cq.map_err(|error| Failure::refused("our completion queue", error))?;
            let qpn = verbs.create_qp(self.pd(), cq, cq, capabilities);
            let qpn = qpn.map_err(|error| Failure::refused("our queue pair", error))?;
            Ok((cq, qpn))
        })
    }

    /// A region of `len` zero bytes.
    pub fn region(&self, len: usize, access: Access) -> Outcome<Region> {
        let block = self.memory().allocate(len);
        let block = block.map_err(|error| Failure::refused("our memory", error))?;
        let made = self.with(|verbs| verbs.register(self.pd(), block, access));
        made.map_err(|error| Failure::refused("our region", error))
    }
}
