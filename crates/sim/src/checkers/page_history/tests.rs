//! Each kind of violation, planted.

use super::*;

const PAGE: u64 = 77;
const SEED: u64 = 3;
const A: Who = Who { node: 0, worker: 0 };
const B: Who = Who { node: 1, worker: 0 };
const C: Who = Who { node: 2, worker: 5 };
const PATIENCE: Duration = Duration::from_millis(1);

fn at(micros: u64) -> Instant {
    Instant::ZERO + Duration::from_micros(micros)
}

fn stamp(version: u64, writer: Who) -> PageStamp {
    PageStamp {
        page: PAGE,
        version,
        writer,
    }
}

fn got(version: u64, content: Option<PageStamp>) -> Got {
    Got {
        version,
        content: Ok(content),
    }
}

/// A history whose page was changed by A, to versions 1 and 2, and seen so by B.
struct Story {
    history: PageHistory,
    now: u64,
}

impl Story {
    fn new() -> Self {
        let mut history = PageHistory::new(PATIENCE);
        history.create(PAGE);
        let mut story = Self { history, now: 0 };
        story.change(A, got(0, None), 1);
        story.change(A, got(1, Some(stamp(1, A))), 2);
        story.read(B, got(2, Some(stamp(2, A))));
        story
    }

    fn ask(&mut self, who: Who) -> Asked {
        self.now += 1;
        self.history.ask(at(self.now), who, PAGE)
    }

    fn read(&mut self, who: Who, got: Got) {
        let asked = self.ask(who);
        self.history.shared(at(self.now), asked, got);
    }

    fn hold(&mut self, who: Who, got: Got) {
        let asked = self.ask(who);
        self.history.exclusive(at(self.now), asked, got);
    }

    fn change(&mut self, who: Who, from: Got, to: u64) {
        self.hold(who, from);
        self.history.give_back(who, PAGE, Some(stamp(to, who)));
    }

    fn crash(&mut self, node: u16) {
        self.now += 1;
        self.history.crash(at(self.now), node);
    }

    fn flush(&mut self, node: u16) {
        let asked = self.history.ask_flush(node);
        self.history.flushed(&asked);
    }

    fn is_lost(&mut self, who: Who) {
        let asked = self.ask(who);
        self.history.refused_as_lost(at(self.now), asked);
    }

    #[track_caller]
    fn passes(self) {
        assert_eq!(self.history.finish(), Ok(()));
    }

    #[track_caller]
    fn fails(self, with: fn(&PageFault) -> bool) {
        let violations = self.history.finish().expect_err("a violation was planted");
        let mut faults = violations.iter().map(|violation| &violation.fault);
        assert!(faults.all(with), "{violations:#?}");
    }
}

fn v1() -> Got {
    got(1, Some(stamp(1, A)))
}

fn v2() -> Got {
    got(2, Some(stamp(2, A)))
}

#[test]
fn a_faultless_history_passes() {
    let mut story = Story::new();
    let asked = story.ask(C);
    story.change(B, v2(), 3);
    // C asked before the change.
    story.history.shared(at(9), asked, v2());
    story.read(C, got(3, Some(stamp(3, B))));
    story.hold(C, got(3, Some(stamp(3, B))));
    story.history.give_back(C, PAGE, None);
    story.hold(A, got(3, Some(stamp(3, B))));
    assert_eq!(story.history.counts(), (3, 3));
    story.passes();
}

#[test]
fn two_holders() {
    let mut story = Story::new();
    story.hold(A, v2());
    story.hold(B, v2());
    story.fails(|v| matches!(v, PageFault::TwoHolders { who: B, holder: A }));
}

#[test]
fn a_lost_update() {
    let mut story = Story::new();
    story.hold(B, v1());
    story.fails(|v| matches!(v, PageFault::NotNewest { version: 1, .. }));
}

#[test]
fn a_version_that_was_left_out() {
    let mut story = Story::new();
    story.hold(B, got(3, Some(stamp(2, A))));
    story.fails(|v| matches!(v, PageFault::NotNewest { version: 3, .. }));
}

