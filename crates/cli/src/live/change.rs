//! The activity of a rack between two snapshots, per second.

use super::Snapshot;
use rackweave_rack::statistics::{Counters, FlowStatistics, NodeStatistics, RackStatistics};
use serde::Serialize;
use std::collections::BTreeMap;

/// The activity between two snapshots. All values are per second and not rounded.
#[derive(Serialize, Clone, PartialEq, Debug, Default)]
pub struct Change {
    /// The time between the snapshots.
    pub seconds: f64,
    /// Whether there was no earlier snapshot: the time is then that since the rack was built.
    pub is_since_start: bool,
    /// In the rack's order.
    pub nodes: Vec<NodeChange>,
    /// In the rack's order.
    pub flows: Vec<FlowChange>,
    /// Replies of the page directory by kind.
    pub pages: BTreeMap<String, f64>,
    /// Queries of the index.
    pub index_queries: f64,
    /// Queries by the depth to which they were led.
    pub index_by_depth: Vec<f64>,
    /// In the rack's order: numbers handed out.
    pub sequencers: Vec<f64>,
    /// Packets dropped, by place and reason, for all reasons that ever occurred.
    pub drops: Vec<DropChange>,
}

/// Packets dropped in one place for one reason.
#[derive(Serialize, Clone, PartialEq, Debug, Default)]
pub struct DropChange {
    /// The node, or `switch` with its number if there are several.
    pub place: String,
    /// The counter's name.
    pub reason: String,
    pub per_s: f64,
    pub total: u64,
}

/// The activity of a node.
#[derive(Serialize, Clone, PartialEq, Debug, Default)]
pub struct NodeChange {
    pub name: String,
    pub bytes_in_per_s: f64,
    pub bytes_out_per_s: f64,
    pub packets_in_per_s: f64,
    pub packets_out_per_s: f64,
    /// Retransmitted requests.
    pub retries_per_s: f64,
    pub drops_per_s: f64,
}

/// The activity of a flow.
#[derive(Serialize, Clone, Copy, PartialEq, Debug, Default)]
pub struct FlowChange {
    pub id: u32,
    pub items_per_s: f64,
    /// Bytes of the items delivered, all copies counted.
    pub bytes_per_s: f64,
}

impl Change {
    /// The activity of a command's rack from `before` to `now`; since the rack was built, if there
    /// is no `before` or it is of another rack. None without a rack.
    pub fn between(before: Option<&Snapshot>, now: &Snapshot) -> Option<Self> {
        let rack = now.rack.as_ref()?;
        let same = |before: &&Snapshot| (before.pid, before.racks) == (now.pid, now.racks);
        let before = before.filter(same).and_then(|before| before.rack.as_ref());
        let before = before.filter(|before| before.elapsed_seconds < rack.elapsed_seconds);
        Some(Self::of(before, rack))
    }

