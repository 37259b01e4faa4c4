//! Each kind of violation, planted, and correct histories beside it.

mod exact;
mod scans;

use super::*;

const KEY: u64 = 7;

fn value(number: u32) -> ValueStamp {
    ValueStamp::new(number)
}

/// A history in short form. Each event is a nanosecond after the previous one.
#[derive(Default)]
pub(super) struct Story {
    pub history: IndexHistory,
    now: u64,
}

impl Story {
    pub fn now(&mut self) -> Instant {
        self.now += 1;
        Instant::from_nanos(self.now)
    }

    pub fn begin(&mut self, who: u32, operation: Operation) -> PointId {
        let now = self.now();
        self.history.begin(now, who, KEY, operation)
    }

    pub fn end(&mut self, id: PointId, outcome: Outcome) {
        let now = self.now();
        self.history.end(now, id, outcome);
    }

    pub fn lost(&mut self, id: PointId) {
        let now = self.now();
        self.history.lost(now, id);
    }

    /// An operation without concurrency.
    pub fn done(&mut self, operation: Operation, outcome: Outcome) {
        let id = self.begin(0, operation);
        self.end(id, outcome);
    }

    pub fn found(&mut self, stamp: Option<u32>) {
        self.done(Operation::Get, Outcome::Found(stamp.map(value)));
    }

    pub fn right(self) -> IndexCounts {
        self.history.finish().expect("nothing is wrong")
    }

    pub fn wrong(self) -> IndexViolation {
        let mut violations = self.history.finish().expect_err("something is wrong");
        assert_eq!(violations.len(), 1, "{violations:#?}");
        violations.remove(0)
    }
}

/// Checks the key, the impossible operation, and the states.
#[track_caller]
fn out_of_line(story: Story, expect: &str, expect_states: &str) {
    match story.wrong() {
        IndexViolation::OutOfLine { what, states, .. } => {
            assert!(what.starts_with(expect), "{what}");
            assert_eq!(states, expect_states);
        }
        other => panic!("{other}"),
    }
}

#[test]
fn every_operation_with_every_outcome_in_its_place() {
    let mut story = Story::default();
    story.found(None);
    story.done(Operation::Remove, Outcome::Done(false));
    story.done(Operation::Update(value(1)), Outcome::Done(false));
    story.done(Operation::Insert(value(2)), Outcome::Done(true));
    story.found(Some(2));
    story.done(Operation::Insert(value(3)), Outcome::Done(false));
    story.found(Some(2));
    story.done(Operation::Update(value(4)), Outcome::Done(true));
    story.done(Operation::Put(value(5)), Outcome::Done(false));
    story.found(Some(5));
    story.done(Operation::Remove, Outcome::Done(true));
    story.found(None);
    story.done(Operation::Put(value(6)), Outcome::Done(true));
    story.found(Some(6));
    let counts = story.right();
    let IndexCounts { gets, changes, .. } = counts;
    assert_eq!((gets, changes), (6, 8));
}

#[test]
fn each_outcome_in_the_wrong_place() {
    let present = |operation, outcome| {
        let mut story = Story::default();
        story.done(Operation::Put(value(1)), Outcome::Done(true));
        story.done(operation, outcome);
        out_of_line(story, &format!("{operation:?}"), "value 1");
    };
    present(Operation::Get, Outcome::Found(None));
    present(Operation::Insert(value(2)), Outcome::Done(true));
    present(Operation::Update(value(2)), Outcome::Done(false));
    present(Operation::Put(value(2)), Outcome::Done(true));
    present(Operation::Remove, Outcome::Done(false));
    let absent = |operation, outcome| {
        let mut story = Story::default();
        story.done(operation, outcome);
        out_of_line(story, &format!("{operation:?}"), "absent");
    };
    absent(Operation::Insert(value(2)), Outcome::Done(false));
    absent(Operation::Update(value(2)), Outcome::Done(true));
    absent(Operation::Put(value(2)), Outcome::Done(false));
    absent(Operation::Remove, Outcome::Done(true));
}

#[test]
fn a_lost_update() {
    let mut story = Story::default();
    story.done(Operation::Put(value(1)), Outcome::Done(true));
    story.done(Operation::Update(value(2)), Outcome::Done(true));
    story.found(Some(1));
    out_of_line(story, "Get", "value 2");
}

#[test]
fn a_stale_read_after_a_newer_one() {
    let mut story = Story::default();
    story.done(Operation::Put(value(1)), Outcome::Done(true));
    let update = story.begin(1, Operation::Update(value(2)));
    story.found(Some(1));
    story.found(Some(2));
    story.found(Some(1));
    story.end(update, Outcome::Done(true));
    out_of_line(story, "Get", "value 2");
}

#[test]
fn a_key_that_comes_back_after_its_removal() {
    let mut story = Story::default();
    story.done(Operation::Insert(value(1)), Outcome::Done(true));
    story.done(Operation::Remove, Outcome::Done(true));
    story.found(None);
    story.found(Some(1));
    out_of_line(story, "Get", "absent");
}

#[test]
fn two_that_both_removed_one_key() {
    let mut story = Story::default();
    story.done(Operation::Insert(value(1)), Outcome::Done(true));
    let (one, other) = (
        story.begin(1, Operation::Remove),
        story.begin(2, Operation::Remove),
    );
    story.end(one, Outcome::Done(true));
    story.end(other, Outcome::Done(true));
    out_of_line(story, "Remove by 2", "absent");
}

