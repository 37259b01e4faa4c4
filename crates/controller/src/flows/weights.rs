//! Weights: which flows share links, and what each is due.
//!
//! Flows with a weight that have a node in common, directly or through other such flows, form a
//! domain. The switch keeps the flows of a domain in proportion; flows of different domains do not
//! meet on any link.

use super::book::Flow;
use super::spec::check_weight;
use super::{FlowError, FlowId, FlowState};
use crate::{Controller, Site};
use rackweave_base::NodeId;
use rackweave_programs::flows::{FlowTask, ThreadId, Weight};
use rackweave_programs::pipeline::Task;
use std::collections::BTreeSet;

/// What an item's bytes are multiplied with before they are divided by the weight, so that the
/// largest weight still tells small items apart.
const SCALE: u64 = 1 << 16;

impl Controller {
    /// Changes the weight of a running flow: from now on it gets this share, or what it can get.
    ///
    /// # Errors
    /// If the weight is out of range or the flow does not run; then nothing changes.
    pub fn set_weight(
        &mut self,
        site: &mut dyn Site,
        id: FlowId,
        weight: Option<u32>,
    ) -> Result<(), FlowError> {
        check_weight(weight)?;
        if self.flow_state(id) != Some(FlowState::Running) {
            return Err(FlowError::NotRunning);
        }
        self.flows.flows[id.0 as usize].spec.weight = weight;
        self.share_out(site);
        Ok(())
    }

    /// Enters what every thread of every flow is due.
    pub(super) fn share_out(&mut self, site: &mut dyn Site) {
        let flows = &self.flows.flows;
        let weighted =
            |flow: &&Flow| flow.state == FlowState::Running && flow.spec.weight.is_some();
        let mut domains: Vec<(BTreeSet<NodeId>, Vec<&Flow>)> = Vec::new();
        for flow in flows.iter().filter(weighted) {
            let nodes = flow.live_consumers().map(|at| flow.spec.consumers[at]);
            let nodes = nodes.chain(flow.live_producers().map(|at| flow.spec.producers[at]));
            let mut nodes: BTreeSet<NodeId> = nodes.collect();
            let mut members = vec![flow];
            let (touched, others): (Vec<_>, Vec<_>) = domains
                .into_iter()
                .partition(|(theirs, _)| !theirs.is_disjoint(&nodes));
            for (theirs, mut flows) in touched {
                nodes.extend(theirs);
                members.append(&mut flows);
            }
            domains = others;
            domains.push((nodes, members));
        }
        let mut shares = Vec::new();
        for (_, flows) in &domains {
            shares.extend(shares_of(flows));
        }
        let running = |flow: &&Flow| flow.state == FlowState::Running;
        let threads = flows.iter().filter(running).flat_map(Flow::threads);
        let all: Vec<ThreadId> = threads.map(|(thread, _)| thread).collect();
        site.switch(&mut |now, switch| {
            let mut changed = Vec::new();
            let flows = &mut switch.program_mut().flows;
            for &thread in &all {
                let share = shares.iter().find(|(id, _)| *id == thread);
                let weight = share.map(|&(_, weight)| weight);
                if flows
                    .thread(thread)
                    .is_some_and(|entry| entry.weight != weight)
                {
                    changed.push(thread);
                }
                flows.set_weight(thread, weight);
            }
            // Whoever waited for another may wait no longer, and nobody else would tell it.
            for &thread in &changed {
                switch.inject(now, Task::Flow(FlowTask::Wake(thread)));
            }
        });
    }
}

/// What the threads of the flows of one domain are due.
fn shares_of(flows: &[&Flow]) -> Vec<(ThreadId, Weight)> {
    let mut shares = Vec::new();
    for flow in flows {
        let cost = u64::from(flow.spec.item_size) * SCALE
            / u64::from(flow.spec.weight.unwrap_or(1).max(1));
        let batch = u64::from(flow.spec.batch_items());
        let account = flow.threads().next();
        for (at, (thread, _)) in flow.threads().enumerate() {
            let weight = Weight {
                account: account.map_or(thread, |(thread, _)| thread),
                bit: (at % 32) as u8,
                domain: thread,
                next: thread,
                cost,
                window: cost * batch,
            };
            shares.push((thread, weight));
        }
    }
    let Some(&(domain, _)) = shares.first() else {
        return shares;
    };
    let count = shares.len();
    for at in 0..count {
        let next = shares[(at + 1) % count].0;
        let weight = &mut shares[at].1;
        (weight.domain, weight.next) = (domain, next);
    }
    shares
}
