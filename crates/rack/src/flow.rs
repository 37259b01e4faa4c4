//! A flow whose rings are all in this process, with its ends.

use rackweave_base::{Block, NodeId, Rkey};
use rackweave_controller::{FlowId, FlowRings, Ring};
use rackweave_endpoint::flow::{Consumer, Doorbell, Producer, RingError, RingLayout};

/// A flow that runs, with its ends. Members keep their numbers; those that join get the next.
#[derive(Debug)]
pub struct Flow {
    /// Its number at the controller.
    pub id: FlowId,
    consumers: Vec<LocalRing>,
    /// As in [`FlowRings::producers`].
    producers: Vec<Vec<LocalRing>>,
}

/// A ring in the memory of this process.
#[derive(Clone, Debug)]
struct LocalRing {
    block: Block,
    layout: RingLayout,
    bell: Option<Doorbell>,
}

impl LocalRing {
    fn new<'a>(ring: &Ring, block: impl Fn(NodeId, Rkey) -> Option<&'a Block>) -> Self {
        let block = block(ring.node, ring.region.rkey);
        let region = &ring.region;
        Self {
            block: block.expect("the controller just made this ring").clone(),
            layout: layout(ring),
            bell: ring
                .bell
                .map(|bell| Doorbell::new(bell.qpn, region.address, region.lkey)),
        }
    }

    fn producer(&self) -> Result<Producer, RingError> {
        Producer::new(&self.block, self.layout)
    }
}

fn layout(ring: &Ring) -> RingLayout {
    RingLayout {
        item_size: ring.item_size,
        slots: ring.slots,
        order: ring.order,
    }
}

impl Flow {
    /// A flow whose rings are all in this process; `block` finds their memory.
    pub(crate) fn local<'a>(
        id: FlowId,
        rings: &FlowRings,
        block: impl Fn(NodeId, Rkey) -> Option<&'a Block>,
    ) -> Self {
        let local = |ring: &Ring| LocalRing::new(ring, &block);
        Self {
            id,
            consumers: rings.consumers.iter().map(local).collect(),
            producers: rings
                .producers
                .iter()
                .map(|rings| rings.iter().map(local).collect())
                .collect(),
        }
    }

    /// Enters a consumer that has joined.
    pub(crate) fn joined_consumer<'a>(
        &mut self,
        ring: &Ring,
        block: impl Fn(NodeId, Rkey) -> Option<&'a Block>,
    ) {
        self.consumers.push(LocalRing::new(ring, block));
    }

    /// Enters a producer that has joined.
    pub(crate) fn joined_producer<'a>(
        &mut self,
        rings: &[Ring],
        block: impl Fn(NodeId, Rkey) -> Option<&'a Block>,
    ) {
        for (all, ring) in self.producers.iter_mut().zip(rings) {
            all.push(LocalRing::new(ring, &block));
        }
    }

    /// The producing ends of producer `index`: one per consumer in a shuffle, else one.
    ///
    /// # Errors
    /// If a ring does not fit its block, which the controller's checks rule out.
    pub fn producers(&self, index: usize) -> Result<Vec<Producer>, RingError> {
        let rings = self.producers.iter();
        rings.map(|rings| rings[index].producer()).collect()
    }

    /// The consuming end of consumer `index`.
    ///
    /// # Errors
    /// As for [`Flow::producers`].
    pub fn consumer(&self, index: usize) -> Result<Consumer, RingError> {
        let ring = &self.consumers[index];
        Consumer::new(&ring.block, ring.layout)
    }

    /// The doorbells of the rings of producer `index`, in the order of [`Flow::producers`]; none
    /// if the flow has no doorbells.
    pub fn producer_bells(&self, index: usize) -> Option<Vec<Doorbell>> {
        self.producers
            .iter()
            .map(|rings| rings[index].bell)
            .collect()
    }

    /// The doorbell of consumer `index`, if the flow has doorbells.
    pub fn consumer_bell(&self, index: usize) -> Option<Doorbell> {
        self.consumers[index].bell
    }
}
