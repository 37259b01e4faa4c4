//! Endpoints that restart while ranges move, and movers that fail before the end.

use super::*;
use crate::index::message::{Method, Outcome};

const THIRD: EndpointId = EndpointId(2);

/// Three endpoints, and entries to be moved from the first to the second.
fn three() -> (PartitionMap, [Arc<Shard>; 3]) {
    let map = PartitionMap::split(&[500, 800]).unwrap();
    let shards = [LEFT, RIGHT, THIRD].map(|me| shard(me, &map));
    for key in 400..500 {
        shards[0].insert(key, &key.to_le_bytes()).unwrap();
    }
    (map, shards)
}

fn both(shards: &[Arc<Shard>]) -> [Arc<Shard>; 2] {
    [shards[0].clone(), shards[1].clone()]
}

/// Makes the map in which `dead` restarts, and has all others store it.
fn restart(
    others: &[Arc<Shard>],
    known: &PartitionMap,
    dead: EndpointId,
) -> Result<PartitionMap, HandoverError> {
    let maps: Result<Vec<_>, _> = others.iter().map(|it| it.begin_restart(dead)).collect();
    let maps = maps?.into_iter().chain([known.clone()]);
    let newest = maps.max_by_key(PartitionMap::version);
    let map = newest.expect("there is one").with_restart(dead);
    let mut others = others.iter();
    others.try_for_each(|it| it.end_restart(Some(&map)))?;
    Ok(map)
}

/// Takes steps until the next request has this method.
fn run_until(mover: &mut Mover, servers: &mut [IndexServer; 2], method: Method) {
    while mover.request().expect("it has not ended").1.method() != method {
        assert!(run(mover, servers, 1, || {}).is_none());
    }
}

#[test]
fn what_a_dead_giver_had_sealed_survives_with_the_taker() {
    for sealed in [false, true] {
        let (start, shards) = three();
        let mut servers = servers(&both(&shards));
        let mut mover = Mover::new(MoveId(1), a_move(450, 499, 1000), start.clone());
        let next = if sealed { Method::Commit } else { Method::Seal };
        run_until(&mut mover, &mut servers, next);
        let map = restart(&shards[1..], &start, LEFT).unwrap();
        assert_eq!(map.owner(450), if sealed { RIGHT } else { LEFT });
        for shard in &shards[1..] {
            assert_eq!((*shard.map()).clone(), map);
        }
        assert_eq!(shards[1].state().getting, None);
        let found = shards[1].get(470, &mut Vec::new());
        assert_eq!(found.is_ok(), sealed);
        shards[1].tree().check().unwrap();
    }
}

#[test]
fn a_giver_whose_taker_has_died_keeps_everything() {
    let (start, shards) = three();
    let mut servers = servers(&both(&shards));
    let mut mover = Mover::new(MoveId(1), a_move(450, 499, 1000), start.clone());
    run_until(&mut mover, &mut servers, Method::Commit);
    let others = [shards[0].clone(), shards[2].clone()];
    let map = restart(&others, &start, RIGHT).unwrap();
    assert_eq!(map, start.with_restart(RIGHT));
    assert_eq!(shards[0].put(450, b"x"), Ok(false));
    // The commit is too late.
    assert!(run(&mut mover, &mut servers, 1, || {}).is_none());
    assert_eq!(shards[0].part(), map.part_of(LEFT));
}

#[test]
fn a_move_among_others_that_was_committed_comes_to_its_end() {
    for adopted_late in [false, true] {
        let (start, shards) = three();
        let mut servers = servers(&both(&shards));
        let mut mover = Mover::new(MoveId(1), a_move(450, 499, 1000), start.clone());
        run_until(&mut mover, &mut servers, Method::Adopt);
        assert_eq!(shards[1].map().version(), 1);
        // The third endpoint does not take part. Its failure is known from its own map.
        let map = restart(&both(&shards), &start, THIRD).unwrap();
        assert_eq!((map.version(), map.owner(450)), (3, RIGHT));
        for shard in &shards[..2] {
            assert_eq!((*shard.map()).clone(), map);
        }
        assert!(shards[1].get(470, &mut Vec::new()).unwrap());
        if adopted_late {
            // The mover was not notified, and its last step has been done already.
            let moved = run(&mut mover, &mut servers, 1, || {}).unwrap().unwrap();
            assert_eq!(moved.map.version(), 2);
            assert_eq!(*shards[1].map(), map);
        }
        shards[1].tree().check().unwrap();
    }
}