#[test]
fn an_old_version_read() {
    let mut story = Story::new();
    story.read(C, v1());
    story.fails(|v| matches!(v, PageFault::Stale { version: 1, .. }));
}

#[test]
fn a_change_that_its_own_node_does_not_see() {
    let mut story = Story::new();
    story.change(B, v2(), 3);
    story.read(Who { worker: 1, ..B }, v2());
    story.fails(|v| matches!(v, PageFault::Stale { version: 2, .. }));
}

#[test]
fn a_change_not_seen_yet_may_be_missed_only_until_it_is_confirmed() {
    let mut story = Story::new();
    story.change(B, v2(), 3);
    let mut early = story.history.ask(at(9), C, PAGE);
    story.history.shared(at(9), early, v2());
    story.history.confirmed(1);
    early.floor = story.history.ask(at(9), C, PAGE).floor;
    story.history.shared(at(9), early, v2());
    assert_eq!(story.history.violation_count(), 1);
    story.fails(|v| matches!(v, PageFault::Stale { version: 2, .. }));
}

#[test]
fn a_version_with_another_content() {
    let mut story = Story::new();
    story.read(C, got(2, Some(stamp(2, B))));
    story.read(C, got(7, Some(stamp(2, A))));
    story.read(C, got(2, None));
    assert_eq!(story.history.violation_count(), 3);
    story.fails(|v| matches!(v, PageFault::Unknown { .. }));
}

#[test]
fn a_torn_page() {
    let mut story = Story::new();
    let mut bytes = vec![0; 256];
    fill_page(&mut bytes, stamp(2, A), SEED);
    bytes[200] ^= 4;
    let content = check_page(&bytes, SEED);
    story.read(
        C,
        Got {
            version: 2,
            content,
        },
    );
    story.fails(|v| matches!(v, PageFault::Torn { .. }));
}

#[test]
fn another_page() {
    let mut story = Story::new();
    let other = PageStamp {
        page: 78,
        ..stamp(2, A)
    };
    story.read(C, got(2, Some(other)));
    story.fails(|v| matches!(v, PageFault::OtherPage { .. }));
}

#[test]
fn what_died_with_a_node_is_served_in_an_older_version() {
    for exclusively in [false, true] {
        let mut story = Story::new();
        story.crash(A.node);
        if exclusively {
            story.hold(B, v1());
        } else {
            story.read(B, v1());
        }
        story.fails(|v| matches!(v, PageFault::SilentlyOld { version: 1, .. }));
    }
}

#[test]
fn a_loss_reported_and_accepted() {
    let mut story = Story::new();
    story.crash(A.node);
    story.history.lost(PAGE, 2);
    story.is_lost(B);
    story.history.accept(PAGE, 2);
    story.read(B, got(3, None));
    // From now on every worker sees this one.
    story.change(C, got(3, None), 4);
    story.passes();
}

#[test]
fn after_an_accepted_loss_all_must_see_the_same() {
    let mut story = Story::new();
    story.crash(A.node);
    story.history.lost(PAGE, 2);
    story.history.accept(PAGE, 2);
    story.read(B, got(3, None));
    story.read(C, got(3, Some(stamp(1, A))));
    story.fails(|v| matches!(v, PageFault::Unknown { version: 3, .. }));
}

#[test]
fn an_accepted_loss_must_not_use_a_version_again() {
    let mut story = Story::new();
    story.crash(A.node);
    story.history.lost(PAGE, 2);
    story.history.accept(PAGE, 2);
    story.read(B, got(2, None));
    story.fails(|v| matches!(v, PageFault::Unknown { version: 2, .. }));
}

#[test]
fn what_was_flushed_does_not_get_lost() {
    let mut story = Story::new();
    story.flush(A.node);
    story.crash(A.node);
    story.history.lost(PAGE, 2);
    story.fails(|v| matches!(v, PageFault::LostWithoutCause { .. }));
}

#[test]
fn what_lives_does_not_get_lost() {
    let mut story = Story::new();
    story.change(B, v2(), 3);
    story.read(C, got(3, Some(stamp(3, B))));
    story.crash(A.node);
    story.is_lost(C);
    story.fails(|v| matches!(v, PageFault::LostWithoutCause { .. }));
}

