//! A compute node (node 0) and a storage node (node 1) with a connection.

use crate::messaging::{
    Agreed, Arrived, Closed, Connection, MessageInfo, MessagingConfig, NodeKeys, NodeTerms,
    Prepared, Receiver, Role, Sender,
};
use crate::test_network::{Network, nic_config};
use rackweave_base::{Duration, KeyRng, Rng};
use rackweave_verbs::Mtu;

/// The number of the compute node.
pub const COMPUTE: usize = 0;
/// The number of the storage node.
pub const STORAGE: usize = 1;

pub struct Rig {
    pub network: Network,
    /// By node.
    pub nodes: [Connection; 2],
    /// Of both ends, by node.
    pub keys: [NodeKeys; 2],
}

/// Small buffers, so that limits are reached early.
pub fn small() -> MessagingConfig {
    MessagingConfig {
        receive_buffers: 3,
        receive_bytes: 1024,
        message_max: 100_000,
        keepalive: Duration::from_millis(5),
        timeout: Duration::from_micros(200),
        ..MessagingConfig::default()
    }
}

pub fn terms(node: usize, config: &MessagingConfig) -> NodeTerms {
    let nic = nic_config(node);
    NodeTerms::new(config, 7, nic.ip, nic.mac, Mtu::B1024)
}

impl Rig {
    /// Both nodes with the same configuration.
    pub fn new(config: &MessagingConfig) -> Self {
        Self::of(config, config, 1)
    }

    pub fn of(compute: &MessagingConfig, storage: &MessagingConfig, seed: u64) -> Self {
        let mut network = Network::new(2, seed);
        let roles = [Role::Compute, Role::Storage];
        let configs = [compute, storage];
        for (config, role) in configs.iter().zip(roles) {
            config.check(role).unwrap();
        }
        let terms = [terms(COMPUTE, compute), terms(STORAGE, storage)];
        let mut rng = KeyRng::seeded(Rng::new(seed).fork("keys"));
        let mut prepare = |node: usize| {
            let agreed = Agreed::new(roles[node], terms[node], terms[1 - node]).unwrap();
            let nic = &mut network.nics[node];
            Prepared::new(nic, &network.memory, configs[node], &agreed, &mut rng).unwrap()
        };
        let prepared = [prepare(COMPUTE), prepare(STORAGE)];
        let keys = [prepared[0].keys(), prepared[1].keys()];
        let mut node = 0;
        let nodes = prepared.map(|prepared| {
            let (nic, theirs) = (&mut network.nics[node], &keys[1 - node]);
            node += 1;
            prepared.connect(network.now, nic, theirs).unwrap()
        });
        Self {
            network,
            nodes,
            keys,
        }
    }

    /// The compute node's sender of a channel.
    pub fn sender(&mut self) -> &mut Sender {
        &mut self.nodes[COMPUTE].senders[0]
    }

    /// The storage node's receiver of that channel.
    pub fn receiver(&mut self) -> &mut Receiver {
        &mut self.nodes[STORAGE].receivers[0]
    }

    /// Polls both nodes and executes one event. False if there is none before `limit`.
    pub fn step(&mut self, limit: Duration) -> bool {
        self.poll();
        let timers = self.nodes.iter().filter_map(Connection::poll_timeout);
        let limit = self.network.now + limit;
        self.network.advance(limit, timers)
    }

    pub fn poll(&mut self) {
        for (connection, nic) in self.nodes.iter_mut().zip(&mut self.network.nics) {
            // Callers check for themselves whether it is closed.
            let _ = connection.poll(self.network.now, nic);
        }
    }

    /// Runs for the given time.
    pub fn run(&mut self, time: Duration) {
        let end = self.network.now + time;
        while self.network.now < end && self.step(end.since(self.network.now)) {}
        self.network.now = self.network.now.max(end);
        self.poll();
    }

    /// Has the compute node send a message of any length, and receives at the storage node what
    /// arrives meanwhile.
    pub fn carry(&mut self, opcode: u32, payload: &[u8]) -> (MessageInfo, Vec<u8>) {
        self.sender().begin(opcode, payload.len() as u64).unwrap();
        let (mut written, mut target) = (0, Vec::new());
        for _ in 0..1_000_000 {
            written += self.sender().write(&payload[written..]);
            if let Some(info) = self.receiver().receive_into(&mut target).unwrap() {
                return (info, target);
            }
            self.step(Duration::from_secs(1));
        }
        panic!(
            "{written} of {} bytes written, the message not whole",
            payload.len()
        );
    }

    /// Sends small messages until there is no space.
    pub fn fill(&mut self, payload: &[u8]) -> usize {
        let mut sent = 0;
        while self.sender().try_send(sent as u32, payload).unwrap() {
            sent += 1;
            let now = self.network.now;
            let nic = &mut self.network.nics[COMPUTE];
            self.nodes[COMPUTE].senders[0].poll(now, nic).unwrap();
        }
        sent
    }

    /// Copies out all messages that have arrived.
    pub fn take_all(&mut self) -> Vec<(u32, Vec<u8>)> {
        let mut all = Vec::new();
        loop {
            let mut target = Vec::new();
            match self.receiver().receive_into(&mut target).unwrap() {
                Some(info) => all.push((info.opcode, target)),
                None => return all,
            }
        }
    }

    /// Why the connection is closed, according to both ends.
    pub fn closed(&mut self) -> [Option<Closed>; 2] {
        [self.nodes[0].closed(), self.nodes[1].closed()]
    }

    /// Both nodes release everything; nothing may be left at the NICs or in memory.
    pub fn destroy(self) {
        let Self {
            mut network, nodes, ..
        } = self;
        for (connection, nic) in nodes.into_iter().zip(&mut network.nics) {
            connection.destroy(nic);
        }
        assert_eq!(network.memory.bytes_in_use(), 0, "a region is left");
    }
}

/// Pseudo-random bytes determined by `seed`.
pub fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    (0..len).map(|_| rng.next_u32() as u8).collect()
}

/// The current piece.
pub fn piece_bytes(receiver: &mut Receiver) -> Option<Vec<u8>> {
    match receiver.peek().unwrap() {
        Arrived::Piece(piece) => Some(piece.bytes.to_vec()),
        _ => None,
    }
}
