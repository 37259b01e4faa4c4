//! What verbs cost a core: so much for each work request posted and each completion taken.

use crate::experiment::metered::{self, Toll};
use rackweave_base::Duration;
use rackweave_sim::CpuModel;
use rackweave_verbs::{Completion, Verbs};

/// A node's verbs, and the time of the core that uses them.
pub type Metered<'a> = metered::Metered<'a, CpuModel>;

impl<'a> Metered<'a> {
    /// Nothing is spent yet.
    pub fn new(verbs: &'a mut dyn Verbs, cpu: CpuModel) -> Self {
        Self::with(verbs, None, cpu)
    }

    /// A completion was taken that no queue told of: a word that the switch has written.
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
