//! An index on both kinds of rack, with moves and deaths of endpoints.

mod alone;
mod datagrams;

use super::*;
use crate::config::{NodeConfig, Role};
use crate::services::IndexService;
use crate::{EmbeddedRack, SimulatedRack};
use crate::{RackConfig, RunEnd};
use rackweave_base::{Duration, Instant, Rng};
use rackweave_endpoint::btree::Direction;
use rackweave_endpoint::index::{
    Access as Way, Answer, Coordinator, CoordinatorConfig, CoordinatorEvent, IndexError, Op,
    ReaderConfig, Step as MoveStep, Ticket,
};
use rackweave_endpoint::index::{IndexClient, IndexClientConfig};
use rackweave_endpoint::rpc::ClientConfig;
use rackweave_sim::world::{Actor, Context, Step};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};

const HOST: EndpointId = EndpointId(0);
const DPU: EndpointId = EndpointId(1);
/// Upper bound of the keys.
const KEYS: u64 = 400;

/// Polls a server thread until its endpoint has been stopped.
struct ServerActor(SharedServer);

impl Actor for ServerActor {
    fn step(&mut self, context: &mut Context<'_>) -> Step {
        if self.0.is_stopped() {
            return Step::Done;
        }
        let now = context.now();
        match self.0.poll(now, context.nic()) {
            true => Step::Compute(Duration::from_nanos(300)),
            false => Step::WaitForPacket,
        }
    }
}

/// The expected reply to an operation.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Expect {
    Answer(Answer),
    /// A scan: the entries of this client's keys.
    Own(Vec<(u64, Vec<u8>)>),
}

/// Changes and reads its own keys, several at a time, never two operations on one key.
struct ClientActor {
    client: Attached<IndexClient>,
    rng: Rng,
    me: u64,
    clients: u64,
    model: BTreeMap<u64, Vec<u8>>,
    under_way: HashMap<Ticket, (Vec<u64>, Expect)>,
    left: u32,
    lengths: &'static [usize],
    done: std::sync::Arc<AtomicU64>,
}

impl ClientActor {
    fn begin(&mut self) -> bool {
        let key = self.rng.below(KEYS / self.clients) * self.clients + self.me;
        let busy = |key: u64| self.under_way.values().any(|(keys, _)| keys.contains(&key));
        if busy(key) {
            return false;
        }
        let mut value = vec![0; *self.rng.pick(self.lengths)];
        value.fill_with(|| self.rng.next_u64() as u8);
        let before = self.model.get(&key).cloned();
        let (there, kind) = (before.is_some(), self.rng.below(12));
        let value = &value[..];
        let (op, expect) = match kind {
            0..2 => (Op::Insert { key, value }, Answer::Found(there)),
            2 => (Op::Update { key, value }, Answer::Found(there)),
            3 => (Op::Put { key, value }, Answer::Found(there)),
            4 => (Op::Delete { key }, Answer::Found(there)),
            5 => return self.begin_scan(key),
            _ => {
                let value = before.as_deref().map(|bytes| bytes.into());
                (Op::Get { key }, Answer::Value(value))
            }
        };
        match kind {
            0..2 if !there => drop(self.model.insert(key, value.to_vec())),
            2 if there => drop(self.model.insert(key, value.to_vec())),
            3 => drop(self.model.insert(key, value.to_vec())),
            4 => drop(self.model.remove(&key)),
            _ => {}
        }
        let ticket = self.client.begin(&op).expect("there is room");
        let expect = (vec![key], Expect::Answer(expect));
        self.under_way.insert(ticket, expect);
        true
    }

    fn begin_scan(&mut self, low: u64) -> bool {
        let last = low + self.rng.below(60);
        let keys: Vec<u64> = (low..=last).collect();
        let mut busy = self.under_way.values().flat_map(|(keys, _)| keys);
        if busy.any(|key| keys.contains(key)) {
            return false;
        }
        let direction = *self.rng.pick(&[Direction::Forward, Direction::Backward]);
        let mut own: Vec<(u64, Vec<u8>)> = self
            .model
            .range(low..=last)
            .map(|(&key, value)| (key, value.clone()))
            .collect();
        if direction == Direction::Backward {
            own.reverse();
        }
        let op = Op::Scan {
            low,
            last,
            direction,
            limit: 1000,
        };
        let ticket = self.client.begin(&op).expect("there is room");
        self.under_way.insert(ticket, (keys, Expect::Own(own)));
        true
    }

