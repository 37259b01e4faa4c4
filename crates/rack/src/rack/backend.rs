//! What a kind of rack offers to [`Rack`](super::Rack).

use crate::build::Kind;
use crate::config::RackConfig;
use crate::statistics::RackStatistics;
use core::sync::atomic::AtomicBool;
use rackweave_base::{Block, Instant, Memory, NodeId, Rkey};
use rackweave_controller::ask::{Reply, Request};
use rackweave_target::{Backend as Medium, TargetConfig, TargetError};
use rackweave_verbs::NodeAccess;
use std::sync::Arc;

/// A kind of rack: embedded, simulated, or a test's.
///
/// It speaks of the nodes that are *here*, in this process; of the others it knows what the
/// configuration says. What the controller is to do is a [`Request`]: it may be next door or in
/// another process. Nothing here lends out a machine, or holds a lock while it asks.
pub trait Backend: Send + Sync {
    /// The configuration of the rack, nodes that are elsewhere included.
    fn config(&self) -> &RackConfig;

    /// What paths are chosen by.
    fn kind(&self) -> Kind;

    /// What nodes say to each other to show that they are of this rack: nobody else knows it.
    fn identity(&self) -> u64;

    /// The arena of the regions of the nodes that are here.
    fn memory(&self) -> &Memory;

    /// The time, by the clock of this process or of the simulation.
    fn now(&self) -> Instant;

    /// The way to a node; nothing if it is not here.
    fn node(self: Arc<Self>, node: NodeId) -> Option<Arc<dyn NodeAccess>>;

    /// Whether a node that is here has not crashed.
    fn is_alive(&self, node: NodeId) -> bool;

    /// The memory of a region that the controller has made on a node that is here; nothing if it
    /// has been removed, or the node is not here.
    fn block(&self, node: NodeId, rkey: Rkey) -> Option<Block>;

    /// Set by a channel to the page directory that asks to be connected afresh.
    fn page_alarm(&self) -> Arc<AtomicBool>;

    /// Puts an NVMe target behind the NIC of a node that is here, in place of one that is there.
    ///
    /// # Errors
    /// If the configuration or a namespace makes no sense, or the node lacks room.
    fn set_target(
        &self,
        node: NodeId,
        config: TargetConfig,
        namespaces: Vec<Box<dyn Medium>>,
    ) -> Result<(), TargetError>;

    /// What the nodes, switches and services that are known here have done so far.
    fn statistics(&self) -> RackStatistics;

    /// Asks the controller.
    fn ask(&self, request: Request) -> Reply;
}
