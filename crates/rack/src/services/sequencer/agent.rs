//! The words and counters of sequencers at the nodes of a process.
//!
//! As with an index ([`crate::index::agent`]), what is to be done there is a request to the agent
//! of the node, which is a call if the node is in this process.

use super::counter::{CounterServer, CounterThread, serve, stop};
use super::{Result, SequencerPlacement, SequencerServiceError, on_node};
use crate::rack::{Agent, OWN};
use crate::{Node, Rack};
use core::sync::atomic::{AtomicU64, Ordering};
use rackweave_base::{NodeId, Qpn};
use rackweave_endpoint::rpc::Server;
use rackweave_endpoint::sequencer::{Counters, SequencerPlace, SequencerWord};
use rackweave_verbs::Verbs;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A request to a sequencer at a node, by the process that made it or by a user of it.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum SequencerRequest {
    /// Make it, with this first number.
    Make(SequencerPlacement, u64),
    /// Remove it.
    Close,
    /// Make a queue pair for one more client.
    Accept,
    /// It is connected: requests will arrive.
    Open(Accepted),
    /// It is no longer used.
    Release(Accepted),
    /// A number of which, and of all above it, none was ever handed out.
    Reserved,
}

/// Its reply.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum SequencerReply {
    Done,
    Accepted(Accepted),
    Reserved(Option<u64>),
}

/// The resources of a client at the sequencer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Accepted {
    /// The node that has the queue pair.
    pub node: NodeId,
    pub qpn: Qpn,
    /// The server's thread.
    thread: usize,
    /// The word, if the client accesses one.
    pub place: Option<SequencerPlace>,
}

/// The source of the numbers.
#[derive(Debug)]
pub(super) enum NodeSource {
    Word(NodeId, SequencerWord),
    Server {
        counters: Counters,
        /// The counter's name.
        name: u64,
        threads: Vec<(Node, CounterServer)>,
        /// Clients accepted so far.
        clients: usize,
    },
}

#[derive(Debug)]
struct Entry {
    /// The process that made it.
    user: String,
    source: NodeSource,
    /// What other processes have been given, with their names.
    given: Vec<(String, Accepted)>,
}

/// The agent of a process.
#[derive(Debug, Default)]
pub(crate) struct SequencerAgent {
    /// By the number of the sequencer, unique in the rack.
    made: Mutex<BTreeMap<u64, Entry>>,
    /// How often a sequencer has been made or removed.
    changes: AtomicU64,
}

impl Agent for SequencerAgent {
    type Request = (u64, SequencerRequest);
    type Reply = SequencerReply;
    type Error = SequencerServiceError;

    const NAME: &'static str = "sequencers";

    fn is_first((_, request): &Self::Request) -> bool {
        matches!(request, SequencerRequest::Make(..))
    }

    fn act(
        &self,
        rack: &Rack,
        user: &str,
        (number, request): (u64, SequencerRequest),
    ) -> Result<SequencerReply> {
        let mut made = self.made();
        match request {
            SequencerRequest::Make(placement, first) => {
                let is_served = user == OWN || rack.serves_others();
                if let (false, Some(node)) = (is_served, placement.home()) {
                    let node = rack.config().node.get(usize::from(node.0));
                    let name = node.map(|node| node.name.clone()).unwrap_or_default();
                    return Err(SequencerServiceError::NoProcess(name));
                }
                let entry = Entry {
                    user: user.to_owned(),
                    source: NodeSource::new(rack, number, placement, first)?,
                    given: Vec::new(),
                };
                made.insert(number, entry);
                self.changes.fetch_add(1, Ordering::Relaxed);
                return Ok(SequencerReply::Done);
            }
            SequencerRequest::Close => {
                if let Some(entry) = made.remove(&number) {
                    entry.source.close(rack);
                }
                self.changes.fetch_add(1, Ordering::Relaxed);
                return Ok(SequencerReply::Done);
            }
            _ => {}
        }
        let entry = made.get_mut(&number).ok_or(SequencerServiceError::Gone)?;
        match request {
            SequencerRequest::Accept => {
                let accepted = entry.source.accept(rack)?;
                if user != OWN {
                    entry.given.push((user.to_owned(), accepted));
                }
                return Ok(SequencerReply::Accepted(accepted));
            }
            SequencerRequest::Open(accepted) => entry.source.open(rack, &accepted)?,
            SequencerRequest::Release(accepted) => {
                entry.given.retain(|(_, given)| *given != accepted);
                entry.source.release(rack, &accepted);
            }
            SequencerRequest::Reserved => {
                return Ok(SequencerReply::Reserved(entry.source.reserved()));
            }
            SequencerRequest::Make(..) | SequencerRequest::Close => {}
        }
        Ok(SequencerReply::Done)
    }

    fn users(&self, users: &mut BTreeSet<String>) {
        for entry in self.made().values() {
            let given = entry.given.iter().map(|(user, _)| user);
            let all = given.chain([&entry.user]);
            users.extend(all.filter(|user| *user != OWN).cloned());
        }
    }

