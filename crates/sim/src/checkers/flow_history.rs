//! The judge of a flow: hears of every item that goes in and of every item that comes out.
//!
//! What it demands: no item is lost, duplicated, changed or reordered within its ring; replicated
//! items come in one order everywhere; the end of the stream comes after all items. Of a flow that
//! was aborted it demands that what came out of a ring is a prefix of what went in.

use super::stamp::{self, Stamp};
use super::violation::Violation;
use crate::TraceHash;
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
    rings: BTreeMap<(u16, u16), Ring>,
    consumers: Vec<Consumer>,
    closed: BTreeSet<u16>,
    abandoned_producers: BTreeSet<u16>,
    aborted: bool,
    /// Replicated items in the order of whoever is ahead.
    order: Vec<Stamp>,
    violations: Vec<Violation>,
    violation_count: u64,
}

#[derive(Clone, Default, Debug)]
struct Consumer {
    popped: u64,
    ended: bool,
    abandoned: bool,
    order_differs: bool,
}

/// One ring of a producer.
#[derive(Debug)]
struct Ring {
    /// Hashes of what was pushed, by sequence.
    pushed: Vec<u64>,
    /// What came out: by consumer if replicated, else of all together.
    seen: Vec<Seen>,
    /// The last that each consumer popped of this ring.
    last: Vec<Option<u64>>,
}

#[derive(Clone, Default, Debug)]
struct Seen {
    bits: Vec<u64>,
    count: u64,
    highest: u64,
}

impl Seen {
    /// False if it was there already.
    fn insert(&mut self, sequence: u64) -> bool {
        let (word, bit) = ((sequence / 64) as usize, 1 << (sequence % 64));
        if self.bits.len() <= word {
            self.bits.resize(word + 1, 0);
        }
        if self.bits[word] & bit != 0 {
            return false;
        }
        self.bits[word] |= bit;
        self.count += 1;
        self.highest = self.highest.max(sequence);
        true
    }

