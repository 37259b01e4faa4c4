//! A running endpoint: shard, regions, server threads, and the queue pairs of its users.

mod backup;

use super::agent::{EndpointStart, name_of};
use super::set_up::on_node;
use super::{IndexEndpointSpec, IndexSetUpError, SharedDatagramServer, SharedServer};
use crate::Rack;
use backup::Backups;
use rackweave_base::{NodeId, Qpn};
use rackweave_endpoint::ResourceError;
use rackweave_endpoint::btree::{Tree, TreeConfig};
use rackweave_endpoint::index::{
    DatagramServer, DatagramServerConfig, EndpointId, IndexServer, RemoteTree, ServerThread, Shard,
};
use rackweave_endpoint::rpc::{Server, ServerConfig};
use rackweave_verbs::{Access, CqId, PdId, QpCapabilities, Region, Verbs};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The purpose of a user's connection to an endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Purpose {
    /// Requests.
    Requests,
    /// Requests, and READs of the tree.
    Reads,
    /// The same, and switches may lead the READs.
    LedReads,
    /// Moving keys.
    Coordination,
}

/// An endpoint's resources for one user.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Accepted {
    /// The node that has the queue pairs.
    pub node: NodeId,
    /// For requests.
    pub rpc: Qpn,
    /// For READs.
    pub reader: Option<Qpn>,
    /// Whether switches may lead READs on it.
    pub is_led: bool,
    /// The location of the tree, reached through that node.
    pub remote: RemoteTree,
    /// The start of the endpoint that it belongs to.
    start: u64,
    thread: u16,
}

/// A NIC that reaches the endpoint's memory.
#[derive(Debug)]
struct Port {
    node: NodeId,
    pd: PdId,
    /// The completion queue of queue pairs that only answer READs.
    cq: CqId,
    regions: [Region; 2],
    remote: RemoteTree,
    /// Queue pairs for READs, and whether switches may lead them.
    readers: Vec<(Qpn, bool)>,
}

/// A running endpoint.
#[derive(Debug)]
pub(super) struct Running {
    pub shard: Arc<Shard>,
    pub datagrams: Vec<SharedDatagramServer>,
    ports: Vec<Port>,
    threads: Vec<SharedServer>,
    /// The number of this start among all starts of endpoints of this index.
    start: u64,
    /// Clients accepted so far.
    clients: usize,
    /// Bytes of the longest request.
    payload_max: u32,
    /// Queue pairs to a replica that is not in use yet.
    backups: Option<Backups>,
    /// The incarnation of its node when it started.
    incarnation: u64,
}

impl Running {
    /// Makes the shard and server threads of an endpoint, with an existing tree or an empty one.
    pub fn start(
        rack: &Rack,
        how: &EndpointStart,
        endpoint: EndpointId,
        tree: Option<Tree>,
    ) -> Result<Self, IndexSetUpError> {
        let (spec, map, start) = (&how.spec, &how.map, how.start);
        if spec.threads == 0 {
            return Err(IndexSetUpError::NoThreads(endpoint));
        }
        let memory = rack.memory();
        let name = name_of(endpoint, start);
        let tree = match tree {
            Some(tree) => tree,
            None => new_tree(
                rack,
                spec,
                map.part_of(endpoint).map(|p| (p.low, p.last)),
                name,
            )?,
        };
        let mut running = Self {
            shard: Arc::new(Shard::new(memory, endpoint, tree, map.clone())?),
            datagrams: Vec::new(),
            ports: Vec::new(),
            threads: Vec::new(),
            start,
            clients: 0,
            payload_max: spec.server.payload_max,
            backups: None,
            incarnation: rack.backend().incarnation(spec.node),
        };
        let made = running.make(rack, spec, how.datagrams, name);
        match made {
            Ok(()) => Ok(running),
            Err(error) => {
                running.stop(rack);
                Err(error)
            }
        }
    }

