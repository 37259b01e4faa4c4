//! The common interface to a rack of any kind.
//!
//! A [`Rack`] gives services and programs nodes by name, verbs and memory of the nodes that are
//! here, and the controller, which takes [requests](rackweave_controller::ask) that are data. An
//! embedded rack answers from the controller in this process, a simulated one in virtual time; a
//! rack of processes answers over a connection. Everything that sets up pages, indexes, flows,
//! sequencers or messages uses this interface, so it exists once.

mod agent;
mod backend;
mod builder;
mod foreign;
mod node;
mod pages;

pub(crate) use agent::{Agent, AgentError, LOOK_EVERY, OWN};
pub use backend::{Backend, NamedService, ProcessError};
pub use builder::RackBuilder;
pub use foreign::{ForeignEnd, ForeignError, ForeignHost};
pub use node::Node;

use crate::build::RackError;
use crate::config::RackConfig;
use crate::statistics::{RackObserver, RackStatistics};
use core::fmt;
use rackweave_base::{Instant, KeyRng, Memory, NodeId, Qpn, Rng};
use rackweave_controller::LaneError;
use rackweave_controller::ask::{Answer, Ask, ConnectPair, DeclareDead};
use rackweave_controller::connect::PairAttributes;
use rackweave_verbs::Verbs;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A rack. Clones are the same rack, which ends when the last of them and of what was made on it is
/// dropped.
#[derive(Clone)]
pub struct Rack(Arc<Shared>);

struct Shared {
    backend: Arc<dyn Backend>,
    /// Whether a page service was made here. Held while the page directory is set up.
    has_pages: Mutex<bool>,
    /// The source of unique names.
    names: Mutex<KeyRng>,
    agents: agent::Agents,
}

impl Rack {
    /// A rack of the given kind.
    pub fn new(backend: Arc<dyn Backend>) -> Self {
        let names = backend.kind().keys(Rng::new(backend.identity()));
        Self(Arc::new(Shared {
            backend,
            has_pages: Mutex::new(false),
            names: Mutex::new(names),
            agents: agent::Agents::default(),
        }))
    }

    /// The backend, for a backend that wraps another one.
    pub fn backend(&self) -> &Arc<dyn Backend> {
        &self.0.backend
    }

    /// Whether a page service was made here. Held while the page directory is set up, so that of
    /// two concurrent callers one comes first.
    pub(crate) fn has_pages(&self) -> MutexGuard<'_, bool> {
        let lock = self.0.has_pages.lock();
        lock.unwrap_or_else(PoisonError::into_inner)
    }

    /// A number that has not been drawn before; in virtual time the same in every run.
    pub(crate) fn random_number(&self) -> u64 {
        let names = self.0.names.lock();
        names.unwrap_or_else(PoisonError::into_inner).next_u64()
    }

    /// The configuration.
    pub fn config(&self) -> &RackConfig {
        self.backend().config()
    }

    /// The secret by which nodes prove to each other that they belong to this rack.
    pub(crate) fn identity(&self) -> u64 {
        self.backend().identity()
    }

    /// The arena of the regions of the nodes that are here.
    pub fn memory(&self) -> &Memory {
        self.backend().memory()
    }

    /// The current time.
    pub fn now(&self) -> Instant {
        self.backend().now()
    }

    /// A node by its name.
    ///
    /// # Errors
    /// If there is no such node, or it is in another process.
    pub fn node(&self, name: &str) -> Result<Node, RackError> {
        let config = self.config();
        let found = config.node_named(name);
        let id = found.ok_or_else(|| RackError::no_node(name, config))?;
        self.node_here(id)
            .ok_or_else(|| RackError::Elsewhere(name.to_owned()))
    }

    /// A node by its number; `None` if there is no such node, or it is in another process.
    pub fn node_here(&self, id: NodeId) -> Option<Node> {
        let config = self.config().node.get(usize::from(id.0))?;
        let access = self.0.backend.clone().node(id)?;
        Some(Node::new(id, &config.name, access))
    }

    /// A node that is here, by its number.
    ///
    /// # Panics
    /// If there is no such node here: see [`Rack::node_here`].
    pub fn node_at(&self, id: NodeId) -> Node {
        let here = self.node_here(id);
        here.unwrap_or_else(|| panic!("{id:?} is no node of the rack in this process"))
    }

    /// The nodes that are in this process, by number.
    pub fn nodes_here(&self) -> impl Iterator<Item = Node> {
        let all = (0..self.config().node.len()).map(|at| NodeId(at as u16));
        all.filter_map(|id| self.node_here(id))
    }

    /// Some node that is here, for callers that only wait.
    ///
    /// # Panics
    /// If no node is here: then there is nothing to wait for.
    pub fn any_node(&self) -> Node {
        self.nodes_here()
            .next()
            .expect("a process that uses a rack has a node of it")
    }

    /// Calls `act` with the verbs of a node and returns its result; `None` if the node is not here,
    /// or has crashed.
    pub fn on_node<R>(&self, id: NodeId, act: impl FnOnce(&mut dyn Verbs) -> R) -> Option<R> {
        let node = self.node_here(id).filter(|_| self.backend().is_alive(id))?;
        Some(node.with(act))
    }

    /// The statistics of the rack so far.
    pub fn statistics(&self) -> RackStatistics {
        self.backend().statistics()
    }

    /// An observer that reads the statistics of a running rack and does not keep it alive.
    pub fn observer(&self) -> RackObserver {
        RackObserver::new(self.backend())
    }

    /// Sends a request to the controller. If the controller does not answer, the answer says so: it
    /// is an error, or reports nothing.
    pub fn ask<A: Ask>(&self, asked: A) -> A::Answer {
        match self.backend().ask(asked.into_request()) {
            Ok(reply) => A::answer_of(reply).expect("a request has the reply of its name"),
            Err(why) => A::Answer::unanswered(why),
        }
    }

    /// Connects two queue pairs that are in state Reset.
    ///
    /// # Errors
    /// If a node is unknown or refuses.
    pub fn connect(
        &self,
        a: (NodeId, Qpn),
        b: (NodeId, Qpn),
        attributes: &PairAttributes,
    ) -> Result<(), LaneError> {
        let attributes = *attributes;
        self.ask(ConnectPair { a, b, attributes })
    }

    /// Declares dead a node that may be alive: its operations have no effect from now on.
    pub fn declare_dead(&self, node: NodeId) {
        self.ask(DeclareDead { node });
    }
}

impl fmt::Debug for Rack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes = self.config().node.len();
        f.debug_struct("Rack")
            .field("nodes", &nodes)
            .finish_non_exhaustive()
    }
}
