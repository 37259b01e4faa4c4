//! Single situations, each with its outcome.

use super::world::{ENDPOINTS, KEYS, World};
use crate::index::message::{Entries, Outcome, Request};
use crate::index::replica::{Replica, ReplicaServer};
use crate::index::shard::{ReplicationError, ReplicationState, Shard};
use crate::rpc::{Service, Status, Writer};
use rackweave_base::Instant;
use std::sync::Arc;

const KEY: u64 = 6;
/// Kinds of operations of [`World::begin_at`].
const INSERT: u64 = 0;
const PUT: u64 = 3;
const GET: u64 = 7;

/// Both endpoints have a whole replica, and the clients are connected.
fn whole(seed: u64) -> World {
    let mut world = World::new(seed);
    for id in ENDPOINTS {
        world.back_up(id, id.index() + 2, 1);
    }
    world.attach();
    until(&mut world, |world| {
        ENDPOINTS.iter().all(|id| state(world, id.index()).is_whole)
    });
    world
}

fn shard(world: &World, at: usize) -> Arc<Shard> {
    world.endpoints[at].as_ref().unwrap().shard.clone()
}

fn state(world: &World, at: usize) -> ReplicationState {
    shard(world, at).replication_state()
}

fn until(world: &mut World, done: impl Fn(&World) -> bool) {
    for _ in 0..10_000 {
        if done(world) {
            return;
        }
        world.step();
    }
    panic!("it does not happen");
}

fn rest(world: &mut World) {
    until(world, |world| !world.is_busy());
}

fn value(shard: &Shard, key: u64) -> Option<Vec<u8>> {
    let mut value = Vec::new();
    shard.get(key, &mut value).unwrap().then_some(value)
}

fn set_awake(world: &mut World, awake: bool) {
    world.backups[0].as_mut().unwrap().is_awake = awake;
}

#[test]
fn nobody_sees_a_value_before_the_replica_has_it() {
    let mut world = whole(1);
    let shard = shard(&world, 0);
    let before = value(&shard, KEY);
    set_awake(&mut world, false);
    world.begin_at(0, KEY, PUT);
    (0..300).for_each(|_| world.step());
    assert_eq!(state(&world, 0).pending, 1);
    // Reads do not wait, by either way.
    for client in 0..3 {
        world.begin_at(client, KEY, GET);
    }
    until(&mut world, |world| world.ended == 3);
    assert_eq!(value(&shard, KEY), before);
    // Other keys, and keys of the other endpoint, are written; this key is not, by anyone.
    world.begin_at(1, KEY, PUT);
    world.begin_at(2, KEYS - 1, PUT);
    until(&mut world, |world| world.ended == 4);
    (0..300).for_each(|_| world.step());
    assert_eq!(state(&world, 0).pending, 1);
    set_awake(&mut world, true);
    rest(&mut world);
    assert_ne!(value(&shard, KEY), before);
    world.history.finish().unwrap();
}

#[test]
fn writes_go_on_when_the_owner_gives_up_the_replica() {
    let mut world = whole(2);
    set_awake(&mut world, false);
    world.network.dead.push(2);
    for client in 0..3 {
        world.begin_at(client, KEY, PUT);
        world.begin_at(client, KEY + 1, INSERT);
    }
    until(&mut world, |world| state(world, 0).is_lost);
    (0..500).for_each(|_| world.step());
    assert_eq!(world.ended, 0);
    let shard = shard(&world, 0);
    shard.uncover(2);
    assert_eq!(shard.replication_state().epoch, 1, "another epoch");
    shard.uncover(1);
    assert_eq!(
        shard.replicate(1),
        Err(ReplicationError::Epoch {
            epoch: 1,
            newest: 2
        })
    );
    rest(&mut world);
    assert_eq!(world.ended, 6);
    let state = shard.replication_state();
    assert_eq!((state.epoch, state.covered, state.pending), (0, None, 0));
    // Another replica is built from the beginning.
    world.network.dead.clear();
    world.end_backup(ENDPOINTS[0]);
    world.back_up(ENDPOINTS[0], 2, 3);
    until(&mut world, |world| self::state(world, 0).is_whole);
    world.history.finish().unwrap();
}

#[test]
fn an_endpoint_that_was_replaced_writes_nothing_any_more() {
    let mut world = whole(3);
    let replica = world.backups[0].as_ref().unwrap().replica.clone();
    let before = value(&shard(&world, 0), KEY);
    let part = shard(&world, 0).part().unwrap();
    let tree = replica.promote(part.low, part.last).unwrap().unwrap();
    assert!(replica.promote(part.low, part.last).unwrap().is_none());
    world.begin_at(0, KEY, PUT);
    until(&mut world, |world| state(world, 0).is_lost);
    (0..500).for_each(|_| world.step());
    assert_eq!(world.ended, 0, "the client gets no answer");
    assert_eq!(value(&shard(&world, 0), KEY), before);
    let mut found = Vec::new();
    assert_eq!(tree.lookup(KEY, &mut found).then_some(found), before);
    assert_eq!(tree.bounds(), (part.low, part.last));
}

