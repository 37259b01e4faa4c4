//! A flow and its ends at the nodes that are here.

mod bell;
mod builder;

pub use builder::{FlowBuilder, NodeRef};

use crate::config::choices;
use crate::{Node, Rack, RackError};
use bell::AfterSilence;
use core::sync::atomic::AtomicBool;
use rackweave_base::{Block, NodeId};
use rackweave_controller::ask::{
    AddConsumer, AddProducer, CloseFlow, CreateFlow, FindName, FlowLosses, FlowRingsOf,
    FlowStateOf, RemoveConsumer, RemoveProducer, SetWeight, ShareName,
};
use rackweave_controller::{
    AbortReason, FlowError, FlowId, FlowRings, FlowSpec, FlowState, Loss, NameError, Named, Ring,
};
use rackweave_endpoint::flow::{
    Claim, Consumer, Doorbell, Notify, Producer, RingError, RingLayout,
};
use std::sync::Arc;

/// A flow. Members keep their numbers; new members get the next number.
///
/// A flow that was found by name ([`Rack::shared_flow`]) belongs to the process that made it. The
/// flow is closed when its maker drops this: whatever has not been delivered by then is lost, and
/// ends that are still in use see that it was aborted. So wait for the end of the stream first.
#[derive(Debug)]
pub struct Flow {
    rack: Rack,
    id: FlowId,
    /// Whether it was made here.
    is_own: bool,
    /// `None` for consumers in other processes.
    consumers: Vec<Option<LocalRing>>,
    /// As in [`rackweave_controller::FlowRings::producers`].
    producers: Vec<Vec<Option<LocalRing>>>,
}

/// A ring in the memory of this process.
#[derive(Clone, Debug)]
struct LocalRing {
    block: Block,
    layout: RingLayout,
    bell: Option<Doorbell>,
    /// The node of the ring, if its end rings the doorbell by itself.
    ringer: Option<Node>,
    /// Whether its end has been taken.
    is_taken: Arc<AtomicBool>,
}

impl LocalRing {
    /// `None` if its memory is in another process, or was removed because the flow has ended
    /// meanwhile.
    fn new(rack: &Rack, ring: &Ring) -> Option<Self> {
        let region = &ring.region;
        let rings = choices::doorbells(rack.backend().kind());
        Some(Self {
            block: rack.backend().block(ring.node, region.rkey)?,
            layout: RingLayout {
                item_size: ring.item_size,
                slots: ring.slots,
                order: ring.order,
            },
            bell: ring
                .bell
                .map(|bell| Doorbell::new(bell.qpn, region.address, region.lkey)),
            ringer: rack.node_here(ring.node).filter(|_| rings),
            is_taken: Arc::default(),
        })
    }

    fn notify(&self) -> Option<Box<dyn Notify>> {
        let notify = AfterSilence::new(self.ringer.clone()?, self.bell?);
        Some(Box::new(notify))
    }

    fn claim(&self) -> Result<Claim, FlowError> {
        Claim::new(&self.is_taken).ok_or(FlowError::Taken)
    }

    fn producer(&self) -> Result<Producer, FlowError> {
        let producer = Producer::new(&self.block, self.layout).map_err(bad_ring)?;
        Ok(producer.with_notify(self.notify()))
    }

    fn consumer(&self) -> Result<Consumer, FlowError> {
        let consumer = Consumer::new(&self.block, self.layout).map_err(bad_ring)?;
        Ok(consumer.with_notify(self.notify()))
    }
}

