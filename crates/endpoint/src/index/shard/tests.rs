//! Moves between two shards compared with a map, with failures of all participants.

use super::*;
use crate::btree::TreeConfig;
use crate::index::message::{self, Outcome, Page, Request};
use crate::index::mover::{Move, MoveError, Moved, Mover, Progress};
use crate::index::server::IndexServer;
use crate::rpc::{Service, Status, Writer};
use rackweave_base::{Instant, Rng};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

mod restart;

const LEFT: EndpointId = EndpointId(0);
const RIGHT: EndpointId = EndpointId(1);
const KEYS: u64 = 1000;

fn shard(me: EndpointId, map: &PartitionMap) -> Arc<Shard> {
    let memory = Memory::new(16 << 20);
    let mut config = TreeConfig {
        tree: u64::from(me.0) + 7,
        ..TreeConfig::for_keys(KEYS, 512, 100)
    };
    (config.low, config.last) = map.part_of(me).map_or((0, 0), |part| (part.low, part.last));
    let block = memory.allocate(config.bytes() as usize).unwrap();
    let tree = Tree::create(block, &config).unwrap();
    Arc::new(Shard::new(&memory, me, tree, map.clone()).unwrap())
}

fn pair(map: &PartitionMap) -> [Arc<Shard>; 2] {
    [shard(LEFT, map), shard(RIGHT, map)]
}

/// Calls a server as a connection would.
fn ask(server: &mut IndexServer, method: u16, request: &[u8]) -> (Status, Vec<u8>) {
    let mut bytes = Vec::new();
    let mut reply = Writer::new(&mut bytes, 300);
    let status = server.serve(Instant::ZERO, 0, method, request, &mut reply);
    (status, bytes)
}

/// Runs a move between the shards, with at most `steps` requests; `None` if that is not enough.
fn run(
    mover: &mut Mover,
    servers: &mut [IndexServer; 2],
    steps: usize,
    mut between: impl FnMut(),
) -> Option<Result<Moved, MoveError>> {
    for _ in 0..steps {
        let (side, request) = mover.request().expect("it has not ended");
        let at = mover.endpoint(side).index();
        let mut bytes = Vec::new();
        request.encode(&mut bytes);
        let (status, answer) = ask(&mut servers[at], request.method() as u16, &bytes);
        assert_eq!(status, Status::OK);
        between();
        if let Progress::End(end) = mover.handle_reply(Some(&answer)) {
            return Some(end);
        }
    }
    None
}

fn servers(shards: &[Arc<Shard>; 2]) -> [IndexServer; 2] {
    shards.clone().map(IndexServer::new)
}

fn a_move(low: u64, last: u64, entries_max: u32) -> Move {
    Move {
        from: LEFT,
        to: RIGHT,
        low,
        last,
        entries_max,
    }
}

/// The newest map of the two shards.
fn newest(shards: &[Arc<Shard>; 2]) -> PartitionMap {
    let maps = shards.iter().map(|shard| (*shard.map()).clone());
    maps.max_by_key(PartitionMap::version).unwrap()
}

/// All entries of both shards, each key from its owner.
fn contents(shards: &[Arc<Shard>; 2]) -> BTreeMap<u64, Vec<u8>> {
    let mut all = BTreeMap::new();
    for shard in shards {
        shard.tree().check().unwrap();
        let Some(part) = shard.part() else {
            assert!(is_empty(shard.tree()));
            continue;
        };
        assert_eq!(shard.tree().bounds(), (part.low, part.last));
        shard
            .tree()
            .scan(part.keys(), Direction::Forward, &mut |key, value| {
                assert!(all.insert(key, value.to_vec()).is_none());
                true
            });
    }
    all
}

#[test]
fn an_endpoint_answers_for_its_own_keys_only() {
    let map = PartitionMap::split(&[500]).unwrap();
    let [left, right] = pair(&map);
    let value = &mut Vec::new();
    assert_eq!(left.insert(499, b"left"), Ok(true));
    assert_eq!(left.get(499, value), Ok(true));
    assert_eq!(value, b"left");
    let moved = Denied::Moved { version: 1 };
    assert_eq!(left.insert(500, b"x"), Err(moved));
    assert_eq!(right.get(499, value), Err(moved));
    assert_eq!(right.remove(0), Err(moved));
    let long = right.put(500, &[0; 101]);
    assert!(matches!(
        long,
        Err(Denied::Tree(TreeError::ValueTooLarge { .. }))
    ));
}

