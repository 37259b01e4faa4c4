use super::*;
use crate::config::{NodeConfig, Role};
use crate::{RackConfig, RunEnd};
use rackweave_base::{Duration, Rng};
use rackweave_endpoint::btree::Direction;
use rackweave_endpoint::index::{
    Access as Way, Answer, Coordinator, CoordinatorConfig, CoordinatorEvent, IndexError, Op,
    ReaderConfig, Step as MoveStep, Ticket,
};
use rackweave_endpoint::rpc::ClientConfig;
use rackweave_sim::world::{Actor, Context, Step};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};

const HOST: EndpointId = EndpointId(0);
const DPU: EndpointId = EndpointId(1);
/// Keys are below.
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

/// What an operation must answer.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Expect {
    Answer(Answer),
    /// A scan: the entries of this client's keys.
    Own(Vec<(u64, Vec<u8>)>),
}

/// Changes and reads its own keys, several at a time, never two operations on one key.
struct ClientActor {
    client: IndexClient,
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
    IndexSpec {
        endpoints: vec![
            IndexEndpointSpec {
                threads: 2,
                ..IndexEndpointSpec::new(NodeId(0), tree)
            },
            IndexEndpointSpec::new(NodeId(1), tree),
        ],
        map: PartitionMap::split(&[KEYS / 2]).unwrap(),
        attributes: PairAttributes::default(),
    }
}

fn serve(rack: &mut SimulatedRack, index: &Index, endpoint: EndpointId) {
    let node = index.spec().endpoints[endpoint.index()].node;
    for server in index.servers(endpoint) {
        // Servers outlive everybody.
        rack.spawn_server(node, Box::new(ServerActor(server.clone())));
    }
}

/// Clients with these settings change and read their keys; `during` acts every 20 µs.
fn check_history(
    seed: u64,
    lengths: &'static [usize],
    ways: &[(Way, u64)],
    during: impl FnMut(&mut SimulatedRack, &mut Index, u64),
) {
    check_history_with(seed, lengths, ways, |_, _, _| {}, during);
}

type Done = std::sync::Arc<AtomicU64>;

