//! A worker that breaks the rules: a member of the store, with the key of the directory's region in
//! the memory server, writes arbitrary values into entries.
//!
//! Its values determine the directory's answers about that page. It must not make an honest channel
//! panic or wait forever, deliver another page or a torn one, or deny other pages to other nodes.

use super::conformance::{World, stamped};
use super::fake::{FakeRack, Faults, PAGE, SLOTS, page};
use super::{Answer, Directory, Mode, Op, Reply};
use rackweave_base::{Duration, Instant, Rng};
use rackweave_wire::fabric::page::{FallbackLatch, LatchWord, PageLocation};

/// An operation ends within its patience of one second, plus the wait it is in at that time.
const LIMIT: Duration = Duration::from_millis(1_100);

const ATTACKED: u64 = 1;
const FRAME: u32 = 3;

/// A node that does not exist; the highest number that the words can hold.
const NOBODY: u16 = 0x3ffe;
const NOWHERE: u16 = 0xffff;

fn fetch(n: u64, mode: Mode, frame: u32, have: Option<u64>) -> Op {
    let page = page(n);
    Op::Fetch {
        page,
        mode,
        frame,
        have,
    }
}

/// Every operation on a page.
fn ops() -> Vec<Op> {
    let (page, frame) = (page(ATTACKED), FRAME);
    vec![
        fetch(ATTACKED, Mode::Shared, frame, None),
        fetch(ATTACKED, Mode::Exclusive, frame, None),
        fetch(ATTACKED, Mode::Shared, frame, Some(5)),
        fetch(ATTACKED, Mode::Exclusive, frame, Some(5)),
        Op::Verify { page, lease: None },
        Op::Unfix { page, frame },
        Op::Release { page },
        Op::Own { page, frame },
        Op::Disown { page },
        Op::Evict {
            page,
            frame,
            keep: false,
        },
        Op::Evict {
            page,
            frame,
            keep: true,
        },
    ]
}

fn latches() -> Vec<FallbackLatch> {
    let open = LatchWord::open(5);
    let last = LatchWord::open((1 << 47) - 1);
    vec![
        FallbackLatch::new(open, None),
        FallbackLatch::new(open.locked(), None),
        FallbackLatch::new(open.locked(), Some(0)),
        FallbackLatch::new(open.locked(), Some(1)),
        FallbackLatch::new(open.locked(), Some(NOBODY)),
        // Held by a node, and not locked.
        FallbackLatch::new(open, Some(0)),
        FallbackLatch::new(open.locked(), Some(0)).doubted(),
        FallbackLatch::new(open.locked(), Some(NOBODY)).doubted(),
        FallbackLatch::new(LatchWord::open(0), None),
        FallbackLatch::new(last, None),
        FallbackLatch::new(last.locked(), Some(0)),
        // The switch does not have it.
        FallbackLatch::INDEXED,
        FallbackLatch(u64::MAX),
    ]
}

fn places() -> Vec<PageLocation> {
    vec![
        PageLocation::HOME,
        PageLocation::HOME.lost(),
        PageLocation::clean(0, FRAME),
        PageLocation::dirty(0, FRAME),
        PageLocation::dirty(0, FRAME).writing(),
        PageLocation::dirty(0, FRAME + 1),
        // Buffer frames that hold other pages, or no page, or do not exist.
        PageLocation::clean(1, 0),
        PageLocation::dirty(1, 0).writing(),
        PageLocation::HOME.writing(),
        PageLocation(u64::MAX),
    ]
}

/// Steps until an operation of node 0 has ended. Calls `forge` after each step.
fn run(world: &mut FakeRack, op: Op, mut forge: impl FnMut(&mut FakeRack)) -> Reply {
    let began = world.model.borrow().now;
    world.begin(0, op).expect("a slot is free");
    let mut is_due = true;
    loop {
        let reply = is_due.then(|| world.poll(0)).flatten();
        if let Some(reply) = reply {
            return reply;
        }
        let now = world.model.borrow().now;
        let took = Duration::from_nanos(now - began);
        assert!(took < LIMIT, "{op:?} does not end");
        world.step();
        forge(world);
        let mut model = world.model.borrow_mut();
        let due = world.channels[0].poll_timeout();
        if let (true, Some(due)) = (model.is_idle(), due) {
            model.now = model.now.max(due.as_nanos());
        }
        is_due = core::mem::take(&mut model.touched)
            || due.is_some_and(|due| due <= Instant::from_nanos(model.now));
    }
}

/// If a page was fetched, it is the requested one, in one version.
fn check(world: &FakeRack, frame: u32, n: u64, answer: Answer) {
    if !matches!(answer, Answer::Fetched(_)) {
        return;
    }
    let mut bytes = vec![0; PAGE];
    world.frames(0).read(frame as usize * PAGE, &mut bytes);
    let number = u64::from_le_bytes(*bytes[8..].first_chunk().unwrap());
    let header = u64::from_le_bytes(*bytes.first_chunk().unwrap());
    let is_whole = bytes == stamped(page(n), number, PAGE);
    assert!(
        is_whole,
        "{header:#x} of version {number} in place of page {n}"
    );
}

/// A world in which node 1 has other pages in its buffer frames.
fn world(seed: u64) -> FakeRack {
    let mut world = FakeRack::new(seed, Faults::default(), false);
    for n in [2, 3] {
        world
            .frames(1)
            .write((n as usize - 2) * PAGE, &stamped(page(n), 9, PAGE));
    }
    void(&mut world);
    world
}

