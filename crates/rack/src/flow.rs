//! A flow and its ends at the nodes that are here.

use rackweave_base::{Block, NodeId, Rkey};
use rackweave_controller::{FlowId, FlowRings, Ring};
use rackweave_endpoint::flow::{Consumer, Doorbell, Producer, RingError, RingLayout};

/// A flow that runs, with its ends. Members keep their numbers; those that join get the next.
#[derive(Debug)]
pub struct Flow {
    /// Its number at the controller.
    pub id: FlowId,
    /// Nothing for those that are elsewhere.
    consumers: Vec<Option<LocalRing>>,
    /// As in [`FlowRings::producers`].
    producers: Vec<Vec<Option<LocalRing>>>,
}

/// A ring in the memory of this process.
#[derive(Clone, Debug)]
struct LocalRing {
    block: Block,
    layout: RingLayout,
    bell: Option<Doorbell>,
}

impl LocalRing {
    /// Nothing if its memory is elsewhere, or gone because the flow has ended meanwhile.
    fn new(ring: &Ring, block: impl Fn(NodeId, Rkey) -> Option<Block>) -> Option<Self> {
        let region = &ring.region;
        Some(Self {
            block: block(ring.node, region.rkey)?,
            layout: layout(ring),
            bell: ring
                .bell
                .map(|bell| Doorbell::new(bell.qpn, region.address, region.lkey)),
        })
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
    /// A flow; `block` finds the memory of rings that are here.
    pub(crate) fn new(
        id: FlowId,
        rings: &FlowRings,
        block: impl Fn(NodeId, Rkey) -> Option<Block>,
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
    pub(crate) fn joined_consumer(
        &mut self,
        ring: &Ring,
        block: impl Fn(NodeId, Rkey) -> Option<Block>,
    ) {
        self.consumers.push(LocalRing::new(ring, block));
    }

    /// Enters a producer that has joined.
    pub(crate) fn joined_producer(
        &mut self,
        rings: &[Ring],
        block: impl Fn(NodeId, Rkey) -> Option<Block>,
    ) {
        for (all, ring) in self.producers.iter_mut().zip(rings) {
            all.push(LocalRing::new(ring, &block));
        }
    }

    /// The producing ends of producer `index`: one per consumer in a shuffle, else one.
    ///
    /// # Errors
    /// If there is no such producer, or it is at a node that is not here.
    pub fn producers(&self, index: usize) -> Result<Vec<Producer>, RingError> {
        let rings = self.producers.iter().map(|rings| {
            let ring = rings.get(index).and_then(Option::as_ref);
            let ring = ring.ok_or(RingError::NotHere)?;
            Producer::new(&ring.block, ring.layout)
        });
        rings.collect()
    }

    /// The consuming end of consumer `index`.
    ///
    /// # Errors
    /// As for [`Flow::producers`].
    pub fn consumer(&self, index: usize) -> Result<Consumer, RingError> {
        let ring = self.consumers.get(index).and_then(Option::as_ref);
        let ring = ring.ok_or(RingError::NotHere)?;
        Consumer::new(&ring.block, ring.layout)
    }

    /// The doorbells of the rings of producer `index`, in the order of [`Flow::producers`]; none
    /// if the flow has no doorbells, or the producer is elsewhere.
    pub fn producer_bells(&self, index: usize) -> Option<Vec<Doorbell>> {
        let bells = self.producers.iter();
        bells
            .map(|rings| rings.get(index)?.as_ref()?.bell)
            .collect()
    }

    /// The doorbell of consumer `index`, if the flow has doorbells and the consumer is here.
    pub fn consumer_bell(&self, index: usize) -> Option<Doorbell> {
        self.consumers.get(index)?.as_ref()?.bell
    }
}
