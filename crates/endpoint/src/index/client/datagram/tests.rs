//! Clients and servers over a network that loses, duplicates, delays and damages datagrams.

use super::*;
use crate::btree::{Direction, Tree, TreeConfig};
use crate::index::op::{Answer, IndexError};
use crate::index::reader::tests::fake_nic::FakeNic;
use crate::index::{DatagramServer, DatagramServerConfig, Part, Shard};
use rackweave_base::{Memory, Rng};
use rackweave_verbs::DatagramError;
use rackweave_wire::fabric::lookup;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::Arc;

const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 9);
const KEYS: u64 = 300;

fn server_ip(endpoint: u16) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, endpoint as u8 + 1)
}

/// Probabilities in percent.
#[derive(Clone, Copy, Default)]
struct Faults {
    loss: u64,
    double: u64,
    damage: u64,
    /// Maximum delay of a datagram in nanoseconds, at least one.
    delay: u64,
}

type Address = (Ipv4Addr, u16);

struct Net {
    rng: Rng,
    now: Instant,
    faults: Faults,
    /// Addresses that receive nothing.
    dead: Vec<Ipv4Addr>,
    sent: u64,
    flights: BTreeMap<(Instant, u64), (Address, Address, Vec<u8>)>,
    inboxes: HashMap<Address, VecDeque<(Address, Vec<u8>)>>,
    max: usize,
    /// The hints that a switch may fill in.
    hints: Vec<u32>,
}

/// A node's connection to the network.
#[derive(Clone)]
struct End {
    net: Rc<RefCell<Net>>,
    ip: Ipv4Addr,
}

impl Net {
    fn new(seed: u64, faults: Faults, max: usize) -> Rc<RefCell<Self>> {
        Rc::new(RefCell::new(Self {
            rng: Rng::new(seed),
            now: Instant::ZERO,
            faults,
            dead: Vec::new(),
            sent: 0,
            flights: BTreeMap::new(),
            inboxes: HashMap::new(),
            max,
            hints: Vec::new(),
        }))
    }

    fn fly(&mut self, from: Address, to: Address, bytes: &[u8]) {
        let faults = self.faults;
        if self.rng.below(100) < faults.loss || self.dead.contains(&to.0) {
            return;
        }
        let copies = 1 + u64::from(self.rng.below(100) < faults.double);
        for _ in 0..copies {
            let mut bytes = bytes.to_vec();
            if to.1 == lookup::PORT && !self.hints.is_empty() {
                let hint = *self.rng.pick(&self.hints);
                bytes[4..8].copy_from_slice(&hint.to_be_bytes());
            }
            if self.rng.below(100) < faults.damage {
                let bit = self.rng.below(bytes.len() as u64 * 8) as usize;
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
            let delay = self.rng.between(1, faults.delay.max(1));
            self.sent += 1;
            let key = (self.now + Duration::from_nanos(delay), self.sent);
            self.flights.insert(key, (from, to, bytes));
        }
    }

    /// Advances the time to `until`, and delivers the datagrams due by then.
    fn go_on(&mut self, until: Instant) {
        self.now = until;
        while let Some(entry) = self.flights.first_entry()
            && entry.key().0 <= until
        {
            let (from, to, bytes) = entry.remove();
            if let Some(inbox) = self.inboxes.get_mut(&to) {
                inbox.push_back((from, bytes));
            }
        }
    }
}

impl Datagrams for End {
    fn bind(&mut self, port: u16) -> Result<u16, BindError> {
        let mut net = self.net.borrow_mut();
        let free = (49152..).find(|&port| !net.inboxes.contains_key(&(self.ip, port)));
        let port = if port == 0 { free.unwrap() } else { port };
        let taken = net.inboxes.insert((self.ip, port), VecDeque::new());
        taken.map_or(Ok(port), |_| Err(BindError::Taken(port)))
    }

    fn unbind(&mut self, port: u16) -> bool {
        let mut net = self.net.borrow_mut();
        net.inboxes.remove(&(self.ip, port)).is_some()
    }

    fn datagram_max(&self) -> usize {
        self.net.borrow().max
    }

    fn send(&mut self, port: u16, to: Address, bytes: &[u8]) -> Result<(), DatagramError> {
        assert!(bytes.len() <= self.datagram_max());
        self.net.borrow_mut().fly((self.ip, port), to, bytes);
        Ok(())
    }