    fn make(
        &mut self,
        rack: &Rack,
        spec: &IndexEndpointSpec,
        datagrams: Option<DatagramServerConfig>,
        name: u64,
    ) -> Result<(), IndexSetUpError> {
        let memory = rack.memory();
        for at in 0..spec.ports.max(1) {
            let (node, shard) = (NodeId(spec.node.0 + at), &self.shard);
            let make = |verbs: &mut dyn Verbs| -> Result<Port, ResourceError> {
                let pd = verbs.create_pd();
                let tree = verbs.register(pd, shard.tree().block().clone(), Access::REMOTE_READ)?;
                let version = shard.version_block().clone();
                let version = verbs.register(pd, version, Access::REMOTE_READ)?;
                Ok(Port {
                    node,
                    pd,
                    cq: verbs.create_cq(1)?,
                    remote: shard.remote(&tree, &version),
                    regions: [tree, version],
                    readers: Vec::new(),
                })
            };
            let port = on_node(rack, node, |verbs| Ok(make(verbs)?))?;
            self.ports.push(port);
        }
        for at in 0..spec.threads {
            let config = ServerConfig {
                incarnation: (name << 8) | (u64::from(at) + 1),
                ..spec.server
            };
            let port = self.port_of(at);
            let (node, pd) = (port.node, port.pd);
            let rpc = on_node(rack, node, |verbs| {
                Ok(Server::new(verbs, memory, pd, config)?)
            })?;
            let service = IndexServer::new(self.shard.clone());
            self.threads
                .push(SharedServer::new(ServerThread { rpc, service }));
        }
        if let Some(config) = datagrams {
            let incarnation = name << 8;
            let config = DatagramServerConfig {
                incarnation,
                ..config
            };
            let first = DatagramServer::new(self.shard.clone(), config);
            on_node(rack, spec.node, |verbs| match verbs.datagrams() {
                Some(datagrams) => Ok(first.bind(datagrams)?),
                None => Err(IndexSetUpError::NoDatagrams),
            })?;
            let others = (1..spec.threads).map(|_| first.sibling());
            let others: Vec<_> = others.collect();
            let all = core::iter::once(first).chain(others);
            self.datagrams = all.map(SharedDatagramServer::new).collect();
        }
        Ok(())
    }

    fn port_of(&self, thread: u16) -> &Port {
        &self.ports[usize::from(thread) % self.ports.len()]
    }

    /// The incarnation of its node when it started.
    pub fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// Whether its node was not declared dead since it started.
    pub fn is_member(&self, rack: &Rack) -> bool {
        rack.backend().incarnation(self.node()) == self.incarnation
    }

    /// Its first node.
    pub fn node(&self) -> NodeId {
        self.ports[0].node
    }

    /// The location of the tree, reached through that node.
    pub fn remote(&self) -> RemoteTree {
        self.ports[0].remote
    }

    /// Its server threads, with their nodes.
    pub fn servers(
        &self,
        endpoint: EndpointId,
    ) -> impl Iterator<Item = (EndpointId, NodeId, &SharedServer)> {
        let threads = self.threads.iter().zip(0..);
        threads.map(move |(server, at)| (endpoint, self.port_of(at).node, server))
    }

    /// Queue pairs by which switches may lead READs.
    pub fn led(&self) -> impl Iterator<Item = Qpn> {
        let readers = self.ports[0].readers.iter();
        readers.filter(|(_, is_led)| *is_led).map(|(qpn, _)| *qpn)
    }

    /// Whether a queue pair is one for READs.
    pub fn has_reader(&self, qpn: Qpn) -> bool {
        let mut readers = self.ports.iter().flat_map(|port| &port.readers);
        readers.any(|(reader, _)| *reader == qpn)
    }

    /// The server thread of the next client: threads with capacity are used in turn. All
    /// coordinators use the first.
    fn next_thread(&self, purpose: Purpose) -> u16 {
        let count = self.threads.len();
        if purpose == Purpose::Coordination {
            return 0;
        }
        let has_room = |at: &usize| {
            let thread = self.threads[*at].lock();
            let rpc = thread.as_ref().map(|thread| &thread.rpc);
            rpc.is_some_and(|rpc| rpc.clients() < usize::from(rpc.config().clients_max))
        };
        let next = self.clients % count;
        let mut all = (next..count).chain(0..next);
        all.find(has_room).unwrap_or(next) as u16
    }

    /// Makes queue pairs for another user.
    pub fn accept(
        &mut self,
        rack: &Rack,
        endpoint: EndpointId,
        purpose: Purpose,
    ) -> Result<Accepted, IndexSetUpError> {
        let thread = self.next_thread(purpose);
        let at = usize::from(thread) % self.ports.len();
        let (server, port) = (&self.threads[usize::from(thread)], &mut self.ports[at]);
        let is_led = purpose == Purpose::LedReads;
        let wants_reads = is_led || purpose == Purpose::Reads;
        let accepted = on_node(rack, port.node, |verbs| {
            let mut server = server.lock();
            let server = server.as_mut();
            let rpc = &mut server.ok_or(IndexSetUpError::NoEndpoint(endpoint))?.rpc;
            let call = rpc.accept(verbs)?;
            if !wants_reads {
                return Ok((call, None));
            }
            let capabilities = QpCapabilities {
                send_max: 1,
                receive_max: 1,
                segments_max: 1,
            };
            match verbs.create_qp(port.pd, port.cq, port.cq, capabilities) {
                Ok(reader) => Ok((call, Some(reader))),
                Err(error) => {
                    rpc.remove(verbs, call);
                    Err(ResourceError::from(error).into())
                }
            }
        });
        let (rpc, reader) = accepted?;
        port.readers.extend(reader.map(|reader| (reader, is_led)));
        self.clients += usize::from(purpose != Purpose::Coordination);
        Ok(Accepted {
            node: port.node,
            rpc,
            reader,
            is_led,
            remote: port.remote,
            start: self.start,
            thread,
        })
    }

