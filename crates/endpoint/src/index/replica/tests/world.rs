//! Two endpoints with two server threads and a replica each, clients, and a coordinator. Endpoints,
//! replicas, clients and the coordinator die, each is replaced, and every operation is recorded.

use super::users::Accepted;
use crate::btree::{Direction, Tree, TreeConfig};
use crate::index::map::{EndpointId, PartitionMap};
use crate::index::op::{Access, Answer, IndexError, Op, Ticket};
use crate::index::reader::RemoteTree;
use crate::index::replica::{Replica, ReplicaServer};
use crate::index::server::{IndexServer, ServerThread};
use crate::index::shard::Shard;
use crate::index::{Coordinator, CoordinatorEvent, IndexClient};
use crate::rpc::{self, ClientConfig, ServerConfig};
use crate::test_network::{Network, nic_config};
use rackweave_base::{Duration, Instant, Psn, Qpn, Rng};
use rackweave_sim::checkers::index_history::{
    IndexHistory, Operation, Outcome, PointId, ValueStamp, check_value, fill_value,
};
use rackweave_verbs::{
    Access as Rights, CqId, Mtu, PdId, Peer, QpModify, ReceiveSide, Region, SendSide, Verbs,
};
use std::collections::HashMap;
use std::sync::Arc;

pub const ENDPOINTS: [EndpointId; 2] = [EndpointId(0), EndpointId(1)];
/// All keys are below this.
pub const KEYS: u64 = 400;
pub const THREADS: usize = 2;
/// The node of the clients and of the coordinator.
pub const USERS: usize = 4;

fn server_config() -> ServerConfig {
    ServerConfig {
        clients_max: 8,
        receives: 8,
        payload_max: 900,
        send_buffers: 8,
        ..ServerConfig::new(7)
    }
}

pub fn client_config(window: u16) -> ClientConfig {
    ClientConfig {
        window,
        payload_max: 900,
        send_buffers: 8,
        timeout: Duration::ZERO,
        ..ClientConfig::default()
    }
}

fn tree(memory: &rackweave_base::Memory, name: u64, keys: u64, (low, last): (u64, u64)) -> Tree {
    let config = TreeConfig {
        tree: name,
        low,
        last,
        ..TreeConfig::for_keys(keys, 512, 24)
    };
    let block = memory.allocate(config.bytes() as usize).unwrap();
    Tree::create(block, &config).unwrap()
}

/// A process of an endpoint.
pub struct Endpoint {
    pub node: usize,
    pub shard: Arc<Shard>,
    pub threads: Vec<ServerThread>,
    pub pd: PdId,
    pub cq: CqId,
    pub remote: RemoteTree,
    regions: [Region; 2],
    /// Queue pairs of clients that read.
    pub readers: Vec<Qpn>,
}

/// A process of a replica.
pub struct Backup {
    pub node: usize,
    pub replica: Arc<Replica>,
    server: rpc::Server,
    service: ReplicaServer,
    pub is_awake: bool,
}

pub struct Client {
    pub name: u64,
    pub client: IndexClient,
    pub access: Access,
    /// What is pending, with its key.
    pub pending: HashMap<Ticket, (PointId, u64, Operation)>,
}

pub struct World {
    pub network: Network,
    pub rng: Rng,
    pub endpoints: [Option<Endpoint>; 2],
    pub backups: [Option<Backup>; 2],
    pub clients: Vec<Client>,
    pub coordinator: Option<Coordinator>,
    pub accepted: Vec<Accepted>,
    /// The coordinator's name.
    pub coordinates: u64,
    pub history: IndexHistory,
    pub ended: u64,
    pub moved: u64,
    /// Operations refused because a tree was full.
    pub full: u64,
    pub names: u64,
    stamps: u32,
    seed: u64,
}

pub fn connect(network: &mut Network, a: (usize, Qpn), b: (usize, Qpn)) {
    for ((node, qpn), (peer, peer_qpn)) in [(a, b), (b, a)] {
        let (nic, peer) = (&mut network.nics[node], nic_config(peer));
        let receive = ReceiveSide {
            peer: Peer {
                mac: peer.mac,
                ip: peer.ip,
                qpn: peer_qpn,
            },
            psn: Psn::new(5),
            mtu: Mtu::B1024,
            access: Rights::REMOTE_READ,
            reads_in_flight_max: 16,
            rnr_wait: Duration::from_micros(20),
        };
        let send = SendSide {
            psn: Psn::new(5),
            timeout: Duration::from_micros(100),
            retries: 7,
            rnr_retries: 6,
            reads_in_flight_max: 16,
        };
        nic.modify_qp(qpn, QpModify::Init).unwrap();
        nic.modify_qp(qpn, QpModify::ReadyToReceive(receive))
            .unwrap();
        nic.modify_qp(qpn, QpModify::ReadyToSend(send)).unwrap();
    }
}

