//! Replicated flows: one order, and consumers that see part of it.

use super::*;

/// Consumer 0 saw all of [`ORDER`]; consumer 1 joined and sees `later`.
fn joiner(later: &[(u16, u64)]) -> Story {
    let mut story = Story::new(Shape::Replicated, 1);
    story.push(&ORDER);
    story.pop(0, &ORDER);
    assert_eq!(story.0.join(), 1);
    story.pop(1, later);
    story
}

#[test]
fn a_joiner_sees_a_suffix_of_the_order() {
    for from in 0..=ORDER.len() {
        joiner(&ORDER[from..]).check(&[0, 1], &[]);
    }
}

#[test]
fn a_joiner_that_misses_an_item_is_found() {
    // Number (1, 2) comes after its first item.
    let differs = Violation::OrderDiffers {
        consumer: 1,
        index: 4,
        got: stamp((0, 2)),
        expect: stamp((1, 2)),
    };
    let found = [differs, early(1, 1, 1), lost(1, Some(1), 2, 1, 3)];
    let story = joiner(&[(0, 1), (0, 2)]);
    assert_eq!(story.0.violation_count(), 1, "known at once");
    story.check(&[0, 1], &found);
    // The last item, which the joiner's own order does not contain.
    let found = [early(1, 0, 1), lost(0, Some(1), 2, 1, 3)];
    joiner(&[(0, 1), (1, 2)]).check(&[0, 1], &found);
    // In a ring of which it saw nothing: the items after its first item.
    let mut story = joiner(&[(0, 1)]);
    story.0.abandon_producer(0);
    let found = [
        early(1, 1, 1),
        lost(0, Some(1), 2, 1, 3),
        lost(1, Some(1), 2, 1, 3),
    ];
    story.check(&[0, 1], &found);
}

#[test]
fn a_joiner_that_steps_back_is_found() {
    let missed = Violation::OrderMissed {
        consumer: 1,
        got: stamp((1, 1)),
    };
    joiner(&[(0, 1), (1, 2), (0, 2), (1, 1)]).check(
        &[0, 1],
        &[
            Violation::Reordered {
                consumer: 1,
                stamp: stamp((1, 1)),
                after: 2,
            },
            missed,
        ],
    );
}

#[test]
fn a_joiner_may_be_ahead_of_all_others() {
    let mut story = Story::new(Shape::Replicated, 2);
    story.push(&ORDER);
    story.pop(0, &ORDER[..1]);
    story.0.join();
    story.0.join();
    story.pop(3, &ORDER[4..5]);
    story.pop(2, &ORDER[3..4]);
    // The consumer behind catches up with the one ahead, and passes it.
    story.pop(2, &ORDER[4..]);
    story.pop(3, &ORDER[5..]);
    story.pop(1, &ORDER);
    story.pop(0, &ORDER[1..]);
    assert_eq!(story.0.violation_count(), 0);
    story.check(&[0, 1, 2, 3], &[]);
}

#[test]
fn a_joiner_ahead_is_judged_when_the_others_get_there() {
    let mut story = Story::new(Shape::Replicated, 1);
    story.push(&ORDER);
    story.0.join();
    story.pop(1, &[(0, 1), (0, 2)]);
    assert_eq!(story.0.violation_count(), 0, "nobody knows better yet");
    story.pop(0, &ORDER);
    let found = [Violation::OrderDiffers {
        consumer: 0,
        index: 4,
        got: stamp((1, 2)),
        expect: stamp((0, 2)),
    }];
    assert_eq!(story.0.violations(), found);
    // A consumer that skips the joiner's first item.
    let mut story = Story::new(Shape::Replicated, 1);
    story.push(&ORDER);
    story.0.join();
    story.pop(1, &[(0, 0), (1, 0)]);
    story.pop(0, &[(1, 0)]);
    let missed = Violation::OrderMissed {
        consumer: 0,
        got: stamp((1, 0)),
    };
    assert_eq!(story.0.violations(), [missed]);
}

