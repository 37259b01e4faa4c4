//! Nodes with soft NICs that count resources, and the stream between two nodes.

use super::super::{Handshake, HandshakeError, Step};
use super::counting::{Counting, Held};
use crate::messaging::{Connection, MessagingConfig, NodeTerms, Role};
use rackweave_base::packet::Pool;
use rackweave_base::{Duration, Instant, KeyRng, MacAddr, Memory, Qpn, Rng};
use rackweave_nic::{Nic, NicConfig};
use rackweave_verbs::Mtu;
use rackweave_wire::fabric::message::handshake::{Keys, Message, Refusal, Terms};
use rackweave_wire::parse_bytes;
use std::collections::VecDeque;
use std::net::Ipv4Addr;

/// Time limit of a handshake.
pub const PATIENCE: Duration = Duration::from_secs(2);
pub const START: Instant = Instant::from_nanos(1_000_000);

/// A node.
pub struct RigNode {
    pub role: Role,
    pub verbs: Counting,
    pub memory: Memory,
    pub keys: KeyRng,
    pub config: MessagingConfig,
    pub terms: NodeTerms,
}

/// Small sizes that differ at both ends, with three channels up and two down.
pub fn config(role: Role) -> MessagingConfig {
    let (receive_buffers, receive_bytes) = match role {
        Role::Compute => (3, 2048),
        Role::Storage => (5, 1024),
    };
    MessagingConfig {
        receive_buffers,
        receive_bytes,
        message_max: 1 << 20,
        channels_up: 3,
        channels_down: 2,
        ..MessagingConfig::default()
    }
}

impl RigNode {
    pub fn new(role: Role, seed: u64) -> Self {
        Self::shaped(role, seed, |_| {}, |_| {}, 1 << 20)
    }

    /// A node with a modified configuration and NIC, and an arena of this many bytes.
    pub fn shaped(
        role: Role,
        seed: u64,
        change: impl FnOnce(&mut MessagingConfig),
        change_nic: impl FnOnce(&mut NicConfig),
        bytes: usize,
    ) -> Self {
        let number = match role {
            Role::Compute => 1,
            Role::Storage => 2,
        };
        let (ip, mac) = (
            Ipv4Addr::new(10, 0, 0, number),
            MacAddr([2, 0, 0, 0, 0, number]),
        );
        let mut nic = NicConfig::new(ip, mac);
        change_nic(&mut nic);
        let mut config = config(role);
        change(&mut config);
        config.check(role).expect("a test has sound nodes");
        let memory = Memory::new(bytes);
        let mut rng = Rng::new(seed);
        let nic = Nic::new(
            nic,
            memory.clone(),
            Pool::new(256),
            KeyRng::seeded(rng.fork("nic")),
        );
        Self {
            role,
            verbs: Counting {
                nic,
                held: Held::default(),
                modifies_left: u32::MAX,
            },
            memory,
            keys: KeyRng::seeded(rng),
            terms: NodeTerms::new(&config, 7, ip, mac, Mtu::B1024),
            config,
        }
    }

    pub fn machine(&self) -> Handshake {
        let config = self.config.clone();
        Handshake::new(START, self.role, config, self.terms, START + PATIENCE)
    }

    /// Whether no resource of a connection is left.
    pub fn holds_nothing(&self) -> bool {
        self.verbs.held == Held::default()
    }
}

/// A machine, its node, the bytes it has sent and its result.
pub struct Side {
    pub machine: Handshake,
    pub node: RigNode,
    pub sent: VecDeque<u8>,
    pub end: Option<Result<Connection, HandshakeError>>,
}

impl Side {
    pub fn new(node: RigNode) -> Self {
        Self {
            machine: node.machine(),
            node,
            sent: VecDeque::new(),
            end: None,
        }
    }

    /// Polls it once and takes what it sends.
    pub fn act(&mut self, now: Instant) {
        let RigNode {
            verbs,
            memory,
            keys,
            ..
        } = &mut self.node;
        match self.machine.poll(now, verbs, memory, keys) {
            Step::Waiting => {}
            Step::Connected(connection) => {
                assert!(self.end.is_none(), "it ends once");
                self.end = Some(Ok(connection));
            }
            Step::Failed(error) => {
                assert!(self.end.is_none(), "it ends once");
                assert!(self.node.holds_nothing(), "{error} left something behind");
                self.end = Some(Err(error));
            }
        }
        self.sent
            .extend(self.machine.poll_send().unwrap_or_default());
        assert_eq!(self.end.is_some(), self.machine.poll_timeout().is_none());
    }

    /// Passes bytes to it, and polls it.
    pub fn hear(&mut self, now: Instant, bytes: &[u8]) {
        self.machine.handle_bytes(now, bytes);
        self.act(now);
    }

    /// All that it has sent, as messages.
    pub fn messages(&mut self) -> Vec<Message> {
        let bytes: Vec<u8> = self.sent.drain(..).collect();
        let (mut rest, mut messages) = (&bytes[..], Vec::new());
        while !rest.is_empty() {
            let (message, len) = Message::take(rest).expect("sound").expect("whole");
            messages.push(message);
            rest = &rest[len..];
        }
        messages
    }

    pub fn is_connected(&self) -> bool {
        matches!(self.end, Some(Ok(_)))
    }

    /// Why it failed.
    pub fn error(&self) -> &HandshakeError {
        match &self.end {
            Some(Err(error)) => error,
            Some(Ok(_)) => panic!("it is connected"),
            None => panic!("it is not over"),
        }
    }

    /// The refusal that it has sent, and nothing else.
    pub fn refusal(&mut self) -> Refusal {
        match &self.messages()[..] {
            [Message::Refuse { refusal, .. }] => refusal.clone(),
            other => panic!("it should have sent a Refuse alone, not {other:?}"),
        }
    }
}