    fn receive(&mut self, port: u16, bytes: &mut Vec<u8>) -> Option<Address> {
        let mut net = self.net.borrow_mut();
        let (from, came) = net.inboxes.get_mut(&(self.ip, port))?.pop_front()?;
        *bytes = came;
        Some(from)
    }
}

fn shard(map: &PartitionMap, endpoint: u16) -> Arc<Shard> {
    let memory = Memory::new(1 << 22);
    let part = map.part_of(EndpointId(endpoint)).unwrap();
    let config = TreeConfig {
        node_size: 512,
        tree_nodes: 400,
        heap_bytes: 1 << 18,
        value_max: 60,
        low: part.low,
        last: part.last,
        ..TreeConfig::default()
    };
    let block = memory.allocate(config.bytes() as usize).unwrap();
    let tree = Tree::create(block, &config).unwrap();
    Arc::new(Shard::new(&memory, EndpointId(endpoint), tree, map.clone()).unwrap())
}

struct World {
    net: Rc<RefCell<Net>>,
    servers: Vec<(DatagramServer, End)>,
    client: DatagramClient,
    end: End,
}

fn server_config(incarnation: u64) -> DatagramServerConfig {
    DatagramServerConfig {
        slots: 4,
        sessions_max: 2,
        keep: Duration::from_millis(1),
        ..DatagramServerConfig::new(incarnation)
    }
}

impl World {
    /// Two endpoints with half of the keys each; the client begins with `map`.
    fn new(seed: u64, faults: Faults, max: usize, map: PartitionMap) -> Self {
        let net = Net::new(seed, faults, max);
        let true_map = PartitionMap::new(7, 2, halves([0, 1])).unwrap();
        let servers = (0..2).map(|endpoint| {
            let net = net.clone();
            let ip = server_ip(endpoint);
            let mut end = End { net, ip };
            let config = server_config(1000 + u64::from(endpoint));
            let server = DatagramServer::new(shard(&true_map, endpoint), config);
            server.bind(&mut end).unwrap();
            (server, end)
        });
        let servers = servers.collect();
        let mut end = End {
            net: net.clone(),
            ip: CLIENT,
        };
        let config = DatagramClientConfig {
            operations: 12,
            timeout: Duration::from_micros(20),
            timeout_max: Duration::from_micros(100),
            tries_max: 60,
            ..DatagramClientConfig::new(77)
        };
        let mut client = DatagramClient::new(&mut end, map, config).unwrap();
        for endpoint in 0..2 {
            let to = (server_ip(endpoint), lookup::PORT);
            client.attach(EndpointId(endpoint), to).unwrap();
        }
        Self {
            net,
            servers,
            client,
            end,
        }
    }

    fn exact(seed: u64) -> Self {
        let map = PartitionMap::new(7, 2, halves([0, 1])).unwrap();
        Self::new(seed, Faults::default(), 1000, map)
    }

    /// Advances by a microsecond; returns completed operations.
    fn step(&mut self) -> Vec<Reply> {
        let now = self.net.borrow().now + Duration::from_micros(1);
        self.net.borrow_mut().go_on(now);
        for (server, end) in &mut self.servers {
            server.poll(now, end);
        }
        let mut replies = Vec::new();
        while let Some(reply) = self.client.poll(now, &mut self.end) {
            replies.push(reply);
        }
        replies
    }

