//! The channel against the fake rack: conformance, and a switch or a server that fails.

use super::conformance::{self, Bench, World};
use super::fake::{FakeRack, Faults, SERVER_QP, SLOTS, SWITCH_QP, page};
use super::{Answer, Channel, Directory, Mode, Op};
use rackweave_base::Instant;

/// Faults that a directory hides, almost always, from its callers.
const FAULTS: Faults = Faults {
    busy: 0.2,
    locked: 0.05,
    wrong_header: 0.1,
    source_gone: 0.02,
    full: 0.1,
    moves: 0.0,
};

fn verify(number: u64) -> Op {
    Op::Verify {
        page: page(number),
        lease: None,
    }
}

#[test]
fn the_switch_conforms() {
    for seed in 0..4 {
        println!("seed {seed}");
        conformance::all(&mut FakeRack::new(seed, Faults::default(), true));
    }
}

#[test]
fn the_fallback_conforms() {
    for seed in 0..4 {
        println!("seed {seed}");
        conformance::all(&mut FakeRack::new(seed, Faults::default(), false));
    }
}

#[test]
fn a_channel_conforms_while_entries_move() {
    let faults = Faults {
        moves: 0.3,
        ..Faults::default()
    };
    for seed in 0..4 {
        println!("seed {seed}");
        conformance::all(&mut FakeRack::new(seed, faults, true));
    }
}

fn fetch(n: u64, mode: Mode) -> Op {
    Op::Fetch {
        page: page(n),
        mode,
        frame: n as u32,
        have: None,
    }
}

/// Waits until this many operations of node 0 have ended.
fn drain(world: &mut FakeRack, replies: usize) -> Vec<Answer> {
    let mut answers = Vec::new();
    for step in 1..100_000 {
        while let Some(reply) = world.poll(0) {
            answers.push(reply.answer);
        }
        if answers.len() >= replies {
            return answers;
        }
        world.step();
        // Nothing is in flight any more: the rest waits for a time.
        if step % 1000 == 0 {
            world.model.borrow_mut().now += 100_000_000;
        }
    }
    panic!("{} of {replies} operations end", answers.len());
}

#[test]
fn faults_are_hidden() {
    for (seed, indexed) in [(1, true), (2, false)] {
        let world = &mut FakeRack::new(seed, FAULTS, indexed);
        let mut bench = Bench {
            world,
            page: page(3),
        };
        let mut version = bench.change(0, 0);
        for round in 1..60 {
            let node = round % 3;
            let (seen, _) = bench.fetched(node, Mode::Exclusive, (round / 3 % 8) as u32);
            assert_eq!(seen, version, "round {round}");
            version = bench.finish_change(node, (round / 3 % 8) as u32, seen);
        }
    }
}

/// A caller that polls only when a packet has arrived or the timeout is due misses nothing.
#[test]
fn timeouts_say_when_to_poll() {
    for seed in 0..10 {
        println!("seed {seed}");
        let mut world = FakeRack::new(seed, FAULTS, seed % 2 == 0);
        for n in 0..u64::from(SLOTS) {
            world.begin(0, fetch(n, Mode::Exclusive)).unwrap();
        }
        let mut left = usize::from(SLOTS);
        for _ in 0..100_000 {
            let now = {
                let mut model = world.model.borrow_mut();
                model.step();
                Instant::from_nanos(model.now)
            };
            let touched = core::mem::take(&mut world.model.borrow_mut().touched);
            let due = world.channels[0].poll_timeout();
            if touched || due.is_some_and(|due| due <= now) {
                while world.poll(0).is_some() {
                    left -= 1;
                }
            }
        }
        assert_eq!(left, 0, "operations are asleep");
        assert_eq!(world.channels[0].poll_timeout(), None);
    }
}

#[test]
fn a_lost_switch_ends_everything() {
    for seed in 0..60 {
        println!("seed {seed}");
        let indexed = seed % 2 == 0;
        let mut world = FakeRack::new(seed, Faults::default(), indexed);
        for n in 0..u64::from(SLOTS) {
            let mode = [Mode::Shared, Mode::Exclusive][n as usize % 2];
            assert!(world.begin(0, fetch(n, mode)).is_some());
        }
        assert!(world.begin(0, Op::Quiesce).is_none(), "all slots are taken");
        let mut early = 0;
        for _ in 0..seed {
            world.step();
            while let Some(reply) = world.poll(0) {
                assert!(matches!(reply.answer, Answer::Fetched(_)));
                early += 1;
            }
        }
        // While only data is awaited, there is no work request to be flushed.
        world.model.borrow_mut().break_qp(0, SWITCH_QP);
        drain(&mut world, usize::from(SLOTS) - early);
        assert!(world.begin(0, Op::Quiesce).is_some());
        assert_eq!(drain(&mut world, 1), [Answer::Gone]);
        assert!(world.channels[0].is_lost());
        // Latches may have been granted without the node's knowledge: their slots stay in use.
        let held = usize::from(SLOTS) - world.channels[0].capacity();
        assert!(held <= usize::from(SLOTS) / 2, "{held}");
    }
}

