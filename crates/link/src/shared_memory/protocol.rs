//! The counters of a ring between two processes: which end may access which slot, and which must be
//! woken.
//!
//! As in [`crate::ring`], the head counts the items ever pushed and the tail those ever popped, and
//! the slot of a counter is given by its low bits. There are two differences. First, the other end
//! is another process, which may die at any point or write anything: a counter read from it is
//! checked, and an impossible one is [`Nonsense`]. Second, an end may sleep: it sets a word in the
//! ring and checks the counter once more; the other end moves its counter and then checks the word.
//! Sequentially consistent fences separate store and check on both sides, so at least one end sees
//! the other's store.
//!
//! `tests/all/loom_ring.rs` runs this code under every order of accesses that the memory model
//! allows.

use crate::ring::OwnLine;
use crate::sync::{AtomicU32, Ordering, fence};
use core::ops::Deref;

/// Invalid data written by the other end of a link in shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Nonsense {
    /// An impossible counter.
    #[error(
        "the other end of a shared-memory link says that {waiting} packets wait in a ring of \
         {capacity}; it is taken for gone, restart it"
    )]
    Counter {
        /// Packets in the ring according to the counter.
        waiting: u32,
        /// Capacity of the ring in packets.
        capacity: u32,
    },
    /// An invalid packet.
    #[error(
        "the other end of a shared-memory link sent a packet that cannot be ({0}); it is taken \
         for gone, restart it"
    )]
    Packet(&'static str),
}

/// The words of one ring, each on its own cache lines. All zero means an empty ring.
#[repr(C)]
pub struct Words {
    head: OwnLine<AtomicU32>,
    tail: OwnLine<AtomicU32>,
    /// Not zero while the receiver sleeps until a packet arrives.
    sleeping: OwnLine<AtomicU32>,
    /// Not zero while the sender sleeps until a slot is free.
    starved: OwnLine<AtomicU32>,
    /// Not zero once the sender has left in an orderly way.
    closed: OwnLine<AtomicU32>,
}

/// The end that pushes.
pub struct SendEnd<W> {
    words: W,
    capacity: u32,
    head: u32,
    /// The tail when last loaded; the actual one may be ahead.
    tail_seen: u32,
}

/// The end that pops.
pub struct ReceiveEnd<W> {
    words: W,
    capacity: u32,
    tail: u32,
    /// The head when last loaded; the actual one may be ahead.
    head_seen: u32,
    /// Pops since the last check for a waiting sender.
    unsettled: u32,
}

impl Words {
    /// The words of an empty ring whose counters are at `start`.
    pub fn new(start: u32) -> Self {
        Self {
            head: OwnLine(AtomicU32::new(start)),
            tail: OwnLine(AtomicU32::new(start)),
            sleeping: OwnLine(AtomicU32::new(0)),
            starved: OwnLine(AtomicU32::new(0)),
            closed: OwnLine(AtomicU32::new(0)),
        }
    }

    /// Announces that the sender sends no more.
    pub fn close(&self) {
        self.closed.0.store(1, Ordering::Release);
    }

    /// Whether the sender has announced that it sends no more.
    #[inline]
    pub fn is_closed(&self) -> bool {
        self.closed.0.load(Ordering::Acquire) != 0
    }
}

/// Number of items in the ring, or the error in the counters.
fn waiting(head: u32, tail: u32, capacity: u32) -> Result<u32, Nonsense> {
    let waiting = head.wrapping_sub(tail);
    if waiting > capacity {
        return Err(Nonsense::Counter { waiting, capacity });
    }
    Ok(waiting)
}

/// Whether the other end has set `word` and waits for the preceding store. Returns true once per
/// wait.
fn is_waited_for(word: &AtomicU32) -> bool {
    fence(Ordering::SeqCst);
    word.load(Ordering::Relaxed) != 0 && word.swap(0, Ordering::AcqRel) != 0
}

impl<W: Deref<Target = Words>> SendEnd<W> {
    /// The pushing end of an empty ring of `capacity` slots, a power of two.
    pub fn new(words: W, capacity: u32) -> Self {
        assert!(capacity.is_power_of_two());
        let head = words.head.0.load(Ordering::Relaxed);
        Self {
            words,
            capacity,
            head,
            tail_seen: head,
        }
    }

