//! Tables of the switch's responses and completions and their effects.

use super::*;
use rackweave_wire::fabric::page::PageSource;

const OPEN: LatchWord = LatchWord::open(300);
const LOCKED: LatchWord = OPEN.locked();

fn page() -> PageId {
    PageId::new(0, 7).unwrap()
}

fn fetch(mode: Mode, have: Option<u64>) -> Goal {
    let (page, frame) = (page(), 3);
    Goal::Do(Op::Fetch {
        page,
        mode,
        frame,
        have,
    })
}

fn evict() -> Goal {
    let (page, frame, keep) = (page(), 3, true);
    Goal::Do(Op::Evict { page, frame, keep })
}

fn ask(operation: Operation, argument: u8, frame: u32) -> Step {
    Step::Ask {
        operation,
        page: page(),
        argument,
        frame,
    }
}

fn response(status: Status, granted: bool, latch: LatchWord) -> Response {
    Response {
        status,
        granted,
        command: 9,
        latch,
        leased: false,
    }
}

fn answered(goal: Goal, status: Status, granted: bool, latch: LatchWord) -> (SwitchWalk, Step) {
    let (mut walk, _) = SwitchWalk::start(goal, 0);
    let step = walk.next(Event::Answered(response(status, granted, latch)));
    (walk, step)
}

fn moved(goal: Goal, asked: LatchWord, outcome: Outcome, latch: LatchWord) -> (SwitchWalk, Step) {
    let (mut walk, _) = SwitchWalk::start(goal, 0);
    let response = response(Status::Moving, asked.is_locked(), asked);
    let completion = Completion {
        outcome,
        source: PageSource::Memory,
        nvme_status: 0x4281,
        command: 9,
        latch,
    };
    let step = walk.next(Event::Moved(response, completion));
    (walk, step)
}

#[test]
fn a_fetch_asks_for_as_little_as_it_needs() {
    let first = |goal| SwitchWalk::start(goal, 0).1;
    use Mode::*;
    assert_eq!(first(fetch(Shared, None)), ask(Operation::FixShared, 0, 3));
    assert_eq!(
        first(fetch(Exclusive, None)),
        ask(Operation::FixExclusive, 0, 3)
    );
    let low = (300 % 256) as u8;
    let have = Some(300);
    assert_eq!(
        first(fetch(Shared, have)),
        ask(Operation::RefreshShared, low, 3)
    );
    assert_eq!(
        first(fetch(Exclusive, have)),
        ask(Operation::RefreshExclusive, low, 3)
    );
    assert_eq!(first(evict()), ask(Operation::Evict, 1, 3));
}

#[test]
fn eight_bits_are_not_a_version() {
    let goal = fetch(Mode::Shared, Some(300));
    let (_, step) = answered(goal, Status::Current, false, OPEN);
    assert_eq!(step, Step::End(Answer::Unchanged, OPEN));
    let (mut walk, step) = answered(goal, Status::Current, false, LatchWord::open(556));
    assert_eq!(step, ask(Operation::FixShared, 0, 3));
    assert_eq!(walk.next(Event::Due { tired: false }), step, "for good");
}

#[test]
fn a_conflict_is_told_by_the_latch_word_at_the_end() {
    let shared = fetch(Mode::Shared, None);
    for conflict in [LOCKED, LatchWord::open(301), LatchWord::open(301).locked()] {
        let (_, step) = moved(shared, OPEN, Outcome::Done, conflict);
        assert_eq!(step, Step::End(Answer::Locked, conflict));
    }
    let (_, step) = moved(shared, OPEN, Outcome::Done, OPEN);
    assert!(matches!(step, Step::End(Answer::Fetched(_), OPEN)));
    let (_, step) = moved(fetch(Mode::Exclusive, None), LOCKED, Outcome::Done, LOCKED);
    assert!(matches!(step, Step::End(Answer::Fetched(_), LOCKED)));
}

#[test]
fn a_granted_latch_is_given_back_before_the_bad_news() {
    let exclusive = fetch(Mode::Exclusive, None);
    let release = ask(Operation::Release, 0, 0);
    let (mut walk, step) = moved(exclusive, LOCKED, Outcome::StorageError, LOCKED);
    assert_eq!(step, release);
    let busy = Event::Answered(response(Status::Busy, true, LOCKED));
    assert_eq!(walk.next(busy), Step::Pause);
    assert_eq!(walk.next(Event::Due { tired: false }), release);
    let done = Event::Answered(response(Status::Current, false, OPEN));
    assert_eq!(
        walk.next(done),
        Step::End(Answer::Storage(0x4281), OPEN),
        "not \"capacity exceeded\": another status code type"
    );
    let (_, step) = answered(exclusive, Status::Lost, true, LOCKED);
    assert_eq!(step, release);
    let (_, step) = answered(exclusive, Status::Lost, false, OPEN);
    assert_eq!(step, Step::End(Answer::Lost, OPEN));
    let (mut walk, step) = answered(exclusive, Status::Busy, true, LOCKED);
    assert_eq!(step, Step::Pause);
    assert_eq!(walk.next(Event::Due { tired: true }), release);
}

#[test]
fn a_gone_source_is_asked_for_again_but_not_for_ever() {
    for outcome in [Outcome::SourceGone, Outcome::StorageGone] {
        let (mut walk, mut step) = moved(evict(), OPEN, outcome, OPEN);
        let mut asked = 1;
        while step == Step::Pause {
            assert_eq!(
                walk.next(Event::Due { tired: false }),
                ask(Operation::Evict, 1, 3)
            );
            asked += 1;
            let completion = Completion {
                outcome,
                source: PageSource::Storage,
                nvme_status: 0,
                command: 9,
                latch: OPEN,
            };
            step = walk.next(Event::Moved(
                response(Status::Moving, false, OPEN),
                completion,
            ));
        }
        assert_eq!(step, Step::End(Answer::Gone, OPEN));
        assert_eq!(asked, u32::from(FAILURES_MAX) + 1);
    }
}

#[test]
fn what_moved_to_the_server_goes_on_there() {
    for goal in [fetch(Mode::Exclusive, None), evict()] {
        let (_, step) = answered(goal, Status::NotIndexed, false, LatchWord(0));
        assert_eq!(step, Step::Fallback(goal));
    }
    let (_, step) = moved(evict(), OPEN, Outcome::NotIndexed, LatchWord(0));
    let rewrite = Goal::Rewrite {
        page: page(),
        frame: 3,
        keep: true,
        sure: true,
    };
    assert_eq!(step, Step::Fallback(rewrite));
}

#[test]
fn a_full_device_has_an_answer_of_its_own() {
    assert_eq!(storage(0x81), Answer::Full);
    assert_eq!(storage(0x4081), Answer::Full, "do not retry");
    assert_eq!(storage(0x80), Answer::Storage(0x80));
}