#[test]
fn a_lost_switch_leaves_no_latch_in_the_server() {
    for seed in 0..20 {
        println!("seed {seed}");
        let mut world = FakeRack::new(seed, Faults::default(), false);
        world.begin(0, fetch(1, Mode::Exclusive)).unwrap();
        for _ in 0..seed {
            world.step();
            assert_eq!(world.poll(0), None);
        }
        world.model.borrow_mut().break_qp(0, SWITCH_QP);
        let answers = drain(&mut world, 1);
        let latch = world.model.borrow().entry(page(1)).latch;
        assert_eq!(answers, [Answer::Gone]);
        assert!(!latch.is_locked());
    }
}

#[test]
fn a_lost_server_is_gone_and_the_switch_serves_on() {
    let mut world = FakeRack::new(9, Faults::default(), false);
    world.model.borrow_mut().promote(page(2));
    world.begin(0, fetch(1, Mode::Exclusive)).unwrap();
    world.step();
    world.model.borrow_mut().break_qp(0, SERVER_QP);
    assert_eq!(drain(&mut world, 1), [Answer::Gone]);
    // Owed work for page 1 at the server delays other operations on that page until its time limit.
    for n in [1, 4] {
        world.begin(0, verify(n)).unwrap();
        assert_eq!(drain(&mut world, 1), [Answer::Gone]);
    }
    world.begin(0, fetch(2, Mode::Shared)).unwrap();
    assert!(matches!(drain(&mut world, 1)[..], [Answer::Fetched(_)]));
}

/// A page is latched although no caller wants it: its fetch ended, and the owed release waits for
/// the switch.
fn owed_to_a_lost_switch(indexed: bool) -> FakeRack {
    let mut world = FakeRack::new(5, Faults::default(), indexed);
    world.begin(0, fetch(1, Mode::Exclusive)).unwrap();
    while !world.model.borrow().entry(page(1)).latch.is_locked() {
        world.step();
        assert_eq!(world.poll(0), None);
    }
    world.model.borrow_mut().break_qp(0, SWITCH_QP);
    assert_eq!(drain(&mut world, 1), [Answer::Gone]);
    assert!(world.model.borrow().entry(page(1)).latch.is_locked());
    world
}

#[test]
fn what_begins_anew_waits_for_what_is_owed_but_not_for_ever() {
    let mut world = owed_to_a_lost_switch(true);
    world.begin(0, verify(1)).unwrap();
    assert_eq!(world.poll(0), None);
    world.model.borrow_mut().mend_qp(0, SWITCH_QP);
    assert_eq!(world.poll(0), None);
    world.model.borrow_mut().break_qp(0, SWITCH_QP);
    assert_eq!(drain(&mut world, 1), [Answer::Gone]);
    world.model.borrow_mut().mend_qp(0, SWITCH_QP);
    world.begin(0, verify(1)).unwrap();
    assert_eq!(drain(&mut world, 1), [Answer::Done]);
    assert!(!world.model.borrow().entry(page(1)).latch.is_locked());
}

#[test]
fn what_a_node_found_out_is_told_to_no_other_directory() {
    let (page, frame) = (page(1), 0);
    for (op, ends) in [
        (Op::Own { page, frame }, Answer::Gone),
        (Op::Disown { page }, Answer::Gone),
        // The node did not hold it: on a repeated request, that means that it was released.
        (Op::Release { page }, Answer::Done),
    ] {
        let mut world = FakeRack::new(5, Faults::default(), true);
        world.begin(0, op).unwrap();
        assert_eq!(world.poll(0), None);
        world.model.borrow_mut().break_qp(0, SWITCH_QP);
        assert_eq!(world.poll(0), None);
        world.model.borrow_mut().mend_qp(0, SWITCH_QP);
        assert_eq!(drain(&mut world, 1), [ends], "{op:?}");
        assert_eq!(world.channels[0].capacity(), usize::from(SLOTS));
    }
}