#[test]
fn a_loss_may_be_reported_until_a_change_by_another_is_taken() {
    let mut story = Story::new();
    story.hold(B, v2());
    story.crash(A.node);
    story.history.give_back(B, PAGE, Some(stamp(3, B)));
    // The directory does not know of the change yet.
    story.history.lost(PAGE, 2);
    story.is_lost(C);
    story.read(C, got(3, Some(stamp(3, B))));
    story.history.accept(PAGE, 2);
    story.read(C, got(3, Some(stamp(3, B))));
    story.passes();
}

#[test]
fn a_change_that_was_not_taken_leaves_a_page_lost() {
    for is_taken in [false, true] {
        let mut story = Story::new();
        story.hold(B, v2());
        story.crash(A.node);
        story.history.lost(PAGE, 2);
        story.history.give_back(B, PAGE, Some(stamp(3, B)));
        if is_taken {
            story.read(C, got(3, Some(stamp(3, B))));
            story.history.accept(PAGE, 2);
            story.fails(|v| matches!(v, PageFault::LostWithoutCause { .. }));
        } else {
            story.crash(B.node);
            story.history.accept(PAGE, 2);
            story.hold(C, got(3, None));
            story.passes();
        }
    }
}

#[test]
fn whoever_asked_before_a_loss_was_accepted_may_hear_of_it_after() {
    let mut story = Story::new();
    story.crash(A.node);
    story.history.lost(PAGE, 2);
    let asked = story.ask(B);
    story.history.accept(PAGE, 2);
    story.history.refused_as_lost(at(9), asked);
    story.passes();
}

#[test]
fn an_accepted_loss_is_over() {
    let mut story = Story::new();
    story.crash(A.node);
    story.history.lost(PAGE, 2);
    story.history.accept(PAGE, 2);
    story.is_lost(B);
    story.fails(|v| matches!(v, PageFault::LostWithoutCause { .. }));
}

#[test]
fn another_version_reported_lost() {
    let mut story = Story::new();
    story.crash(A.node);
    story.history.lost(PAGE, 1);
    story.fails(|v| matches!(v, PageFault::WrongLoss { version: 1, .. }));
}

#[test]
fn a_loss_that_nobody_reported() {
    let mut story = Story::new();
    story.crash(A.node);
    story.is_lost(B);
    story.fails(|v| matches!(v, PageFault::LossUnreported { who: B, .. }));
}

#[test]
fn a_change_hidden_by_a_death_may_have_been_or_not() {
    for was in [false, true] {
        let mut story = Story::new();
        story.flush(A.node);
        story.change(B, v2(), 3);
        story.crash(B.node);
        let left = if was { got(3, Some(stamp(3, B))) } else { v2() };
        story.hold(C, left);
        story.passes();
    }
    // Not both.
    let mut story = Story::new();
    story.change(B, v2(), 3);
    story.crash(B.node);
    story.change(C, v2(), 3);
    story.read(A, got(3, Some(stamp(3, B))));
    story.fails(|v| matches!(v, PageFault::Unknown { version: 3, .. }));
}

#[test]
fn the_latch_of_the_dead_comes_to_others_in_time() {
    let mut story = Story::new();
    story.hold(B, v2());
    let asked = story.ask(C);
    story.crash(B.node);
    story.history.exclusive(at(story.now + 900), asked, v2());
    story.passes();

    let mut story = Story::new();
    story.hold(B, v2());
    let asked = story.ask(C);
    story.crash(B.node);
    story.history.exclusive(at(story.now + 1100), asked, v2());
    story.fails(|v| matches!(v, PageFault::LatchNotReleased { who: C, .. }));
}

#[test]
fn what_a_node_taken_for_dead_gives_back_does_not_count() {
    let mut story = Story::new();
    story.hold(B, v2());
    story.crash(B.node);
    story.hold(C, v2());
    story.history.give_back(B, PAGE, Some(stamp(3, B)));
    story.history.not_taken(B, PAGE, 3);
    story.history.give_back(C, PAGE, None);
    story.read(A, v2());
    story.passes();
}