impl Rack {
    /// Begins to set up a flow from nodes to nodes, which are given by name, by number or as a
    /// [`Node`](crate::Node); a node that appears twice has two ends.
    ///
    /// ```
    /// use rackweave_rack::Rack;
    ///
    /// let rack = Rack::builder().build()?;
    /// let flow = rack.flow(["storage0"], ["compute0", "compute1"]).item_bytes(64).build()?;
    /// let to_each = flow.take_producers(0)?;
    /// let consumers = [flow.take_consumer(0)?, flow.take_consumer(1)?];
    /// # assert_eq!(to_each.len(), consumers.len());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn flow(
        &self,
        producers: impl IntoIterator<Item: NodeRef>,
        consumers: impl IntoIterator<Item: NodeRef>,
    ) -> FlowBuilder {
        FlowBuilder::new(self, producers, consumers)
    }

    /// Sets up the flow of a specification, which has more settings than [`FlowBuilder`].
    ///
    /// # Errors
    /// If the specification is out of range, or the switch or a node lacks capacity.
    pub fn create_flow(&self, spec: FlowSpec) -> Result<Flow, FlowError> {
        let (id, rings) = self.ask(CreateFlow { spec })?;
        Ok(self.flow_of(id, &rings, true))
    }

    /// The flow to which another process, or this one, has given a name ([`Flow::share`]).
    ///
    /// # Errors
    /// If there is none, or it has ended.
    pub fn shared_flow(&self, name: &str) -> Result<Flow, FlowError> {
        let unknown = || NameError::Unknown {
            kind: "flow",
            name: name.to_owned(),
        };
        let name = name.to_owned();
        let Some(Named::Flow(flow)) = self.ask(FindName { name }) else {
            return Err(unknown().into());
        };
        let rings = self.ask(FlowRingsOf { flow }).ok_or_else(unknown)?;
        Ok(self.flow_of(flow, &rings, false))
    }

    fn flow_of(&self, id: FlowId, rings: &FlowRings, is_own: bool) -> Flow {
        let local = |ring: &Ring| LocalRing::new(self, ring);
        let producers = rings.producers.iter();
        Flow {
            rack: self.clone(),
            id,
            is_own,
            consumers: rings.consumers.iter().map(local).collect(),
            producers: producers
                .map(|rings| rings.iter().map(local).collect())
                .collect(),
        }
    }
}

impl Flow {
    /// Its number at the controller.
    pub fn id(&self) -> FlowId {
        self.id
    }

    /// Gives the flow a name, by which other processes of the rack find it
    /// ([`Rack::shared_flow`]) while it runs.
    ///
    /// # Errors
    /// If something else has the name.
    pub fn share(&self, name: &str) -> Result<(), FlowError> {
        let (name, what) = (name.to_owned(), Named::Flow(self.id));
        Ok(self.rack.ask(ShareName { name, what })?)
    }

    /// Its current state: aborted if the controller does not answer, or is a new one that does not
    /// know the flow.
    pub fn state(&self) -> FlowState {
        let state = self.rack.ask(FlowStateOf { flow: self.id });
        state.unwrap_or(FlowState::Aborted(AbortReason::ControllerLost))
    }

    /// Members that were lost; none if the controller does not answer.
    pub fn losses(&self) -> Vec<Loss> {
        self.rack.ask(FlowLosses { flow: self.id })
    }

    /// Aborts the flow.
    pub fn close(&self) {
        self.rack.ask(CloseFlow { flow: self.id });
    }

    /// The producing ends of producer `index`: one per consumer in a shuffle, else one. They cannot
    /// be taken again before they are dropped.
    ///
    /// # Errors
    /// If there is no such producer, it is at a node that is not here, or its ends are taken.
    pub fn take_producers(&self, index: usize) -> Result<Vec<Producer>, FlowError> {
        let rings = self.producers.iter();
        let take = |ring: &LocalRing| {
            let claim = ring.claim()?;
            Ok(ring.producer()?.with_claim(claim))
        };
        rings.map(|rings| take(at(rings, index)?)).collect()
    }

    /// The only producing end of producer `index`: of a flow that is not a shuffle, or has one
    /// consumer.
    ///
    /// # Errors
    /// As for [`Flow::take_producers`], and if it has several.
    pub fn take_producer(&self, index: usize) -> Result<Producer, FlowError> {
        if self.producers.len() > 1 {
            return Err(FlowError::Several(self.producers.len()));
        }
        Ok(self.take_producers(index)?.remove(0))
    }

    /// The producing end of producer `index` of a shuffle that leads to consumer `to`.
    ///
    /// # Errors
    /// As for [`Flow::take_producers`].
    pub fn take_producer_to(&self, index: usize, to: usize) -> Result<Producer, FlowError> {
        let rings = self.producers.get(to).ok_or(FlowError::NotHere)?;
        let ring = at(rings, index)?;
        let claim = ring.claim()?;
        Ok(ring.producer()?.with_claim(claim))
    }

