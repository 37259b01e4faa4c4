//! Item counts of flows: turns ring counters, which wrap around, into numbers that grow.

use super::FlowStatistics;
use rackweave_controller::{FlowLook, FlowShape, FlowState};
use std::collections::HashMap;

/// How many times each ring counter has wrapped around, by flow and ring.
#[derive(Default)]
pub(crate) struct FlowTotals(HashMap<(u32, Ends, usize), Total>);

/// The counter and its ring.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Ends {
    Pushed,
    Taken,
    Shown,
    Consumed,
}

/// The last value of a counter.
#[derive(Clone, Copy, Default, Debug)]
struct Total {
    last: u32,
    items: u64,
}

impl FlowTotals {
    /// The current state of flows, from their rings. Other flows are forgotten.
    pub fn update(
        &mut self,
        looks: &[FlowLook],
        name: impl Fn(u16) -> String,
    ) -> Vec<FlowStatistics> {
        self.0
            .retain(|(id, ..), _| looks.iter().any(|look| look.id.0 == *id));
        looks.iter().map(|look| self.flow(look, &name)).collect()
    }

    fn flow(&mut self, look: &FlowLook, name: &impl Fn(u16) -> String) -> FlowStatistics {
        let mut all = |ends, counters: &[Option<u32>]| -> Vec<u64> {
            let counters = counters.iter().enumerate();
            counters
                .map(|(ring, &counter)| self.count((look.id.0, ends, ring), counter))
                .collect()
        };
        let rings = &look.rings;
        let pushed = all(Ends::Pushed, &rings.pushed);
        let taken = all(Ends::Taken, &rings.taken);
        let shown = all(Ends::Shown, &rings.shown);
        let consumed = all(Ends::Consumed, &rings.consumed);
        let copies: u64 = shown.iter().sum();
        let delivered = match look.shape {
            FlowShape::Replicate => shown.iter().copied().max().unwrap_or(0),
            FlowShape::Shuffle | FlowShape::Balance => copies,
        };
        // A removed ring reports how many of its items were taken, not how many were pushed.
        let pushed = pushed
            .iter()
            .zip(&taken)
            .map(|(&pushed, &taken)| pushed.max(taken));
        let waiting = shown.iter().zip(&consumed);
        let waiting = waiting
            .map(|(shown, &consumed)| shown.saturating_sub(consumed))
            .sum();
        let runs = look.state == FlowState::Running;
        let names =
            |nodes: &[rackweave_base::NodeId]| nodes.iter().map(|node| name(node.0)).collect();
        FlowStatistics {
            id: look.id.0,
            shape: look.shape.name().to_owned(),
            producers: names(&look.producers),
            consumers: names(&look.consumers),
            state: match look.state {
                FlowState::Running => FlowStatistics::RUNNING.to_owned(),
                FlowState::Ended => FlowStatistics::ENDED.to_owned(),
                FlowState::Aborted(reason) => named(reason.to_string(), look, name),
            },
            weight: look.weight,
            item_bytes: look.item_size,
            items_pushed: pushed.sum(),
            items_delivered: delivered,
            items_waiting: if runs { waiting } else { 0 },
            bytes_delivered: copies * u64::from(look.item_size),
        }
    }

    fn count(&mut self, key: (u32, Ends, usize), counter: Option<u32>) -> u64 {
        let total = self.0.entry(key).or_default();
        if let Some(counter) = counter {
            total.items += u64::from(counter.wrapping_sub(total.last));
            total.last = counter;
        }
        total.items
    }
}

/// Why a flow was aborted, with the node's name.
fn named(why: String, look: &FlowLook, name: &impl Fn(u16) -> String) -> String {
    let members = look.producers.iter().chain(&look.consumers);
    let meant = members.filter(|node| why.contains(&format!("{node:?}")));
    // If several numbers match as a prefix, the longest is meant.
    match meant.max() {
        Some(node) => why.replacen(&format!("{node:?}"), &name(node.0), 1),
        None => why,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rackweave_base::NodeId;
    use rackweave_controller::{AbortReason, FlowId, RingCounters};

    fn look(shape: FlowShape, rings: RingCounters) -> FlowLook {
        FlowLook {
            id: FlowId(3),
            shape,
            state: FlowState::Running,
            item_size: 64,
            weight: None,
            producers: vec![NodeId(0)],
            consumers: vec![NodeId(1), NodeId(2)],
            rings,
        }
    }

    fn name(node: u16) -> String {
        format!("node{node}")
    }

    #[test]
    fn counters_that_wrap_around_go_on_growing() {
        let mut totals = FlowTotals::default();
        let rings = |counter: u32| RingCounters {
            pushed: vec![Some(counter), Some(counter)],
            taken: vec![Some(counter), Some(counter)],
            shown: vec![Some(counter), Some(counter)],
            consumed: vec![Some(counter), Some(counter.wrapping_sub(3))],
        };
        let mut reported = Vec::new();
        for counter in [10, u32::MAX - 5, 4, u32::MAX] {
            reported = totals.update(&[look(FlowShape::Balance, rings(counter))], name);
        }
        let each = (1 << 32) + u64::from(u32::MAX);
        assert_eq!(reported[0].items_pushed, 2 * each);
        assert_eq!(reported[0].items_delivered, 2 * each);
        assert_eq!(reported[0].bytes_delivered, 2 * each * 64);
        assert_eq!(reported[0].items_waiting, 3);
        assert_eq!(reported[0].consumers, ["node1", "node2"]);
    }

    #[test]
    fn replicas_are_one_item_and_many_bytes() {
        let rings = RingCounters {
            pushed: vec![Some(9)],
            taken: vec![Some(7)],
            shown: vec![Some(7), Some(6)],
            consumed: vec![Some(0), Some(6)],
        };
        let reported = FlowTotals::default().update(&[look(FlowShape::Replicate, rings)], name);
        assert_eq!(
            (reported[0].items_pushed, reported[0].items_delivered),
            (9, 7)
        );
        assert_eq!(
            (reported[0].bytes_delivered, reported[0].items_waiting),
            (13 * 64, 7)
        );
    }

    #[test]
    fn a_flow_that_ends_between_two_looks_is_told_in_full() {
        let mut totals = FlowTotals::default();
        let before = RingCounters {
            pushed: vec![Some(5)],
            taken: vec![Some(4)],
            shown: vec![Some(4)],
            consumed: vec![Some(1)],
        };
        let running = look(FlowShape::Shuffle, before);
        totals.update(std::slice::from_ref(&running), name);
        let ended = FlowLook {
            state: FlowState::Aborted(AbortReason::Closed),
            rings: RingCounters {
                pushed: vec![None],
                taken: vec![Some(900)],
                shown: vec![Some(900)],
                consumed: vec![None],
            },
            ..running
        };
        let reported = totals.update(&[ended], name);
        assert_eq!(
            (reported[0].items_pushed, reported[0].items_delivered),
            (900, 900)
        );
        assert_eq!(
            (reported[0].items_waiting, reported[0].state.as_str()),
            (0, "it was closed")
        );
        assert!(!reported[0].runs());
        let broken = FlowLook {
            state: FlowState::Aborted(AbortReason::NodeDied(NodeId(2))),
            ..look(FlowShape::Shuffle, RingCounters::default())
        };
        assert_eq!(totals.update(&[broken], name)[0].state, "node2 has died");
        assert!(totals.update(&[], name).is_empty());
        assert!(totals.0.is_empty(), "what is not asked for is forgotten");
    }
}