    /// Has a server accept requests of a user before the first one can arrive, however late the
    /// server is polled next.
    pub fn open(
        &self,
        rack: &Rack,
        endpoint: EndpointId,
        accepted: &Accepted,
    ) -> Result<(), IndexSetUpError> {
        let thread = self.threads.get(usize::from(accepted.thread));
        let thread = thread.filter(|_| self.is_of_this_start(accepted));
        let gone = IndexSetUpError::NoEndpoint(endpoint);
        let thread = thread.ok_or(gone.clone())?;
        on_node(rack, accepted.node, |verbs| {
            let mut thread = thread.lock();
            let thread = thread.as_mut().ok_or(gone)?;
            Ok(thread.rpc.connected(verbs, accepted.rpc)?)
        })
    }

    /// Whether a user was accepted since the last start. Earlier users are forgotten already.
    pub fn is_of_this_start(&self, accepted: &Accepted) -> bool {
        accepted.start == self.start
    }

    /// Frees the resources of a user of this start.
    pub fn release(&mut self, rack: &Rack, accepted: &Accepted) {
        let thread = self.threads.get(usize::from(accepted.thread));
        let port = usize::from(accepted.thread) % self.ports.len();
        let Some(thread) = thread else {
            return;
        };
        let readers = &mut self.ports[port].readers;
        let before = readers.len();
        readers.retain(|(qpn, _)| Some(*qpn) != accepted.reader);
        let was_there = readers.len() < before;
        // A dead or restarted node has nothing left to free.
        rack.on_node(accepted.node, |verbs| {
            if let Some(thread) = thread.lock().as_mut() {
                thread.rpc.remove(verbs, accepted.rpc);
            }
            if let Some(reader) = accepted.reader.filter(|_| was_there) {
                let _ = verbs.destroy_qp(reader);
            }
        });
    }

    /// Frees its resources at NICs. A dead node has nothing left to free, but its threads end. Its
    /// memory is freed when the last holder of the shard drops it.
    pub fn stop(mut self, rack: &Rack) {
        self.drop_backups(rack);
        for (at, thread) in (0..).zip(&self.threads) {
            let thread = thread.lock().take();
            if let Some(thread) = thread {
                rack.on_node(self.port_of(at).node, |verbs| thread.close(verbs));
            }
        }
        let datagrams: Vec<_> = self.datagrams.iter().map(|one| one.lock().take()).collect();
        let mut datagrams = datagrams.into_iter().flatten().peekable();
        for port in &self.ports {
            rack.on_node(port.node, |verbs| {
                if let (Some(first), Some(bound)) = (datagrams.peek(), verbs.datagrams()) {
                    first.unbind(bound);
                }
                // All of them are at the first port.
                for server in datagrams.by_ref() {
                    server.close(verbs);
                }
                for (qpn, _) in &port.readers {
                    // A NIC that has lost it needs no action.
                    let _ = verbs.destroy_qp(*qpn);
                }
                let _ = verbs.destroy_cq(port.cq);
                for region in &port.regions {
                    verbs.deregister(region);
                }
            });
        }
    }
}

/// An empty tree for the keys `low..=last` of an endpoint. If it has no keys, the bounds are
/// arbitrary.
pub(super) fn new_tree(
    rack: &Rack,
    spec: &IndexEndpointSpec,
    bounds: Option<(u64, u64)>,
    name: u64,
) -> Result<Tree, IndexSetUpError> {
    let (low, last) = bounds.unwrap_or((0, 0));
    let config = TreeConfig {
        tree: name,
        low,
        last,
        ..spec.tree
    };
    let len = usize::try_from(config.bytes()).unwrap_or(usize::MAX);
    let block = rack.memory().allocate(len).map_err(ResourceError::from)?;
    Ok(Tree::create(block, &config)?)
}