    /// The words of the ring.
    pub fn words(&self) -> &Words {
        &self.words
    }

    /// The slot to fill next, or `None` if the ring is full.
    ///
    /// # Errors
    /// If the tail is impossible.
    #[inline]
    pub fn reserve(&mut self) -> Result<Option<u32>, Nonsense> {
        if self.is_full() {
            self.look()?;
            if self.is_full() {
                return Ok(None);
            }
        }
        Ok(Some(self.head & (self.capacity - 1)))
    }

    /// Passes the reserved slot to the receiver. Returns true if the receiver sleeps and must be
    /// woken.
    #[inline]
    #[must_use]
    pub fn publish(&mut self) -> bool {
        self.head = self.head.wrapping_add(1);
        self.words.head.0.store(self.head, Ordering::Release);
        is_waited_for(&self.words.sleeping.0)
    }

    /// Number of slots that can be filled before the receiver must free one.
    ///
    /// # Errors
    /// If the tail is impossible.
    pub fn free(&self) -> Result<u32, Nonsense> {
        let tail = self.words.tail.0.load(Ordering::Acquire);
        Ok(self.capacity - waiting(self.head, tail, self.capacity)?)
    }

    /// Announces that the sender is about to sleep; if the ring is full, it will be woken when a
    /// slot is free. Returns false if a slot has become free since the last failed attempt.
    ///
    /// # Errors
    /// If the tail is impossible.
    pub fn prepare_sleep(&mut self) -> Result<bool, Nonsense> {
        if !self.is_full() {
            return Ok(true);
        }
        self.words.starved.0.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.look()?;
        if !self.is_full() {
            self.end_sleep();
        }
        Ok(self.is_full())
    }

    /// Announces that the sender is awake.
    pub fn end_sleep(&mut self) {
        self.words.starved.0.store(0, Ordering::Relaxed);
    }

    fn is_full(&self) -> bool {
        self.head.wrapping_sub(self.tail_seen) == self.capacity
    }

    fn look(&mut self) -> Result<(), Nonsense> {
        let tail = self.words.tail.0.load(Ordering::Acquire);
        waiting(self.head, tail, self.capacity)?;
        self.tail_seen = tail;
        Ok(())
    }
}

impl<W: Deref<Target = Words>> ReceiveEnd<W> {
    /// The popping end of a ring of `capacity` slots, a power of two, from which nothing was
    /// popped yet.
    pub fn new(words: W, capacity: u32) -> Self {
        assert!(capacity.is_power_of_two());
        let tail = words.tail.0.load(Ordering::Relaxed);
        Self {
            words,
            capacity,
            tail,
            head_seen: tail,
            unsettled: 0,
        }
    }

    /// The words of the ring.
    pub fn words(&self) -> &Words {
        &self.words
    }

    /// The slot to empty next, or `None` if the ring is empty.
    ///
    /// # Errors
    /// If the head is impossible.
    #[inline]
    pub fn peek(&mut self) -> Result<Option<u32>, Nonsense> {
        if self.tail == self.head_seen {
            let head = self.words.head.0.load(Ordering::Acquire);
            waiting(head, self.tail, self.capacity)?;
            self.head_seen = head;
            if self.tail == self.head_seen {
                return Ok(None);
            }
        }
        Ok(Some(self.tail & (self.capacity - 1)))
    }

    /// Returns the slot that was peeked at to the sender. Returns true if the sender waits for a
    /// slot and must be woken. To save fences, this checks for a waiting sender only once per
    /// quarter of the ring: a receiver that stops earlier must call [`settle`](Self::settle).
    #[inline]
    #[must_use]
    pub fn release(&mut self) -> bool {
        self.tail = self.tail.wrapping_add(1);
        self.words.tail.0.store(self.tail, Ordering::Release);
        self.unsettled += 1;
        self.unsettled > self.capacity / 4 && self.settle()
    }

    /// Checks for a waiting sender. Returns true if it waits, a slot is free, and it must be woken.
    #[must_use]
    pub fn settle(&mut self) -> bool {
        core::mem::take(&mut self.unsettled) > 0 && is_waited_for(&self.words.starved.0)
    }