#[test]
fn a_write_that_fails_here_is_undone_at_the_replica() {
    let mut world = whole(4);
    // Until the tree of the endpoint is full, which is smaller than its replica's.
    let mut key = KEYS;
    until(&mut world, |_| true);
    while world.full < 20 {
        for client in 0..3 {
            world.begin_at(client, key, INSERT);
            key += 1;
        }
        rest(&mut world);
    }
    let endpoint = world.endpoints[1].as_ref().unwrap();
    let backup = world.backups[1].as_ref().unwrap();
    let tree = backup.replica.tree.read().unwrap();
    let entries = World::entries(endpoint.shard.tree(), KEYS / 2, u64::MAX);
    assert_eq!(
        entries,
        World::entries(tree.as_ref().unwrap(), KEYS / 2, u64::MAX)
    );
    assert!(entries.len() > KEYS as usize);
    assert!(!endpoint.shard.replication_state().is_lost);
    drop(tree);
    world.history.finish().unwrap();
}

#[test]
fn a_move_waits_for_writes_that_the_replica_has_not_acknowledged() {
    let mut world = whole(5);
    set_awake(&mut world, false);
    let key = KEYS / 2 - 1;
    world.begin_at(0, key, PUT);
    until(&mut world, |world| state(world, 0).pending == 1);
    until(&mut world, |world| world.coordinator_is_ready());
    world.move_keys(0, key - 10, key);
    (0..1000).for_each(|_| world.step());
    assert!(shard(&world, 0).state().giving.is_some());
    assert_eq!((world.moved, world.ended), (0, 0));
    set_awake(&mut world, true);
    until(&mut world, |world| world.moved == 1 && world.ended == 1);
    // The taker's replica has the range.
    let covered = state(&world, 1);
    assert!(covered.is_whole && covered.covered.unwrap().low == key - 10);
    let tree = world.backups[1].as_ref().unwrap().replica.tree.read();
    let entries = World::entries(tree.unwrap().as_ref().unwrap(), key, key);
    assert_eq!(entries[0].1, value(&shard(&world, 1), key).unwrap());
    assert_eq!(state(&world, 0).covered.unwrap().last, key - 11);
}

#[test]
fn a_client_that_has_left_leaves_no_key_behind() {
    let mut world = whole(6);
    set_awake(&mut world, false);
    for client in 0..3 {
        world.begin_at(client, KEY, PUT);
    }
    until(&mut world, |world| state(world, 0).pending == 1);
    for at in [2, 1, 0] {
        world.leave(at);
    }
    (0..300).for_each(|_| world.step());
    set_awake(&mut world, true);
    until(&mut world, |world| state(world, 0).pending == 0);
    world.attach();
    world.begin_at(0, KEY, PUT);
    rest(&mut world);
    assert_eq!(world.ended, 1);
}

#[test]
fn a_replica_serves_its_epoch_and_nothing_else() {
    let world = World::new(7);
    let replica = Replica::new(world.tree(4, (5, 9)), 8).unwrap();
    let replica = Arc::new(replica);
    let mut server = ReplicaServer::new(replica.clone());
    let mut ask = |request: &Request<'_>| {
        let (mut bytes, mut answer) = (Vec::new(), Vec::new());
        request.encode(&mut bytes);
        let mut reply = Writer::new(&mut answer, 100);
        let method = request.method() as u16;
        let status = server.serve(Instant::ZERO, 0, method, &bytes, &mut reply);
        assert_eq!(status, Status::OK);
        Outcome::from_number(answer[0]).unwrap()
    };
    let mut page = Vec::new();
    for key in 0..2000 {
        Entries::push(&mut page, key, b"12345678");
    }
    let entries = Entries::new(&page).unwrap();
    let (key, value, low, last) = (5000, &b"v"[..], 3, u64::MAX);
    for epoch in [7, 9] {
        for request in [
            Request::ReplicaPut { epoch, key, value },
            Request::ReplicaRemove { epoch, key },
            Request::ReplicaInstall { epoch, entries },
            Request::ReplicaClear { epoch, low, last },
            Request::Get { key },
            Request::Put { key, value },
        ] {
            assert_eq!(ask(&request), Outcome::Conflict);
        }
    }
    let epoch = 8;
    let long = &[0; 100];
    for (request, expect) in [
        (Request::ReplicaInstall { epoch, entries }, Outcome::Done),
        (Request::ReplicaPut { epoch, key, value }, Outcome::Done),
        (Request::ReplicaClear { epoch, low, last }, Outcome::Done),
        (Request::ReplicaRemove { epoch, key: 1 }, Outcome::Done),
        (Request::ReplicaRemove { epoch, key }, Outcome::Done),
        (
            Request::ReplicaPut {
                epoch,
                key,
                value: long,
            },
            Outcome::ValueTooLarge,
        ),
    ] {
        assert_eq!(ask(&request), expect);
    }
    let method = Request::Map.method() as u16;
    let mut answer = Vec::new();
    let mut reply = Writer::new(&mut answer, 100);
    let garbage =
        ReplicaServer::new(replica.clone()).serve(Instant::ZERO, 0, method, b"x", &mut reply);
    assert_eq!(garbage, Status::MALFORMED);
    let tree = replica.promote(0, 10).unwrap().unwrap();
    let keys: Vec<_> = World::entries(&tree, 0, u64::MAX);
    let keys: Vec<u64> = keys.into_iter().map(|(key, _)| key).collect();
    assert_eq!(keys, [0, 2]);
}
