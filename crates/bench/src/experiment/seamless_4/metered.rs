//! The cost of verbs on a core: a constant per posted work request and per taken completion.

use crate::experiment::metered::{self, Toll};
use rackweave_base::Duration;
use rackweave_sim::CpuModel;
use rackweave_verbs::{Completion, Verbs};

/// A node's verbs, and the time that the core using them has spent.
pub type Metered<'a> = metered::Metered<'a, CpuModel>;

impl<'a> Metered<'a> {
    /// Verbs whose core has spent nothing yet.
    pub fn new(verbs: &'a mut dyn Verbs, cpu: CpuModel) -> Self {
        Self::with(verbs, None, cpu)
    }

    /// Charges for a completion that no queue shows: a word that the switch has written.
    pub fn word_taken(&mut self) {
        self.pay(|cpu| cpu.poll_cost);
    }
}

impl Toll for CpuModel {
    fn posts(&self, requests: usize) -> Duration {
        self.post_cost * requests as u64
    }

    fn receives(&self) -> Duration {
        self.post_cost
    }

    fn takes(&self, _completion: &Completion) -> Duration {
        self.poll_cost
    }
}