#[test]
fn a_shard_and_its_tree_must_fit_the_map() {
    let memory = Memory::new(16 << 20);
    let config = TreeConfig::for_keys(10, 512, 8);
    let tree = |memory: &Memory| {
        let block = memory.allocate(config.bytes() as usize).unwrap();
        Tree::create(block, &config).unwrap()
    };
    let map = PartitionMap::split(&[500]).unwrap();
    let check = |me: u16, map: &PartitionMap, tree: Tree, expect: Option<&str>| {
        let shard = Shard::new(&memory, EndpointId(me), tree, map.clone());
        let error = shard.err().map(|error| error.to_string());
        assert_eq!(error.as_deref(), expect);
    };
    check(
        2,
        &map,
        tree(&memory),
        Some("the index has 2 endpoints; there is no endpoint 2"),
    );
    check(
        1,
        &map,
        tree(&memory),
        Some("the tree has the keys 0 to 18446744073709551615, the map gives endpoint 1 others"),
    );
    let whole = PartitionMap::whole(2, LEFT).unwrap();
    check(0, &whole, tree(&memory), None);
    check(1, &whole, tree(&memory), None);
    let full = tree(&memory);
    full.insert(7, b"12345678").unwrap();
    check(
        1,
        &whole,
        full,
        Some("the tree has the keys 0 to 18446744073709551615, the map gives endpoint 1 others"),
    );
}

#[test]
fn ranges_move_to_and_fro_and_nothing_is_lost() {
    let mut rng = Rng::new(3);
    let mut map = PartitionMap::split(&[KEYS / 2]).unwrap();
    let shards = pair(&map);
    let mut servers = servers(&shards);
    let mut model = BTreeMap::new();
    for _ in 0..400 {
        let key = rng.below(KEYS);
        let value = vec![key as u8; *rng.pick(&[0, 8, 8, 40, 100])];
        let owner = &shards[map.owner(key).index()];
        let before = model.insert(key, value.clone());
        assert_eq!(owner.put(key, &value), Ok(before.is_none()));
    }
    for id in 0..200 {
        let from = EndpointId(rng.below(2) as u16);
        let to = EndpointId(1 - from.0);
        let Some(part) = map.part_of(from) else {
            continue;
        };
        let high = match map.part_of(to) {
            Some(other) => other.low > part.low,
            None => rng.chance(0.5),
        };
        let inside = rng.between(part.low, part.last.min(KEYS + 50).max(part.low));
        let (low, last) = match high {
            _ if rng.chance(0.2) => (part.low, part.last),
            true => (inside, part.last),
            false => (part.low, inside),
        };
        let what = Move {
            from,
            to,
            low,
            last,
            entries_max: rng.between(1, 200) as u32,
        };
        let mut mover = Mover::new(MoveId(id), what, map.clone());
        let moved = run(&mut mover, &mut servers, 10_000, || {})
            .unwrap()
            .unwrap();
        assert!(moved.entries <= u64::from(what.entries_max));
        let there = model.range(moved.keys.low..=moved.keys.last).count() as u64;
        assert_eq!(moved.entries, there);
        map = moved.map;
        assert_eq!(newest(&shards), map);
        assert_eq!(contents(&shards), model, "move {id}");
    }
}

#[test]
fn what_is_marked_is_read_and_not_written() {
    let map = PartitionMap::split(&[500]).unwrap();
    let shards = pair(&map);
    for key in 300..500 {
        shards[0].insert(key, &key.to_le_bytes()).unwrap();
    }
    let mut servers = servers(&shards);
    let mut mover = Mover::new(MoveId(1), a_move(400, 499, 1000), map);
    assert!(run(&mut mover, &mut servers, 3, || {}).is_none());
    let value = &mut Vec::new();
    assert_eq!(shards[0].get(450, value), Ok(true));
    assert_eq!(shards[0].put(450, b"x"), Err(Denied::Busy));
    assert_eq!(shards[0].remove(499), Err(Denied::Busy));
    assert_eq!(shards[0].put(399, b"x"), Ok(false));
    // No other move may begin now, and no step of another move does harm.
    let other = shards[0].mark(MoveId(2), RIGHT, (450, 499), 9, &shards[0].map());
    assert_eq!(other, Err(HandoverError::Other));
    shards[0].release(MoveId(2));
    shards[1].discard(MoveId(2)).unwrap();
    let map = shards[0].map();
    assert_eq!(shards[0].commit(MoveId(2), &map), Err(HandoverError::Other));
    assert_eq!(shards[1].seal(MoveId(2), 0), Err(HandoverError::Other));
    assert_eq!(
        shards[1].adopt(MoveId(1), &map),
        Err(HandoverError::Unsealed)
    );
    let end = run(&mut mover, &mut servers, 10_000, || {}).unwrap();
    assert_eq!(end.unwrap().entries, 100);
    assert_eq!(shards[1].put(450, b"x"), Ok(false));
    let moved = Denied::Moved { version: 2 };
    assert_eq!(shards[0].get(450, value), Err(moved));
}