    fn first_missing(&self) -> u64 {
        let word = self.bits.iter().position(|&word| word != u64::MAX);
        let word = word.unwrap_or(self.bits.len());
        let ones = self.bits.get(word).map_or(0, |bits| bits.trailing_ones());
        word as u64 * 64 + u64::from(ones)
    }
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
            order: Vec::new(),
            violations: Vec::new(),
            violation_count: 0,
        }
    }

    /// The hash by which the history remembers an item.
    pub fn item_hash(item: &[u8]) -> u64 {
        let mut hash = TraceHash::default();
        hash.bytes(item);
        hash.value()
    }

    /// One more consumer has joined; returns its number.
    pub fn join(&mut self) -> u16 {
        self.consumers.push(Consumer::default());
        self.consumers.len() as u16 - 1
    }

    /// An item was pushed; `hash` is its [`FlowHistory::item_hash`].
    pub fn push(&mut self, producer: u16, destination: u16, sequence: u64, hash: u64) {
        let ring = self
            .rings
            .entry((producer, destination))
            .or_insert_with(|| Ring {
                pushed: Vec::new(),
                seen: Vec::new(),
                last: Vec::new(),
            });
        let expect = ring.pushed.len() as u64;
        if sequence == expect {
            ring.pushed.push(hash);
        } else {
            self.violate(Violation::PushOrder {
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

    /// A consumer died: what did not come to it need not.
    pub fn abandon_consumer(&mut self, consumer: u16) {
        if let Some(consumer) = self.consumers.get_mut(usize::from(consumer)) {
            consumer.abandoned = true;
        }
    }

    /// A producer died: what it had pushed need not come out.
    pub fn abandon_producer(&mut self, producer: u16) {
        self.abandoned_producers.insert(producer);
    }

    /// A consumer popped an item.
    pub fn pop(&mut self, consumer: u16, item: &[u8]) {
        let consumers = self.consumers.len() as u16;
        let Some(state) = self.consumers.get_mut(usize::from(consumer)) else {
            return self.violate(Violation::UnknownConsumer {
                consumer,
                consumers,
            });
        };
        let index = state.popped;
        state.popped += 1;
        let ended = state.ended;
        let stamp = match stamp::check(item, self.seed) {
            Ok(stamp) => stamp,
            Err(error) => {
                return self.violate(Violation::Content {
                    consumer,
                    index,
                    error,
                });
            }
        };
        if ended {
            self.violate(Violation::AfterEnd { consumer, stamp });
        }
        if self.shape == Shape::Routed && stamp.destination != consumer {
            self.violate(Violation::WrongConsumer { consumer, stamp });
        }
        self.pop_from_ring(consumer, stamp, item);
        if self.shape == Shape::Replicated {
            self.pop_in_order(consumer, index, stamp);
        }
    }

    fn pop_from_ring(&mut self, consumer: u16, stamp: Stamp, item: &[u8]) {
        let at = usize::from(consumer);
        let ring = self.rings.get_mut(&(stamp.producer, stamp.destination));
        let pushed = |ring: &Ring| ring.pushed.get(stamp.sequence as usize).copied();
        let Some((ring, hash)) = ring.and_then(|ring| pushed(ring).map(|hash| (ring, hash))) else {
            return self.violate(Violation::NeverPushed { consumer, stamp });
        };
        let group = if self.shape == Shape::Replicated {
            at
        } else {
            0
        };
        if ring.seen.len() <= group {
            ring.seen.resize(group + 1, Seen::default());
        }
        if ring.last.len() <= at {
            ring.last.resize(at + 1, None);
        }
        let fresh = ring.seen[group].insert(stamp.sequence);
        let last = ring.last[at];
        ring.last[at] = last.max(Some(stamp.sequence));
        if hash != Self::item_hash(item) {
            self.violate(Violation::Changed { consumer, stamp });
        }
        if !fresh {
            self.violate(Violation::Duplicated { consumer, stamp });
        } else if let Some(after) = last
            && after > stamp.sequence
        {
            self.violate(Violation::Reordered {
                consumer,
                stamp,
                after,
            });
        }
    }

    fn pop_in_order(&mut self, consumer: u16, index: u64, got: Stamp) {
        match self.order.get(index as usize) {
            None => self.order.push(got),
            Some(&expect) if expect != got => {
                // From here on everything differs; once is enough.
                let state = &mut self.consumers[usize::from(consumer)];
                if !core::mem::replace(&mut state.order_differs, true) {
                    self.violate(Violation::OrderDiffers {
                        consumer,
                        index,
                        got,
                        expect,
                    });
                }
            }
            Some(_) => {}
        }
    }

    /// A consumer saw the end of its stream.
    pub fn end(&mut self, consumer: u16) {
        let consumers = self.consumers.len() as u16;
        let Some(state) = self.consumers.get_mut(usize::from(consumer)) else {
            return self.violate(Violation::UnknownConsumer {
                consumer,
                consumers,
            });
        };
        state.ended = true;
        if self.aborted {
            return;
        }
        let mut left: BTreeMap<u16, u64> = BTreeMap::new();
        for (&(producer, destination), ring) in &self.rings {
            let missing = match self.shape {
                // Another consumer may not have popped its share yet.
                Shape::Balanced => 0,
                Shape::Routed if destination != consumer => 0,
                Shape::Routed => ring.missing(0),
                Shape::Replicated => ring.missing(usize::from(consumer)),
            };
            *left.entry(producer).or_default() += missing;
        }
        for (producer, left) in left {
            let excused = self.abandoned_producers.contains(&producer);
            if !excused && (left > 0 || !self.closed.contains(&producer)) {
                self.violate(Violation::EarlyEnd {
                    consumer,
                    producer,
                    left,
                });
            }
        }
    }

    /// What is wrong so far, as far as the history could be read as it happened.
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// How much is wrong so far: all of it, where [`FlowHistory::violations`] keeps the first few.
    pub fn violation_count(&self) -> u64 {
        self.violation_count
    }

    /// How many items were pushed.
    pub fn pushed(&self) -> u64 {
        self.rings
            .values()
            .map(|ring| ring.pushed.len() as u64)
            .sum()
    }

    /// How many items were popped, by all consumers together.
    pub fn popped(&self) -> u64 {
        self.consumers.iter().map(|consumer| consumer.popped).sum()
    }

    /// The flow is over: judges what never came, too.
    ///
    /// # Errors
    /// Everything that is wrong with the flow, the first violations in full.
    pub fn finish(mut self) -> Result<(), Vec<Violation>> {
        let rings: Vec<Violation> = self
            .rings
            .iter()
            .flat_map(|(&key, ring)| self.judge_ring(key, ring))
            .collect();
        rings
            .into_iter()
            .for_each(|violation| self.violate(violation));
        let open = self
            .rings
            .keys()
            .any(|(producer, _)| !self.closed.contains(producer));
        for consumer in 0..self.consumers.len() {
            let Consumer {
                ended, abandoned, ..
            } = self.consumers[consumer];
            if !ended && !abandoned && !self.aborted && !open && !self.closed.is_empty() {
                self.violate(Violation::NoEnd {
                    consumer: consumer as u16,
                });
            }
        }
        if self.violations.is_empty() {
            Ok(())
        } else {
            Err(self.violations)
        }
    }

    /// What is wrong with what came out of one ring.
    fn judge_ring(&self, (producer, destination): (u16, u16), ring: &Ring) -> Vec<Violation> {
        let pushed = ring.pushed.len() as u64;
        let groups = if self.shape == Shape::Replicated {
            self.consumers.len()
        } else {
            1
        };
        let mut found = Vec::new();
        for group in 0..groups {
            let none = Seen::default();
            let seen = ring.seen.get(group).unwrap_or(&none);
            if seen.count == pushed {
                continue;
            }
            let whom = match self.shape {
                Shape::Routed => Some(destination),
                Shape::Balanced => None,
                Shape::Replicated => Some(group as u16),
            };
            let consumer_gone = match whom {
                Some(whom) => self
                    .consumers
                    .get(usize::from(whom))
                    .is_some_and(|c| c.abandoned),
                None => self.consumers.iter().any(|consumer| consumer.abandoned),
            };
            let producer_gone = self.abandoned_producers.contains(&producer);
            let first = seen.first_missing();
            if !(self.aborted || consumer_gone || producer_gone) {
                let count = pushed - seen.count;
                found.push(Violation::Lost {
                    producer,
                    destination,
                    whom,
                    first,
                    count,
                    pushed,
                });
            } else if whom.is_some() && seen.count > 0 && first < seen.highest {
                // Balanced consumers pop each at its own pace, so there gaps prove nothing.
                let later = seen.highest;
                found.push(Violation::NotPrefix {
                    producer,
                    destination,
                    whom,
                    first,
                    later,
                });
            }
        }
        found
    }

    #[cold]
    fn violate(&mut self, violation: Violation) {
        self.violation_count += 1;
        if self.violations.len() < VIOLATIONS_MAX {
            self.violations.push(violation);
        }
    }
}

impl Ring {
    fn missing(&self, group: usize) -> u64 {
        self.pushed.len() as u64 - self.seen.get(group).map_or(0, |seen| seen.count)
    }
}

#[cfg(test)]
#[path = "flow_history_tests.rs"]
mod tests;
