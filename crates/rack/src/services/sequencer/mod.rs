//! Sequencers for a program: ranges of unique numbers from the switch, a node's memory or a server
//! (docs/sequencer.md).

mod agent;
mod attached;
mod client;
mod counter;
mod options;
mod shared;

pub(crate) use agent::SequencerAgent;
pub use attached::AttachedSequencer;
pub use client::SequencerClient;
pub use counter::{CounterServer, CounterThread};
pub use options::{CounterServerSpec, SequencerOptions, SequencerPlacement};

use crate::rack::AgentError;
use crate::services::name::SharedName;
use crate::{Node, ProcessError, Rack};
use agent::{SequencerReply, SequencerRequest};
use attached::Machine;
use core::time::Duration;
use rackweave_base::NodeId;
use rackweave_controller::ask::{
    AttachSequencer, CloseSequencer, CreateSequencer, DetachSequencer, SequencerReserved,
};
use rackweave_controller::{LaneError, SequencerId, SequencerSetUpError, SequencerSpec};
use rackweave_endpoint::rpc::{Client, ClientConfig, RpcError};
use rackweave_endpoint::sequencer::{
    AtomicSequencer, BeginError, CounterError, RpcSequencer, SequencerConfig, SequencerError,
    SetUpError,
};
use rackweave_verbs::{ModifyError, QpError, QpModify, Verbs};
use std::sync::{Arc, Mutex};

/// A sequencer of a rack. Clones are the same sequencer. It is removed when the last of them and of
/// its clients is dropped.
#[derive(Clone, Debug)]
pub struct SequencerService(Arc<Made>);

#[derive(Debug)]
struct Made {
    rack: Rack,
    options: SequencerOptions,
    source: NumberSource,
    /// Whether it was made here.
    is_own: bool,
    /// Its number, unique in the rack; at a server also the name of its counter.
    number: u64,
    /// The threads of its server that are here.
    servers: Vec<(Node, CounterServer)>,
    /// The names by which other processes find it.
    shared: Mutex<Vec<SharedName>>,
}

/// The source of the numbers.
#[derive(Clone, Copy, Debug)]
enum NumberSource {
    Switch(SequencerId),
    /// A word or a server at this node.
    Node(NodeId),
}