    fn of(before: Option<&RackStatistics>, now: &RackStatistics) -> Self {
        let nothing = RackStatistics::default();
        let is_since_start = before.is_none();
        let before = before.unwrap_or(&nothing);
        let seconds = now.elapsed_seconds - before.elapsed_seconds;
        let per_s = |before: u64, now: u64| match seconds > 0.0 {
            // A counter that restarts counts from zero again.
            true => now.saturating_sub(before) as f64 / seconds,
            false => 0.0,
        };
        let nobody = NodeStatistics::default();
        let node = |(at, now): (usize, &NodeStatistics)| {
            let before = before.nodes.get(at).unwrap_or(&nobody);
            NodeChange {
                name: now.name.clone(),
                bytes_in_per_s: per_s(before.bytes_in, now.bytes_in),
                bytes_out_per_s: per_s(before.bytes_out, now.bytes_out),
                packets_in_per_s: per_s(before.packets_in, now.packets_in),
                packets_out_per_s: per_s(before.packets_out, now.packets_out),
                retries_per_s: per_s(retries(before), retries(now)),
                drops_per_s: per_s(sum(&before.drops), sum(&now.drops)),
            }
        };
        let flow = |now: &FlowStatistics| {
            let before = before.flows.iter().find(|before| before.id == now.id);
            let of = |count: fn(&FlowStatistics) -> u64| per_s(before.map_or(0, count), count(now));
            FlowChange {
                id: now.id,
                items_per_s: of(|flow| flow.items_delivered),
                bytes_per_s: of(|flow| flow.bytes_delivered),
            }
        };
        let none = Counters::new();
        let answers = before.pages.as_ref().map_or(&none, |pages| &pages.answers);
        let now_answers = now.pages.iter().flat_map(|pages| &pages.answers);
        let pages = now_answers.map(|(kind, &count)| {
            let before = answers.get(kind).copied().unwrap_or(0);
            (kind.clone(), per_s(before, count))
        });
        let depth = |at: usize| {
            let counts = before.index.as_ref().map(|index| &index.by_depth);
            counts
                .and_then(|counts| counts.get(at).copied())
                .unwrap_or(0)
        };
        let by_depth = now.index.iter().flat_map(|index| &index.by_depth);
        let by_depth = by_depth.enumerate();
        let asked = |rack: &RackStatistics| {
            let index = rack.index.as_ref();
            index.map_or(0, |index| index.queries + index.lookups)
        };
        let next = |id: u32| {
            let known = before.sequencers.iter().find(|known| known.id == id);
            known.map(|known| known.next)
        };
        let sequencers = now.sequencers.iter();
        Self {
            seconds,
            is_since_start,
            nodes: now.nodes.iter().enumerate().map(node).collect(),
            flows: now.flows.iter().map(flow).collect(),
            pages: pages.collect(),
            index_queries: per_s(asked(before), asked(now)),
            index_by_depth: by_depth.map(|(at, &now)| per_s(depth(at), now)).collect(),
            // The first number of a new sequencer is unknown.
            sequencers: sequencers
                .map(|it| next(it.id).map_or(0.0, |before| per_s(before, it.next)))
                .collect(),
            drops: drop_changes(before, now, per_s),
        }
    }

    /// Bytes that all nodes sent.
    pub fn bytes_out_per_s(&self) -> f64 {
        self.nodes.iter().map(|node| node.bytes_out_per_s).sum()
    }
}

/// How drops changed, the most frequent first.
fn drop_changes(
    before: &RackStatistics,
    now: &RackStatistics,
    per_s: impl Fn(u64, u64) -> f64,
) -> Vec<DropChange> {
    let before = drops_of(before);
    let change = |((place, reason), &total): (&(String, &str), &u64)| DropChange {
        place: place.clone(),
        reason: (*reason).to_owned(),
        per_s: per_s(
            before.get(&(place.clone(), *reason)).copied().unwrap_or(0),
            total,
        ),
        total,
    };
    let mut drops: Vec<_> = drops_of(now).iter().map(change).collect();
    drops.sort_by_key(|drop| std::cmp::Reverse(drop.total));
    drops
}

/// All drops so far, by place and reason.
fn drops_of(rack: &RackStatistics) -> BTreeMap<(String, &str), u64> {
    let nodes = rack.nodes.iter();
    let nodes = nodes.map(|node| (node.name.clone(), &node.drops));
    let switches = rack.switches.iter().enumerate();
    let switches = switches.map(|(at, switch)| match rack.switches.len() {
        1 => ("switch".to_owned(), &switch.drops),
        _ => (format!("switch {at}"), &switch.drops),
    });
    let mut all = BTreeMap::new();
    for (place, drops) in nodes.chain(switches) {
        for (reason, &count) in drops.iter().filter(|(_, count)| **count > 0) {
            all.insert((place.clone(), reason.as_str()), count);
        }
    }
    all
}

/// Number of requests that a node's NIC has retransmitted.
fn retries(node: &NodeStatistics) -> u64 {
    node.counters
        .get("completer_retry_err")
        .copied()
        .unwrap_or(0)
}

pub fn sum(counters: &Counters) -> u64 {
    counters.values().sum()
}

#[cfg(test)]
mod tests;
