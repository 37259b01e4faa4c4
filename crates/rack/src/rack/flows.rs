//! Flows of a rack.

use super::Rack;
use crate::{Flow, build};
use rackweave_base::NodeId;
use rackweave_controller::ask::{
    AddConsumer, AddProducer, CloseFlow, CreateFlow, FlowLosses, FlowStateOf, RemoveConsumer,
    RemoveProducer, SetWeight,
};
use rackweave_controller::{FlowError, FlowId, FlowSpec, FlowState, Loss};

impl Rack {
    /// A shuffle with this rack's settings for batches, transfers and MTU.
    pub fn flow_spec(
        &self,
        producers: &[NodeId],
        consumers: &[NodeId],
        item_size: u32,
        ring_bytes: u32,
    ) -> FlowSpec {
        build::flow_spec(
            self.config(),
            self.backend().kind(),
            producers,
            consumers,
            item_size,
            ring_bytes,
        )
    }

    /// Sets a flow up.
    ///
    /// # Errors
    /// If the specification is out of range, or the switch or a node lacks room.
    pub fn create_flow(&self, spec: FlowSpec) -> Result<Flow, FlowError> {
        let (id, rings) = self.ask(CreateFlow { spec })?;
        Ok(Flow::new(id, &rings, |node, rkey| {
            self.backend().block(node, rkey)
        }))
    }

    /// A consumer joins a balanced or replicated flow; returns its number.
    ///
    /// # Errors
    /// As for [`rackweave_controller::Controller::add_consumer`].
    pub fn add_consumer(&self, flow: &mut Flow, node: NodeId) -> Result<usize, FlowError> {
        let (index, ring) = self.ask(AddConsumer {
            flow: flow.id,
            node,
        })?;
        flow.joined_consumer(&ring, |node, rkey| self.backend().block(node, rkey));
        Ok(index)
    }

    /// A consumer leaves; its stream ends after what it has been shown.
    ///
    /// # Errors
    /// As for [`rackweave_controller::Controller::remove_consumer`].
    pub fn remove_consumer(&self, flow: FlowId, index: usize) -> Result<(), FlowError> {
        self.ask(RemoveConsumer { flow, index })
    }

    /// A producer joins; returns its number.
    ///
    /// # Errors
    /// As for [`rackweave_controller::Controller::add_producer`].
    pub fn add_producer(&self, flow: &mut Flow, node: NodeId) -> Result<usize, FlowError> {
        let (index, rings) = self.ask(AddProducer {
            flow: flow.id,
            node,
        })?;
        flow.joined_producer(&rings, |node, rkey| self.backend().block(node, rkey));
        Ok(index)
    }

    /// A producer that has finished leaves.
    ///
    /// # Errors
    /// As for [`rackweave_controller::Controller::remove_producer`].
    pub fn remove_producer(&self, flow: FlowId, index: usize) -> Result<(), FlowError> {
        self.ask(RemoveProducer { flow, index })
    }

    /// Changes the weight of a running flow.
    ///
    /// # Errors
    /// As for [`rackweave_controller::Controller::set_weight`].
    pub fn set_weight(&self, flow: FlowId, weight: Option<u32>) -> Result<(), FlowError> {
        self.ask(SetWeight { flow, weight })
    }

    /// Members of a flow that were lost.
    pub fn losses(&self, flow: FlowId) -> Vec<Loss> {
        self.ask(FlowLosses { flow })
    }

    /// How a flow is doing; nothing if there is no such flow.
    pub fn flow_state(&self, flow: FlowId) -> Option<FlowState> {
        self.ask(FlowStateOf { flow })
    }

    /// Breaks a flow off.
    pub fn close_flow(&self, flow: FlowId) {
        self.ask(CloseFlow { flow });
    }
}