/// Two nodes at the start.
pub struct Pair {
    pub compute: Side,
    pub storage: Side,
}

impl Pair {
    pub fn new(seed: u64) -> Self {
        Self::of(
            RigNode::new(Role::Compute, seed),
            RigNode::new(Role::Storage, seed + 1),
        )
    }

    pub fn of(compute: RigNode, storage: RigNode) -> Self {
        Self {
            compute: Side::new(compute),
            storage: Side::new(storage),
        }
    }

    pub fn act(&mut self, now: Instant) {
        self.compute.act(now);
        self.storage.act(now);
    }

    /// Runs until nothing changes any more; everything sent is delivered completely.
    pub fn settle(&mut self) {
        loop {
            self.act(START);
            let up: Vec<u8> = self.compute.sent.drain(..).collect();
            let down: Vec<u8> = self.storage.sent.drain(..).collect();
            if up.is_empty() && down.is_empty() {
                return;
            }
            self.storage.hear(START, &up);
            self.compute.hear(START, &down);
        }
    }

    /// Releases connected ends; then nothing may be left.
    pub fn clear(&mut self) {
        fn clear(side: &mut Side) {
            if let Some(Ok(connection)) = side.end.take() {
                connection.destroy(&mut side.node.verbs);
            }
            assert!(side.node.holds_nothing(), "{:?}", side.node.verbs.held);
        }
        clear(&mut self.compute);
        clear(&mut self.storage);
    }

    /// Sends a message on every channel and checks that it arrives at the right end.
    pub fn check_traffic(&mut self) {
        let Self { compute, storage } = self;
        let mut connections = [compute.end.take(), storage.end.take()]
            .map(|end| end.expect("it is over").expect("it is connected"));
        let memories = [&compute.node.memory, &storage.node.memory];
        let verbs = [&mut compute.node.verbs, &mut storage.node.verbs];
        let lens = connections
            .each_ref()
            .map(|side| (side.senders.len(), side.receivers.len()));
        assert_eq!(lens, [(3, 2), (2, 3)]);
        for (side, connection) in connections.iter_mut().enumerate() {
            for (channel, sender) in connection.senders.iter_mut().enumerate() {
                let opcode = (10 * side + channel) as u32;
                assert_eq!(sender.try_send(opcode, &[side as u8; 100]), Ok(true));
            }
        }
        for _ in 0..50 {
            for side in 0..2 {
                let polled = connections[side].poll(START, &mut *verbs[side]);
                assert!(polled.is_ok(), "{polled:?}");
                while let Some(packet) = verbs[side].nic.poll_transmit(START) {
                    // The nodes have separate arenas: packets between them carry bytes.
                    let mut bytes = Vec::new();
                    assert!(packet.serialise(memories[side], &mut bytes));
                    let packet = parse_bytes(&bytes).expect("what a NIC sends is well-formed");
                    verbs[1 - side].nic.handle_packet(START, packet);
                }
            }
        }
        for (side, connection) in connections.iter_mut().enumerate() {
            for (channel, receiver) in connection.receivers.iter_mut().enumerate() {
                let mut bytes = Vec::new();
                let info = receiver.receive_into(&mut bytes);
                let opcode = info.expect("open").expect("it has arrived").opcode;
                assert_eq!(opcode, (10 * (1 - side) + channel) as u32);
                assert_eq!(bytes, [(1 - side) as u8; 100]);
            }
        }
        let [at_compute, at_storage] = connections;
        compute.end = Some(Ok(at_compute));
        storage.end = Some(Ok(at_storage));
    }
}

/// A greeter without a peer that has received a valid Hello; its Offer is taken from its output.
pub fn greeted(mut storage: Side) -> Side {
    storage.hear(START, &hello(|_| {}));
    assert!(matches!(storage.messages()[..], [Message::Offer(_)]));
    storage
}

/// A greeter at the start.
pub fn greeter() -> Side {
    let node = RigNode::new(Role::Storage, 2);
    Side::new(node)
}

/// A dialer that has sent a Hello.
pub fn dialer() -> Side {
    let node = RigNode::new(Role::Compute, 1);
    let mut side = Side::new(node);
    side.act(START);
    assert!(matches!(side.messages()[..], [Message::Hello { .. }]));
    side
}

/// The terms of a node, changed.
pub fn terms(role: Role, change: impl FnOnce(&mut Terms)) -> Terms {
    let mut terms = super::super::keys::terms_to_wire(&RigNode::new(role, 0).terms);
    change(&mut terms);
    terms
}

/// The Hello of a compute node, its terms changed.
pub fn hello(change: impl FnOnce(&mut Terms)) -> Vec<u8> {
    Message::hello(terms(Role::Compute, change)).emit()
}

/// The Offer of a storage node, its terms changed.
pub fn offer(change: impl FnOnce(&mut Terms)) -> Vec<u8> {
    Message::Offer(terms(Role::Storage, change)).emit()
}

/// Valid keys for five channels, changed.
pub fn keys(change: impl FnOnce(&mut Keys)) -> Keys {
    use rackweave_base::{Psn, Rkey};
    use rackweave_wire::fabric::message::handshake::{QueuePair, WriteTarget};
    let place = |address| WriteTarget {
        address,
        rkey: Rkey(9),
    };
    let pair = |number| QueuePair {
        qpn: Qpn(100 + number),
        psn: Psn::new(number),
    };
    let mut keys = Keys {
        queue_pairs: (0..5).map(pair).collect(),
        buffer_info: place(1 << 20),
        receive: place(1 << 21),
    };
    change(&mut keys);
    keys
}