#[test]
fn a_change_of_the_living_is_taken() {
    let mut story = Story::new();
    story.change(B, v2(), 3);
    story.history.not_taken(B, PAGE, 3);
    story.fails(|v| matches!(v, PageFault::ChangeRefused { version: 3, .. }));
}

#[test]
fn a_damaged_home_may_cost_a_change_when_the_directory_is_made_again_and_that_is_reported() {
    for (damaged, reported) in [(true, true), (true, false), (false, true)] {
        let mut story = Story::new();
        story.change(B, v2(), 3);
        story
            .history
            .made_again(false, |page| damaged && page == PAGE);
        if reported {
            story.history.lost(PAGE, 3);
        }
        if damaged {
            story.history.not_taken(B, PAGE, 3);
        }
        match (damaged, reported) {
            (true, true) => story.passes(),
            (true, false) => {
                story.fails(|v| matches!(v, PageFault::ChangeRefused { version: 3, .. }));
            }
            _ => story.fails(|v| matches!(v, PageFault::LostWithoutCause { .. })),
        }
    }
}

#[test]
fn a_change_may_be_lost_on_its_way_if_a_node_is_silent_and_that_is_reported() {
    for (partial, reported) in [(true, true), (true, false), (false, false)] {
        let mut story = Story::new();
        story.change(B, v2(), 3);
        story.history.made_again(partial, |_| false);
        if reported {
            story.history.lost(PAGE, 3);
        }
        story.history.not_taken(B, PAGE, 3);
        match partial && reported {
            true => story.passes(),
            false => story.fails(|v| matches!(v, PageFault::ChangeRefused { version: 3, .. })),
        }
    }
}

#[test]
fn what_was_lost_with_a_directory_stays_lost_when_its_writer_dies() {
    for reported in [true, false] {
        let mut story = Story::new();
        story.change(B, v2(), 3);
        story.read(C, got(3, Some(stamp(3, B))));
        story.flush(B.node);
        story.history.made_again(true, |_| false);
        if reported {
            story.history.lost(PAGE, 3);
        }
        story.crash(B.node);
        story.is_lost(C);
        match reported {
            true => story.passes(),
            false => story.fails(|v| matches!(v, PageFault::LostWithoutCause { .. })),
        }
    }
}

#[test]
fn who_dies_before_it_has_answered_takes_a_newer_home_with_it() {
    for in_doubt in [true, false] {
        let mut story = Story::new();
        story.change(B, v2(), 3);
        story.read(C, got(3, Some(stamp(3, B))));
        story.history.made_again(false, |_| false);
        if in_doubt {
            story.history.in_doubt();
        }
        story.crash(A.node);
        story.history.lost(PAGE, 2);
        match in_doubt {
            true => story.passes(),
            false => story.fails(|v| matches!(v, PageFault::LostWithoutCause { .. })),
        }
    }
}

#[test]
fn a_page_that_somebody_got_is_in_doubt_no_more() {
    let mut story = Story::new();
    story.change(B, v2(), 3);
    story.history.made_again(false, |_| false);
    story.history.in_doubt();
    story.read(C, got(9, Some(stamp(3, B))));
    story.crash(A.node);
    story.history.lost(PAGE, 9);
    story.fails(|v| matches!(v, PageFault::LostWithoutCause { .. }));
}

#[test]
fn nobody_gives_back_what_it_does_not_have() {
    let mut story = Story::new();
    story.history.give_back(C, PAGE, None);
    story.fails(|v| matches!(v, PageFault::NotHeld { who: C, .. }));
}

#[test]
fn a_store_is_reopened_as_it_was_closed() {
    let mut story = Story::new();
    story.flush(A.node);
    story.history.reopen();
    story.read(B, got(0, Some(stamp(2, A))));
    story.change(C, got(0, Some(stamp(2, A))), 1);
    story.passes();

    let mut story = Story::new();
    story.history.reopen();
    story.read(B, got(0, Some(stamp(1, A))));
    story.fails(|v| matches!(v, PageFault::Unknown { version: 0, .. }));
}
