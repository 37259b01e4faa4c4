//! What verbs cost a core of the testbed: with doorbells for batches.

use super::Core;
use super::tree::ENTRY_BYTES;
use crate::experiment::metered::{self, Toll};
use rackweave_base::Duration;
use rackweave_sim::devices;
use rackweave_verbs::{Completion, CompletionOpcode, Verbs};

pub use crate::experiment::metered::Outbox;

/// A node's verbs, and the time of the core that uses them.
pub type Metered<'a> = metered::Metered<'a, Core>;

impl<'a> Metered<'a> {
    /// Nothing is spent yet. Requests go to `outbox`.
    pub fn new(verbs: &'a mut dyn Verbs, outbox: &'a mut Outbox, core: Core) -> Self {
        Self::with(verbs, Some(outbox), core)
    }
}

/// A work request costs its building; those posted together share a doorbell. A completion costs
/// taking it; that of a receive also the loads of what came, that of a READ also verifying and
/// searching the tree node that came.
impl Toll for Core {
    fn posts(&self, requests: usize) -> Duration {
        self.work(devices::WORK_REQUEST_CYCLES * requests as u64 + devices::DOORBELL_CYCLES)
    }

    fn receives(&self) -> Duration {
        self.work(devices::RECEIVE_REQUEST_CYCLES)
    }

    fn takes(&self, completion: &Completion) -> Duration {
        let bytes = u64::from(completion.length);
        let use_of_it = match completion.opcode {
            CompletionOpcode::Receive => self.arrived(bytes),
            // A tree node: verified and searched.
            CompletionOpcode::Read => self.verified(bytes) + self.searched(bytes / ENTRY_BYTES),
            _ => Duration::ZERO,
        };
        self.cpu.poll_cost + use_of_it
    }
}