/// The same, with somebody else there.
fn check_history_with(
    seed: u64,
    lengths: &'static [usize],
    ways: &[(Way, u64)],
    others: impl FnOnce(&mut SimulatedRack, &mut Index, &Done),
    mut during: impl FnMut(&mut SimulatedRack, &mut Index, u64),
) {
    let mut rack = rack(seed);
    let longest = *lengths.iter().max().unwrap();
    let mut index = rack.create_index(spec(longest.max(8) as u32)).unwrap();
    for endpoint in [HOST, DPU] {
        serve(&mut rack, &index, endpoint);
    }
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
        let client = rack
            .add_index_client(&mut index, NodeId(2), config)
            .unwrap();
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
    others(&mut rack, &mut index, &done);
    let mut step = 0;
    loop {
        step += 1;
        match rack.run(Instant::from_nanos(step * 20_000)) {
            RunEnd::Done => break,
            RunEnd::Deadline => during(&mut rack, &mut index, step),
            end => panic!("seed {seed}: {end:?}"),
        }
        assert!(step < 100_000, "seed {seed}: it does not end");
    }
    assert_eq!(done.load(Ordering::Relaxed), ways.len() as u64);
    for endpoint in [HOST, DPU] {
        index.shard(endpoint).unwrap().tree().check().unwrap();
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

/// Moves the boundary to and fro as long as there are clients.
struct Shaker {
    coordinator: Coordinator,
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

/// To another boundary below [`KEYS`], which may give one of both everything.
fn random_step(map: &PartitionMap, rng: &mut Rng) -> MoveStep {
    let boundary = map
        .part_of(HOST)
        .map_or(0, |part| part.last.wrapping_add(1));
    let everything = map.part_of(DPU).is_none();
    let to = rng.below(KEYS + 40);
    let to = if to > KEYS { 0 } else { to };
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
            |rack: &mut SimulatedRack, index: &mut Index, done: &std::sync::Arc<AtomicU64>| {
                let config = CoordinatorConfig {
                    chunk: 20,
                    ..CoordinatorConfig::default()
                };
                let coordinator = rack
                    .add_index_coordinator(index, NodeId(2), config)
                    .unwrap();
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

/// One thread does everything of an embedded rack: servers, switch, one client.
struct Alone {
    rack: EmbeddedRack,
    index: Index,
    client: IndexClient,
}

impl Alone {
    fn new(access: Way) -> Self {
        let config = RackConfig {
            driver_threads: 0,
            node: ["host", "dpu", "compute"]
                .map(|name| NodeConfig::new(name, Role::Storage))
                .to_vec(),
            ..RackConfig::default()
        };
        let rack = EmbeddedRack::new(&config).unwrap();
        let mut spec = spec(8);
        // A server that is gone is noticed at once, since its queue pair is.
        spec.attributes.timeout = Duration::from_millis(1);
        spec.attributes.retries = 2;
        let mut index = rack.create_index(spec).unwrap();
        let config = IndexClientConfig {
            access,
            ..IndexClientConfig::default()
        };
        let client = rack
            .add_index_client(&mut index, NodeId(2), config)
            .unwrap();
        Self {
            rack,
            index,
            client,
        }
    }

    fn drive(&self) {
        use rackweave_endpoint::page_store::NodeAccess;
        for endpoint in self.index.endpoints() {
            let node = self
                .rack
                .node(self.index.spec().endpoints[endpoint.index()].node);
            let now = node.now();
            for server in self.index.servers(endpoint) {
                node.with(|nic| server.poll(now, nic));
            }
        }
        self.rack.progress().drive();
    }

    fn ask(&mut self, op: &Op<'_>) -> Result<Answer, IndexError> {
        use rackweave_endpoint::page_store::NodeAccess;
        let ticket = self.client.begin(op).unwrap();
        let node = self.rack.node(NodeId(2));
        for _ in 0..10_000_000u64 {
            let now = node.now();
            if let Some(reply) = node.with(|nic| self.client.poll(now, nic)) {
                assert_eq!(reply.ticket, ticket);
                return reply.result;
            }
            self.drive();
        }
        panic!("{op:?} does not end");
    }

    fn attach(&mut self, endpoint: EndpointId) {
        let Self {
            rack,
            index,
            client,
        } = self;
        rack.attach_index_client(index, NodeId(2), client, endpoint)
            .unwrap();
    }
}

fn get(key: u64) -> Op<'static> {
    Op::Get { key }
}

fn put(key: u64, value: &[u8]) -> Op<'_> {
    Op::Put { key, value }
}

#[test]
fn an_endpoint_that_restarts_is_empty_and_the_others_are_not() {
    for access in [Way::Rpc, Way::OneSided] {
        let mut alone = Alone::new(access);
        let (left, right) = (KEYS / 2 - 1, KEYS / 2);
        for key in [left, right] {
            let new = alone.ask(&put(key, b"before  "));
            assert_eq!(new, Ok(Answer::Found(false)));
            let value = Answer::Value(Some(b"before  "[..].into()));
            assert_eq!(alone.ask(&get(key)), Ok(value));
        }
        let Alone { rack, index, .. } = &mut alone;
        rack.kill_index_endpoint(index, DPU);
        let error = alone.ask(&put(right, b"unknown ")).unwrap_err();
        let possible = [IndexError::OutcomeUnknown(DPU), IndexError::Gone(DPU)];
        assert!(possible.contains(&error), "{error}");
        assert_eq!(alone.ask(&get(right)), Err(IndexError::Gone(DPU)));
        assert!(alone.client.is_gone(DPU) && !alone.client.is_gone(HOST));
        let Alone { rack, index, .. } = &mut alone;
        let loss = rack.restart_index_endpoint(index, DPU).unwrap();
        let lost = Part {
            low: right,
            last: u64::MAX,
            endpoint: DPU,
        };
        assert_eq!(loss.lost, Some(lost));
        assert_eq!(loss.map.version(), 2);
        alone.attach(DPU);
        assert_eq!(alone.ask(&get(right)), Ok(Answer::Value(None)));
        let value = Answer::Value(Some(b"before  "[..].into()));
        assert_eq!(alone.ask(&get(left)), Ok(value));
        let new = alone.ask(&put(right, b"after   "));
        assert_eq!(new, Ok(Answer::Found(false)));
        let value = Answer::Value(Some(b"after   "[..].into()));
        assert_eq!(alone.ask(&get(right)), Ok(value));
    }
}

#[test]
fn a_set_up_that_makes_no_sense_is_refused() {
    let alone = Alone::new(Way::Rpc);
    let check = |change: &dyn Fn(&mut IndexSpec), expect: &str| {
        let mut spec = spec(8);
        change(&mut spec);
        let error = alone.rack.create_index(spec).unwrap_err();
        assert_eq!(error.to_string(), expect);
    };
    check(
        &|spec| drop(spec.endpoints.pop()),
        "the map is for 2 endpoints, the index has 1",
    );
    check(
        &|spec| spec.endpoints[1].threads = 0,
        "endpoint 1 has no server thread; one at least is needed",
    );
    check(
        &|spec| spec.endpoints[1].server.payload_max = 99,
        "endpoint 1 takes requests of another length than the first; give all one payload_max",
    );
    check(
        &|spec| spec.endpoints[1].node = NodeId(9),
        "node9 is not in the rack, or dead",
    );
    let tree = |spec: &mut IndexSpec| spec.endpoints[0].tree.node_size = 64;
    let mut spec = spec(8);
    tree(&mut spec);
    assert!(matches!(
        alone.rack.create_index(spec),
        Err(IndexSetUpError::Tree(_))
    ));
}

#[test]
fn what_a_client_is_given_is_checked() {
    let mut alone = Alone::new(Way::Rpc);
    let long = alone.client.begin(&put(1, &[0; 9])).unwrap_err();
    assert_eq!(
        long.to_string(),
        "a value of 9 bytes; the index takes 8 at most"
    );
    let backwards = Op::Scan {
        low: 2,
        last: 1,
        direction: Direction::Forward,
        limit: 1,
    };
    let error = alone.client.begin(&backwards).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a scan from key 2 to key 1, which is before it"
    );
    for _ in 0..alone.client.config().operations {
        alone.client.begin(&get(1)).unwrap();
    }
    let full = alone.client.begin(&get(1)).unwrap_err();
    assert_eq!(
        full.to_string(),
        "64 operations are under way; poll for replies first"
    );
}
