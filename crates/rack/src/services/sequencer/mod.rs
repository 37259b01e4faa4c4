//! Sequencers for a program: ranges of unique numbers from the switch, a node's memory or a server
//! (docs/sequencer.md).

mod attached;
mod client;
mod counter;
mod options;
mod shared;

pub use attached::AttachedSequencer;
pub use client::SequencerClient;
pub use counter::{CounterServer, CounterThread};
pub use options::{CounterServerSpec, SequencerOptions, SequencerPlacement};

use crate::{Node, Rack};
use attached::Machine;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use counter::{serve, stop};
use rackweave_base::{NodeId, Qpn};
use rackweave_controller::ask::{
    AttachSequencer, CloseSequencer, CreateSequencer, DetachSequencer, SequencerReserved,
};
use rackweave_controller::{LaneError, SequencerId, SequencerSetUpError, SequencerSpec};
use rackweave_endpoint::rpc::{Client, ClientConfig, RpcError, Server};
use rackweave_endpoint::sequencer::{
    AtomicSequencer, BeginError, CounterError, Counters, RpcSequencer, SequencerConfig,
    SequencerError, SequencerWord, SetUpError,
};
use rackweave_verbs::{ModifyError, QpError, QpModify, Verbs};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
    /// Tells clients of this sequencer from those of others.
    number: u64,
}

