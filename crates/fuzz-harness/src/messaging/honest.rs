//! A connection between the victim's node and a peer that follows the protocol.

use super::network::{HONEST, Network, VICTIM, terms};
use rackweave_base::{Duration, KeyRng, Rng};
use rackweave_endpoint::messaging::{
    Agreed, Connection, MessagingConfig, NodeKeys, Prepared, Role,
};
use std::collections::VecDeque;

/// Maximum rounds until all messages must have arrived.
const ROUNDS_MAX: usize = 1_000;
/// Maximum messages in flight each way.
const MESSAGES_MAX: usize = 8;

pub struct Honest {
    /// At the victim's node, then at the peer's.
    connections: [Connection; 2],
    /// The keys that the victim's node has sent to its peer.
    pub keys: NodeKeys,
    /// Messages in flight from each node.
    sent: [VecDeque<Vec<u8>>; 2],
    number: u32,
}

impl Honest {
    pub fn new(network: &mut Network) -> Self {
        let config = MessagingConfig {
            receive_buffers: 2,
            receive_bytes: 1024,
            message_max: 10_000,
            keepalive: Duration::from_millis(1),
            ..MessagingConfig::default()
        };
        let mut keys = KeyRng::seeded(Rng::new(3));
        let mut prepare = |node: usize, peer: usize, role: Role| {
            let (mine, theirs) = (terms(node, &config), terms(peer, &config));
            let agreed = Agreed::new(role, mine, theirs).expect("they are alike");
            let nic = &mut network.nics[node];
            Prepared::new(nic, &network.memory, &config, &agreed, &mut keys).expect("capacity")
        };
        let storage = prepare(VICTIM, HONEST, Role::Storage);
        let compute = prepare(HONEST, VICTIM, Role::Compute);
        let (keys, theirs) = (storage.keys(), compute.keys());
        let now = network.now;
        let storage = storage.connect(now, &mut network.nics[VICTIM], &theirs);
        let compute = compute.connect(now, &mut network.nics[HONEST], &keys);
        Self {
            connections: [storage, compute].map(|one| one.expect("sound keys")),
            keys,
            sent: [VecDeque::new(), VecDeque::new()],
            number: 0,
        }
    }

    /// Sends a message from one of the nodes, if a buffer is free.
    pub fn send(&mut self, from: usize, length: usize) {
        let sender = &mut self.connections[from].senders[0];
        if self.sent[from].len() == MESSAGES_MAX {
            return;
        }
        self.number += 1;
        let number = self.number;
        let message: Vec<u8> = (0..length).map(|at| (at as u32 + number) as u8).collect();
        let length = length.min(sender.piece_max());
        let sent = sender.try_send(number, &message[..length]);
        if sent.expect("it is open") {
            self.sent[from].push_back(message[..length].to_vec());
        }
    }

    pub fn poll(&mut self, network: &mut Network) {
        for (connection, node) in self.connections.iter_mut().zip([VICTIM, HONEST]) {
            connection
                .poll(network.now, &mut network.nics[node])
                .expect("an honest connection stays open");
        }
        network.settle();
    }

    /// Receives what has arrived, which must be what was sent, in order.
    pub fn receive(&mut self) {
        for from in 0..2 {
            let receiver = &mut self.connections[1 - from].receivers[0];
            let mut message = Vec::new();
            while receiver
                .receive_into(&mut message)
                .expect("an honest connection stays open")
                .is_some()
            {
                let sent = self.sent[from].pop_front();
                assert_eq!(sent.as_ref(), Some(&message), "an honest message");
                message.clear();
            }
        }
    }

    /// Runs until everything that was sent has arrived.
    pub fn finish(&mut self, network: &mut Network) {
        for _ in 0..ROUNDS_MAX {
            self.poll(network);
            self.receive();
            if self.sent.iter().all(VecDeque::is_empty) {
                return;
            }
        }
        panic!("honest messages do not arrive");
    }

    pub fn timers(&self) -> impl Iterator<Item = rackweave_base::Instant> {
        self.connections.iter().filter_map(Connection::poll_timeout)
    }

    pub fn destroy(self, network: &mut Network) {
        for (connection, node) in self.connections.into_iter().zip([VICTIM, HONEST]) {
            connection.destroy(&mut network.nics[node]);
        }
    }
}
