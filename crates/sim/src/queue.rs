//! The event queue: pending events and their order.
//!
//! Events are small values; packets are stored in links and NICs, not here. Two events of the same
//! instant happen in the order in which they were entered, so a run repeats exactly.

use rackweave_base::Instant;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Events ordered by time, then by entry.
#[derive(Debug)]
pub struct EventQueue<E> {
    heap: BinaryHeap<Reverse<Entry<E>>>,
    entered: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry<E> {
    at: Instant,
    sequence: u64,
    event: E,
}

impl<E> Entry<E> {
    fn key(&self) -> (Instant, u64) {
        (self.at, self.sequence)
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl<E> EventQueue<E> {
    /// An empty queue with space for `capacity` events before it grows.
    pub fn new(capacity: usize) -> Self {
        Self {
            heap: BinaryHeap::with_capacity(capacity),
            entered: 0,
        }
    }

    /// Enters `event`, to happen at `at`.
    #[inline]
    pub fn push(&mut self, at: Instant, event: E) {
        let sequence = self.entered;
        self.entered += 1;
        self.heap.push(Reverse(Entry {
            at,
            sequence,
            event,
        }));
    }

    /// When the next event happens.
    #[inline]
    pub fn next_at(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse(entry)| entry.at)
    }

    /// Removes the next event.
    #[inline]
    pub fn pop(&mut self) -> Option<(Instant, E)> {
        self.heap
            .pop()
            .map(|Reverse(entry)| (entry.at, entry.event))
    }

    /// Number of events.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether no event is pending.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }
}

/// The times at which a timer has entries in an event queue.
///
/// A timer may later be set to an earlier time, or cancelled. Events are not removed; but a timer
/// with an event that is early enough gets no second one, so events never pile up.
#[derive(Clone, Debug, Default)]
pub struct Alarm {
    /// Descending: the next is the last.
    entered: Vec<Instant>,
}

impl Alarm {
    /// Sets the timer to `at`. Returns whether an event has to be entered for it.
    #[inline]
    #[must_use]
    pub fn set(&mut self, at: Instant) -> bool {
        if self.entered.last().is_some_and(|&next| next <= at) {
            return false;
        }
        self.entered.push(at);
        true
    }

    /// Records that an event fired at `now`.
    #[inline]
    pub fn fired(&mut self, now: Instant) {
        let next = self.entered.pop();
        debug_assert_eq!(next, Some(now), "events come in the order of time");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rackweave_base::Rng;

    #[test]
    fn an_alarm_is_entered_only_when_it_comes_sooner() {
        let at = Instant::from_nanos;
        let mut alarm = Alarm::default();
        assert!(alarm.set(at(50)));
        assert!(!alarm.set(at(50)) && !alarm.set(at(70)));
        assert!(alarm.set(at(20)));
        assert!(!alarm.set(at(30)));
        alarm.fired(at(20));
        assert!(!alarm.set(at(60)), "the call at 50 still comes");
        alarm.fired(at(50));
        assert!(alarm.set(at(60)));
    }

    #[test]
    fn events_come_in_order_of_time_and_then_of_entry() {
        let mut queue = EventQueue::new(4);
        for (at, event) in [(5, 'c'), (3, 'a'), (5, 'd'), (3, 'b'), (9, 'e')] {
            queue.push(Instant::from_nanos(at), event);
        }
        assert_eq!(queue.next_at(), Some(Instant::from_nanos(3)));
        let order: String = std::iter::from_fn(|| queue.pop())
            .map(|(_, event)| event)
            .collect();
        assert_eq!(order, "abcde");
        assert!(queue.is_empty());
    }

    #[test]
    fn a_stable_sort_gives_the_same_order() {
        let mut rng = Rng::new(3);
        let mut queue = EventQueue::new(0);
        let mut expect: Vec<(Instant, u32)> = Vec::new();
        for event in 0..2000 {
            let at = Instant::from_nanos(rng.below(50));
            queue.push(at, event);
            expect.push((at, event));
        }
        assert_eq!(queue.len(), 2000);
        expect.sort_by_key(|&(at, _)| at);
        let got: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(got, expect);
    }
}