    /// The consuming end of consumer `index`. It cannot be taken again before it is dropped.
    ///
    /// # Errors
    /// As for [`Flow::take_producers`].
    pub fn take_consumer(&self, index: usize) -> Result<Consumer, FlowError> {
        let claim = at(&self.consumers, index)?.claim()?;
        Ok(self.consumer_view(index)?.with_claim(claim))
    }

    /// A second view of the ring of consumer `index`, for checkers only: the owner of the end
    /// relies on being its only user.
    ///
    /// # Errors
    /// If there is no such consumer, or it is at a node that is not here.
    pub(crate) fn consumer_view(&self, index: usize) -> Result<Consumer, FlowError> {
        at(&self.consumers, index)?.consumer()
    }

    /// As [`Flow::consumer_view`].
    pub(crate) fn producer_views(&self, index: usize) -> Result<Vec<Producer>, FlowError> {
        let rings = self.producers.iter();
        rings.map(|rings| at(rings, index)?.producer()).collect()
    }

    /// The doorbells of the rings of producer `index`, in the order of [`Flow::take_producers`];
    /// `None` if the flow has no doorbells, or the producer is not here.
    pub fn producer_bells(&self, index: usize) -> Option<Vec<Doorbell>> {
        let bells = self.producers.iter();
        bells.map(|rings| at(rings, index).ok()?.bell).collect()
    }

    /// The doorbell of consumer `index`, if the flow has doorbells and the consumer is here.
    pub fn consumer_bell(&self, index: usize) -> Option<Doorbell> {
        at(&self.consumers, index).ok()?.bell
    }

    /// Adds a consumer to a balanced or replicated flow; returns its number.
    ///
    /// # Errors
    /// If there is no such node, the shape forbids it, the flow is not running, or the switch or
    /// the node lacks capacity.
    pub fn add_consumer(&mut self, node: impl NodeRef) -> Result<usize, FlowError> {
        let (flow, node) = (self.id, self.node(&node)?);
        let (index, ring) = self.rack.ask(AddConsumer { flow, node })?;
        self.consumers.push(LocalRing::new(&self.rack, &ring));
        Ok(index)
    }

    /// Removes a consumer: it gets the items that are in flight to it, then its stream ends. Other
    /// members are not touched.
    ///
    /// # Errors
    /// If the shape forbids it, it is the last one or none of the flow's, or the flow is not
    /// running.
    pub fn remove_consumer(&self, index: usize) -> Result<(), FlowError> {
        let flow = self.id;
        self.rack.ask(RemoveConsumer { flow, index })
    }

    /// Adds a producer; returns its number.
    ///
    /// # Errors
    /// If there is no such node, the stream of a consumer of a shuffle has ended, the flow is not
    /// running, or the switch or the node lacks capacity.
    pub fn add_producer(&mut self, node: impl NodeRef) -> Result<usize, FlowError> {
        let (flow, node) = (self.id, self.node(&node)?);
        let (index, rings) = self.rack.ask(AddProducer { flow, node })?;
        for (all, ring) in self.producers.iter_mut().zip(&rings) {
            all.push(LocalRing::new(&self.rack, ring));
        }
        Ok(index)
    }

    /// Removes a producer that has finished.
    ///
    /// # Errors
    /// If it has not finished or its items are not all delivered, it is the last one or none of the
    /// flow's, or the flow is not running.
    pub fn remove_producer(&self, index: usize) -> Result<(), FlowError> {
        let flow = self.id;
        self.rack.ask(RemoveProducer { flow, index })
    }

    /// Changes its share among the flows that have a weight; without one, its share is not
    /// regulated.
    ///
    /// # Errors
    /// If the weight is out of range, or the flow is not running.
    pub fn set_weight(&self, weight: Option<u32>) -> Result<(), FlowError> {
        let flow = self.id;
        self.rack.ask(SetWeight { flow, weight })
    }

    fn node(&self, node: &impl NodeRef) -> Result<NodeId, FlowError> {
        let found = node.find(self.rack.config());
        found.map_err(|error: RackError| FlowError::NoNode(error.to_string()))
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        if self.is_own {
            self.close();
        }
    }
}

fn bad_ring(error: RingError) -> FlowError {
    FlowError::BadRing(error.to_string())
}

fn at(rings: &[Option<LocalRing>], index: usize) -> Result<&LocalRing, FlowError> {
    let ring = rings.get(index).and_then(Option::as_ref);
    ring.ok_or(FlowError::NotHere)
}
