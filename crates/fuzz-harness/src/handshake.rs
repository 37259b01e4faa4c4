//! The messaging handshake with arbitrary bytes, in arbitrary pieces.

use crate::fixture::{self, Host, Seeds};
use rackweave_base::{Block, Duration, Instant, KeyRng, Memory, Psn, Qpn, Rkey, Rng};
use rackweave_endpoint::messaging::handshake::{Handshake, Step, terms_to_wire};
use rackweave_endpoint::messaging::{MessagingConfig, NodeTerms, Role};
use rackweave_nic::{Nic, NicConfig};
use rackweave_verbs::{Access, Mtu, QpCapabilities, Verbs};
use rackweave_wire::fabric::message::handshake::{
    Keys, Message, QueuePair, Refusal, RefusalCode, Terms, VERSION, WriteTarget,
};

/// The capacity of the NIC: one connection with a channel each way.
const REGIONS: u32 = 3;
const QUEUE_PAIRS: u32 = 2;

const START: Instant = Instant::from_nanos(1);
const END: Instant = Instant::from_nanos(1_000_000_001);

/// Bit 0 of the first byte: which node listens. Bit 1: the peer has begun correctly. Then pieces: a
/// byte with the length, and this many bytes; length zero is the end of the stream.
///
/// # Panics
/// If the parser or a state machine is wrong.
pub fn handshake(data: &[u8]) {
    let Some((&choice, mut data)) = data.split_first() else {
        return;
    };
    // After the length of the first piece.
    one_message(data.get(1..).unwrap_or_default());
    let mut node = VictimNode::new();
    let mut machine = Machine::new(choice & 1 == 0);
    if choice & 2 != 0 {
        machine.hear(&mut node, &machine.beginning());
    }
    while let Some((&len, rest)) = data.split_first() {
        let (piece, rest) = rest.split_at(usize::from(len).min(rest.len()));
        data = rest;
        if len == 0 {
            machine.end();
        }
        machine.hear(&mut node, piece);
    }
    machine.act(&mut node, END);
    assert!(machine.over, "every handshake ends");
    node.check_empty();
}

/// An accepted message is unchanged when it is written again, except for extensions of a newer
/// node.
fn one_message(data: &[u8]) {
    if let Ok(Some((message, len))) = Message::take(data) {
        let again = message.emit();
        match message {
            Message::Hello { newest, .. } if newest > VERSION => {
                assert_eq!(again[4..], data[4..again.len()]);
            }
            _ => assert_eq!(again, data[..len]),
        }
    }
}

struct VictimNode {
    nic: Nic,
    memory: Memory,
    keys: KeyRng,
}

impl VictimNode {
    fn new() -> Self {
        let terms = terms(1);
        let config = NicConfig {
            qps_max: QUEUE_PAIRS,
            cqs_max: QUEUE_PAIRS,
            regions_max: REGIONS,
            ..NicConfig::new(terms.ip, terms.mac)
        };
        // Receive buffers of a peer may be larger than this, which is refused.
        let memory = Memory::new(1 << 18);
        Self {
            nic: fixture::nic(config, &memory, 1, Rng::new(1)),
            memory,
            keys: KeyRng::seeded(Rng::new(2)),
        }
    }

    /// Checks that everything for which the NIC has capacity can be created.
    fn check_empty(&mut self) {
        let pd = self.nic.create_pd();
        let block: Block = Memory::new(4096).allocate(64).expect("it is there");
        for _ in 0..REGIONS {
            let made = self.nic.register(pd, block.clone(), Access::empty());
            made.expect("no region is left behind");
        }
        for _ in 0..QUEUE_PAIRS {
            let cq = self.nic.create_cq(1).expect("no queue is left behind");
            let capabilities = QpCapabilities::default();
            let made = self.nic.create_qp(pd, cq, cq, capabilities);
            made.expect("no queue pair is left behind");
        }
    }
}

struct Machine {
    role: Role,
    handshake: Handshake,
    over: bool,
}

impl Machine {
    fn new(dials: bool) -> Self {
        let (config, terms) = (config(), terms(1));
        let role = match dials {
            true => Role::Compute,
            false => Role::Storage,
        };
        Self {
            role,
            handshake: Handshake::new(START, role, config, terms, END),
            over: false,
        }
    }

    /// The first message of a correct peer.
    fn beginning(&self) -> Vec<u8> {
        match self.role {
            Role::Compute => Message::Offer(wire_terms()).emit(),
            Role::Storage => Message::hello(wire_terms()).emit(),
        }
    }

    fn end(&mut self) {
        self.handshake.handle_end(START);
    }

    fn hear(&mut self, node: &mut VictimNode, bytes: &[u8]) {
        self.handshake.handle_bytes(START, bytes);
        self.act(node, START);
    }

    fn act(&mut self, node: &mut VictimNode, now: Instant) {
        let VictimNode { nic, memory, keys } = node;
        let step = self.handshake.poll(now, nic, memory, keys);
        let sent = self.handshake.poll_send();
        // Whatever arrives, the sent messages are valid.
        let sent = sent.unwrap_or_default();
        let mut rest = &sent[..];
        while !rest.is_empty() {
            let taken = Message::take(rest).expect("what is sent is sound");
            rest = &rest[taken.expect("what is sent is whole").1..];
        }
        let ends = match step {
            Step::Waiting => false,
            Step::Connected(connection) => {
                connection.destroy(nic);
                true
            }
            Step::Failed(error) => {
                assert!(!error.to_string().is_empty());
                true
            }
        };
        assert!(!(ends && self.over), "it ends once");
        self.over |= ends;
    }
}

fn config() -> MessagingConfig {
    MessagingConfig {
        receive_buffers: 1,
        receive_bytes: 1024,
        message_max: 1 << 20,
        keepalive: Duration::ZERO,
        ..MessagingConfig::default()
    }
}

fn terms(number: u8) -> NodeTerms {
    let Host { mac, ip } = fixture::host(number);
    NodeTerms::new(&config(), 7, ip, mac, Mtu::B1024)
}

/// The terms of a correct peer.
fn wire_terms() -> Terms {
    terms_to_wire(&terms(2))
}

/// The initial inputs of the corpus: every message as the first and as the second, complete and in
/// pieces, and other protocols.
pub fn seeds() -> Seeds {
    let pair = |number| QueuePair {
        qpn: Qpn(number),
        psn: Psn::new(number),
    };
    let place = |address| WriteTarget {
        address,
        rkey: Rkey(3),
    };
    let keys = Keys {
        queue_pairs: vec![pair(17), pair(18)],
        buffer_info: place(4096),
        receive: place(8192),
    };
    let busy = Refusal::new(RefusalCode::Busy, "come again");
    let messages = [
        ("hello", Message::hello(wire_terms()).emit()),
        ("offer", Message::Offer(wire_terms()).emit()),
        ("open", Message::Open(keys.clone()).emit()),
        ("accept", Message::Accept(keys).emit()),
        ("refuse", Message::refuse(busy).emit()),
        ("http", b"GET / HTTP/1.1\r\n\r\n".to_vec()),
        ("tls", vec![22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3]),
    ];
    let mut seeds = Vec::new();
    for (name, message) in messages {
        for choice in 0..4_u8 {
            let whole = [&[choice, message.len() as u8], &message[..]].concat();
            seeds.push((format!("{name}-{choice}"), whole));
        }
        let mut pieces = vec![3];
        for piece in message.chunks(7) {
            pieces.push(piece.len() as u8);
            pieces.extend_from_slice(piece);
        }
        pieces.push(0);
        seeds.push((format!("{name}-pieces"), pieces));
    }
    seeds
}
