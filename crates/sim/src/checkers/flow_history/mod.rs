//! The checker of a flow: records every item that goes in and every item that comes out.
//!
//! Requirements: no item is lost, duplicated, changed or reordered within its ring; replicated
//! items come in one order everywhere; the end of the stream comes after all items. For an aborted
//! flow the items that came out of a ring must be a prefix of those that went in.
//!
//! Consumers may join and leave. Requirements for those:
//!
//! - *Routed*: a joiner's rings are new; one that left or died saw a prefix of each of its rings.
//! - *Replicated*: a joiner sees the one order from its first item on, and every item pushed after
//!   it was notified that it has joined; one that left or died saw the order up to some item.
//! - *Balanced*: a joiner takes its share; no item is lost with one that left; one that died takes
//!   no more items with it than are reported, and none if the flow redelivers.
//!
//! [`mod@seen`] tracks the items that came out of each ring, [`order`] the order of replicated
//! items, [`members`] membership changes, and [`judge`] gives the verdict at the end.

mod judge;
mod members;
mod order;
mod seen;

use super::found::Found;
use super::stamp::{self, Stamp};
use super::violation::Violation;
use crate::TraceHash;
use order::{Misplaced, Orders, RingKey};
use seen::Ring;
use std::collections::{BTreeMap, BTreeSet};

/// How items are distributed to consumers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// Each ring of a producer leads to its destination consumer.
    Routed,
    /// Each item goes to any one consumer.
    Balanced,
    /// Each item goes to all consumers, in one order.
    Replicated,
}

/// Maximum violations kept; further ones are only counted.
const VIOLATIONS_MAX: usize = 64;

/// The history of one flow.
#[derive(Debug)]
pub struct FlowHistory {
    shape: Shape,
    seed: u64,
    rings: BTreeMap<RingKey, Ring>,
    consumers: Vec<Consumer>,
    closed: BTreeSet<u16>,
    abandoned_producers: BTreeSet<u16>,
    aborted: bool,
    /// Whether items of consumers that are gone come to others.
    redelivers: bool,
    /// The order of replicated items.
    orders: Orders,
    violations: Found<Violation, VIOLATIONS_MAX>,
    /// Violations, unless one of the suspected members turns out to have been given up.
    doubtful: Vec<(Violation, [Option<Member>; 2])>,
    suspects: BTreeSet<Member>,
    /// Producers that joined when all others had closed.
    late: BTreeSet<u16>,
}

/// A member of the flow.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Member {
    Producer(u16),
    Consumer(u16),
}

#[derive(Clone, Default, Debug)]
struct Consumer {
    popped: u64,
    ended: bool,
    abandoned: bool,
    left: bool,
    /// Items lost with it, as reported by the flow.
    lost: u64,
    /// Items that may have been lost with it unreported.
    excused: u64,
    /// The number of items in each ring when it was notified that it has joined.
    joined_at: Option<BTreeMap<RingKey, u64>>,
}

impl FlowHistory {
    /// The history of a flow with consumers `0..consumers`, whose items are stamped with `seed`.
    pub fn new(shape: Shape, consumers: u16, seed: u64) -> Self {
        Self {
            shape,
            seed,
            rings: BTreeMap::new(),
            consumers: vec![Consumer::default(); usize::from(consumers)],
            closed: BTreeSet::new(),
            abandoned_producers: BTreeSet::new(),
            aborted: false,
            redelivers: false,
            orders: Orders::new(consumers),
            violations: Found::default(),
            doubtful: Vec::new(),
            suspects: BTreeSet::new(),
            late: BTreeSet::new(),
        }
    }

    /// The hash under which the history stores an item.
    pub fn item_hash(item: &[u8]) -> u64 {
        let mut hash = TraceHash::default();
        hash.bytes(item);
        hash.value()
    }

    /// Records that an item was pushed; `hash` is its [`FlowHistory::item_hash`].
    pub fn push(&mut self, producer: u16, destination: u16, sequence: u64, hash: u64) {
        let ring = self.rings.entry((producer, destination)).or_default();
        let expect = ring.len();
        if sequence == expect {
            ring.pushed.push(hash);
        } else {
            self.violations.push(Violation::PushOrder {
                producer,
                destination,
                sequence,
                expect,
            });
        }
    }

    /// Records that a producer will push no more.
    pub fn close(&mut self, producer: u16) {
        self.closed.insert(producer);
    }

    /// Records that the whole flow was aborted: items that did not come out need not.
    pub fn abort(&mut self) {
        self.aborted = true;
    }

    /// Records that a consumer popped an item.
    pub fn pop(&mut self, consumer: u16, item: &[u8]) {
        let consumers = self.consumers.len() as u16;
        let Some(state) = self.consumers.get_mut(usize::from(consumer)) else {
            return self.violations.push(Violation::UnknownConsumer {
                consumer,
                consumers,
            });
        };
        let index = state.popped;
        state.popped += 1;
        let (ended, left) = (state.ended, state.left);
        let stamp = match stamp::check(item, self.seed) {
            Ok(stamp) => stamp,
            Err(error) => {
                return self.violations.push(Violation::Content {
                    consumer,
                    index,
                    error,
                });
            }
        };
        if ended {
            self.violations
                .push(Violation::AfterEnd { consumer, stamp });
        }
        if left {
            self.violations
                .push(Violation::AfterLeave { consumer, stamp });
        }
        if self.shape == Shape::Routed && stamp.destination != consumer {
            self.violations
                .push(Violation::WrongConsumer { consumer, stamp });
        }
        self.pop_from_ring(consumer, stamp, item);
        if self.shape == Shape::Replicated {
            self.pop_in_order(consumer, stamp);
        }
    }