#[test]
fn a_value_from_nowhere_and_one_whose_insert_did_nothing() {
    let mut story = Story::default();
    story.done(Operation::Put(value(1)), Outcome::Done(true));
    story.found(Some(9));
    assert!(
        matches!(story.wrong(), IndexViolation::NeverWritten { stamp, .. } if stamp == value(9))
    );
    let mut story = Story::default();
    story.done(Operation::Put(value(1)), Outcome::Done(true));
    story.done(Operation::Insert(value(2)), Outcome::Done(false));
    story.found(Some(2));
    assert!(
        matches!(story.wrong(), IndexViolation::NeverWritten { stamp, .. } if stamp == value(2))
    );
}

#[test]
fn one_that_was_refused_has_not_been_done() {
    let mut story = Story::default();
    let refused = story.begin(0, Operation::Put(value(1)));
    story.history.refused(refused);
    story.found(None);
    let refused = story.begin(0, Operation::Put(value(2)));
    story.history.refused(refused);
    story.found(Some(2));
    assert!(
        matches!(story.wrong(), IndexViolation::NeverWritten { stamp, .. } if stamp == value(2))
    );
}

#[test]
fn what_overlaps_may_be_in_either_order() {
    for (first, second) in [(1, 2), (2, 1)] {
        let mut story = Story::default();
        let one = story.begin(1, Operation::Put(value(1)));
        let two = story.begin(2, Operation::Put(value(2)));
        story.end(one, Outcome::Done(first == 1));
        story.end(two, Outcome::Done(first == 2));
        story.found(Some(second));
        story.right();
    }
    let mut story = Story::default();
    let one = story.begin(1, Operation::Put(value(1)));
    let two = story.begin(2, Operation::Put(value(2)));
    story.end(one, Outcome::Done(true));
    story.end(two, Outcome::Done(true));
    out_of_line(story, "Put(ValueStamp(2)) by 2", "value 1");
}

#[test]
fn an_unknown_result_is_one_or_the_other() {
    for seen in [None, Some(1)] {
        let mut story = Story::default();
        story.begin(1, Operation::Put(value(1)));
        story.found(seen);
        story.found(Some(1));
        story.right();
    }
    // Not first one and then the other.
    let mut story = Story::default();
    story.begin(1, Operation::Put(value(1)));
    story.found(Some(1));
    story.found(None);
    out_of_line(story, "Get", "value 1");
    // Once lost, it no longer takes effect.
    let mut story = Story::default();
    let lost = story.begin(1, Operation::Put(value(1)));
    story.found(None);
    story.lost(lost);
    story.found(Some(1));
    story.found(Some(1));
    story.right();
    let mut story = Story::default();
    let lost = story.begin(1, Operation::Put(value(1)));
    story.lost(lost);
    story.found(None);
    story.found(Some(1));
    out_of_line(story, "Get", "absent");
}

#[test]
fn many_unknown_results_stay_few_configurations() {
    let mut story = Story::default();
    story.done(Operation::Put(value(1)), Outcome::Done(true));
    for number in 100..200 {
        story.begin(1, Operation::Update(value(number)));
        story.begin(2, Operation::Remove);
        if number % 4 == 3 {
            let seen = story.begin(0, Operation::Get);
            story.end(seen, Outcome::Found(Some(value(number - 2))));
        }
        // Frees capacity: these took effect long ago or never will.
        for id in 0..story.history.points.len() {
            let point = &story.history.points[id];
            let stays = point.begun.number + 40 > story.history.events;
            if id > 0 && point.end == End::Open && point.operation != Operation::Get && !stays {
                story.lost(PointId(id));
            }
        }
    }
    story.right();
}

#[test]
fn a_restart_takes_what_is_not_kept() {
    let story = |certain, kept: Vec<(u64, ValueStamp)>| {
        let mut story = Story::default();
        story.history.load(KEY, value(1));
        story.done(Operation::Put(value(2)), Outcome::Done(false));
        let now = story.now();
        let begun = story.history.moment_now(now);
        let now = story.now();
        story.history.restarted(now, begun, 0..=KEY, kept, certain);
        story
    };
    for (certain, kept, seen, right) in [
        (true, None, None, true),
        (true, None, Some(2), false),
        (true, Some(1), Some(1), true),
        (true, Some(1), None, false),
        (false, None, None, true),
        (false, None, Some(2), true),
        (false, None, Some(1), false),
    ] {
        let mut story = story(
            certain,
            kept.map(|kept| (KEY, value(kept))).into_iter().collect(),
        );
        story.found(seen);
        let result = story.history.finish();
        assert_eq!(
            result.is_ok(),
            right,
            "{certain} {kept:?} {seen:?}: {result:?}"
        );
    }
}

#[test]
fn torn_bytes_are_told() {
    let mut story = Story::default();
    let get = story.begin(3, Operation::Get);
    let now = story.now();
    let error = check_value(&[0; 4], KEY, 0).expect_err("too short");
    story.history.torn(now, get, error);
    assert!(matches!(
        story.wrong(),
        IndexViolation::Torn { key: KEY, .. }
    ));
}

#[test]
fn what_cannot_be_judged_is_not_passed() {
    let mut story = Story::default();
    for number in 0..200 {
        story.begin(1, Operation::Put(value(number)));
    }
    assert!(matches!(story.wrong(), IndexViolation::TooHard { .. }));
}

#[test]
#[should_panic(expected = "value 4 is written once")]
fn a_value_is_written_once() {
    let mut story = Story::default();
    story.begin(1, Operation::Put(value(4)));
    story.begin(1, Operation::Update(value(4)));
}
