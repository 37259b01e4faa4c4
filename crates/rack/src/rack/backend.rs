//! What each kind of rack provides to [`Rack`](super::Rack).

use crate::build::Kind;
use crate::config::RackConfig;
use crate::statistics::RackStatistics;
use core::sync::atomic::AtomicBool;
use rackweave_base::{Block, Instant, Memory, NodeId, Rkey};
use rackweave_controller::ask::{AskError, Reply, Request, ShareError};
use rackweave_target::{Backend as Medium, TargetConfig, TargetError};
use rackweave_verbs::{Mtu, NodeAccess};
use serde_json::Value;
use std::sync::Arc;

/// Answers requests of other processes.
pub type NamedService = dyn Fn(Value) -> Result<Value, String> + Send + Sync;

/// Why a service of another process was not reached, or refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ProcessError {
    /// The rack is in one process.
    #[error("this rack is in one process; share the service itself")]
    OneProcess,
    /// The name was not given.
    #[error(transparent)]
    Name(#[from] ShareError),
    /// The controller was not reached.
    #[error(transparent)]
    Ask(#[from] AskError),
    /// There is no such service, it does not answer, or it refuses.
    #[error("{0}")]
    Refused(String),
}

/// A kind of rack: embedded, simulated, hosted, or a test's.
///
/// It gives access to the nodes that are *here*, in this process; of the others it knows only the
/// configuration. The controller gets [`Request`]s: it may be in this process or another one. No
/// method lends out a machine, or holds a lock during a request.
pub trait Backend: Send + Sync {
    /// The configuration of the rack, including nodes in other processes.
    fn config(&self) -> &RackConfig;

    /// The kind that paths are chosen by.
    fn kind(&self) -> Kind;

    /// The secret by which nodes prove to each other that they belong to this rack.
    fn identity(&self) -> u64;

    /// The arena of the regions of the nodes that are here.
    fn memory(&self) -> &Memory;

    /// The time, by the clock of this process or of the simulation.
    fn now(&self) -> Instant;

    /// Access to a node; `None` if it is not here.
    fn node(self: Arc<Self>, node: NodeId) -> Option<Arc<dyn NodeAccess>>;

    /// Whether a node that is here has not crashed.
    fn is_alive(&self, node: NodeId) -> bool;

    /// A number that changes when a node that is here is declared dead although its process lives:
    /// all connections to what it had before are cut.
    fn incarnation(&self, _node: NodeId) -> u64 {
        0
    }

    /// The memory of a region that the controller has made on a node that is here; `None` if it has
    /// been removed, or the node is not here.
    fn block(&self, node: NodeId, rkey: Rkey) -> Option<Block>;

    /// The largest MTU that the link of a node that is here carries, for connections that its
    /// program sets up itself.
    fn mtu(&self, _node: NodeId) -> Mtu {
        Mtu::from_bytes(self.config().nic.mtu).unwrap_or_default()
    }

    /// The largest MTU that the switch's link to a foreign host of the configuration carries.
    ///
    /// # Errors
    /// Why that is unknown, in words.
    fn mtu_to_host(&self, _name: &str) -> Result<Mtu, String> {
        Err("this rack is in one process, and no machine is beside it".to_owned())
    }

    /// Set by a channel to the page directory that requests a new connection.
    fn page_alarm(&self) -> Arc<AtomicBool>;

    /// Puts an NVMe target behind the NIC of a node that is here, replacing an existing one.
    ///
    /// # Errors
    /// If the configuration or a namespace is invalid, or the node lacks capacity.
    fn set_target(
        &self,
        node: NodeId,
        config: TargetConfig,
        namespaces: Vec<Box<dyn Medium>>,
    ) -> Result<(), TargetError>;

    /// Statistics of the nodes, switches and services that are known here.
    fn statistics(&self) -> RackStatistics;

    /// Has other processes of the rack find a service of this one by a name. It answers on a thread
    /// of its own, until [`Backend::withdraw`].
    ///
    /// # Errors
    /// If the name is taken, or the rack has no other processes.
    fn provide(&self, _name: &str, _service: Arc<NamedService>) -> Result<(), ProcessError> {
        Err(ProcessError::OneProcess)
    }

    /// Ends a service for other processes.
    fn withdraw(&self, _name: &str) {}

    /// Sends a request to a service, in whichever process it is.
    ///
    /// # Errors
    /// If there is none of that name, it does not answer, or it refuses.
    fn call(&self, _name: &str, _body: Value) -> Result<Value, ProcessError> {
        Err(ProcessError::OneProcess)
    }

    /// Sends a request to the controller.
    ///
    /// # Errors
    /// If it is in another process, and does not answer or refuses.
    fn ask(&self, request: Request) -> Result<Reply, AskError>;
}