    /// Runs one operation to its end.
    fn finish(&mut self, op: &Op<'_>) -> Result<Answer, IndexError> {
        let ticket = self.client.begin(op).unwrap();
        for _ in 0..200_000 {
            if let Some(reply) = self.step().into_iter().next() {
                assert_eq!(reply.ticket, ticket);
                return reply.result;
            }
        }
        panic!("{op:?} does not end");
    }
}

fn halves(owners: [u16; 2]) -> Vec<Part> {
    let part = |low, last, owner| Part {
        low,
        last,
        endpoint: EndpointId(owner),
    };
    vec![
        part(0, KEYS / 2 - 1, owners[0]),
        part(KEYS / 2, u64::MAX, owners[1]),
    ]
}

/// Writes and reads keys, several at a time, never two operations on one key. Every result must
/// match a model map.
#[expect(
    clippy::too_many_lines,
    reason = "what a random history does, in its order"
)]
fn history(world: &mut World, rng: &mut Rng, mut left: u32) {
    let mut model: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
    let mut under_way: HashMap<Ticket, (Vec<u64>, Answer)> = HashMap::new();
    let mut steps = 0;
    while left > 0 || !under_way.is_empty() {
        steps += 1;
        assert!(steps < 2_000_000, "it does not end");
        if left > 0 && world.client.free() > 0 {
            let low = rng.below(KEYS);
            let kind = rng.below(10);
            let last = if kind == 9 { low + rng.below(40) } else { low };
            let busy = |key: &u64| (low..=last).contains(key);
            if under_way.values().flat_map(|(keys, _)| keys).any(busy) {
                continue;
            }
            left -= 1;
            let len = *rng.pick(&[8, 8, 0, 30, 60]);
            let value: Vec<u8> = (0..len).map(|_| rng.next_u32() as u8).collect();
            let (key, value) = (low, &value[..]);
            let before = model.get(&key).cloned();
            let found = Answer::Found(before.is_some());
            let (op, expect) = match kind {
                0 | 1 => (Op::Insert { key, value }, found),
                2 => (Op::Update { key, value }, found),
                3 | 4 => (Op::Put { key, value }, found),
                5 => (Op::Delete { key }, found),
                6..9 => {
                    let value = before.as_deref().map(|bytes| bytes.into());
                    (Op::Get { key }, Answer::Value(value))
                }
                _ => {
                    let direction = *rng.pick(&[Direction::Forward, Direction::Backward]);
                    let entries = model.range(low..=last);
                    let mut entries: Vec<_> = entries
                        .map(|(&key, value)| (key, (&value[..]).into()))
                        .collect();
                    if direction == Direction::Backward {
                        entries.reverse();
                    }
                    let op = Op::Scan {
                        low,
                        last,
                        direction,
                        limit: 100,
                    };
                    (op, Answer::Entries(entries))
                }
            };
            match (&op, before.is_some()) {
                (Op::Insert { .. }, false) | (Op::Update { .. }, true) | (Op::Put { .. }, _) => {
                    model.insert(key, value.to_vec());
                }
                (Op::Delete { .. }, _) => drop(model.remove(&key)),
                _ => {}
            }
            let ticket = world.client.begin(&op).unwrap();
            under_way.insert(ticket, ((low..=last).collect(), expect));
        }
        for reply in world.step() {
            let (keys, expect) = under_way.remove(&reply.ticket).expect("once");
            assert_eq!(reply.result, Ok(expect), "{keys:?}");
        }
    }
    // And no other keys are present.
    let mut there = BTreeMap::new();
    for (server, _) in &world.servers {
        let tree = server.shard().tree();
        tree.check().unwrap();
        tree.scan(0..=u64::MAX, Direction::Forward, &mut |key, value| {
            there.insert(key, value.to_vec());
            true
        });
    }
    assert_eq!(there, model);
}

const FAULTY: Faults = Faults {
    loss: 10,
    double: 10,
    damage: 10,
    delay: 60_000,
};

#[test]
fn each_write_is_done_once_whatever_the_network_does() {
    for seed in 1..7 {
        // The client begins with the endpoints swapped, and the map arrives in pieces.
        let map = PartitionMap::new(1, 2, halves([1, 0])).unwrap();
        let mut world = World::new(seed, FAULTY, 110 + 36, map);
        if seed % 2 == 0 {
            world.net.borrow_mut().hints = (0..40).chain([1000, u32::MAX]).collect();
        }
        history(&mut world, &mut Rng::new(seed), 1500);
        let (statistics, sent) = (
            world.client.statistics(),
            world.client.datagram_statistics(),
        );
        assert!(
            statistics.moved > 0 && statistics.maps_newer == 1,
            "{seed}: {statistics:?}"
        );
        assert!(sent.repeated > 100 && sent.damaged > 20, "{seed}: {sent:?}");
        assert!(sent.strays > 100 && sent.given_up == 0, "{seed}: {sent:?}");
        let servers = world.servers.iter().map(|(server, _)| server.statistics());
        for server in servers {
            assert!(
                server.repeated > 20 && server.late > 5,
                "{seed}: {server:?}"
            );
            assert!(
                server.damaged > 20 && server.sessionless == 0,
                "{seed}: {server:?}"
            );
            assert_eq!(server.begun > 20, seed % 2 == 0, "{seed}: {server:?}");
            assert_eq!(server.hinted > 100, seed % 2 == 0, "{seed}: {server:?}");
        }
    }
}

