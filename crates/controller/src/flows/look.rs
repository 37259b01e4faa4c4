//! The progress of flows, from their rings.

use super::flow::Flow;
use super::{FlowId, FlowShape, FlowState, Ring};
use crate::{Fabric, Site};
use rackweave_base::NodeId;
use serde::{Deserialize, Serialize};

/// The progress of a flow.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FlowLook {
    /// The flow.
    pub id: FlowId,
    /// How items are assigned to consumers.
    pub shape: FlowShape,
    /// Its state.
    pub state: FlowState,
    /// Bytes of an item.
    pub item_size: u32,
    /// Its weight, if it has one.
    pub weight: Option<u32>,
    /// The nodes of its producers, including those that have left.
    pub producers: Vec<NodeId>,
    /// The nodes of its consumers, including those that have left.
    pub consumers: Vec<NodeId>,
    /// The counters of its rings.
    pub rings: RingCounters,
}

/// Counters of a flow's rings. They count items and wrap around; `None` for a ring whose node has
/// left or no longer has it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct RingCounters {
    /// Per producer ring, in the order of [`super::FlowRings::producers`]: items pushed.
    pub pushed: Vec<Option<u32>>,
    /// The same: items that the switch has taken and delivered.
    pub taken: Vec<Option<u32>>,
    /// Per consumer: items that the switch has shown it. A consumer that has joined a replicated
    /// flow begins at the flow's position.
    pub shown: Vec<Option<u32>>,
    /// Per consumer: items consumed.
    pub consumed: Vec<Option<u32>>,
}

impl RingCounters {
    /// The current counters of a flow's rings.
    fn now(flow: &Flow, site: &mut dyn Site) -> Self {
        Self {
            pushed: of_producers(flow, |ring| node_counter(ring, site)),
            taken: of_producers(flow, |ring| switch(ring, site)),
            shown: of_consumers(flow, |ring| switch(ring, site)),
            consumed: of_consumers(flow, |ring| node_counter(ring, site)),
        }
    }

    /// The same for a flow that is taken down: `tell` writes the end into a ring, and returns the
    /// last value that the switch had written there. Later node words are not read.
    pub(super) fn at_end(flow: &Flow, mut tell: impl FnMut(&Ring) -> Option<u32>) -> Self {
        let shown = of_consumers(flow, &mut tell);
        let taken = of_producers(flow, &mut tell);
        Self {
            pushed: vec![None; taken.len()],
            consumed: vec![None; shown.len()],
            taken,
            shown,
        }
    }
}

/// A value for each producer ring of a flow; `None` for those of members that have left.
fn of_producers(flow: &Flow, mut ask: impl FnMut(&Ring) -> Option<u32>) -> Vec<Option<u32>> {
    let members = |rings| flow.producers.iter().zip(rings);
    let rings = flow.rings.producers.iter().flat_map(members);
    rings
        .map(|(member, ring)| if member.gone { None } else { ask(ring) })
        .collect()
}

/// A value for each consumer's ring; `None` for those that have left.
fn of_consumers(flow: &Flow, mut ask: impl FnMut(&Ring) -> Option<u32>) -> Vec<Option<u32>> {
    let rings = flow.consumers.iter().zip(&flow.rings.consumers);
    rings
        .map(|(member, ring)| if member.gone { None } else { ask(ring) })
        .collect()
}

fn switch(ring: &Ring, site: &mut dyn Site) -> Option<u32> {
    ring.switch(site).map(|word| word.counter)
}

fn node_counter(ring: &Ring, site: &mut dyn Site) -> Option<u32> {
    ring.node_word(site).map(|word| word.counter)
}

impl Fabric {
    /// The progress of all running flows, and of the `ended_max` others that were set up last. For
    /// a flow that has ended it is the progress at its end.
    pub fn look_at_flows(&self, site: &mut dyn Site, ended_max: usize) -> Vec<FlowLook> {
        let mut ended = 0;
        let mut looks = Vec::new();
        for at in (0..self.flows.len()).rev() {
            let look = self.flows.with(FlowId(at as u32), |flow| {
                let runs = flow.state == FlowState::Running;
                ended += usize::from(!runs);
                (runs || ended <= ended_max).then(|| FlowLook::new(flow, site))
            });
            looks.extend(look.flatten());
        }
        looks.reverse();
        looks
    }

    /// The number of flows set up so far.
    pub fn flows_made(&self) -> usize {
        self.flows.len()
    }
}

impl FlowLook {
    fn new(flow: &Flow, site: &mut dyn Site) -> Self {
        Self {
            id: flow.id,
            shape: flow.spec.shape,
            state: flow.state,
            item_size: flow.spec.item_size,
            weight: flow.spec.weight,
            producers: flow.spec.producers.clone(),
            consumers: flow.spec.consumers.clone(),
            rings: match &flow.rings_at_end {
                Some(rings) => rings.clone(),
                None => RingCounters::now(flow, site),
            },
        }
    }
}