#[test]
fn a_move_that_is_refused_or_left_changes_nothing_until_it_is_committed() {
    let map = PartitionMap::split(&[500]).unwrap();
    let shards = pair(&map);
    let mut model = BTreeMap::new();
    for key in 400..500 {
        shards[0].insert(key, &key.to_le_bytes()).unwrap();
        model.insert(key, key.to_le_bytes().to_vec());
    }
    let mut servers = servers(&shards);
    let mut committed = None;
    let mut steps = 0;
    while committed.is_none() {
        // One coordinator fails after this many steps, and another finds what it has left.
        steps += 1;
        let map = newest(&shards);
        let mut mover = Mover::new(MoveId(steps), a_move(450, 499, 1000), map.clone());
        if let Some(end) = run(&mut mover, &mut servers, steps as usize, || {}) {
            committed = Some(end.unwrap().map);
            break;
        }
        let states = [shards[0].state(), shards[1].state()];
        assert_eq!(
            ShardState::decode(&states[0].encode(), LEFT),
            Some(states[0])
        );
        assert_eq!(
            ShardState::decode(&states[1].encode(), RIGHT),
            Some(states[1])
        );
        // A successor does one thing at a time: it queries both states before the next.
        let mut heirs = 0;
        loop {
            let (states, map) = ([shards[0].state(), shards[1].state()], newest(&shards));
            let resumed = Mover::resume((LEFT, &states[0]), (RIGHT, &states[1]), &map);
            let Some(mut heir) = resumed else { break };
            heirs += 1;
            match run(&mut heir, &mut servers, 100, || {}).unwrap() {
                Ok(moved) => committed = Some(moved.map),
                Err(error) => {
                    assert_eq!(error, MoveError::Interrupted(LEFT));
                    assert_eq!(newest(&shards).version(), 1);
                }
            }
        }
        assert!((1..=2).contains(&heirs), "{heirs} heirs");
        assert_eq!(contents(&shards), model, "left after {steps}");
        assert_eq!(shards[0].state().giving, None);
        assert_eq!(shards[1].state().getting, None);
    }
    assert!(steps > 5, "{steps} steps");
    assert_eq!(committed.unwrap().owner(450), RIGHT);
    assert_eq!(contents(&shards), model);
}

#[test]
fn a_taker_without_room_stays_as_it_was_and_so_does_the_giver() {
    let map = PartitionMap::split(&[500]).unwrap();
    let memory = Memory::new(16 << 20);
    let config = TreeConfig {
        low: 500,
        tree_nodes: 6,
        ..TreeConfig::for_keys(10, 512, 8)
    };
    let block = memory.allocate(config.bytes() as usize).unwrap();
    let small = Tree::create(block, &config).unwrap();
    let small = Shard::new(&memory, RIGHT, small, map.clone()).unwrap();
    small.insert(600, b"here    ").unwrap();
    let shards = [shard(LEFT, &map), Arc::new(small)];
    for key in 0..500 {
        shards[0].insert(key, &key.to_le_bytes()).unwrap();
    }
    let before = contents(&shards);
    let mut mover = Mover::new(MoveId(1), a_move(0, 499, 1000), map.clone());
    let end = run(&mut mover, &mut servers(&shards), 1000, || {}).unwrap();
    let refused = MoveError::Refused {
        endpoint: RIGHT,
        outcome: crate::index::message::Outcome::Full,
    };
    assert_eq!(end, Err(refused));
    assert_eq!(contents(&shards), before);
    assert_eq!(newest(&shards), map);
    assert_eq!(shards[0].put(499, b"12345678"), Ok(false));
}

