//! Requests as UDP datagrams on simulated and embedded racks.

use super::*;
use crate::config::FaultSection;
use rackweave_endpoint::index::{DatagramClient, DatagramClientConfig, DatagramServerConfig};
use rackweave_verbs::{BindError, DatagramError, Datagrams};
use std::net::Ipv4Addr;

/// A NIC behind which a switch fills in tree nodes: any that may exist.
struct Hinting<'a> {
    nic: &'a mut dyn Datagrams,
    rng: &'a mut Rng,
    on: bool,
}

impl Datagrams for Hinting<'_> {
    fn bind(&mut self, port: u16) -> Result<u16, BindError> {
        self.nic.bind(port)
    }

    fn unbind(&mut self, port: u16) -> bool {
        self.nic.unbind(port)
    }

    fn datagram_max(&self) -> usize {
        self.nic.datagram_max()
    }

    fn send(&mut self, port: u16, to: (Ipv4Addr, u16), bytes: &[u8]) -> Result<(), DatagramError> {
        let mut bytes = bytes.to_vec();
        if self.on {
            let node = self.rng.below(40) as u32;
            bytes[4..8].copy_from_slice(&node.to_be_bytes());
        }
        self.nic.send(port, to, &bytes)
    }

    fn receive(&mut self, port: u16, bytes: &mut Vec<u8>) -> Option<(Ipv4Addr, u16)> {
        self.nic.receive(port, bytes)
    }
}

struct DatagramServerActor(SharedDatagramServer);

impl Actor for DatagramServerActor {
    fn step(&mut self, context: &mut Context<'_>) -> Step {
        let now = context.now();
        let mut server = self.0.lock();
        let server = server.as_mut().expect("it outlives everybody");
        match server.poll(now, context.nic()) {
            0 => Step::WaitForPacket,
            served => Step::Compute(Duration::from_nanos(300) * u64::from(served)),
        }
    }
}

/// Changes and reads its own keys, several at a time, never two operations on one key.
struct DatagramClientActor {
    client: DatagramClient,
    rng: Rng,
    hints: Rng,
    hinting: bool,
    me: u64,
    model: BTreeMap<u64, Vec<u8>>,
    under_way: HashMap<Ticket, (u64, Answer)>,
    left: u32,
    ended: Done,
    begun: std::sync::Arc<AtomicU64>,
}

const CLIENTS: u64 = 3;

impl DatagramClientActor {
    fn begin(&mut self) -> bool {
        let key = self.rng.below(KEYS / CLIENTS) * CLIENTS + self.me;
        if self.under_way.values().any(|(other, _)| *other == key) {
            return false;
        }
        let mut value = vec![0; *self.rng.pick(&[8, 30])];
        value.fill_with(|| self.rng.next_u64() as u8);
        let (value, before) = (&value[..], self.model.get(&key).cloned());
        let found = Answer::Found(before.is_some());
        let (op, expect) = match self.rng.below(6) {
            0 => (Op::Insert { key, value }, found),
            1 => (Op::Put { key, value }, found),
            2 => (Op::Delete { key }, found),
            _ => {
                let value = before.as_deref().map(|bytes| bytes.into());
                (Op::Get { key }, Answer::Value(value))
            }
        };
        match op {
            Op::Insert { .. } if before.is_some() => {}
            Op::Insert { .. } | Op::Put { .. } => drop(self.model.insert(key, value.to_vec())),
            Op::Delete { .. } => drop(self.model.remove(&key)),
            _ => {}
        }
        let ticket = self.client.begin(&op).expect("there is room");
        self.under_way.insert(ticket, (key, expect));
        true
    }
}