#[test]
fn a_joiner_is_there_before_anything_was_delivered() {
    let mut story = Story::new(Shape::Replicated, 1);
    story.0.join();
    story.0.joined(1);
    story.push(&ORDER);
    story.pop(1, &ORDER);
    story.pop(0, &ORDER);
    story.check(&[0, 1], &[]);
}

#[test]
fn what_is_pushed_after_joining_is_owed() {
    let reported = |popped: &[(u16, u64)]| {
        let mut story = Story::new(Shape::Replicated, 1);
        story.push(&ORDER[..3]);
        story.0.join();
        story.0.joined(1);
        story.push(&ORDER[3..]);
        story.pop(0, &ORDER);
        story.pop(1, popped);
        story
    };
    reported(&ORDER[3..]).check(&[0, 1], &[]);
    reported(&ORDER[1..]).check(&[0, 1], &[]);
    let found = [early(1, 0, 1), lost(0, Some(1), 1, 1, 3)];
    reported(&ORDER[4..]).check(&[0, 1], &found);
    let found = [
        early(1, 0, 2),
        early(1, 1, 1),
        lost(0, Some(1), 1, 2, 3),
        lost(1, Some(1), 2, 1, 3),
    ];
    reported(&[]).check(&[0, 1], &found);
}

#[test]
fn one_that_left_saw_a_prefix_from_its_start() {
    let mut story = joiner(&ORDER[1..3]);
    story.0.leave(1);
    story.check(&[0], &[]);
    let mut story = joiner(&ORDER[1..3]);
    story.0.leave(1);
    story.pop(1, &ORDER[3..4]);
    let after = Violation::AfterLeave {
        consumer: 1,
        stamp: stamp((0, 1)),
    };
    story.check(&[0], &[after]);
    // A gap before it left, and a gap in the items that it was promised.
    let mut story = Story::new(Shape::Replicated, 1);
    story.0.join();
    story.0.joined(1);
    story.push(&ORDER);
    story.pop(0, &ORDER);
    story.pop(1, &ORDER[3..]);
    story.0.leave(1);
    let hole = |producer, first| Violation::NotPrefix {
        producer,
        destination: 0,
        whom: Some(1),
        first,
        later: 2,
    };
    story.check(&[0], &[hole(0, 0), hole(1, 0)]);
}

#[test]
fn those_who_stay_see_one_flow() {
    let apart = |abandon: bool| {
        let mut story = Story::new(Shape::Replicated, 1);
        story.push(&ORDER);
        story.0.join();
        story.0.join();
        story.0.leave(0);
        story.pop(1, &[(0, 1), (0, 2)]);
        story.pop(2, &[(1, 1), (1, 2)]);
        if abandon {
            story.0.abandon_consumer(2);
        }
        story
    };
    let found = Violation::OrdersApart {
        consumer: 2,
        other: 1,
    };
    apart(false).check(&[1, 2], &[found]);
    apart(true).check(&[1], &[]);
}

#[test]
fn windows_that_cannot_be_of_one_order_are_found() {
    let windows = |one: &[(u16, u64)], other: &[(u16, u64)]| {
        let mut story = Story::new(Shape::Replicated, 0);
        story.push(&ORDER);
        for (consumer, items) in [one, other].into_iter().enumerate() {
            story.0.join();
            story.pop(consumer as u16, items);
            story.0.leave(consumer as u16);
        }
        story
    };
    windows(&[(0, 0), (1, 0)], &[(0, 1), (1, 1)]).check(&[], &[]);
    let cross = Violation::OrdersCross {
        consumer: 0,
        other: 1,
    };
    windows(&[(0, 0), (1, 1)], &[(0, 1), (1, 0)]).check(&[], &[cross]);
}

#[test]
fn what_one_saw_of_a_dead_producer_all_see() {
    let dead = |seen: &[(u16, u64)]| {
        let mut story = Story::new(Shape::Replicated, 2);
        story.push(&ORDER[..2]);
        story.0.abandon_producer(1);
        story.pop(0, &ORDER[..2]);
        story.pop(1, seen);
        story
    };
    dead(&ORDER[..2]).check(&[0, 1], &[]);
    dead(&ORDER[..1]).check(&[0, 1], &[lost(1, Some(1), 0, 1, 1)]);
}
