//! Balanced flows: items that may be lost with dead consumers, and items that may be redelivered.

use super::*;

/// Eight items of one producer to balanced consumers.
fn balanced(pops: &[(u16, &[u64])]) -> Story {
    let mut story = Story::new(Shape::Balanced, 2);
    story.push(&[0, 1, 2, 3, 4, 5, 6, 7].map(|sequence| (0, sequence)));
    for &(consumer, sequences) in pops {
        let items: Vec<_> = sequences.iter().map(|&sequence| (0, sequence)).collect();
        story.pop(consumer, &items);
    }
    story
}

#[test]
fn a_balanced_consumer_that_leaves_loses_nothing() {
    let mut story = balanced(&[(1, &[1, 2])]);
    story.0.leave(1);
    story.pop(0, &[0, 3, 4, 5, 6, 7].map(|sequence| (0, sequence)));
    story.check(&[0], &[]);
    let mut story = balanced(&[(1, &[1]), (0, &[0, 3, 4, 5, 6, 7])]);
    story.0.leave(1);
    story.check(&[0], &[lost(0, None, 2, 1, 8)]);
    let mut story = balanced(&[(0, &[0, 1, 2, 3, 4, 5, 6])]);
    story.0.leave(1);
    story.pop(1, &[(0, 7)]);
    let after = Violation::AfterLeave {
        consumer: 1,
        stamp: stamp((0, 7)),
    };
    story.check(&[0], &[after]);
}

#[test]
fn a_joiner_takes_its_share() {
    let mut story = balanced(&[(0, &[0, 1]), (1, &[2])]);
    assert_eq!(story.0.join(), 2);
    story.pop(2, &[(0, 3), (0, 5), (0, 7)]);
    story.pop(0, &[(0, 4), (0, 6)]);
    story.check(&[0, 1, 2], &[]);
    let mut story = balanced(&[(0, &[0, 1, 2, 3, 4, 5, 6, 7])]);
    story.0.join();
    story.pop(2, &[(0, 3)]);
    let twice = Violation::Duplicated {
        consumer: 2,
        stamp: stamp((0, 3)),
    };
    story.check(&[0, 1, 2], &[twice]);
}

#[test]
fn the_dead_take_no_more_than_is_reported() {
    let dead = |reported: &[u64]| {
        let mut story = balanced(&[(1, &[1]), (0, &[0, 4, 5, 6, 7])]);
        story.0.abandon_consumer(1);
        reported.iter().for_each(|&count| story.0.lost(1, count));
        story
    };
    dead(&[2]).check(&[0], &[]);
    dead(&[1, 1]).check(&[0], &[]);
    // The dead consumer may have popped more than the flow knew of.
    dead(&[3]).check(&[0], &[]);
    let unreported = |reported| Violation::LostUnreported {
        missing: 2,
        reported,
    };
    dead(&[1]).check(&[0], &[unreported(1)]);
    dead(&[]).check(&[0], &[unreported(0)]);
    let mut story = dead(&[2]);
    story.pop(0, &[(0, 1)]);
    let twice = Violation::Duplicated {
        consumer: 0,
        stamp: stamp((0, 1)),
    };
    let reordered = story.0.violations().to_vec();
    assert_eq!(reordered, [twice], "without redelivery nothing comes twice");
}

#[test]
fn only_the_dead_lose_items() {
    let mut story = balanced(&[(0, &[0, 1, 2, 4, 5, 6, 7])]);
    story.0.lost(1, 1);
    let report = Violation::LossWithoutDeath {
        consumer: 1,
        count: 1,
    };
    story.check(&[0, 1], &[lost(0, None, 3, 1, 8), report]);
}

#[test]
fn redelivered_items_come_again_only_of_the_dead() {
    let redelivered = |again: &[u64]| {
        let mut story = balanced(&[]);
        story.0.redelivers();
        story.pop(1, &[(0, 0), (0, 2)]);
        story.pop(0, &[(0, 1), (0, 4)]);
        story.0.abandon_consumer(1);
        // Numbers 2 and 3 come after 4: the dead consumer had them.
        let again: Vec<_> = again.iter().map(|&sequence| (0, sequence)).collect();
        story.pop(0, &again);
        story
    };
    redelivered(&[2, 3, 5, 6, 7]).check(&[0], &[]);
    redelivered(&[3, 5, 6, 7]).check(&[0], &[]);
    let mut story = redelivered(&[5, 6, 7]);
    story.0.lost(1, 9);
    story.check(&[0], &[lost(0, None, 3, 1, 8)]);
    let twice = |sequence| Violation::Duplicated {
        consumer: 0,
        stamp: stamp((0, sequence)),
    };
    redelivered(&[1, 3, 5, 6, 7]).check(&[0], &[twice(1)]);
    redelivered(&[2, 2, 3, 5, 6, 7]).check(&[0], &[twice(2)]);
}

#[test]
fn redelivery_does_not_excuse_disorder_of_later_items() {
    let mut story = balanced(&[(0, &[0, 1, 2, 3, 4, 5, 6, 7])]);
    story.0.redelivers();
    story.0.abandon_consumer(1);
    story.push(&[(0, 8), (0, 9)]);
    story.pop(0, &[(0, 9), (0, 8)]);
    let disorder = Violation::Reordered {
        consumer: 0,
        stamp: stamp((0, 8)),
        after: 9,
    };
    story.check(&[0], &[disorder]);
}

#[test]
fn what_the_flow_did_not_promise_to_keep_may_go_with_the_dead() {
    let excused = |count: u64| {
        let mut story = balanced(&[(1, &[1]), (0, &[0, 4, 5, 6, 7])]);
        story.0.redelivers();
        story.0.abandon_consumer(1);
        story.0.excuse(1, count);
        story
    };
    excused(2).check(&[0], &[]);
    let unreported = Violation::LostUnreported {
        missing: 2,
        reported: 1,
    };
    excused(1).check(&[0], &[unreported]);
    excused(0).check(&[0], &[lost(0, None, 2, 2, 8)]);
}

#[test]
fn a_suspect_is_judged_when_it_is_known_what_became_of_it() {
    let given_up = |is_suspect: bool, is_given_up: bool| {
        let mut story = balanced(&[(1, &[1, 2]), (0, &[0])]);
        story.0.redelivers();
        if is_suspect {
            story.0.suspect_consumer(1);
        }
        story.pop(0, &[2, 3, 4, 5, 6, 7].map(|sequence| (0, sequence)));
        if is_given_up {
            story.0.abandon_consumer(1);
        }
        story
    };
    let twice = Violation::Duplicated {
        consumer: 0,
        stamp: stamp((0, 2)),
    };
    given_up(true, true).check(&[0], &[]);
    given_up(true, false).check(&[0, 1], std::slice::from_ref(&twice));
    given_up(false, true).check(&[0], &[twice]);
}

#[test]
fn the_end_may_come_before_a_late_producer() {
    let joined = |is_late: bool| {
        let mut story = balanced(&[(1, &[0, 1, 2, 3, 4, 5, 6, 7])]);
        story.0.close(0);
        if is_late {
            story.0.joined_late(1);
        }
        story.push(&[(1, 0)]);
        story.0.end(0);
        story.pop(1, &[(1, 0)]);
        story
    };
    joined(true).check(&[1], &[]);
    joined(false).check(&[1], &[early(0, 1, 0)]);
}