#[test]
fn siblings_share_sessions() {
    let map = PartitionMap::new(7, 2, halves([0, 1])).unwrap();
    let mut world = World::new(9, FAULTY, 1000, map);
    let (server, end) = &world.servers[0];
    let sibling = (server.sibling(), end.clone());
    world.servers.push(sibling);
    // They poll in turn, a datagram each, so that duplicates reach both.
    for (server, _) in &mut world.servers {
        server.config_burst(1);
    }
    history(&mut world, &mut Rng::new(9), 1500);
    let served = |at: usize| world.servers[at].0.statistics();
    assert!(served(2).received > 100 && served(2).repeated > 5);
    assert_eq!(world.servers[2].0.sessions(), (1, 0));
}

#[test]
fn a_session_that_is_lost_leaves_an_unknown_outcome() {
    let mut world = World::exact(1);
    let put = |key| Op::Put { key, value: b"x" };
    assert_eq!(world.finish(&put(1)), Ok(Answer::Found(false)));
    // The endpoint's server restarts, with the same shard.
    let (server, end) = &mut world.servers[0];
    let shard = server.shard().clone();
    *server = DatagramServer::new(shard, server_config(5000));
    assert!(server.bind(end).is_err(), "the port is still taken");
    let unknown = IndexError::OutcomeUnknown(EndpointId(0));
    assert_eq!(world.finish(&put(1)), Err(unknown));
    assert_eq!(world.finish(&put(1)), Ok(Answer::Found(true)));
    let statistics = world.client.datagram_statistics();
    assert_eq!((statistics.sessions, statistics.sessions_lost), (2, 1));
    assert_eq!(world.servers[0].0.statistics().sessionless, 1);
}

#[test]
fn a_session_that_may_be_forgotten_is_opened_anew() {
    let mut world = World::exact(2);
    let put = |key| Op::Put { key, value: b"x" };
    assert_eq!(world.finish(&put(1)), Ok(Answer::Found(false)));
    let others = |world: &mut World, clients: core::ops::Range<u64>| {
        let (server, _) = &mut world.servers[0];
        let now = world.net.borrow().now;
        let mut open = |client| server.open_for(now, client, 1);
        clients.map(&mut open).filter(Option::is_some).count()
    };
    assert_eq!(others(&mut world, 1..4), 1, "there is room for one more");
    assert_eq!(world.finish(&put(2)), Ok(Answer::Found(false)));
    for _ in 0..1100 {
        world.step();
    }
    assert_eq!(others(&mut world, 5..8), 2, "both have rested");
    // All sessions belong to others, until those are idle, too.
    assert_eq!(world.finish(&put(3)), Ok(Answer::Found(false)));
    let statistics = world.client.datagram_statistics();
    assert_eq!((statistics.sessions, statistics.sessions_lost), (2, 0));
    assert!(world.client.statistics().busy > 0);
    assert_eq!(world.servers[0].0.sessions(), (5, 3));
}

#[test]
fn an_endpoint_that_is_dead_is_gone() {
    let mut world = World::exact(3);
    let (get, put) = (
        Op::Get { key: 1 },
        Op::Put {
            key: 1,
            value: b"x",
        },
    );
    let gone = IndexError::Gone(EndpointId(0));
    world.net.borrow_mut().dead.push(server_ip(0));
    assert_eq!(world.finish(&get), Err(gone));
    assert_eq!(
        world.finish(&put),
        Err(gone),
        "without a session nothing was done"
    );
    world.net.borrow_mut().dead.clear();
    assert_eq!(world.finish(&put), Ok(Answer::Found(false)));
    world.net.borrow_mut().dead.push(CLIENT);
    let unknown = IndexError::OutcomeUnknown(EndpointId(0));
    assert_eq!(world.finish(&put), Err(unknown));
    world.net.borrow_mut().dead.clear();
    assert_eq!(world.finish(&put), Ok(Answer::Found(true)));
    assert_eq!(world.client.datagram_statistics().given_up, 3);
    let endpoint = EndpointId(2);
    let error = world.client.attach(endpoint, (CLIENT, 1)).unwrap_err();
    let endpoints = 2;
    assert_eq!(
        error,
        AttachError::NoEndpoint {
            endpoint,
            endpoints
        }
    );
}