impl Actor for DatagramClientActor {
    fn step(&mut self, context: &mut Context<'_>) -> Step {
        let now = context.now();
        while self.left > 0 && self.client.free() > 0 && self.begin() {
            self.left -= 1;
        }
        let mut hinting = Hinting {
            nic: context.nic(),
            rng: &mut self.hints,
            on: self.hinting,
        };
        while let Some(reply) = self.client.poll(now, &mut hinting) {
            let (key, expect) = self.under_way.remove(&reply.ticket).expect("once");
            assert_eq!(reply.result, Ok(expect), "client {}, key {key}", self.me);
        }
        if self.under_way.is_empty() && self.left == 0 {
            self.ended.fetch_add(1, Ordering::Relaxed);
            let begun = self.client.datagram_statistics().begun;
            self.begun.fetch_add(begun.iter().sum(), Ordering::Relaxed);
            return Step::Done;
        }
        if self.left > 0 && self.client.free() > 0 {
            return Step::Compute(Duration::from_nanos(200));
        }
        match self.client.poll_timeout() {
            Some(due) => Step::WaitUntil(due),
            None => Step::WaitForPacket,
        }
    }
}

fn datagram_spec() -> IndexSpec {
    IndexSpec {
        datagrams: Some(DatagramServerConfig::new(0)),
        ..spec(64)
    }
}

/// Two endpoints and three clients; returns the packets' trace.
fn check_datagrams(seed: u64, faults: FaultSection, hinting: bool) -> u64 {
    let config = RackConfig {
        seed,
        faults,
        node: vec![
            NodeConfig::new("host", Role::Storage),
            NodeConfig::new("dpu", Role::Dpu),
            NodeConfig::new("compute", Role::Compute),
        ],
        ..RackConfig::default()
    };
    let mut rack = SimulatedRack::new(&config).unwrap();
    let index = make(&rack, datagram_spec());
    for (_, node, server) in index.index().datagram_servers() {
        let server = DatagramServerActor(server.clone());
        rack.spawn_server(node, Box::new(server));
    }
    let mut rng = Rng::new(seed);
    let (ended, begun) = (Done::default(), std::sync::Arc::new(AtomicU64::new(0)));
    // The first client's map is outdated.
    let map = index.map();
    let other = map.with_move(HOST, DPU, KEYS / 4, KEYS / 2 - 1).unwrap();
    let old = PartitionMap::new(0, 2, other.parts().to_vec()).unwrap();
    for me in 0..CLIENTS {
        let map = if me == 0 { &old } else { &map }.clone();
        let config = DatagramClientConfig {
            tries_max: 40,
            ..DatagramClientConfig::new(seed << 8 | me)
        };
        let client = index.datagram_client_by(map, NodeId(2), config).unwrap();
        let actor = DatagramClientActor {
            client,
            rng: rng.fork(&format!("client {me}")),
            hints: rng.fork(&format!("hints {me}")),
            hinting,
            me,
            model: BTreeMap::new(),
            under_way: HashMap::new(),
            left: if me == 0 { 50 } else { 700 },
            ended: ended.clone(),
            begun: begun.clone(),
        };
        rack.spawn(NodeId(2), Box::new(actor));
    }
    let end = rack.run(Instant::from_nanos(20_000_000_000));
    assert_eq!(end, RunEnd::Done, "seed {seed}");
    assert_eq!(ended.load(Ordering::Relaxed), CLIENTS);
    assert_eq!(begun.load(Ordering::Relaxed) > 20, hinting, "seed {seed}");
    for endpoint in [HOST, DPU] {
        index
            .index()
            .shard(endpoint)
            .unwrap()
            .tree()
            .check()
            .unwrap();
    }
    rack.trace_hash()
}

#[test]
fn requests_survive_what_links_do() {
    for (seed, hinting) in [(1, false), (2, true), (3, false), (4, true)] {
        let faults = FaultSection {
            loss: 0.02,
            duplicate: 0.02,
            reorder: 0.05,
            corrupt: 0.02,
            reorder_delay_us: 30,
        };
        check_datagrams(seed, faults, hinting);
    }
}

#[test]
fn a_run_repeats_exactly() {
    let run = || check_datagrams(5, FaultSection::default(), true);
    assert_eq!(run(), run());
}