#[test]
fn what_one_channel_of_a_node_owes_the_others_wait_for() {
    let mut world = owed_to_a_lost_switch(true);
    let mut parts = world.channels[1].parts().clone();
    parts.owed = world.channels[0].parts().owed.clone();
    world.channels[1] = Channel::new(parts);
    world.begin(1, fetch(1, Mode::Exclusive)).unwrap();
    world.begin(1, fetch(2, Mode::Exclusive)).unwrap();
    let replies = |world: &mut FakeRack| {
        let mut answers = Vec::new();
        for _ in 0..1000 {
            world.step();
            assert_eq!(world.poll(0), None);
            answers.extend(world.poll(1).map(|reply| reply.answer));
        }
        answers
    };
    // Otherwise it would be refused as latched.
    assert!(matches!(replies(&mut world)[..], [Answer::Fetched(_)]));
    world.model.borrow_mut().mend_qp(0, SWITCH_QP);
    assert!(matches!(replies(&mut world)[..], [Answer::Fetched(_)]));
    assert!(world.channels[0].parts().owed.is_empty());
}

#[test]
fn what_is_owed_is_asked_for_until_it_is_done() {
    for indexed in [true, false] {
        let mut world = owed_to_a_lost_switch(true);
        if !indexed {
            world.model.borrow_mut().demote(page(1));
        }
        world.model.borrow_mut().faults.busy = 1.0;
        world.model.borrow_mut().mend_qp(0, SWITCH_QP);
        for _ in 0..1000 {
            world.step();
            assert_eq!(world.poll(0), None);
        }
        world.model.borrow_mut().faults.busy = 0.0;
        for _ in 0..1000 {
            world.step();
            assert_eq!(world.poll(0), None);
        }
        assert!(!world.model.borrow().entry(page(1)).latch.is_locked());
        assert_eq!(world.channels[0].capacity(), usize::from(SLOTS));
    }
}

#[test]
fn what_is_owed_to_a_server_is_done_when_the_server_is_back() {
    let mut world = FakeRack::new(5, Faults::default(), false);
    world.begin(0, fetch(1, Mode::Exclusive)).unwrap();
    while !world.model.borrow().entry(page(1)).latch.is_locked() {
        world.step();
        assert_eq!(world.poll(0), None);
    }
    world.model.borrow_mut().break_qp(0, SERVER_QP);
    assert_eq!(drain(&mut world, 1), [Answer::Gone]);
    world.model.borrow_mut().mend_qp(0, SERVER_QP);
    world.begin(1, fetch(1, Mode::Shared)).unwrap();
    for _ in 0..1000 {
        world.step();
        assert_eq!(world.poll(0), None);
    }
    assert!(!world.model.borrow().entry(page(1)).latch.is_locked());
    world.begin(0, fetch(1, Mode::Exclusive)).unwrap();
    assert!(matches!(drain(&mut world, 1)[..], [Answer::Fetched(_)]));
}

#[test]
fn a_lost_switch_answers_although_all_slots_are_owed() {
    let mut world = FakeRack::new(5, Faults::default(), true);
    for n in 0..u64::from(SLOTS) {
        world.begin(0, fetch(n, Mode::Exclusive)).unwrap();
    }
    world.model.borrow_mut().break_qp(0, SWITCH_QP);
    drain(&mut world, usize::from(SLOTS));
    for _ in 0..2 {
        assert_eq!(world.channels[0].capacity(), 1);
        world.begin(0, verify(7)).unwrap();
        assert_eq!(drain(&mut world, 1), [Answer::Gone]);
    }
    world.model.borrow_mut().mend_qp(0, SWITCH_QP);
    world.begin(0, verify(7));
    for _ in 0..1000 {
        world.step();
        while world.poll(0).is_some() {}
    }
    assert_eq!(world.channels[0].capacity(), usize::from(SLOTS));
    let model = world.model.borrow();
    for n in 0..u64::from(SLOTS) {
        assert!(!model.entry(page(n)).latch.is_locked(), "page {n}");
    }
}

#[test]
fn nothing_is_owed_for_what_was_never_asked() {
    let mut world = FakeRack::new(5, Faults::default(), true);
    world.model.borrow_mut().break_qp(0, SWITCH_QP);
    for n in 0..2 * u64::from(SLOTS) {
        world.begin(0, fetch(n % 7, Mode::Exclusive)).unwrap();
        assert_eq!(drain(&mut world, 1), [Answer::Gone]);
    }
    assert_eq!(world.channels[0].capacity(), usize::from(SLOTS));
}