#[test]
fn nonsense_harms_nobody() {
    let mut world = World::exact(4);
    let put = Op::Put {
        key: 1,
        value: b"x",
    };
    assert_eq!(world.finish(&put), Ok(Answer::Found(false)));
    let client = (CLIENT, world.client.port());
    let mut rng = Rng::new(4);
    let mut stranger = world.end.clone();
    let stranger_port = stranger.bind(0).unwrap();
    let mut sound = Vec::new();
    for round in 0..4000 {
        let mut bytes: Vec<u8> = (0..rng.below(90)).map(|_| rng.next_u32() as u8).collect();
        if round % 2 == 0 {
            // Valid except for the body, or a valid reply to no request.
            sound.clear();
            let of = lookup::Reply {
                op: rng.below(10) as u8,
                status: rackweave_wire::fabric::rpc::Status(rng.below(4) as u16),
                level: 0,
                key: rng.below(4),
                id: rng.below(4) << 16,
                client: 77,
                body: &bytes,
            };
            of.emit(&mut sound);
            if round % 4 == 0 {
                sound[3] &= 0x7f;
                renew_check(&mut sound);
            }
            bytes.clone_from(&sound);
        }
        for to in [(server_ip(0), lookup::PORT), client] {
            stranger.send(stranger_port, to, &bytes).unwrap();
        }
        if round % 16 == 0 {
            assert!(world.step().is_empty());
        }
    }
    let get = Op::Get { key: 1 };
    let value = Answer::Value(Some((&b"x"[..]).into()));
    assert_eq!(world.finish(&get), Ok(value));
    let server = world.servers[0].0.statistics();
    assert!(server.damaged > 500 && server.malformed > 100, "{server:?}");
    assert!(server.sessionless > 0, "{server:?}");
    let statistics = world.client.datagram_statistics();
    assert!(
        statistics.damaged > 500 && statistics.strays > 500,
        "{statistics:?}"
    );
    world.servers[0].0.shard().tree().check().unwrap();
    let World {
        client, mut end, ..
    } = world;
    let port = client.port();
    client.close(&mut end);
    assert!(!end.unbind(port), "it was given back");
}

/// Corrects the check word of a request: it covers all but the tree node and itself.
fn renew_check(bytes: &mut [u8]) {
    let covered = [&bytes[..4], &bytes[8..32], &bytes[36..]].concat();
    let mut crc = u32::MAX;
    for byte in covered {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ ((crc & 1) * 0xedb8_8320);
        }
    }
    bytes[32..36].copy_from_slice(&(!crc).to_be_bytes());
}

#[test]
fn a_write_that_waits_for_the_replica_is_executed_once_and_answered_later() {
    let mut world = World::exact(5);
    let shard = world.servers[0].0.shard().clone();
    shard.replicate(1).unwrap();
    while shard.mark_copy(1, 100).is_some() {
        shard.cover(1);
        shard.end_range();
    }
    let value = b"three";
    world.client.begin(&Op::Insert { key: 3, value }).unwrap();
    for _ in 0..200 {
        assert_eq!(world.step(), []);
    }
    assert_eq!(shard.get(3, &mut Vec::new()), Ok(false));
    let statistics = world.servers[0].0.statistics();
    assert!(statistics.deferred == 1 && statistics.late > 0);
    // The owner gives up the replica.
    shard.uncover(1);
    let service = world.servers[0].0.service();
    service.advance(Instant::ZERO, &mut FakeNic::new(1, 1));
    let replies: Vec<_> = (0..20).flat_map(|_| world.step()).collect();
    assert_eq!(replies.len(), 1);
    assert_eq!(replies[0].result, Ok(Answer::Found(false)));
    let there = world.finish(&Op::Delete { key: 3 });
    assert_eq!(there, Ok(Answer::Found(true)));
}