impl World {
    /// Both endpoints have half of the keys, with values; nobody has a replica yet.
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let map = PartitionMap::split(&[KEYS / 2]).unwrap();
        let mut world = Self {
            network: Network::new(USERS + 1, rng.next_u64()),
            rng,
            endpoints: [None, None],
            backups: [None, None],
            clients: Vec::new(),
            coordinator: None,
            accepted: Vec::new(),
            coordinates: 0,
            history: IndexHistory::new(),
            ended: 0,
            moved: 0,
            full: 0,
            names: 0,
            stamps: 0,
            seed,
        };
        for id in ENDPOINTS {
            let part = map.part_of(id).unwrap();
            world.names += 1;
            let bounds = (part.low, part.last);
            let tree = tree(&world.network.memory, world.names, 2 * KEYS, bounds);
            for key in (part.low..=part.last.min(KEYS)).step_by(2) {
                let (stamp, value) = world.value(key);
                tree.put(key, &value).unwrap();
                world.history.load(key, stamp);
            }
            world.start(id, id.index(), tree, map.clone());
        }
        for access in [Access::Rpc, Access::OneSided, Access::OneSided] {
            world.join(access);
        }
        world
    }

    /// A value that was not written before.
    fn value(&mut self, key: u64) -> (ValueStamp, Vec<u8>) {
        self.stamps += 1;
        let stamp = ValueStamp::new(self.stamps);
        let mut value = vec![0; *self.rng.pick(&[8, 24])];
        fill_value(&mut value, key, stamp, self.seed);
        (stamp, value)
    }

    /// A tree for a replica, which is larger than that of an endpoint.
    pub fn tree(&self, name: u64, bounds: (u64, u64)) -> Tree {
        tree(&self.network.memory, name, 4 * KEYS, bounds)
    }

    /// Starts an endpoint with this tree.
    pub fn start(&mut self, id: EndpointId, node: usize, tree: Tree, map: PartitionMap) {
        let Network { nics, memory, .. } = &mut self.network;
        let nic = &mut nics[node];
        let shard = Arc::new(Shard::new(memory, id, tree, map).unwrap());
        let pd = nic.create_pd();
        let mut register = |block: &rackweave_base::Block| {
            nic.register(pd, block.clone(), Rights::REMOTE_READ)
                .unwrap()
        };
        let tree = register(shard.tree().block());
        let version = register(shard.version_block());
        let remote = shard.remote(&tree, &version);
        let threads = (0..THREADS).map(|_| ServerThread {
            rpc: rpc::Server::new(nic, memory, pd, server_config()).unwrap(),
            service: IndexServer::new(shard.clone()),
        });
        let threads = threads.collect();
        let cq = nic.create_cq(64).unwrap();
        self.endpoints[id.index()] = Some(Endpoint {
            node,
            shard,
            threads,
            pd,
            cq,
            remote,
            regions: [tree, version],
            readers: Vec::new(),
        });
    }

    /// Makes a replica of the next epoch for an endpoint at `node`.
    pub fn back_up(&mut self, id: EndpointId, node: usize, epoch: u64) {
        let at = id.index();
        self.end_backup(id);
        self.names += 1;
        let memory = self.network.memory.clone();
        let tree = self.tree(self.names, (0, u64::MAX));
        let replica = Arc::new(Replica::new(tree, epoch).unwrap());
        let pd = self.network.nics[node].create_pd();
        let nic = &mut self.network.nics[node];
        let mut server = rpc::Server::new(nic, &memory, pd, server_config()).unwrap();
        let Some(endpoint) = &mut self.endpoints[at] else {
            return;
        };
        for thread in &mut endpoint.threads {
            let nic = &mut self.network.nics[endpoint.node];
            let client = rpc::Client::new(nic, &memory, endpoint.pd, client_config(8)).unwrap();
            let qpn = client.qpn();
            let attached = thread
                .service
                .attach_replica(self.network.now, nic, epoch, client);
            attached.unwrap();
            let far = server.accept(&mut self.network.nics[node]).unwrap();
            connect(&mut self.network, (endpoint.node, qpn), (node, far));
        }
        endpoint.shard.replicate(epoch).unwrap();
        self.backups[at] = Some(Backup {
            node,
            service: ReplicaServer::new(replica.clone()),
            replica,
            server,
            is_awake: true,
        });
    }

    /// Ends the process of a replica.
    pub fn end_backup(&mut self, id: EndpointId) {
        if let Some(backup) = self.backups[id.index()].take() {
            backup.server.close(&mut self.network.nics[backup.node]);
        }
    }

    /// Ends the process of an endpoint, whose node becomes silent at once.
    pub fn kill(&mut self, id: EndpointId) {
        let mut endpoint = self.endpoints[id.index()].take().unwrap();
        let nic = &mut self.network.nics[endpoint.node];
        for thread in endpoint.threads.drain(..) {
            thread.rpc.close(nic);
            thread.service.close(nic);
        }
        for reader in endpoint.readers.drain(..) {
            let _ = nic.destroy_qp(reader);
        }
        for region in &endpoint.regions {
            nic.deregister(region);
        }
        self.accepted.retain(|accepted| accepted.endpoint != id);
    }

    /// Starts the replica of an endpoint that is dead in its place. The other endpoint learns of it
    /// as in any restart.
    pub fn promote(&mut self, id: EndpointId) {
        let other = self.endpoints[1 - id.index()].as_ref().unwrap();
        let map = other.shard.begin_restart(id).unwrap().with_restart(id);
        other.shard.end_restart(Some(&map)).unwrap();
        let backup = self.backups[id.index()].as_ref().unwrap();
        let (node, replica) = (backup.node, backup.replica.clone());
        let part = map.part_of(id).expect("nobody gives everything away");
        let tree = replica.promote(part.low, part.last).unwrap().unwrap();
        tree.check().unwrap();
        self.end_backup(id);
        self.start(id, node, tree, map);
    }

    /// Begins an operation of a random client, if it has any free.
    pub fn begin(&mut self) {
        let at = self.rng.below(self.clients.len() as u64) as usize;
        let keys = *self.rng.pick(&[20, KEYS]);
        let key = self.rng.below(keys) * KEYS / keys;
        let kind = self.rng.below(8);
        self.begin_at(at, key, kind);
    }

    /// Begins an operation of a client, if it has any free. `kind` is below 8.
    pub fn begin_at(&mut self, at: usize, key: u64, kind: u64) {
        let (stamp, value) = self.value(key);
        let value = &value[..];
        let (op, operation) = match kind {
            0 | 1 => (Op::Insert { key, value }, Operation::Insert(stamp)),
            2 => (Op::Update { key, value }, Operation::Update(stamp)),
            3 => (Op::Put { key, value }, Operation::Put(stamp)),
            4 | 5 => (Op::Delete { key }, Operation::Remove),
            _ => (Op::Get { key }, Operation::Get),
        };
        let client = &mut self.clients[at];
        if client.client.free() > 0 {
            let ticket = client.client.begin(&op).unwrap();
            let now = self.network.now;
            let point = self.history.begin(now, at as u32, key, operation);
            client.pending.insert(ticket, (point, key, operation));
        }
    }

    /// Polls everything in a random order, some of it not, and goes on to the next event.
    pub fn step(&mut self) {
        let now = self.network.now;
        let nics = &mut self.network.nics;
        for which in 0..4 {
            let at = which % 2;
            if which < 2
                && let Some(endpoint) = &mut self.endpoints[at]
            {
                for thread in &mut endpoint.threads {
                    if self.rng.chance(0.8) {
                        thread.poll(now, &mut nics[endpoint.node]);
                        while thread.rpc.poll_lost().is_some() {}
                    }
                }
            } else if let Some(backup) = &mut self.backups[at]
                && backup.is_awake
                && self.rng.chance(0.8)
            {
                let nic = &mut nics[backup.node];
                backup.server.poll(now, nic, &mut backup.service);
            }
        }
        if let Some(coordinator) = &mut self.coordinator {
            while let Some(event) = coordinator.poll(now, &mut nics[USERS]) {
                self.moved += u64::from(matches!(event, CoordinatorEvent::Moved(_)));
            }
        }
        self.poll_clients();
        let clients = self.clients.iter();
        let timers = clients.filter_map(|client| client.client.poll_timeout());
        let tick = now + Duration::from_micros(1);
        let timers = timers.filter(|at| *at > now).chain([tick]);
        self.network.advance(Instant::FAR_FUTURE, timers);
    }

    fn poll_clients(&mut self) {
        let now = self.network.now;
        for Client {
            client, pending, ..
        } in &mut self.clients
        {
            while let Some(reply) = client.poll(now, &mut self.network.nics[USERS]) {
                let (point, key, operation) = pending.remove(&reply.ticket).unwrap();
                let history = &mut self.history;
                match reply.result {
                    Ok(Answer::Value(value)) => {
                        let stamp = value.map(|value| check_value(&value, key, self.seed));
                        let found = Outcome::Found(stamp.map(Result::unwrap));
                        history.end(now, point, found);
                        self.ended += 1;
                    }
                    Ok(Answer::Found(there)) => {
                        let absent = matches!(operation, Operation::Insert(_) | Operation::Put(_));
                        history.end(now, point, Outcome::Done(there != absent));
                        self.ended += 1;
                    }
                    // It may take effect at any later time.
                    Err(IndexError::OutcomeUnknown(_)) => {}
                    Err(IndexError::Gone(_) | IndexError::Unsettled { .. }) => {
                        history.refused(point);
                    }
                    Err(IndexError::Full(_)) => {
                        history.refused(point);
                        self.full += 1;
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
    }

    /// The entries of a tree in a range.
    pub fn entries(tree: &Tree, low: u64, last: u64) -> Vec<(u64, Vec<u8>)> {
        let mut entries = Vec::new();
        tree.scan(low..=last, Direction::Forward, &mut |key, value| {
            entries.push((key, value.to_vec()));
            true
        });
        entries
    }

    /// Whether any operation is pending.
    pub fn is_busy(&self) -> bool {
        self.clients.iter().any(|client| !client.pending.is_empty())
    }
}
