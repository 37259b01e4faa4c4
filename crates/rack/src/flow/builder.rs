//! The builder of flows.

use super::Flow;
use crate::config::choices;
use crate::{Node, Rack, RackConfig, RackError, build};
use rackweave_base::NodeId;
use rackweave_controller::{FlowError, FlowShape, FlowSpec, LossPolicy};

/// Default size of an item, in bytes.
const ITEM_BYTES: u32 = 16 << 10;

/// Default size of a ring, in bytes.
const RING_BYTES: u32 = 1 << 20;

/// A node given by its name, by its number, or as a node.
pub trait NodeRef {
    /// The node's number.
    ///
    /// # Errors
    /// If the rack has no node of that name.
    fn find(&self, config: &RackConfig) -> Result<NodeId, RackError>;
}

impl NodeRef for NodeId {
    fn find(&self, _: &RackConfig) -> Result<NodeId, RackError> {
        Ok(*self)
    }
}

impl NodeRef for Node {
    fn find(&self, _: &RackConfig) -> Result<NodeId, RackError> {
        Ok(self.id())
    }
}

impl NodeRef for str {
    fn find(&self, config: &RackConfig) -> Result<NodeId, RackError> {
        let found = config.node_named(self);
        found.ok_or_else(|| RackError::no_node(self, config))
    }
}

impl NodeRef for String {
    fn find(&self, config: &RackConfig) -> Result<NodeId, RackError> {
        NodeRef::find(self.as_str(), config)
    }
}

impl<N: NodeRef + ?Sized> NodeRef for &N {
    fn find(&self, config: &RackConfig) -> Result<NodeId, RackError> {
        (**self).find(config)
    }
}

/// Sets up a flow: see [`Rack::flow`]. By default, it is a shuffle of items of 16 KiB in rings of 1
/// MiB, with the rack's settings for batches, transfers and MTU.
#[derive(Clone, Debug)]
#[must_use = "it sets nothing up before `build`"]
pub struct FlowBuilder {
    rack: Rack,
    nodes: Result<[Vec<NodeId>; 2], RackError>,
    shape: FlowShape,
    item_bytes: u32,
    ring_bytes: u32,
    weight: Option<u32>,
    on_loss: LossPolicy,
    doorbells: Option<bool>,
}

impl FlowBuilder {
    pub(super) fn new(
        rack: &Rack,
        producers: impl IntoIterator<Item: NodeRef>,
        consumers: impl IntoIterator<Item: NodeRef>,
    ) -> Self {
        let config = rack.config();
        let producers: Result<_, _> = producers.into_iter().map(|it| it.find(config)).collect();
        let consumers: Result<_, _> = consumers.into_iter().map(|it| it.find(config)).collect();
        Self {
            rack: rack.clone(),
            nodes: producers.and_then(|producers| Ok([producers, consumers?])),
            shape: FlowShape::Shuffle,
            item_bytes: ITEM_BYTES,
            ring_bytes: RING_BYTES,
            weight: None,
            on_loss: LossPolicy::Abort,
            doorbells: None,
        }
    }

    /// How items are assigned to consumers.
    pub fn shape(mut self, shape: FlowShape) -> Self {
        self.shape = shape;
        self
    }

    /// Each item goes to one consumer that has free slots.
    pub fn balanced(self) -> Self {
        self.shape(FlowShape::Balance)
    }

    /// Each item goes to all consumers or to none, in the same order everywhere.
    pub fn replicated(self) -> Self {
        self.shape(FlowShape::Replicate)
    }

    /// The size of an item in bytes, a multiple of eight.
    pub fn item_bytes(mut self, bytes: u32) -> Self {
        self.item_bytes = bytes;
        self
    }

    /// The approximate size of each ring in bytes: the number of items is a power of two, at least
    /// two.
    pub fn ring_bytes(mut self, bytes: u32) -> Self {
        self.ring_bytes = bytes;
        self
    }

    /// Its share among the flows that have a weight, from 1 to
    /// [`WEIGHT_MAX`](rackweave_controller::flows::WEIGHT_MAX); without one, its share is not
    /// regulated.
    pub fn weight(mut self, weight: impl Into<Option<u32>>) -> Self {
        self.weight = weight.into();
        self
    }

    /// What happens to it when a node dies.
    pub fn on_loss(mut self, policy: LossPolicy) -> Self {
        self.on_loss = policy;
        self
    }

    /// Whether nodes get queue pairs to ring doorbells with, so that the switch need not poll. On
    /// racks of processes that is the default, and ends ring by themselves after a silence.
    pub fn doorbells(mut self, doorbells: bool) -> Self {
        self.doorbells = Some(doorbells);
        self
    }

    /// All settings as data, to be changed further and passed to [`Rack::create_flow`].
    ///
    /// # Errors
    /// If the rack has no node of a name.
    pub fn spec(self) -> Result<FlowSpec, FlowError> {
        let nodes = self.nodes.map_err(|e| FlowError::NoNode(e.to_string()));
        let [producers, consumers] = nodes?;
        let kind = self.rack.backend().kind();
        let doorbells = self.doorbells.unwrap_or(choices::doorbells(kind));
        let spec = build::flow_spec(
            self.rack.config(),
            kind,
            &producers,
            &consumers,
            (self.item_bytes, self.ring_bytes),
            doorbells,
        );
        Ok(FlowSpec {
            shape: self.shape,
            weight: self.weight,
            on_loss: self.on_loss,
            ..spec
        })
    }

    /// Sets up the flow.
    ///
    /// # Errors
    /// If a value is out of range, there is no such node, or the switch or a node lacks capacity.
    pub fn build(self) -> Result<Flow, FlowError> {
        let rack = self.rack.clone();
        rack.create_flow(self.spec()?)
    }
}
