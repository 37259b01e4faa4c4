//! A message, its release, and the word that frees its buffer.

use super::capture::Recording;
use super::guide;
use super::places::NamedRegions;
use super::story::{Scene, Teller};
use rackweave_base::{Duration, KeyRng, NodeId, Rng};
use rackweave_endpoint::messaging::{
    Agreed, Connection, MessagingConfig, NodeTerms, Prepared, Receiver, Role, Sender,
};
use rackweave_rack::config::{NodeConfig, Role as NodeRole};
use rackweave_rack::testing::SimulatedMachines;
use rackweave_rack::{Address, RackConfig, RunEnd, SimulatedRack};
use rackweave_sim::world::{Actor, Context, Step};
use rackweave_verbs::Mtu;
use rackweave_wire::Headers;
use rackweave_wire::fabric::message::{ENTRY_LEN, PIECE_HEADER_LEN, PieceHeader, Word};
use zerocopy::FromBytes;

const NODES: [(NodeId, Role); 2] = [(NodeId(0), Role::Compute), (NodeId(1), Role::Storage)];
const TEXT: &[u8] = b"which orders are late?";

struct Sending(Sender, bool);

impl Actor for Sending {
    fn step(&mut self, context: &mut Context<'_>) -> Step {
        let now = context.now();
        if !self.1 {
            self.1 = self.0.try_send(7, TEXT).unwrap();
            self.0.flush();
        }
        self.0.poll(now, context.nic()).unwrap();
        match self.0.is_consumed() {
            true => Step::Done,
            false => Step::WaitForPacket,
        }
    }
}

struct Receiving(Receiver, bool);

impl Actor for Receiving {
    fn step(&mut self, context: &mut Context<'_>) -> Step {
        let now = context.now();
        if !self.1 {
            let mut bytes = Vec::new();
            self.1 = self.0.receive_into(&mut bytes).unwrap().is_some();
            assert!(!self.1 || bytes == TEXT);
        }
        self.0.poll(now, context.nic()).unwrap();
        match self.1 && !self.0.owes() {
            true => Step::Done,
            false => Step::WaitForPacket,
        }
    }
}

/// Both nodes' ends, made as after a handshake.
fn connect(rack: &mut SimulatedRack, places: &mut NamedRegions) -> Vec<Connection> {
    let config = MessagingConfig {
        receive_buffers: 2,
        receive_bytes: 1024,
        keepalive: Duration::ZERO,
        // As on any NIC, which the guide shows.
        word_last: false,
        ..MessagingConfig::default()
    };
    let terms = NODES.map(|(node, _)| {
        let address = Address::of_node(node);
        NodeTerms::new(&config, 0, address.ip, address.mac, Mtu::B4096)
    });
    let (mut rng, memory) = (KeyRng::seeded(Rng::new(1)), rack.memory().clone());
    let prepared = [0, 1].map(|at| {
        let (node, role) = NODES[at];
        let agreed = Agreed::new(role, terms[at], terms[1 - at]).unwrap();
        let mut nic = rack.nic_mut(node).unwrap();
        Prepared::new(&mut *nic, &memory, &config, &agreed, &mut rng).unwrap()
    });
    let keys = prepared.each_ref().map(Prepared::keys);
    for ((node, _), keys) in NODES.iter().zip(&keys) {
        let ip = Address::of_node(*node).ip;
        let info = (keys.buffer_info.address, keys.buffer_info.rkey);
        places.enter(ip, info, |at| format!("entry {}", at / ENTRY_LEN));
        let receive = (keys.receive.address, keys.receive.rkey);
        places.enter(ip, receive, |at| format!("receive buffer {}", at / 1024));
    }
    let now = rack.now();
    let ends = prepared.into_iter().zip([&keys[1], &keys[0]]).zip(NODES);
    ends.map(|((one, theirs), (node, _))| {
        let mut nic = rack.nic_mut(node).unwrap();
        one.connect(now, &mut *nic, theirs).unwrap()
    })
    .collect()
}

struct MessageScene;

impl Scene for MessageScene {
    fn to_switch(&self, _: &Headers, _: &[u8]) -> Option<String> {
        None
    }

    fn content(&self, place: &str, _: u32, payload: &[u8]) -> Option<String> {
        if place.starts_with("entry") {
            let word = u64::from_le_bytes(*payload.first_chunk()?);
            return Some(match Word::try_from(word).ok()? {
                Word::Filled { sequence, length } => {
                    format!("package {} is there, {length} bytes", sequence.get())
                }
                Word::Free { sequence } => format!("free for package {}", sequence.get()),
                word => format!("{word:?}"),
            });
        }
        let (header, rest) = PieceHeader::read_from_prefix(payload).ok()?;
        let (opcode, number) = (header.opcode.get(), header.message.get());
        let text = String::from_utf8_lossy(&rest[..header.length.get() as usize]);
        assert_eq!(PIECE_HEADER_LEN, 32);
        Some(format!("message {number}, opcode {opcode}: {text:?}"))
    }
}

#[test]
fn a_message_is_two_writes_and_its_release_a_third() {
    let config = RackConfig {
        node: vec![
            NodeConfig::new("compute", NodeRole::Compute),
            NodeConfig::new("storage", NodeRole::Storage),
        ],
        ..RackConfig::default()
    };
    let mut rack = SimulatedRack::new(&config).unwrap();
    let mut places = NamedRegions::default();
    let mut ends = connect(&mut rack, &mut places);
    let receiver = ends.remove(1).receivers.remove(0);
    let sender = ends.remove(0).senders.remove(0);
    let recording = Recording::begin(&mut rack);
    rack.spawn(NodeId(1), Box::new(Receiving(receiver, false)));
    rack.spawn(NodeId(0), Box::new(Sending(sender, false)));
    let until = rack.now() + Duration::from_millis(10);
    assert_eq!(rack.run(until), RunEnd::Done);
    rack.run(rack.now() + Duration::from_micros(20));
    let seen = recording.end(&mut rack);
    let teller = Teller::new(&rack, &["switch"], &MessageScene, &places);
    guide::check("message", &teller.tell(seen));
}