    fn check(&self, expect: &Expect, answer: &Answer) {
        match (expect, answer) {
            (Expect::Answer(expect), answer) => assert_eq!(expect, answer),
            (Expect::Own(own), Answer::Entries(entries)) => {
                let mine = entries
                    .iter()
                    .filter(|(key, _)| key % self.clients == self.me)
                    .map(|(key, value)| (*key, value.to_vec()));
                assert_eq!(own, &mine.collect::<Vec<_>>());
                let keys = entries.iter().map(|(key, _)| key);
                let ascending = keys.clone().is_sorted_by(|a, b| a < b);
                assert!(ascending || keys.is_sorted_by(|a, b| a > b), "a key twice");
            }
            (expect, answer) => panic!("{answer:?} for {expect:?}"),
        }
    }
}

impl Actor for ClientActor {
    fn step(&mut self, context: &mut Context<'_>) -> Step {
        let now = context.now();
        for _ in 0..4 {
            if self.left > 0 && self.client.free() > 0 && self.begin() {
                self.left -= 1;
            }
        }
        while let Some(reply) = self.client.poll(now, context.nic()) {
            let (keys, expect) = self.under_way.remove(&reply.ticket).expect("once");
            let me = self.me;
            let answer = reply
                .result
                .unwrap_or_else(|error| panic!("client {me}, {keys:?}: {error}"));
            self.check(&expect, &answer);
        }
        if self.under_way.is_empty() && self.left == 0 {
            self.done.fetch_add(1, Ordering::Relaxed);
            return Step::Done;
        }
        Step::Compute(Duration::from_nanos(200))
    }
}

fn rack(seed: u64) -> SimulatedRack {
    let config = RackConfig {
        seed,
        node: vec![
            NodeConfig::new("host", Role::Storage),
            NodeConfig::new("dpu", Role::Dpu),
            NodeConfig::new("compute", Role::Compute),
        ],
        ..RackConfig::default()
    };
    SimulatedRack::new(&config).unwrap()
}

fn spec(value_max: u32) -> IndexSpec {
    let tree = TreeConfig {
        value_max,
        ..TreeConfig::for_keys(2 * KEYS, 512, value_max)
    };
    let host = IndexEndpointSpec {
        threads: 2,
        ..IndexEndpointSpec::new(NodeId(0), tree)
    };
    let endpoints = vec![host, IndexEndpointSpec::new(NodeId(1), tree)];
    IndexSpec::new(endpoints, PartitionMap::split(&[KEYS / 2]).unwrap())
}

fn make(rack: &Rack, spec: IndexSpec) -> IndexService {
    IndexService::with_spec(rack, spec, None, None).unwrap()
}

fn serve(rack: &mut SimulatedRack, index: &IndexService) {
    for (_, node, server) in index.index().servers() {
        // Servers outlive all clients.
        rack.spawn_server(node, Box::new(ServerActor(server.clone())));
    }
}

/// Clients with these settings change and read their keys; `during` acts every 20 µs.
fn check_history(
    seed: u64,
    lengths: &'static [usize],
    ways: &[(Way, u64)],
    during: impl FnMut(&mut SimulatedRack, &IndexService, u64),
) {
    check_history_with(seed, lengths, ways, |_, _, _| {}, during);
}

type Done = std::sync::Arc<AtomicU64>;

/// The same, with additional actors.
fn check_history_with(
    seed: u64,
    lengths: &'static [usize],
    ways: &[(Way, u64)],
    others: impl FnOnce(&mut SimulatedRack, &IndexService, &Done),
    mut during: impl FnMut(&mut SimulatedRack, &IndexService, u64),
) {
    let mut rack = rack(seed);
    let longest = *lengths.iter().max().unwrap();
    let index = make(&rack, spec(longest.max(8) as u32));
    serve(&mut rack, &index);
    let done = std::sync::Arc::new(AtomicU64::new(0));
    let mut rng = Rng::new(seed);
    for (me, &(access, cache_bytes)) in ways.iter().enumerate() {
        let config = IndexClientConfig {
            access,
            operations: 16,
            rpc: ClientConfig {
                payload_max: 1024,
                ..ClientConfig::default()
            },
            reader: ReaderConfig {
                cache_bytes,
                walks: 8,
                ..ReaderConfig::default()
            },
            ..IndexClientConfig::default()
        };
        let client = index.client(NodeId(2), config).unwrap();
        let actor = ClientActor {
            client,
            rng: rng.fork(&format!("client {me}")),
            me: me as u64,
            clients: ways.len() as u64,
            model: BTreeMap::new(),
            under_way: HashMap::new(),
            left: 1500,
            lengths,
            done: done.clone(),
        };
        rack.spawn(NodeId(2), Box::new(actor));
    }
    others(&mut rack, &index, &done);
    let mut step = 0;
    loop {
        step += 1;
        match rack.run(Instant::from_nanos(step * 20_000)) {
            RunEnd::Done => break,
            RunEnd::Deadline => during(&mut rack, &index, step),
            end => panic!("seed {seed}: {end:?}"),
        }
        assert!(step < 100_000, "seed {seed}: it does not end");
    }
    assert_eq!(done.load(Ordering::Relaxed), ways.len() as u64);
    for endpoint in [HOST, DPU] {
        index
            .index()
            .shard(endpoint)
            .unwrap()
            .tree()
            .check()
            .unwrap();
    }
}