    /// Announces that the receiver is about to sleep; it will be woken when an item arrives.
    /// Returns false if there is an item already.
    ///
    /// # Errors
    /// If the head is impossible.
    pub fn prepare_sleep(&mut self) -> Result<bool, Nonsense> {
        self.words.sleeping.0.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let head = self.words.head.0.load(Ordering::Acquire);
        let is_empty = waiting(head, self.tail, self.capacity)? == 0;
        if !is_empty {
            self.end_sleep();
        }
        Ok(is_empty)
    }

    /// Announces that the receiver is awake.
    pub fn end_sleep(&mut self) {
        self.words.sleeping.0.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::Arc;

    fn ring(start: u32, capacity: u32) -> (SendEnd<Arc<Words>>, ReceiveEnd<Arc<Words>>) {
        let words = Arc::new(Words::new(start));
        (
            SendEnd::new(words.clone(), capacity),
            ReceiveEnd::new(words, capacity),
        )
    }

    proptest! {
        /// Whatever the order of pushes and pops, the ring is a bounded queue, also when the
        /// counters wrap, and a sleeping end is woken by the event that it waits for.
        #[test]
        fn it_is_a_bounded_queue_that_wakes(
            steps in prop::collection::vec(0..4, 1..200), log in 0..4_u32
        ) {
            let capacity = 1 << log;
            let (mut send, mut receive) = ring(u32::MAX - 20, capacity);
            let (mut pushed, mut popped) = (0_u32, 0_u32);
            let (mut receiver_sleeps, mut sender_sleeps) = (false, false);
            let slot = |count: u32| (u32::MAX - 20).wrapping_add(count) % capacity;
            for step in steps {
                let waiting = pushed - popped;
                match step {
                    0 => {
                        let reserved = send.reserve().unwrap();
                        prop_assert_eq!(reserved, (waiting < capacity).then(|| slot(pushed)));
                        if reserved.is_some() {
                            prop_assert_eq!(send.publish(), receiver_sleeps);
                            (pushed, receiver_sleeps) = (pushed + 1, false);
                        }
                    }
                    1 => {
                        let peeked = receive.peek().unwrap();
                        prop_assert_eq!(peeked, (waiting > 0).then(|| slot(popped)));
                        if peeked.is_some() {
                            let wake = receive.release() | receive.settle();
                            prop_assert_eq!(wake, sender_sleeps);
                            (popped, sender_sleeps) = (popped + 1, false);
                        }
                    }
                    2 => {
                        receiver_sleeps = receive.prepare_sleep().unwrap();
                        prop_assert_eq!(receiver_sleeps, waiting == 0);
                    }
                    _ => {
                        let may = send.prepare_sleep().unwrap();
                        sender_sleeps = may && waiting == capacity;
                        prop_assert!(may || waiting < capacity);
                    }
                }
                prop_assert_eq!(send.free().unwrap(), capacity - (pushed - popped));
            }
        }
    }

    #[test]
    fn counters_that_cannot_be_are_nonsense() {
        for wrong in [5, 100, 1 << 31] {
            let (mut send, mut receive) = ring(0, 4);
            send.words().head.0.store(wrong, Ordering::Relaxed);
            let nonsense = Err(Nonsense::Counter {
                waiting: wrong,
                capacity: 4,
            });
            assert_eq!(receive.peek(), nonsense);
            assert_eq!(receive.prepare_sleep().map(|_| None), nonsense);
            send.words().tail.0.store(wrong, Ordering::Relaxed);
            assert!(send.free().is_err());
            // The sender loads the tail when its ring seems full.
            for _ in 0..4 {
                assert!(send.reserve().unwrap().is_some());
                let _receiver_sleeps = send.publish();
            }
            send.words()
                .tail
                .0
                .store(4_u32.wrapping_add(wrong), Ordering::Relaxed);
            assert!(send.reserve().is_err() && send.prepare_sleep().is_err());
        }
    }

    #[test]
    fn the_sender_is_looked_after_once_in_a_while() {
        let (mut send, mut receive) = ring(0, 16);
        for _ in 0..16 {
            send.reserve().unwrap().unwrap();
            assert!(!send.publish());
        }
        assert!(send.prepare_sleep().unwrap());
        let mut pops = 0;
        loop {
            receive.peek().unwrap().unwrap();
            pops += 1;
            if receive.release() {
                break;
            }
        }
        assert_eq!(pops, 5);
        send.end_sleep();
        assert!(!receive.settle(), "nobody waits any more");
    }
}
