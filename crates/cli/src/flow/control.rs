//! What a script asks of a rack, whatever its kind.

use rackweave_base::NodeId;
use rackweave_controller::{FlowError, FlowId, FlowSpec, FlowState, Loss};
use rackweave_rack::Flow;

/// What both kinds of rack can do to flows.
pub trait Control {
    /// A flow's specification with the rack's settings.
    fn spec(&self, ends: (&[NodeId], &[NodeId]), item: u32, ring: u32) -> FlowSpec;
    /// Sets a flow up.
    ///
    /// # Errors
    /// As the controller's.
    fn create(&mut self, spec: FlowSpec) -> Result<Flow, FlowError>;
    /// A consumer joins; its number.
    ///
    /// # Errors
    /// As the controller's.
    fn add_consumer(&mut self, flow: &mut Flow, node: NodeId) -> Result<usize, FlowError>;
    /// A consumer leaves.
    ///
    /// # Errors
    /// As the controller's.
    fn remove_consumer(&mut self, id: FlowId, index: usize) -> Result<(), FlowError>;
    /// A producer joins; its number.
    ///
    /// # Errors
    /// As the controller's.
    fn add_producer(&mut self, flow: &mut Flow, node: NodeId) -> Result<usize, FlowError>;
    /// Changes a weight.
    ///
    /// # Errors
    /// As the controller's.
    fn set_weight(&mut self, id: FlowId, weight: Option<u32>) -> Result<(), FlowError>;
    /// Breaks a flow off.
    fn close(&mut self, id: FlowId);
    /// How a flow is doing.
    fn state(&mut self, id: FlowId) -> Option<FlowState>;
    /// Members that were lost.
    fn lost(&mut self, id: FlowId) -> Vec<Loss>;
}