#[test]
fn a_move_among_others_that_was_not_committed_is_refused() {
    let (start, shards) = three();
    let mut servers = servers(&both(&shards));
    let mut mover = Mover::new(MoveId(1), a_move(450, 499, 1000), start.clone());
    run_until(&mut mover, &mut servers, Method::Commit);
    let map = restart(&both(&shards), &start, THIRD).unwrap();
    assert_eq!(map, start.with_restart(THIRD));
    let end = run(&mut mover, &mut servers, 100, || {}).unwrap();
    let refused = MoveError::Refused {
        endpoint: LEFT,
        outcome: Outcome::Conflict,
    };
    assert_eq!(end, Err(refused));
    for shard in &shards[..2] {
        let state = shard.state();
        assert_eq!((state.giving, state.getting), (None, None));
        assert_eq!(*shard.map(), map);
    }
    assert_eq!(shards[0].put(450, b"x"), Ok(false));
}

#[test]
fn a_commit_that_is_late_is_refused_or_was_in_time() {
    // The steps of a successor that has queried both, before the commit arrives.
    for steps in 0..=3 {
        let (start, shards) = three();
        let shards = both(&shards);
        let mut servers = servers(&shards);
        let before = contents(&shards);
        let mut mover = Mover::new(MoveId(1), a_move(450, 499, 1000), start.clone());
        run_until(&mut mover, &mut servers, Method::Commit);
        let heir = |map: &PartitionMap| {
            let states = [shards[0].state(), shards[1].state()];
            Mover::resume((LEFT, &states[0]), (RIGHT, &states[1]), map)
        };
        let mut first = heir(&start).expect("a move");
        let mut end = run(&mut first, &mut servers, steps, || {});
        assert!(run(&mut mover, &mut servers, 1, || {}).is_none());
        let in_time = steps == 0;
        assert_eq!(newest(&shards).owner(450) == RIGHT, in_time);
        if end.is_none() {
            end = run(&mut first, &mut servers, 100, || {});
        }
        assert_eq!(end, Some(Err(MoveError::Interrupted(LEFT))));
        let map = newest(&shards);
        let end = heir(&map).map(|mut heir| run(&mut heir, &mut servers, 100, || {}));
        assert_eq!(end.is_some_and(|end| end.unwrap().is_ok()), in_time);
        assert!(heir(&newest(&shards)).is_none());
        assert_eq!(newest(&shards), map);
        assert_eq!(contents(&shards), before);
    }
}

#[test]
fn nothing_is_committed_while_another_endpoint_restarts() {
    for is_given_up in [false, true] {
        let (start, shards) = three();
        let mut servers = servers(&both(&shards));
        let mut mover = Mover::new(MoveId(1), a_move(450, 499, 1000), start.clone());
        run_until(&mut mover, &mut servers, Method::Commit);
        for shard in &shards[..2] {
            assert_eq!(shard.begin_restart(THIRD), Ok(start.clone()));
        }
        let map = start.with_restart(THIRD);
        let end = (!is_given_up).then_some(&map);
        if is_given_up {
            shards[0].end_restart(end).unwrap();
            let moved = run(&mut mover, &mut servers, 100, || {}).unwrap().unwrap();
            assert_eq!(moved.map.owner(450), RIGHT);
            continue;
        }
        let refused = run(&mut mover, &mut servers, 100, || {}).unwrap();
        assert!(
            matches!(refused, Err(MoveError::Refused { .. })),
            "{refused:?}"
        );
        for shard in &shards[..2] {
            shard.end_restart(end).unwrap();
            assert_eq!(*shard.map(), map);
        }
        assert_eq!(shards[0].put(450, b"x"), Ok(false));
    }
}

#[test]
fn a_giver_that_writes_again_leaves_nothing_to_its_taker() {
    let mut written = 0;
    for steps in 0..4 {
        let (start, shards) = three();
        let mut servers = servers(&both(&shards));
        let mut mover = Mover::new(MoveId(1), a_move(450, 499, 1000), start.clone());
        run_until(&mut mover, &mut servers, Method::Commit);
        let states = [shards[0].state(), shards[1].state()];
        let mut heir =
            Mover::resume((LEFT, &states[0]), (RIGHT, &states[1]), &start).expect("a move");
        run(&mut heir, &mut servers, steps, || {});
        let is_newer = shards[0].put(470, b"new").is_ok();
        written += u32::from(is_newer);
        let map = restart(&shards[1..], &start, LEFT).unwrap();
        // The value is the newest one, or it is lost with the giver.
        assert!(!is_newer || map.owner(470) == LEFT, "after {steps} steps");
    }
    assert!(written > 0, "the heir gives the range back");
}