/// The source of the numbers.
#[derive(Debug)]
enum NumberSource {
    Switch(SequencerId),
    Memory(Node, Mutex<Option<SequencerWord>>),
    Server {
        counters: Counters,
        /// The counter's name.
        name: u64,
        threads: Vec<(Node, CounterServer)>,
        /// Clients attached so far.
        clients: AtomicUsize,
    },
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
    /// Only a sequencer in the switch is in no process.
    #[error("only a sequencer in the switch can be shared with other processes")]
    NotShared,
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
        let source = match options.placement {
            SequencerPlacement::Switch => {
                let spec = SequencerSpec { first, block };
                NumberSource::Switch(rack.ask(CreateSequencer { spec })?)
            }
            SequencerPlacement::Memory(node) => {
                let word = on_node(rack, node, |verbs| {
                    Ok(SequencerWord::new(verbs, rack.memory(), first)?)
                })?;
                NumberSource::Memory(rack.node_at(node), Mutex::new(Some(word)))
            }
            SequencerPlacement::Server(spec) => serve(rack, &spec, first)?,
        };
        Ok(Self(Arc::new(Made {
            rack: rack.clone(),
            options: *options,
            source,
            is_own: true,
            number: rack.random_number(),
        })))
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
        let machine = match &self.0.source {
            NumberSource::Server { name, .. } => {
                let client = on_node(rack, node, |verbs| self.rpc_client(verbs))?;
                Machine::Rpc(Box::new(RpcSequencer::new(client, *name, config)?))
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
            (machine @ Machine::Rpc(_), NumberSource::Server { name, .. }) => {
                let made = RpcSequencer::new(self.rpc_client(verbs)?, *name, config)?;
                core::mem::replace(machine, Machine::Rpc(Box::new(made))).close(verbs);
                Ok(())
            }
            // The switch resets it.
            (_, NumberSource::Switch(_)) | (Machine::Rpc(_), _) => Ok(()),
            (Machine::Atomic(client), _) => Ok(verbs.modify_qp(client.qpn(), QpModify::Reset)?),
        })?;
        self.join(client)
    }

    /// Connects a client whose queue pair is new.
    fn join(&self, client: &mut AttachedSequencer) -> Result<()> {
        let (rack, attributes) = (self.rack(), self.0.options.attributes);
        let node = client.node;
        match (&mut client.machine, &self.0.source) {
            (Machine::Atomic(machine), NumberSource::Switch(id)) => {
                let place = rack.ask(AttachSequencer {
                    id: *id,
                    client: (node, machine.qpn()),
                    attributes,
                })?;
                machine.connected(place);
            }
            (Machine::Atomic(machine), NumberSource::Memory(home, word)) => {
                let (far, place) = on_node(rack, home.id(), |verbs| {
                    let mut word = locked(word);
                    let word = word.as_mut().expect(THERE);
                    Ok((word.accept(verbs)?, word.place()))
                })?;
                client.far = Some((0, far));
                rack.connect((node, machine.qpn()), (home.id(), far), &attributes)?;
                machine.connected(place);
            }
            (
                Machine::Rpc(machine),
                NumberSource::Server {
                    threads, clients, ..
                },
            ) => {
                let at = clients.fetch_add(1, Ordering::Relaxed) % threads.len();
                let (home, thread) = &threads[at];
                let act = |act: &dyn Fn(&mut Server, &mut dyn Verbs) -> Result<Qpn>| {
                    on_node(rack, home.id(), |verbs| {
                        act(&mut thread.lock().as_mut().expect(THERE).rpc, verbs)
                    })
                };
                let far = act(&|rpc, verbs| Ok(rpc.accept(verbs)?))?;
                client.far = Some((at, far));
                rack.connect((node, machine.qpn()), (home.id(), far), &attributes)?;
                act(&|rpc, verbs| Ok(rpc.connected(verbs, far).map(|()| far)?))?;
            }
            _ => unreachable!("a client is of the kind of its sequencer"),
        }
        Ok(())
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
        let Some((at, qpn)) = far.filter(|_| client.of == self.0.number) else {
            return;
        };
        match &self.0.source {
            NumberSource::Switch(_) => {}
            NumberSource::Memory(home, word) => {
                self.rack().on_node(home.id(), |verbs| {
                    locked(word).as_mut().expect(THERE).remove(verbs, qpn)
                });
            }
            NumberSource::Server { threads, .. } => {
                let (home, thread) = &threads[at];
                self.rack().on_node(home.id(), |verbs| {
                    let mut thread = thread.lock();
                    thread.as_mut().expect(THERE).rpc.remove(verbs, qpn)
                });
            }
        }
    }

    /// Has the server's threads answer pending requests, if there is a server. Returns true if
    /// there were any. Clients do this while they wait or poll.
    pub fn serve(&self) -> bool {
        let mut served = false;
        for (node, server) in self.servers() {
            let now = node.now();
            served |= node.poll(|verbs| server.poll(now, verbs));
        }
        served
    }

    /// The server's threads with their nodes, if there is a server. The caller polls them.
    pub fn servers(&self) -> &[(Node, CounterServer)] {
        match &self.0.source {
            NumberSource::Server { threads, .. } => threads,
            _ => &[],
        }
    }

    /// A number of which, and of all above it, none was ever handed out: to be saved when the rack
    /// ends and given to the next sequencer as its first. `None` if the sequencer has been removed.
    pub fn reserved(&self) -> Option<u64> {
        match &self.0.source {
            NumberSource::Switch(id) => self.rack().ask(SequencerReserved { id: *id }),
            NumberSource::Memory(_, word) => Some(locked(word).as_ref().expect(THERE).next()),
            NumberSource::Server { counters, name, .. } => counters.at(*name),
        }
    }

    /// The rack.
    pub fn rack(&self) -> &Rack {
        &self.0.rack
    }
}

const THERE: &str = "it is there as long as the sequencer";

fn locked(word: &Mutex<Option<SequencerWord>>) -> MutexGuard<'_, Option<SequencerWord>> {
    word.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Made {
    fn drop(&mut self) {
        match &mut self.source {
            NumberSource::Switch(id) if self.is_own => {
                self.rack.ask(CloseSequencer { id: *id });
            }
            NumberSource::Switch(_) => {}
            NumberSource::Memory(home, word) => {
                let word = word.get_mut().unwrap_or_else(PoisonError::into_inner);
                if let Some(word) = word.take() {
                    self.rack.on_node(home.id(), |verbs| word.close(verbs));
                }
            }
            NumberSource::Server { threads, .. } => stop(&self.rack, threads),
        }
    }
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