#[test]
fn bad_requests_are_refused_and_do_no_harm() {
    let map = PartitionMap::split(&[500]).unwrap();
    let shards = pair(&map);
    shards[0].insert(7, b"seven").unwrap();
    let mut server = IndexServer::new(shards[0].clone());
    let mut rng = Rng::new(8);
    let before = contents(&shards);
    assert_eq!(ask(&mut server, 0, &[]).0, Status::UNKNOWN_METHOD);
    assert_eq!(ask(&mut server, 999, &[1, 2, 3]).0, Status::UNKNOWN_METHOD);
    for method in 1..=19 {
        // Truncated.
        let (status, bytes) = ask(&mut server, method, &[1, 2, 3]);
        assert_eq!((status, bytes.len()), (Status::MALFORMED, 0), "{method}");
    }
    for _ in 0..20_000 {
        // Without writes, which random bytes may encode, and without marks.
        let method = *rng.pick(&[1, 6, 8, 9, 10, 12, 13, 14, 15, 16, 17, 18, 19, 20]);
        let request: Vec<u8> = (0..rng.below(80)).map(|_| rng.next_u64() as u8).collect();
        ask(&mut server, method, &request);
    }
    assert_eq!(contents(&shards), before);
    assert_eq!(shards[0].state().giving, None);
    assert_eq!(shards[0].put(8, b"eight"), Ok(true));
    // A value that fits no page is reported as too large, and no client waits for ever.
    let memory = Memory::new(16 << 20);
    let config = TreeConfig::for_keys(10, 512, 1000);
    let block = memory.allocate(config.bytes() as usize).unwrap();
    let whole = PartitionMap::whole(1, LEFT).unwrap();
    let tree = Tree::create(block, &config).unwrap();
    let shard = Arc::new(Shard::new(&memory, LEFT, tree, whole).unwrap());
    shard.put(1, &[0; 1000]).unwrap();
    let mut scan = Vec::new();
    Request::Scan {
        low: 0,
        last: 9,
        direction: Direction::Forward,
        limit: 5,
    }
    .encode(&mut scan);
    let (_, answer) = ask(&mut IndexServer::new(shard), 6, &scan);
    assert_eq!(answer, [Outcome::ValueTooLarge as u8]);
}

#[test]
fn threads_write_and_read_while_ranges_move() {
    let seed = 21;
    let map = PartitionMap::split(&[KEYS / 2]).unwrap();
    let shards = pair(&map);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let threads = [0, 1].map(|me| {
            let (shards, stop) = (&shards, &stop);
            scope.spawn(move || {
                let mut rng = Rng::new(seed + me);
                let mut model: BTreeMap<u64, u64> = BTreeMap::new();
                let mut value = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    let key = rng.below(KEYS / 2) * 2 + me;
                    let number = rng.next_u64();
                    let write = rng.chance(0.5);
                    // Tries both endpoints until one of them owns the key.
                    let found = (0..).find_map(|at| {
                        let shard = &shards[at % 2];
                        match write {
                            true => shard.put(key, &number.to_le_bytes()).ok(),
                            false => shard.get(key, &mut value).ok(),
                        }
                    });
                    let before = match write {
                        true => model.insert(key, number),
                        false => model.get(&key).copied(),
                    };
                    assert_eq!(found, Some(before.is_some() != write), "key {key}");
                    if let (false, Some(before)) = (write, before) {
                        assert_eq!(value, before.to_le_bytes());
                    }
                }
                model
            })
        });
        let mut servers = servers(&shards);
        let mut rng = Rng::new(seed);
        let mut map = map;
        for id in 0..150 {
            let boundary = map.part_of(LEFT).map_or(0, |part| part.last + 1);
            let to = rng.between(1, KEYS);
            let (low, last) = (to.min(boundary), to.max(boundary));
            if low == last {
                continue;
            }
            let from = if to < boundary { LEFT } else { RIGHT };
            let what = Move {
                from,
                to: EndpointId(1 - from.0),
                low,
                last: last - 1,
                entries_max: 100,
            };
            let mut mover = Mover::new(MoveId(id), what, map.clone());
            let end = run(&mut mover, &mut servers, 10_000, std::thread::yield_now);
            map = end.unwrap().unwrap().map;
        }
        stop.store(true, Ordering::Relaxed);
        let mut model = BTreeMap::new();
        for thread in threads {
            model.extend(thread.join().unwrap());
        }
        let model: BTreeMap<u64, Vec<u8>> = model
            .into_iter()
            .map(|(key, number)| (key, number.to_le_bytes().to_vec()))
            .collect();
        assert_eq!(contents(&shards), model);
    });
}

#[test]
fn a_scan_that_ends_before_it_begins_has_an_empty_page() {
    let map = PartitionMap::whole(2, LEFT).unwrap();
    let mut server = IndexServer::new(shard(LEFT, &map));
    let mut scan = Vec::new();
    let (low, last) = (9, 8);
    for direction in [Direction::Forward, Direction::Backward] {
        scan.clear();
        let request = Request::Scan {
            low,
            last,
            direction,
            limit: 3,
        };
        request.encode(&mut scan);
        let (status, answer) = ask(&mut server, request.method() as u16, &scan);
        assert_eq!(status, Status::OK);
        let (outcome, rest) = message::reply(&answer).expect("an outcome");
        assert_eq!(outcome, Outcome::Done);
        let page = Page::decode(rest).expect("a page");
        assert_eq!((page.next, page.entries.bytes()), (None, &[][..]));
    }
}
