//! Single transitions that are rare in the histories.

use super::*;
use crate::page_store::directory::Mode;
use crate::page_store::directory::step::Word;
use rackweave_wire::fabric::page::{
    Completion, LatchWord, Operation, Outcome, PageId, PageLocation, PageSource, Response, Status,
};

const ME: u16 = 1;
const OPEN: FallbackLatch = FallbackLatch::new(LatchWord::open(5), None);
const MINE: FallbackLatch = FallbackLatch::new(LatchWord::open(5).locked(), Some(ME));

fn page() -> PageId {
    PageId::new(0, 7).unwrap()
}

fn start(op: Op) -> FallbackWalk {
    let (walk, step) = FallbackWalk::start(ME, Goal::Do(op)).unwrap();
    assert_eq!(step, Step::ReadEntry);
    walk
}

fn fetch(mode: Mode) -> Op {
    let (page, frame, have) = (page(), 3, None);
    Op::Fetch {
        page,
        mode,
        frame,
        have,
    }
}

fn evict() -> Op {
    let (page, frame, keep) = (page(), 3, false);
    Op::Evict { page, frame, keep }
}

fn is_ask(step: Step, wanted: Operation) -> bool {
    matches!(step, Step::Ask { operation, .. } if operation == wanted)
}

fn moved(outcome: Outcome) -> Event {
    let response = Response {
        status: Status::Moving,
        granted: false,
        command: 1,
        latch: LatchWord(0),
        leased: false,
    };
    let completion = Completion {
        outcome,
        source: PageSource::Storage,
        nvme_status: 0x81,
        command: 1,
        latch: LatchWord(0),
    };
    Event::Moved(response, completion)
}

fn swap(word: Word, compare: u64, swap: u64) -> Step {
    Step::Swap {
        word,
        compare,
        swap,
    }
}

#[test]
fn everything_goes_to_the_switch_with_the_entry() {
    let (page, frame) = (page(), 3);
    for op in [
        fetch(Mode::Shared),
        fetch(Mode::Exclusive),
        evict(),
        Op::Verify { page, lease: None },
        Op::Unfix { page, frame },
        Op::Release { page },
    ] {
        let step = start(op).next(Event::Entry(FallbackLatch::INDEXED, PageLocation::HOME));
        assert_eq!(step, Step::Switch(Goal::Do(op)));
    }
    assert!(FallbackWalk::start(ME, Goal::Do(Op::Quiesce)).is_none());
}

#[test]
fn a_place_is_made_known_under_the_latch() {
    let mut walk = start(fetch(Mode::Shared));
    let step = walk.next(Event::Entry(OPEN, PageLocation::HOME));
    assert!(is_ask(step, Operation::ReadHome));
    let latch = walk.next(moved(Outcome::Done));
    assert_eq!(latch, swap(Word::Latch, OPEN.0, MINE.0));
    let place = walk.next(Event::Swapped(OPEN.0));
    let clean = PageLocation::HOME.read(ME, 3);
    assert_eq!(
        place,
        swap(Word::PageLocation, PageLocation::HOME.0, clean.0)
    );
    let open = walk.next(Event::Swapped(PageLocation::HOME.0));
    assert_eq!(open, swap(Word::Latch, MINE.0, OPEN.0));
    let mut promoted = walk;
    let end = walk.next(Event::Swapped(MINE.0));
    assert!(matches!(end, Step::End(Answer::Fetched(_), latch) if latch == OPEN.latch()));
    let end = promoted.next(Event::Swapped(FallbackLatch::INDEXED.0));
    assert!(matches!(end, Step::Switch(Goal::Undo { .. })), "{end:?}");
}

#[test]
fn an_old_copy_is_not_made_known() {
    let mut walk = start(fetch(Mode::Shared));
    walk.next(Event::Entry(OPEN, PageLocation::HOME));
    walk.next(moved(Outcome::Done));
    let newer = FallbackLatch::new(LatchWord::open(6), None);
    let end = walk.next(Event::Swapped(newer.0));
    assert_eq!(end, Step::End(Answer::Locked, newer.latch()));
}