#[test]
fn clients_of_both_kinds_see_what_they_wrote() {
    for seed in 1..4 {
        let ways = [
            (Way::Rpc, 0),
            (Way::OneSided, 0),
            (Way::OneSided, 4 << 10),
            (Way::OneSided, 1 << 20),
        ];
        check_history(seed, &[8], &ways, |_, _, _| {});
        check_history(seed, &[8, 0, 30, 100], &ways, |_, _, _| {});
    }
}

/// Moves the boundary back and forth as long as there are clients.
struct Shaker {
    coordinator: Attached<Coordinator>,
    rng: Rng,
    clients: u64,
    done: std::sync::Arc<AtomicU64>,
    moves: std::sync::Arc<AtomicU64>,
}

impl Actor for Shaker {
    fn step(&mut self, context: &mut Context<'_>) -> Step {
        let now = context.now();
        while let Some(event) = self.coordinator.poll(now, context.nic()) {
            match event {
                CoordinatorEvent::Moved(_) => drop(self.moves.fetch_add(1, Ordering::Relaxed)),
                CoordinatorEvent::Ended(Err(error)) => panic!("{error}"),
                _ => {}
            }
        }
        let ended = self.done.load(Ordering::Relaxed) == self.clients;
        if self.coordinator.is_ready() {
            if ended {
                return Step::Done;
            }
            let step = random_step(self.coordinator.map(), &mut self.rng);
            self.coordinator.begin_move(step).unwrap();
        }
        Step::Compute(Duration::from_nanos(500))
    }
}

/// To another boundary below [`KEYS`], which may give one of the two all keys.
fn random_step(map: &PartitionMap, rng: &mut Rng) -> MoveStep {
    let boundary = map
        .part_of(HOST)
        .map_or(0, |part| part.last.wrapping_add(1));
    let everything = map.part_of(DPU).is_none();
    let to = rng.below(KEYS + 40);
    // The host stays on the left, also when it gets keys for the first time.
    let to = if to > KEYS { 0 } else { to };
    let to = to.max(u64::from(boundary == 0));
    match everything {
        true => MoveStep {
            from: HOST,
            to: DPU,
            low: to,
            last: u64::MAX,
        },
        false if to < boundary => MoveStep {
            from: HOST,
            to: DPU,
            low: to,
            last: boundary - 1,
        },
        false if to > boundary => MoveStep {
            from: DPU,
            to: HOST,
            low: boundary,
            last: to - 1,
        },
        false => MoveStep {
            from: DPU,
            to: HOST,
            low: boundary,
            last: u64::MAX,
        },
    }
}

#[test]
fn ranges_move_while_clients_write_and_read() {
    for seed in 11..15 {
        let ways = [(Way::Rpc, 0), (Way::OneSided, 0), (Way::OneSided, 1 << 20)];
        let lengths: &[usize] = if seed % 2 == 0 {
            &[8]
        } else {
            &[8, 0, 30, 100]
        };
        let moves = std::sync::Arc::new(AtomicU64::new(0));
        let shaker =
            |rack: &mut SimulatedRack, index: &IndexService, done: &std::sync::Arc<AtomicU64>| {
                let config = CoordinatorConfig {
                    chunk: 20,
                    ..CoordinatorConfig::default()
                };
                let coordinator = index.coordinator(NodeId(2), config).unwrap();
                let shaker = Shaker {
                    coordinator,
                    rng: Rng::new(seed),
                    clients: 3,
                    done: done.clone(),
                    moves: moves.clone(),
                };
                rack.spawn(NodeId(2), Box::new(shaker));
            };
        check_history_with(seed, lengths, &ways, shaker, |_, _, _| {});
        let moves = moves.load(Ordering::Relaxed);
        assert!(moves > 20, "seed {seed}: {moves} chunks moved");
    }
}
