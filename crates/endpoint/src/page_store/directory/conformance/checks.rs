//! The checks, each on a page of its own. Nodes 0, 1 and 2 are called a, b and c.

use super::Bench;
use crate::page_store::directory::{Answer, Mode, Op};
use rackweave_wire::fabric::page::{LatchWord, PageSource};

const A: usize = 0;
const B: usize = 1;
const C: usize = 2;

/// A check.
pub type Check = fn(&mut Bench<'_>);

/// All checks with their names.
pub const ALL: [(&str, Check); 11] = [
    ("exclusive excludes", exclusive_excludes),
    ("shared sees the newest", shared_sees_the_newest),
    ("versions count changes", versions_count_changes),
    ("a page goes home and comes back", evicts),
    ("what went home is made durable", flushes),
    ("an overtaken page is superseded", superseded),
    ("only the holder gives back", not_holder),
    ("what is there is not moved", unchanged),
    ("a voided buffer frame is not read", voided),
    ("quiesce comes to rest", quiesces),
    ("what makes no sense is invalid", invalid),
];

fn exclusive_excludes(bench: &mut Bench<'_>) {
    let page = bench.page;
    let version = bench.change(A, 0);
    assert_eq!(bench.refresh_exclusive(A, 0, version), version);
    for mode in [Mode::Shared, Mode::Exclusive] {
        let reply = bench.fetch(B, mode, 1);
        assert_eq!(reply.answer, Answer::Locked, "{mode:?} beside a holder");
    }
    let latch = bench.verify(C);
    assert_eq!(latch, LatchWord::open(version).locked());
    assert_eq!(
        bench.refresh_exclusive(A, 0, version),
        version,
        "whoever has it gets it"
    );
    let version = bench.finish_change(A, 0, version);
    assert_eq!(bench.fetched(B, Mode::Shared, 1).0, version);
    assert_eq!(bench.fetched(B, Mode::Exclusive, 2).0, version);
    assert_eq!(bench.fetch(A, Mode::Exclusive, 3).answer, Answer::Locked);
    bench.expect(B, Op::Release { page }, Answer::Done);
    assert_eq!(bench.refresh_exclusive(A, 0, version), version);
    bench.expect(A, Op::Release { page }, Answer::Done);
}

fn shared_sees_the_newest(bench: &mut Bench<'_>) {
    let mut version = bench.change(A, 0);
    let nodes = bench.world.nodes();
    for round in 1..3 * nodes {
        let writer = round % nodes;
        let frame = (round / nodes) as u32 * 2;
        let (seen, _) = bench.fetched(writer, Mode::Exclusive, frame);
        assert_eq!(seen, version, "round {round}");
        version = bench.finish_change(writer, frame, seen);
        for reader in (0..nodes).filter(|&node| node != writer) {
            let frame = (round % 2) as u32 + 6;
            let (seen, source) = bench.fetched(reader, Mode::Shared, frame);
            assert_eq!(seen, version, "round {round}");
            assert_eq!(source, PageSource::Memory, "the home is behind");
        }
    }
}

fn versions_count_changes(bench: &mut Bench<'_>) {
    let page = bench.page;
    let mut version = bench.change(A, 0);
    for round in 0..5 {
        let node = [A, B, C][round % 3];
        bench.fetched(node, Mode::Exclusive, 1 + round as u32);
        assert_eq!(bench.verify(A), LatchWord::open(version).locked());
        if round % 2 == 0 {
            version = bench.finish_change(node, 1 + round as u32, version);
        } else {
            let latch = bench.expect(node, Op::Release { page }, Answer::Done);
            assert_eq!(latch, LatchWord::open(version), "nothing was changed");
        }
        assert_eq!(bench.verify(C), LatchWord::open(version));
    }
}

fn evicts(bench: &mut Bench<'_>) {
    let page = bench.page;
    let version = bench.change(A, 0);
    let evict = |frame, keep| Op::Evict { page, frame, keep };
    bench.expect(A, evict(0, false), Answer::Done);
    bench.expect(A, evict(0, false), Answer::Superseded);
    bench.void(A, 0);
    let (seen, source) = bench.fetched(B, Mode::Shared, 1);
    assert_eq!((seen, source), (version, PageSource::Storage));

    bench.refresh_exclusive(B, 1, version);
    let version = bench.finish_change(B, 1, version);
    bench.expect(B, evict(1, true), Answer::Done);
    let (seen, source) = bench.fetched(C, Mode::Shared, 0);
    assert_eq!((seen, source), (version, PageSource::Memory), "it was kept");
    bench.void(B, 1);
    let (seen, source) = bench.fetched(A, Mode::Shared, 3);
    assert_eq!(seen, version);
    // From home, or from c, of which the directory may have learned.
    assert!(matches!(source, PageSource::Storage | PageSource::Memory));
    assert_eq!(bench.verify(A), LatchWord::open(version));
}

fn flushes(bench: &mut Bench<'_>) {
    let page = bench.page;
    let version = bench.change(A, 0);
    let (frame, keep) = (0, true);
    bench.expect(A, Op::Evict { page, frame, keep }, Answer::Done);
    for node in [A, B] {
        let store = page.store();
        bench.expect(node, Op::Flush { store }, Answer::Done);
    }
    bench.expect(A, Op::Flush { store: 0xff }, Answer::Invalid);
    assert_eq!(bench.verify(B), LatchWord::open(version));
}

fn superseded(bench: &mut Bench<'_>) {
    let page = bench.page;
    bench.change(A, 0);
    let version = bench.change(B, 1);
    for keep in [false, true] {
        let frame = 0;
        bench.expect(A, Op::Evict { page, frame, keep }, Answer::Superseded);
        bench.expect(C, Op::Evict { page, frame, keep }, Answer::Superseded);
    }
    bench.void(A, 0);
    assert_eq!(
        bench.fetched(C, Mode::Shared, 2),
        (version, PageSource::Memory)
    );
    let frame = 2;
    let keep = false;
    bench.expect(B, Op::Evict { page, frame, keep }, Answer::Superseded);
    let frame = 1;
    bench.expect(B, Op::Evict { page, frame, keep }, Answer::Done);
    bench.void(B, 1);
    assert_eq!(bench.fetched(A, Mode::Shared, 3).0, version);
}

fn not_holder(bench: &mut Bench<'_>) {
    let page = bench.page;
    let version = bench.change(A, 0);
    let frame = 1;
    bench.expect(B, Op::Unfix { page, frame }, Answer::Superseded);
    bench.expect(B, Op::Release { page }, Answer::Superseded);
    assert_eq!(bench.verify(C), LatchWord::open(version));
    bench.refresh_exclusive(A, 0, version);
    bench.expect(B, Op::Unfix { page, frame }, Answer::Superseded);
    bench.expect(B, Op::Release { page }, Answer::Superseded);
    assert_eq!(bench.verify(C), LatchWord::open(version).locked());
    let version = bench.finish_change(A, 0, version);
    bench.expect(A, Op::Release { page }, Answer::Superseded);
    assert_eq!(
        bench.fetched(C, Mode::Shared, 2),
        (version, PageSource::Memory)
    );
}

fn unchanged(bench: &mut Bench<'_>) {
    let page = bench.page;
    let mut version = bench.change(A, 0);
    assert_eq!(bench.fetched(B, Mode::Shared, 0).0, version);
    let reply = bench.refresh(B, Mode::Shared, 0, Some(version));
    assert_eq!(reply.answer, Answer::Unchanged);
    assert_eq!(reply.latch, LatchWord::open(version));
    assert_eq!(bench.refresh_exclusive(B, 0, version), version);
    bench.expect(B, Op::Release { page }, Answer::Done);
    // A full cycle of the eight bits that a request carries.
    let have = version;
    for _ in 0..256 {
        bench.refresh_exclusive(A, 0, version);
        version = bench.finish_change(A, 0, version);
    }
    let reply = bench.refresh(B, Mode::Shared, 0, Some(have));
    assert!(matches!(reply.answer, Answer::Fetched(_)), "{reply:?}");
    assert_eq!(reply.latch, LatchWord::open(version));
    bench.is_whole(B, 0, version);
    bench.fetched(C, Mode::Shared, 0);
    let reply = bench.refresh(C, Mode::Exclusive, 0, Some(have));
    assert!(matches!(reply.answer, Answer::Fetched(_)), "{reply:?}");
    assert_eq!(reply.latch, LatchWord::open(version).locked());
    bench.is_whole(C, 0, version);
    bench.expect(C, Op::Release { page }, Answer::Done);
}

fn voided(bench: &mut Bench<'_>) {
    let page = bench.page;
    let version = bench.change(A, 0);
    let (frame, keep) = (0, true);
    bench.expect(A, Op::Evict { page, frame, keep }, Answer::Done);
    bench.void(A, 0);
    assert_eq!(
        bench.fetched(B, Mode::Shared, 1),
        (version, PageSource::Storage)
    );
    assert_eq!(bench.fetched(C, Mode::Shared, 1).0, version);
    for frame in [1, 2] {
        bench.void(B, 1);
        bench.void(C, frame - 1);
        bench.void(C, frame);
        let (seen, source) = bench.fetched(A, Mode::Exclusive, 2 + frame);
        assert_eq!(seen, version);
        assert_eq!(
            source,
            PageSource::Storage,
            "no buffer frame holds the page"
        );
        bench.expect(A, Op::Release { page }, Answer::Done);
        bench.void(A, 2 + frame);
    }
    assert_eq!(bench.verify(A), LatchWord::open(version));
}

fn quiesces(bench: &mut Bench<'_>) {
    for node in [A, B, C] {
        let mut done = 0;
        for _ in 0..100_000 {
            match bench.run(node, Op::Quiesce).answer {
                Answer::Done => done += 1,
                Answer::Pending => bench.world.step(),
                answer => panic!("node {node}: quiesce: {answer:?}"),
            }
            if done == 4 {
                break;
            }
        }
        assert_eq!(done, 4, "node {node}: nothing moves, and it does not end");
    }
}

fn invalid(bench: &mut Bench<'_>) {
    let page = bench.page;
    let frame = u32::MAX;
    let mode = Mode::Shared;
    let have = None;
    let keep = false;
    let fetch = |page, frame| Op::Fetch {
        page,
        mode,
        frame,
        have,
    };
    bench.expect(A, fetch(page, frame), Answer::Invalid);
    bench.expect(A, Op::Unfix { page, frame }, Answer::Invalid);
    bench.expect(A, Op::Evict { page, frame, keep }, Answer::Invalid);
    let page = bench.world.beyond();
    bench.expect(A, fetch(page, 0), Answer::Invalid);
    bench.expect(A, Op::Verify { page, lease: None }, Answer::Invalid);
    bench.expect(A, Op::Release { page }, Answer::Invalid);
}

impl Bench<'_> {
    /// Latches the page, whose newest version is in the buffer frame.
    fn refresh_exclusive(&mut self, node: usize, frame: u32, version: u64) -> u64 {
        let reply = self.refresh(node, Mode::Exclusive, frame, Some(version));
        assert_eq!(reply.answer, Answer::Unchanged, "node {node}");
        assert!(reply.latch.is_locked());
        reply.latch.version()
    }
}
