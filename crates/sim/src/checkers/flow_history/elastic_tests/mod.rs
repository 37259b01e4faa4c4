//! Joining and leaving consumers and producers: each rule broken once, and each permitted behaviour
//! accepted.

mod balanced;
mod replicated;

use super::*;

const SEED: u64 = 11;

/// A history with helpers: items are (producer, sequence), all of ring 0.
struct Story(FlowHistory);

impl Story {
    fn new(shape: Shape, consumers: u16) -> Self {
        Self(FlowHistory::new(shape, consumers, SEED))
    }

    fn item((producer, sequence): (u16, u64)) -> Vec<u8> {
        let mut item = vec![0; 24];
        stamp::fill(&mut item, producer, 0, sequence, SEED);
        item
    }

    fn push(&mut self, items: &[(u16, u64)]) {
        for &(producer, sequence) in items {
            let hash = FlowHistory::item_hash(&Self::item((producer, sequence)));
            self.0.push(producer, 0, sequence, hash);
        }
    }

    fn pop(&mut self, consumer: u16, items: &[(u16, u64)]) {
        for &item in items {
            self.0.pop(consumer, &Self::item(item));
        }
    }

    /// Closes all producers, ends all named consumers, and checks the violations.
    #[track_caller]
    fn check(mut self, ended: &[u16], expect: &[Violation]) {
        let producers: BTreeSet<u16> = self.0.rings.keys().map(|key| key.0).collect();
        producers.into_iter().for_each(|at| self.0.close(at));
        ended.iter().for_each(|&consumer| self.0.end(consumer));
        let violations = self.0.finish().err().unwrap_or_default();
        assert_eq!(violations, expect);
    }
}

fn stamp((producer, sequence): (u16, u64)) -> Stamp {
    Stamp {
        producer,
        destination: 0,
        sequence,
    }
}

fn lost(producer: u16, whom: Option<u16>, first: u64, count: u64, pushed: u64) -> Violation {
    Violation::Lost {
        producer,
        destination: 0,
        whom,
        first,
        count,
        pushed,
    }
}

fn early(consumer: u16, producer: u16, left: u64) -> Violation {
    Violation::EarlyEnd {
        consumer,
        producer,
        left,
    }
}

/// Items of two producers, in their global order.
const ORDER: [(u16, u64); 6] = [(0, 0), (1, 0), (1, 1), (0, 1), (1, 2), (0, 2)];

#[test]
fn producers_come_and_go() {
    for shape in [Shape::Routed, Shape::Balanced, Shape::Replicated] {
        let flow = |popped: &[(u16, u64)]| {
            let mut story = Story::new(shape, 1);
            story.push(&[(0, 0), (0, 1)]);
            story.0.close(0);
            story.push(&[(5, 0), (5, 1)]);
            story.pop(0, popped);
            story
        };
        flow(&[(0, 0), (5, 0), (5, 1), (0, 1)]).check(&[0], &[]);
        let whom = (shape != Shape::Balanced).then_some(0);
        let mut found = vec![lost(5, whom, 1, 1, 2)];
        if shape != Shape::Balanced {
            found.insert(0, early(0, 5, 1));
        }
        flow(&[(0, 0), (5, 0), (0, 1)]).check(&[0], &found);
        let mut story = flow(&[(0, 0), (5, 0), (5, 1), (0, 1)]);
        story.0.end(0);
        assert_eq!(story.0.violations(), [early(0, 5, 0)], "producer 5 is open");
    }
}

#[test]
fn a_routed_consumer_that_left_saw_a_prefix() {
    let left = |popped: &[(u16, u64)]| {
        let mut story = Story::new(Shape::Routed, 1);
        story.push(&ORDER);
        story.pop(0, popped);
        story.0.leave(0);
        story
    };
    left(&[(0, 0), (1, 0), (1, 1)]).check(&[], &[]);
    let hole = Violation::NotPrefix {
        producer: 1,
        destination: 0,
        whom: Some(0),
        first: 0,
        later: 1,
    };
    left(&[(0, 0), (1, 1)]).check(&[], &[hole]);
}