/// Why a sequencer or a client could not be made, or no numbers were returned.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SequencerServiceError {
    /// No such node.
    #[error("{0:?} is not in the rack, or dead")]
    NoNode(NodeId),
    /// The node lacks capacity.
    #[error(transparent)]
    Node(#[from] SetUpError),
    /// The node lacks a queue pair for a client.
    #[error(transparent)]
    Qp(#[from] QpError),
    /// A queue pair could not be reused.
    #[error(transparent)]
    Modify(#[from] ModifyError),
    /// The switch lacks capacity, or the sequencer has been removed.
    #[error(transparent)]
    Switch(#[from] SequencerSetUpError),
    /// The node of the word or the server is in another process, which serves no sequencers, or in
    /// none.
    #[error(
        "no process serves sequencers at {0}: start `rackweave node {0}`, or call \
         Rack::serve_others in the program that is {0}"
    )]
    NoProcess(String),
    /// It could not be shared with other processes, or the one that has it refused or was not
    /// reached.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// It was removed, or went with its process.
    #[error("the sequencer is no longer there: it went with its process or was removed")]
    Gone,
    /// There is no server, or it lacks capacity.
    #[error(transparent)]
    Rpc(#[from] RpcError),
    /// The first number is out of range.
    #[error(transparent)]
    Counter(#[from] CounterError),
    /// Two ends could not be connected.
    #[error(transparent)]
    Connect(#[from] LaneError),
    /// A call was not begun.
    #[error(transparent)]
    Begin(#[from] BeginError),
    /// A call failed; numbers may be used up. If the connection broke, reconnect.
    #[error(transparent)]
    Failed(#[from] SequencerError),
    /// No reply arrived in time. The numbers are a gap.
    #[error("no numbers came within {after:?}; those asked for are a gap")]
    TimedOut {
        /// The time waited.
        after: Duration,
    },
}

type Result<T> = core::result::Result<T, SequencerServiceError>;

impl SequencerService {
    /// Makes a sequencer in the switch whose first number is `first`: 0, or what
    /// [`SequencerService::reserved`] of the previous one returned.
    ///
    /// # Errors
    /// If the number is out of range or the switch lacks capacity (`switch.sequencers`).
    pub fn new(rack: &Rack, first: u64) -> Result<Self> {
        let usual = SequencerOptions::new(SequencerPlacement::Switch);
        Self::with(rack, &SequencerOptions { first, ..usual })
    }

    /// Makes a sequencer of any kind.
    ///
    /// # Errors
    /// If the first number is out of range, or the switch or node lacks capacity.
    pub fn with(rack: &Rack, options: &SequencerOptions) -> Result<Self> {
        let (first, block) = (options.first, options.block);
        let number = rack.random_number();
        let source = match options.placement.home() {
            None => {
                let spec = SequencerSpec { first, block };
                NumberSource::Switch(rack.ask(CreateSequencer { spec })?)
            }
            Some(node) => {
                let make = SequencerRequest::Make(options.placement, first);
                ask(rack, node, (number, make))?;
                NumberSource::Node(node)
            }
        };
        Ok(Self::of(rack, options, source, (true, number)))
    }

    fn of(
        rack: &Rack,
        options: &SequencerOptions,
        source: NumberSource,
        (is_own, number): (bool, u64),
    ) -> Self {
        Self(Arc::new(Made {
            rack: rack.clone(),
            options: *options,
            source,
            is_own,
            number,
            servers: rack.agent::<SequencerAgent>().threads(number),
            shared: Mutex::default(),
        }))
    }

    /// A client for one thread, at a node.
    ///
    /// # Errors
    /// If there is no such node, or it or the sequencer lacks capacity.
    pub fn connect(&self, node: impl Into<NodeId>) -> Result<SequencerClient> {
        let client = self.client(node, SequencerConfig::default())?;
        let here = self.rack().node_at(client.node);
        Ok(SequencerClient::new(self.clone(), here, client))
    }

    /// A client at a node, polled by the caller. It is returned by [`SequencerService::release`].
    ///
    /// # Errors
    /// As for [`SequencerService::connect`].
    pub fn client(
        &self,
        node: impl Into<NodeId>,
        config: SequencerConfig,
    ) -> Result<AttachedSequencer> {
        let (rack, node) = (self.rack(), node.into());
        let machine = match self.0.options.placement {
            SequencerPlacement::Server(_) => {
                let client = on_node(rack, node, |verbs| self.rpc_client(verbs))?;
                let name = self.0.number;
                Machine::Rpc(Box::new(RpcSequencer::new(client, name, config)?))
            }
            _ => Machine::Atomic(Box::new(on_node(rack, node, |verbs| {
                Ok(AtomicSequencer::new(verbs, rack.memory(), config)?)
            })?)),
        };
        let mut client = AttachedSequencer {
            machine,
            node,
            config,
            of: self.0.number,
            far: None,
        };
        match self.join(&mut client) {
            Ok(()) => Ok(client),
            Err(error) => {
                self.release(client);
                Err(error)
            }
        }
    }

    fn rpc_client(&self, verbs: &mut dyn Verbs) -> Result<Client> {
        let SequencerPlacement::Server(spec) = self.0.options.placement else {
            unreachable!("only servers are asked by RPC");
        };
        let config = ClientConfig {
            payload_max: spec.server.payload_max,
            ..spec.client
        };
        let pd = verbs.create_pd();
        Ok(Client::new(verbs, self.rack().memory(), pd, config)?)
    }

    /// Reconnects a client whose connection broke, or a client of another sequencer of the same
    /// kind that has been removed. Calls that were pending have failed.
    ///
    /// # Errors
    /// If the sequencer has been removed, or there is no capacity.
    ///
    /// # Panics
    /// With a client of a sequencer of another kind.
    pub fn attach(&self, client: &mut AttachedSequencer) -> Result<()> {
        let (rack, node) = (self.rack(), client.node);
        self.forget(client);
        client.of = self.0.number;
        let (machine, config) = (&mut client.machine, client.config);
        on_node(rack, node, |verbs| match (machine, &self.0.source) {
            (machine @ Machine::Rpc(_), _) => {
                let (client, name) = (self.rpc_client(verbs)?, self.0.number);
                let made = RpcSequencer::new(client, name, config)?;
                core::mem::replace(machine, Machine::Rpc(Box::new(made))).close(verbs);
                Ok(())
            }
            // The switch resets it.
            (_, NumberSource::Switch(_)) => Ok(()),
            (Machine::Atomic(client), _) => Ok(verbs.modify_qp(client.qpn(), QpModify::Reset)?),
        })?;
        self.join(client)
    }

    /// Connects a client whose queue pair is new.
    fn join(&self, client: &mut AttachedSequencer) -> Result<()> {
        let (rack, attributes) = (self.rack(), self.0.options.attributes);
        let node = client.node;
        let home = match self.0.source {
            NumberSource::Switch(id) => {
                let Machine::Atomic(machine) = &mut client.machine else {
                    unreachable!("a client is of the kind of its sequencer");
                };
                let place = rack.ask(AttachSequencer {
                    id,
                    client: (node, machine.qpn()),
                    attributes,
                })?;
                machine.connected(place);
                return Ok(());
            }
            NumberSource::Node(home) => home,
        };
        let SequencerReply::Accepted(far) = self.ask(home, SequencerRequest::Accept)? else {
            return Err(SequencerServiceError::Gone);
        };
        client.far = Some(far);
        rack.connect(
            (node, client.machine.qpn()),
            (far.node, far.qpn),
            &attributes,
        )?;
        self.ask(home, SequencerRequest::Open(far))?;
        if let (Machine::Atomic(machine), Some(place)) = (&mut client.machine, far.place) {
            machine.connected(place);
        }
        Ok(())
    }

    fn ask(&self, home: NodeId, request: SequencerRequest) -> Result<SequencerReply> {
        ask(self.rack(), home, (self.0.number, request))
    }

    /// Frees a client and its resources at the other end.
    pub fn release(&self, mut client: AttachedSequencer) {
        if let (Machine::Atomic(machine), NumberSource::Switch(_)) =
            (&client.machine, &self.0.source)
        {
            let client = (client.node, machine.qpn());
            self.rack().ask(DetachSequencer { client });
        }
        self.forget(&mut client);
        let machine = client.machine;
        self.rack()
            .on_node(client.node, |verbs| machine.close(verbs));
    }

    /// Frees the resources at the other end.
    fn forget(&self, client: &mut AttachedSequencer) {
        let far = client.far.take();
        let far = far.filter(|_| client.of == self.0.number);
        if let (Some(far), NumberSource::Node(home)) = (far, self.0.source) {
            // A process that is gone has forgotten it.
            let _ = self.ask(home, SequencerRequest::Release(far));
        }
    }

    /// Has the server's threads that are here answer pending requests. Returns true if there were
    /// any. Clients do this while they wait or poll.
    pub fn serve(&self) -> bool {
        serve(self.servers())
    }

    /// The server's threads that are here with their nodes. The caller polls them.
    pub fn servers(&self) -> &[(Node, CounterServer)] {
        &self.0.servers
    }

    /// A number of which, and of all above it, none was ever handed out: to be saved when the rack
    /// ends and given to the next sequencer as its first. `None` if the sequencer has been removed.
    pub fn reserved(&self) -> Option<u64> {
        match self.0.source {
            NumberSource::Switch(id) => self.rack().ask(SequencerReserved { id }),
            NumberSource::Node(home) => match self.ask(home, SequencerRequest::Reserved) {
                Ok(SequencerReply::Reserved(number)) => number,
                _ => None,
            },
        }
    }

    /// The rack.
    pub fn rack(&self) -> &Rack {
        &self.0.rack
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        if !self.is_own {
            return;
        }
        match self.source {
            NumberSource::Switch(id) => self.rack.ask(CloseSequencer { id }),
            NumberSource::Node(home) => {
                // A process that is gone has no sequencer any more.
                let _ = ask(&self.rack, home, (self.number, SequencerRequest::Close));
            }
        }
    }
}

/// Has server threads answer pending requests. Returns true if there were any.
pub(super) fn serve(servers: &[(Node, CounterServer)]) -> bool {
    let mut served = false;
    for (node, server) in servers {
        let now = node.now();
        served |= node.poll(|verbs| server.poll(now, verbs));
    }
    served
}

/// Sends a request to a sequencer at a node, in whichever process it is.
fn ask(rack: &Rack, home: NodeId, request: (u64, SequencerRequest)) -> Result<SequencerReply> {
    let reply = rack.ask_agent::<SequencerAgent>(home, request);
    reply.map_err(|error| match error {
        AgentError::NoNode(node) => SequencerServiceError::NoNode(node),
        AgentError::Here(error) => error,
        AgentError::Absent(node) => SequencerServiceError::NoProcess(node),
        AgentError::Elsewhere(error) => error.into(),
    })
}

/// Calls `act` with a node that must exist.
fn on_node<R>(
    rack: &Rack,
    node: NodeId,
    act: impl FnOnce(&mut dyn Verbs) -> Result<R>,
) -> Result<R> {
    let done = rack.on_node(node, act);
    done.unwrap_or(Err(SequencerServiceError::NoNode(node)))
}