    fn pop_from_ring(&mut self, consumer: u16, stamp: Stamp, item: &[u8]) {
        let Stamp { sequence, .. } = stamp;
        let ring = self.rings.get_mut(&(stamp.producer, stamp.destination));
        let pushed = |ring: &Ring| ring.pushed.get(sequence as usize).copied();
        let Some((ring, hash)) = ring.and_then(|ring| pushed(ring).map(|hash| (ring, hash))) else {
            return self
                .violations
                .push(Violation::NeverPushed { consumer, stamp });
        };
        let popped = ring.pop(self.shape, consumer, sequence);
        if hash != Self::item_hash(item) {
            self.violations.push(Violation::Changed { consumer, stamp });
        }
        if let Some(before) = popped.before
            && !self.may_come_again(before)
        {
            let redelivered = self.shape == Shape::Balanced && self.redelivers;
            // A consumer that was given up while alive may still take items that it had been shown.
            let members = [before, consumer].map(Member::Consumer).map(Some);
            let members = if redelivered { members } else { [None; 2] };
            self.doubt(Violation::Duplicated { consumer, stamp }, members);
        } else if let Some(after) = popped.after {
            self.violations.push(Violation::Reordered {
                consumer,
                stamp,
                after,
            });
        }
    }

    /// Whether items that `before` popped may come to another consumer.
    fn may_come_again(&self, before: u16) -> bool {
        let dead = self.consumers[usize::from(before)].abandoned;
        self.shape == Shape::Balanced && self.redelivers && dead
    }

    fn pop_in_order(&mut self, consumer: u16, got: Stamp) {
        match self.orders.pop(consumer, got) {
            Ok(()) => {}
            Err(Misplaced::Differs { place, expect }) => {
                self.violations.push(Violation::OrderDiffers {
                    consumer,
                    index: place,
                    got,
                    expect,
                })
            }
            Err(Misplaced::Elsewhere) => self
                .violations
                .push(Violation::OrderMissed { consumer, got }),
        }
    }

    /// Records that a consumer saw the end of its stream.
    pub fn end(&mut self, consumer: u16) {
        let consumers = self.consumers.len() as u16;
        let Some(state) = self.consumers.get_mut(usize::from(consumer)) else {
            return self.violations.push(Violation::UnknownConsumer {
                consumer,
                consumers,
            });
        };
        state.ended = true;
        if state.left || self.aborted {
            return;
        }
        let mut left: BTreeMap<u16, u64> = BTreeMap::new();
        let at = usize::from(consumer);
        let owed = self.orders.owed(at);
        for (&(producer, destination), ring) in &self.rings {
            let (group, from) = match self.shape {
                Shape::Routed if destination == consumer => (0, 0),
                Shape::Replicated => (
                    at,
                    self.owed_from(at, &owed, (producer, destination), ring.len()),
                ),
                // Items for another consumer, or another may not have popped its share yet.
                Shape::Routed | Shape::Balanced => (0, ring.len()),
            };
            let missing = ring.seen(group).missing(from, ring.len());
            *left.entry(producer).or_default() += missing.map_or(0, |(_, count)| count);
        }
        for (producer, left) in left {
            let is_late = self.shape == Shape::Balanced && self.late.contains(&producer);
            let excused = is_late || self.abandoned_producers.contains(&producer);
            if !excused && (left > 0 || !self.closed.contains(&producer)) {
                let violation = Violation::EarlyEnd {
                    consumer,
                    producer,
                    left,
                };
                self.doubt(violation, [Some(Member::Producer(producer)), None]);
            }
        }
    }

    /// The violations so far, as far as they can be detected during the run.
    pub fn violations(&self) -> &[Violation] {
        self.violations.first()
    }

    /// Number of violations so far, including those that [`FlowHistory::violations`] does not keep.
    pub fn violation_count(&self) -> u64 {
        self.violations.count()
    }

    /// Number of items pushed.
    pub fn pushed(&self) -> u64 {
        self.rings.values().map(Ring::len).sum()
    }

    /// Number of items popped, by all consumers together.
    pub fn popped(&self) -> u64 {
        self.consumers.iter().map(|consumer| consumer.popped).sum()
    }

    /// Records a violation, or defers it if one of `members` may have been given up by now.
    #[cold]
    fn doubt(&mut self, violation: Violation, members: [Option<Member>; 2]) {
        let doubtful = members.map(|member| member.filter(|m| self.suspects.contains(m)));
        if doubtful == [None; 2] {
            self.violations.push(violation);
        } else if self.doubtful.len() < VIOLATIONS_MAX {
            self.doubtful.push((violation, doubtful));
        }
    }
}

#[cfg(test)]
mod elastic_tests;
#[cfg(test)]
mod tests;
