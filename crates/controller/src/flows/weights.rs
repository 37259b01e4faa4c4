//! Weights: domains of flows that share links, and their shares.
//!
//! Flows with a weight that have a node in common, directly or through other such flows, form a
//! domain. The switch keeps the flows of a domain in proportion; flows of different domains do not
//! share any link.

use super::flow::Flow;
use super::registry::Entry;
use super::spec::check_weight;
use super::{FlowError, FlowId};
use crate::{Fabric, Site};
use rackweave_base::NodeId;
use rackweave_programs::flows::{FlowTask, ThreadId, Weight};
use rackweave_programs::pipeline::Task;
use std::collections::BTreeSet;

/// Factor applied to an item's bytes before the division by the weight, so that even with the
/// largest weight small items are distinguished.
const SCALE: u64 = 1 << 16;

/// The share of a flow with a weight.
pub(super) struct Share {
    /// Its members.
    nodes: BTreeSet<NodeId>,
    cost: u64,
    window: u64,
}

/// A flow with a weight.
type Weighted<'a> = (&'a Entry, &'a Share);

impl Share {
    /// `None` without a weight.
    pub fn of(flow: &Flow) -> Option<Self> {
        let weight = flow.spec.weight?;
        let nodes = flow.live_consumers().map(|at| flow.spec.consumers[at]);
        let nodes = nodes.chain(flow.live_producers().map(|at| flow.spec.producers[at]));
        let cost = u64::from(flow.spec.item_size) * SCALE / u64::from(weight.max(1));
        Some(Self {
            nodes: nodes.collect(),
            cost,
            window: cost * u64::from(flow.spec.batch_items()),
        })
    }
}

impl Fabric {
    /// Changes the weight of a running flow: from now on it gets this share, or its share is not
    /// regulated.
    ///
    /// # Errors
    /// If the weight is out of range or the flow is not running; then nothing changes.
    pub fn set_weight(
        &self,
        site: &mut dyn Site,
        id: FlowId,
        weight: Option<u32>,
    ) -> Result<(), FlowError> {
        check_weight(weight)?;
        let set = |flow: &mut Flow| {
            flow.spec.weight = weight;
            self.flows.lock().note(flow);
            self.share_out(site);
        };
        let set = self.flows.with_running(id, set);
        set.ok_or(FlowError::NotRunning)
    }

    /// Enters the share of every thread of every flow.
    pub(super) fn share_out(&self, site: &mut dyn Site) {
        // Held until all is entered: a concurrent call that comes later has newer state.
        let registry = self.flows.lock();
        let weighted = registry.entries.iter();
        let weighted = weighted.filter_map(|entry| Some((entry, entry.share.as_ref()?)));
        let mut domains: Vec<(BTreeSet<NodeId>, Vec<Weighted<'_>>)> = Vec::new();
        for (entry, share) in weighted {
            let mut nodes = share.nodes.clone();
            let mut members = vec![(entry, share)];
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
        let all = registry.entries.iter().flat_map(|entry| &entry.threads);
        let all: Vec<ThreadId> = all.copied().collect();
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
            // A thread that waited for another may be able to continue, and no other event would
            // wake it.
            for &thread in &changed {
                switch.inject(now, Task::Flow(FlowTask::Wake(thread)));
            }
        });
    }
}

/// The shares of the threads of the flows of one domain.
fn shares_of(flows: &[Weighted<'_>]) -> Vec<(ThreadId, Weight)> {
    let mut shares = Vec::new();
    for (entry, share) in flows {
        let account = entry.threads.first();
        for (at, &thread) in entry.threads.iter().enumerate() {
            let weight = Weight {
                account: account.copied().unwrap_or(thread),
                bit: (at % 32) as u8,
                domain: thread,
                next: thread,
                cost: share.cost,
                window: share.window,
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