    fn forget(&self, rack: &Rack, user: &str) {
        self.remove(rack, |entry| entry.user == user);
        for entry in self.made().values_mut() {
            let given: Vec<_> = entry.given.extract_if(.., |(of, _)| of == user).collect();
            for (_, accepted) in given {
                entry.source.release(rack, &accepted);
            }
        }
    }

    fn remove_others(&self, rack: &Rack) {
        self.remove(rack, |entry| entry.user != OWN);
    }
}

impl SequencerAgent {
    fn made(&self) -> MutexGuard<'_, BTreeMap<u64, Entry>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remove(&self, rack: &Rack, mut which: impl FnMut(&Entry) -> bool) {
        let mut made = self.made();
        let all = core::mem::take(&mut *made).into_iter();
        let (removed, kept) = all.partition::<BTreeMap<_, _>, _>(|(_, it)| which(it));
        *made = kept;
        drop(made);
        for entry in removed.into_values() {
            entry.source.close(rack);
        }
        self.changes.fetch_add(1, Ordering::Relaxed);
    }

    /// The threads of a server that is here.
    pub fn threads(&self, number: u64) -> Vec<(Node, CounterServer)> {
        let made = self.made();
        made.get(&number)
            .map_or_else(Vec::new, |entry| entry.source.threads().to_vec())
    }

    /// The threads of all servers that other processes have made here.
    pub fn threads_of_others(&self) -> Vec<(Node, CounterServer)> {
        let made = self.made();
        let foreign = made.values().filter(|entry| entry.user != OWN);
        let threads = foreign.flat_map(|entry| entry.source.threads());
        threads.cloned().collect()
    }

    /// How often a sequencer has been made or removed.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }
}

impl NodeSource {
    fn new(rack: &Rack, number: u64, placement: SequencerPlacement, first: u64) -> Result<Self> {
        match placement {
            SequencerPlacement::Switch => Err(SequencerServiceError::Gone),
            SequencerPlacement::Memory(node) => {
                let word = on_node(rack, node, |verbs| {
                    Ok(SequencerWord::new(verbs, rack.memory(), first)?)
                })?;
                Ok(Self::Word(node, word))
            }
            SequencerPlacement::Server(spec) => serve(rack, &spec, number, first),
        }
    }

    fn threads(&self) -> &[(Node, CounterServer)] {
        match self {
            Self::Word(..) => &[],
            Self::Server { threads, .. } => threads,
        }
    }

    fn accept(&mut self, rack: &Rack) -> Result<Accepted> {
        match self {
            Self::Word(node, word) => {
                let node = *node;
                let qpn = on_node(rack, node, |verbs| Ok(word.accept(verbs)?))?;
                Ok(Accepted {
                    node,
                    qpn,
                    thread: 0,
                    place: Some(word.place()),
                })
            }
            Self::Server {
                threads, clients, ..
            } => {
                let thread = *clients % threads.len();
                *clients += 1;
                let qpn = at_server(rack, threads, thread, |rpc, verbs| Ok(rpc.accept(verbs)?))?;
                Ok(Accepted {
                    node: threads[thread].0.id(),
                    qpn,
                    thread,
                    place: None,
                })
            }
        }
    }

    fn open(&self, rack: &Rack, accepted: &Accepted) -> Result<()> {
        match self {
            Self::Word(..) => Ok(()),
            Self::Server { threads, .. } => {
                at_server(rack, threads, accepted.thread, |rpc, verbs| {
                    Ok(rpc.connected(verbs, accepted.qpn)?)
                })
            }
        }
    }

    /// Frees the resources of a client. A dead or restarted node has nothing left to free.
    fn release(&mut self, rack: &Rack, accepted: &Accepted) {
        match self {
            Self::Word(node, word) => {
                rack.on_node(*node, |verbs| word.remove(verbs, accepted.qpn));
            }
            Self::Server { threads, .. } => {
                let _gone = at_server(rack, threads, accepted.thread, |rpc, verbs| {
                    rpc.remove(verbs, accepted.qpn);
                    Ok(())
                });
            }
        }
    }

    fn reserved(&self) -> Option<u64> {
        match self {
            Self::Word(_, word) => Some(word.next()),
            Self::Server { counters, name, .. } => counters.at(*name),
        }
    }

    fn close(self, rack: &Rack) {
        match self {
            Self::Word(node, word) => {
                rack.on_node(node, |verbs| word.close(verbs));
            }
            Self::Server { threads, .. } => stop(rack, &threads),
        }
    }
}

/// Calls `act` with a thread of a server, which may have been stopped.
fn at_server<R>(
    rack: &Rack,
    threads: &[(Node, CounterServer)],
    thread: usize,
    act: impl FnOnce(&mut Server, &mut dyn Verbs) -> Result<R>,
) -> Result<R> {
    let (node, server) = threads.get(thread).ok_or(SequencerServiceError::Gone)?;
    on_node(rack, node.id(), |verbs| {
        let mut server = server.lock();
        let CounterThread { rpc, .. } = server.as_mut().ok_or(SequencerServiceError::Gone)?;
        act(rpc, verbs)
    })
}