#[test]
fn a_failed_exclusive_fetch_gives_the_latch_back() {
    let mut walk = start(fetch(Mode::Exclusive));
    let take = walk.next(Event::Entry(OPEN, PageLocation::HOME));
    assert_eq!(take, swap(Word::Latch, OPEN.0, MINE.0));
    assert_eq!(walk.next(Event::Swapped(OPEN.0)), Step::ReadEntry);
    let step = walk.next(Event::Entry(MINE, PageLocation::HOME));
    assert!(is_ask(step, Operation::ReadHome));
    for bad in [moved(Outcome::StorageError), Event::Lost] {
        let mut walk = walk;
        let back = walk.next(bad);
        assert_eq!(back, swap(Word::Latch, MINE.0, OPEN.0));
        let mut promoted = walk;
        let end = walk.next(Event::Swapped(MINE.0));
        assert!(matches!(end, Step::End(Answer::Full | Answer::Gone, _)));
        let end = promoted.next(Event::Swapped(FallbackLatch::INDEXED.0));
        assert!(matches!(end, Step::Switch(Goal::Undo { .. })));
    }
}

#[test]
fn a_mark_of_a_write_does_not_outlive_the_write() {
    let dirty = PageLocation::dirty(ME, 3);
    let marked = dirty.writing();
    let mut walk = start(evict());
    let mark = walk.next(Event::Entry(OPEN, dirty));
    assert_eq!(mark, swap(Word::PageLocation, dirty.0, marked.0));
    assert_eq!(walk.next(Event::Swapped(dirty.0)), Step::ReadEntry);
    let mut promoted = walk;
    let unmark = promoted.next(Event::Entry(FallbackLatch::INDEXED, PageLocation(u64::MAX)));
    assert_eq!(unmark, swap(Word::PageLocation, marked.0, dirty.0));
    let elsewhere = promoted.next(Event::Swapped(u64::MAX));
    assert_eq!(elsewhere, Step::Switch(Goal::Do(evict())));

    let write = walk.next(Event::Entry(OPEN, marked));
    assert!(is_ask(write, Operation::WriteHome));
    let mut failed = walk;
    let unmark = failed.next(moved(Outcome::StorageError));
    assert_eq!(unmark, swap(Word::PageLocation, marked.0, dirty.0));
    let end = failed.next(Event::Swapped(marked.0));
    assert_eq!(end, Step::End(Answer::Full, OPEN.latch()));

    let unmark = walk.next(moved(Outcome::Done));
    let home = marked.written(ME, 3, true, false);
    assert_eq!(unmark, swap(Word::PageLocation, marked.0, home.0));
    let overtaken = marked.moved(2, 4);
    assert_eq!(walk.next(Event::Swapped(overtaken.0)), Step::ReadEntry);
    let unmark = walk.next(Event::Entry(OPEN, overtaken));
    let moved_on = overtaken.written(ME, 3, true, false);
    assert_eq!(unmark, swap(Word::PageLocation, overtaken.0, moved_on.0));
    let end = walk.next(Event::Swapped(overtaken.0));
    assert_eq!(end, Step::End(Answer::Superseded, OPEN.latch()));
}