fn void(world: &mut FakeRack) {
    for frame in [0, FRAME] {
        world
            .frames(0)
            .write(frame as usize * PAGE, &u64::MAX.to_le_bytes());
    }
}

/// Prepares the buffer frame as the operation requires: with the page, or void.
fn prepare(world: &mut FakeRack, op: Op) {
    void(world);
    if !matches!(op, Op::Fetch { have: None, .. }) {
        let bytes = stamped(page(ATTACKED), 5, PAGE);
        world.frames(0).write(FRAME as usize * PAGE, &bytes);
    }
}

/// Checks that pages not under attack are served during the attack, and afterwards.
fn others_go_on(world: &mut FakeRack) {
    for n in [0, 4] {
        void(world);
        let answer = run(world, fetch(n, Mode::Exclusive, 0, None), |_| {}).answer;
        assert!(matches!(answer, Answer::Fetched(_)), "page {n}: {answer:?}");
        check(world, 0, n, answer);
        let release = Op::Release { page: page(n) };
        assert_eq!(run(world, release, |_| {}).answer, Answer::Done);
    }
    assert_eq!(world.channels[0].capacity(), usize::from(SLOTS));
}

#[test]
fn whatever_an_entry_says_every_operation_ends() {
    for latch in latches() {
        let mut world = world(latch.0);
        for place in places() {
            for op in ops() {
                prepare(&mut world, op);
                let entry = (page(ATTACKED), latch, place);
                world
                    .model
                    .borrow()
                    .set_entry_words(entry.0, entry.1, entry.2);
                println!("{op:?} of {latch:?}, {place:?}");
                let reply = run(&mut world, op, |_| {});
                check(&world, FRAME, ATTACKED, reply.answer);
                settle(&mut world);
            }
        }
        others_go_on(&mut world);
    }
}

/// Finishes what an operation owes before the next one starts, so that the answer belongs to the
/// latter.
fn settle(world: &mut FakeRack) {
    let honest = FallbackLatch::new(LatchWord::open(5), None);
    world
        .model
        .borrow()
        .set_entry_words(page(ATTACKED), honest, PageLocation::HOME);
    for _ in 0..10_000 {
        if world.channels[0].capacity() == usize::from(SLOTS) {
            return;
        }
        world.step();
        assert!(world.poll(0).is_none());
    }
    panic!("what is owed is not done");
}

/// No compare-and-swap ever finds the value that was read before.
#[test]
fn an_entry_that_changes_all_the_time_keeps_nobody_for_ever() {
    let mut tired = 0;
    for (seed, op) in (0..).zip(ops()) {
        let mut world = world(seed);
        let mut rng = Rng::new(seed);
        // The values let the operation continue: the latch open or the node's, the page at the
        // node.
        let holds = matches!(op, Op::Unfix { .. } | Op::Release { .. });
        let in_doubt = matches!(op, Op::Own { .. } | Op::Disown { .. });
        let mut forge = |world: &mut FakeRack| {
            let latch = LatchWord::open(rng.below(1 << 40));
            let latch = match (holds, in_doubt) {
                (true, _) => FallbackLatch::new(latch.locked(), Some(0)),
                (_, true) => FallbackLatch::new(latch.locked(), Some(0)).doubted(),
                _ => FallbackLatch::new(latch, None),
            };
            let place = match matches!(op, Op::Evict { .. }) {
                true => PageLocation(PageLocation::dirty(0, FRAME).0 | rng.next_u64() << 44),
                false => PageLocation(PageLocation::clean(0, FRAME).0 | rng.next_u64() << 44),
            };
            let model = world.model.borrow();
            model.set_entry_words(page(ATTACKED), latch, place);
        };
        prepare(&mut world, op);
        forge(&mut world);
        let reply = run(&mut world, op, forge);
        println!("{op:?}: {:?}", reply.answer);
        check(&world, FRAME, ATTACKED, reply.answer);
        tired += u32::from(world.model.borrow().now > 900_000_000);
        settle(&mut world);
        others_go_on(&mut world);
    }
    assert!(tired > 2, "only {tired} operations were kept up");
}

/// Another page's buffer frame is not taken for the page's, whatever the entry contains.
#[test]
fn another_page_is_not_brought_for_the_one_that_was_asked_for() {
    let mut world = world(1);
    let open = FallbackLatch::new(LatchWord::open(5), None);
    for (place, answer) in [
        // It may have been dropped there since: home has it.
        (PageLocation::clean(1, 0), None),
        (PageLocation::dirty(1, 0), Some(Answer::Gone)),
        (PageLocation::clean(NOWHERE, 0), Some(Answer::Gone)),
        (PageLocation::clean(1, 0xff_ffff), Some(Answer::Gone)),
    ] {
        void(&mut world);
        world
            .model
            .borrow()
            .set_entry_words(page(ATTACKED), open, place);
        let fetch = fetch(ATTACKED, Mode::Shared, FRAME, None);
        let found = run(&mut world, fetch, |_| {}).answer;
        match answer {
            Some(answer) => assert_eq!(found, answer, "{place:?}"),
            None => assert!(matches!(found, Answer::Fetched(_)), "{found:?}"),
        }
        check(&world, FRAME, ATTACKED, found);
    }
}
