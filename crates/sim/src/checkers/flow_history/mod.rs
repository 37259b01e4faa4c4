//! The judge of a flow: hears of every item that goes in and of every item that comes out.
//!
//! What it demands: no item is lost, duplicated, changed or reordered within its ring; replicated
//! items come in one order everywhere; the end of the stream comes after all items. Of a flow that
//! was aborted it demands that what came out of a ring is a prefix of what went in.
//!
//! Consumers may come and go. What it demands of those:
//!
//! - *Routed*: a joiner's rings are new; one that left or died saw a prefix of each of its rings.
//! - *Replicated*: a joiner sees the one order from its first item on, and every item pushed after
//!   it was told that it has joined; one that left or died saw the order up to some item.
//! - *Balanced*: a joiner takes its share; with one that left nothing is lost; one that died takes
//!   no more items with it than are reported, and none if the flow redelivers.
//!
//! [`mod@seen`] counts what came out of each ring, [`order`] follows the order of replicated items,
//! [`members`] hears who comes and goes, [`judge`] speaks when all is over.

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

/// How items find their consumers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// Each ring of a producer leads to the consumer that is its destination.
    Routed,
    /// Each item goes to one consumer, whichever.
    Balanced,
    /// Each item goes to all consumers, in one order.
    Replicated,
}

/// Violations kept; further ones are only counted.
const VIOLATIONS_MAX: usize = 64;

/// Everything that happened in one flow.
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
    /// What is wrong unless one of the members, which are suspects, turns out to be given up.
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
    /// Items that went with it, as the flow reports.
    lost: u64,
    /// Items that may have gone with it unreported.
    excused: u64,
    /// How many items each ring had when it was told that it has joined.
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

    /// The hash by which the history remembers an item.
    pub fn item_hash(item: &[u8]) -> u64 {
        let mut hash = TraceHash::default();
        hash.bytes(item);
        hash.value()
    }

    /// An item was pushed; `hash` is its [`FlowHistory::item_hash`].
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

    /// A producer will push no more.
    pub fn close(&mut self, producer: u16) {
        self.closed.insert(producer);
    }

    /// The whole flow was aborted: what did not come out need not.
    pub fn abort(&mut self) {
        self.aborted = true;
    }

    /// A consumer popped an item.
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
            // One that was given up while it lived takes what it had been shown, too.
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

    /// Whether what `before` popped may come to another.
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

    /// A consumer saw the end of its stream.
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
                // Not for this consumer, or another may not have popped its share yet.
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

    /// What is wrong so far, as far as the history could be read as it happened.
    pub fn violations(&self) -> &[Violation] {
        self.violations.first()
    }

    /// How much is wrong so far: all of it, where [`FlowHistory::violations`] keeps the first few.
    pub fn violation_count(&self) -> u64 {
        self.violations.count()
    }

    /// How many items were pushed.
    pub fn pushed(&self) -> u64 {
        self.rings.values().map(Ring::len).sum()
    }

    /// How many items were popped, by all consumers together.
    pub fn popped(&self) -> u64 {
        self.consumers.iter().map(|consumer| consumer.popped).sum()
    }

    /// Notes a violation, for later if one of `members` may have been given up by now.
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