#[test]
fn a_write_that_begins_anew_takes_no_other_nodes_mark_away() {
    let page = page();
    let theirs = PageLocation::dirty(2, 4).writing();
    let again = |sure| Goal::Rewrite {
        page,
        frame: 3,
        keep: false,
        sure,
    };
    let unmark = |sure| Goal::Unmark {
        page,
        frame: 3,
        sure,
    };
    let first = |goal: Goal, place| {
        let (mut walk, _) = FallbackWalk::start(ME, goal).unwrap();
        walk.next(Event::Entry(OPEN, place))
    };
    // A mark stays until the node that set it removes it, wherever the page is.
    let cleared = swap(
        Word::PageLocation,
        theirs.0,
        theirs.written(ME, 3, false, true).0,
    );
    for sure in [again(true), unmark(true)] {
        assert_eq!(first(sure, theirs), cleared);
    }
    // A mark that may or may not have been set may belong to another operation.
    let over = |answer| Step::End(answer, OPEN.latch());
    assert_eq!(first(again(false), theirs), over(Answer::Superseded));
    assert_eq!(first(unmark(false), theirs), over(Answer::Gone));
    // A rebuilt directory has no earlier marks.
    let evict = Goal::Do(Op::Evict {
        page,
        frame: 3,
        keep: false,
    });
    assert_eq!(again(true).anew(), Some(evict));
    assert_eq!(unmark(true).anew(), None);
    assert_eq!(first(evict, theirs), over(Answer::Superseded));
}

#[test]
fn a_write_that_has_ended_is_entered_though_its_mark_is_gone() {
    let dirty = PageLocation::dirty(ME, 3);
    let mut walk = start(evict());
    walk.next(Event::Entry(OPEN, dirty));
    walk.next(Event::Swapped(dirty.0));
    walk.next(Event::Entry(OPEN, dirty.writing()));
    walk.next(moved(Outcome::Done));
    // The controller, which rebuilds the directory, was faster.
    assert_eq!(walk.next(Event::Swapped(dirty.0)), Step::ReadEntry);
    let home = dirty.written(ME, 3, true, false);
    let entered = walk.next(Event::Entry(OPEN, dirty));
    assert_eq!(entered, swap(Word::PageLocation, dirty.0, home.0));
    let end = walk.next(Event::Swapped(dirty.0));
    assert_eq!(end, Step::End(Answer::Done, OPEN.latch()));
}

#[test]
fn a_page_whose_newest_version_is_being_published_is_not_lost() {
    // The state after a rebuild: the latch is being released with a new version.
    let theirs = FallbackLatch::new(LatchWord::open(5).locked(), Some(2));
    let unknown = PageLocation::HOME.lost();
    for (latch, answer) in [(theirs, Answer::Locked), (OPEN, Answer::Lost)] {
        let end = start(evict()).next(Event::Entry(latch, unknown));
        assert_eq!(end, Step::End(answer, latch.latch()));
    }
}

#[test]
fn a_changed_page_does_not_move_away_from_under_a_write() {
    let (page, frame) = (page(), 4);
    let old = PageLocation::dirty(2, 9);
    let marked = old.writing();
    let mut walk = start(Op::Unfix { page, frame });
    assert_eq!(walk.next(Event::Entry(MINE, marked)), Step::Pause);
    let mut tired = walk;
    let end = tired.next(Event::Due { tired: true });
    assert!(matches!(end, Step::End(Answer::Gone, _)));
    assert_eq!(walk.next(Event::Due { tired: false }), Step::ReadEntry);
    // The write continues after the writing node has died, until the controller reports its end.
    assert!(marked.died(2).is_writing());
    let ended = marked.died(2).not_writing();
    for place in [marked.written(2, 9, true, false), ended] {
        let mut walk = walk;
        let place_is = walk.next(Event::Entry(MINE, place));
        let moved = place.moved(ME, frame);
        assert_eq!(place_is, swap(Word::PageLocation, place.0, moved.0));
    }
}

#[test]
fn nobody_else_gives_a_latch_back() {
    let (page, frame) = (page(), 3);
    let other = FallbackLatch::new(LatchWord::open(5).locked(), Some(0));
    for op in [Op::Unfix { page, frame }, Op::Release { page }] {
        for latch in [OPEN, other] {
            let end = start(op).next(Event::Entry(latch, PageLocation::HOME));
            assert_eq!(end, Step::End(Answer::Superseded, latch.latch()));
        }
    }
}
