//! A bounded ring for one producer and one consumer, which may be on different threads.
//!
//! The head counts the items ever pushed, the tail those ever popped; both wrap at the end of
//! `usize`, and the slot of a counter is given by its low bits. Each end owns its counter and keeps
//! a copy of the other's, which it reloads only when the copy shows a full or empty ring: while
//! both ends work in batches, the cache lines of the counters are transferred once per batch.
//! Nothing is allocated after the ring is created.
//!
//! `tests/all/loom_ring.rs` runs this code under every order of accesses that the memory model
//! allows.

use crate::sync::{Arc, AtomicBool, AtomicUsize, Ordering, UnsafeCell};
use core::mem::MaybeUninit;

/// Maximum capacity of a ring.
pub const CAPACITY_MAX: usize = 1 << 20;

/// The end that pushes.
pub struct Producer<T> {
    shared: Arc<Shared<T>>,
    head: usize,
    /// The tail when last loaded; the actual one may be ahead.
    tail_seen: usize,
}

/// The end that pops.
pub struct Consumer<T> {
    shared: Arc<Shared<T>>,
    tail: usize,
    /// The head when last loaded; the actual one may be ahead.
    head_seen: usize,
}

/// Keeps its content on separate cache lines. It uses two lines, because processors that fetch
/// lines in pairs would otherwise still share them.
#[repr(C, align(128))]
pub(crate) struct OwnLine<T>(pub(crate) T);

struct Shared<T> {
    slots: Box<[UnsafeCell<MaybeUninit<T>>]>,
    producer_gone: AtomicBool,
    consumer_gone: AtomicBool,
    head: OwnLine<AtomicUsize>,
    tail: OwnLine<AtomicUsize>,
}

// SAFETY: a slot is accessed only by the end to which the counters assign it: by the producer while
// it is not in `tail..head`, by the consumer while it is. The release store of a counter passes the
// slot on and the acquire load receives it. So items only move between threads.
unsafe impl<T: Send> Sync for Shared<T> {}
// SAFETY: as above; the thread that drops the last end drops the remaining items.
unsafe impl<T: Send> Send for Shared<T> {}

/// Creates a ring of `capacity` items, rounded up to a power of two, at least one and at most
/// [`CAPACITY_MAX`].
pub fn ring<T>(capacity: usize) -> (Producer<T>, Consumer<T>) {
    let capacity = capacity.clamp(1, CAPACITY_MAX).next_power_of_two();
    let shared = Arc::new(Shared {
        slots: (0..capacity)
            .map(|_| UnsafeCell::new(MaybeUninit::uninit()))
            .collect(),
        producer_gone: AtomicBool::new(false),
        consumer_gone: AtomicBool::new(false),
        head: OwnLine(AtomicUsize::new(0)),
        tail: OwnLine(AtomicUsize::new(0)),
    });
    let producer = Producer {
        shared: shared.clone(),
        head: 0,
        tail_seen: 0,
    };
    (
        producer,
        Consumer {
            shared,
            tail: 0,
            head_seen: 0,
        },
    )
}

impl<T> Producer<T> {
    /// Pushes `item`.
    ///
    /// # Errors
    /// Returns the item if the ring is full.
    #[inline]
    pub fn push(&mut self, item: T) -> Result<(), T> {
        let capacity = self.shared.slots.len();
        if self.head.wrapping_sub(self.tail_seen) == capacity {
            self.tail_seen = self.shared.tail.0.load(Ordering::Acquire);
            if self.head.wrapping_sub(self.tail_seen) == capacity {
                return Err(item);
            }
        }
        self.shared.slot(self.head).with_mut(|slot| {
            // SAFETY: there are fewer than `capacity` items between tail and head, so this slot is
            // not one of them; the consumer left it before the tail was loaded, and this is the
            // only producer.
            unsafe { (*slot).write(item) };
        });
        self.head = self.head.wrapping_add(1);
        self.shared.head.0.store(self.head, Ordering::Release);
        Ok(())
    }

    /// Number of items that `push` accepts before the consumer must pop one. Reads the consumer's
    /// cache line.
    pub fn free(&self) -> usize {
        let tail = self.shared.tail.0.load(Ordering::Acquire);
        self.shared.slots.len() - self.head.wrapping_sub(tail)
    }

    /// Number of items that the ring can hold.
    pub fn capacity(&self) -> usize {
        self.shared.slots.len()
    }

    /// Whether the consumer has been dropped: no item will be popped again.
    #[inline]
    pub fn is_consumer_gone(&self) -> bool {
        self.shared.consumer_gone.load(Ordering::Acquire)
    }
}

impl<T> Consumer<T> {
    /// Pops the oldest item.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        if self.tail == self.head_seen {
            self.head_seen = self.shared.head.0.load(Ordering::Acquire);
            if self.tail == self.head_seen {
                return None;
            }
        }
        let item = self.shared.slot(self.tail).with_mut(|slot| {
            // SAFETY: the slot is between tail and head, so the producer wrote it before the head
            // was stored; the tail passes it just below, so it is read once.
            unsafe { (*slot).assume_init_read() }
        });
        self.tail = self.tail.wrapping_add(1);
        self.shared.tail.0.store(self.tail, Ordering::Release);
        Some(item)
    }

    /// Number of items in the ring. Reads the producer's cache line.
    pub fn len(&self) -> usize {
        self.shared
            .head
            .0
            .load(Ordering::Acquire)
            .wrapping_sub(self.tail)
    }

    /// Whether the ring is empty. Reads the producer's cache line.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the producer has been dropped. Items that it pushed before can still be popped.
    pub fn is_producer_gone(&self) -> bool {
        self.shared.producer_gone.load(Ordering::Acquire)
    }
}

impl<T> Shared<T> {
    #[inline(always)]
    fn slot(&self, counter: usize) -> &UnsafeCell<MaybeUninit<T>> {
        // The number of slots is a power of two, so this is the remainder, also across the wrap.
        &self.slots[counter & (self.slots.len() - 1)]
    }
}

impl<T> Drop for Producer<T> {
    fn drop(&mut self) {
        self.shared.producer_gone.store(true, Ordering::Release);
    }
}

impl<T> Drop for Consumer<T> {
    fn drop(&mut self) {
        // Set the flag first, then drop the items: an item pushed in between is dropped with
        // `Shared`.
        self.shared.consumer_gone.store(true, Ordering::Release);
        while self.pop().is_some() {}
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        let head = self.head.0.load(Ordering::Acquire);
        let mut tail = self.tail.0.load(Ordering::Acquire);
        while tail != head {
            self.slot(tail).with_mut(|slot| {
                // SAFETY: the slots of `tail..head` hold items, and no end is left to pop them.
                unsafe { (*slot).assume_init_drop() };
            });
            tail = tail.wrapping_add(1);
        }
    }
}

impl<T> core::fmt::Debug for Producer<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Producer(room {} of {})", self.free(), self.capacity())
    }
}

impl<T> core::fmt::Debug for Consumer<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Consumer({} waiting)", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    #[test]
    fn capacity_is_rounded_up_and_bounded() {
        for (asked, given) in [(0, 1), (1, 1), (3, 4), (64, 64)] {
            assert_eq!(ring::<u8>(asked).0.capacity(), given);
        }
        // Miri would need minutes to free this many slots.
        if !cfg!(miri) {
            assert_eq!(ring::<()>(usize::MAX).0.capacity(), CAPACITY_MAX);
        }
    }

    #[test]
    fn what_is_left_is_freed_whichever_end_goes_first() {
        for producer_first in [true, false] {
            let item = std::sync::Arc::new(());
            let (mut producer, mut consumer) = ring(4);
            for _ in 0..3 {
                producer.push(item.clone()).unwrap();
            }
            drop(consumer.pop());
            if producer_first {
                drop(producer);
                assert!(consumer.is_producer_gone());
                assert_eq!(consumer.len(), 2, "what was pushed can still be popped");
                drop(consumer);
            } else {
                drop(consumer);
                assert!(producer.is_consumer_gone());
                assert_eq!(
                    std::sync::Arc::strong_count(&item),
                    1,
                    "the consumer sweeps"
                );
                producer.push(item.clone()).unwrap();
                drop(producer);
            }
            assert_eq!(std::sync::Arc::strong_count(&item), 1, "nothing leaks");
        }
    }

    #[test]
    fn two_threads_pass_items_in_order() {
        const ITEMS: u64 = if cfg!(miri) { 200 } else { 200_000 };
        let (mut producer, mut consumer) = ring(8);
        let thread = std::thread::spawn(move || {
            for item in 0..ITEMS {
                while producer.push(item).is_err() {
                    std::thread::yield_now();
                }
            }
        });
        for expect in 0..ITEMS {
            let item = loop {
                match consumer.pop() {
                    Some(item) => break item,
                    None => std::thread::yield_now(),
                }
            };
            assert_eq!(item, expect);
        }
        thread.join().unwrap();
        assert_eq!(consumer.pop(), None);
    }

    proptest! {
        /// Whatever the order of pushes and pops, the ring is a bounded queue; the counters start
        /// just before the end of `usize`, so that they wrap.
        #[test]
        fn the_ring_is_a_bounded_queue(pushes in prop::collection::vec(any::<bool>(), 1..200)) {
            let (mut producer, mut consumer) = ring(4);
            let start = usize::MAX - 20;
            producer.shared.head.0.store(start, Ordering::Relaxed);
            producer.shared.tail.0.store(start, Ordering::Relaxed);
            (producer.head, producer.tail_seen) = (start, start);
            (consumer.tail, consumer.head_seen) = (start, start);
            let mut model = VecDeque::new();
            for (item, push) in pushes.into_iter().enumerate() {
                if push {
                    prop_assert_eq!(producer.push(item).is_ok(), model.len() < 4);
                    if model.len() < 4 {
                        model.push_back(item);
                    }
                } else {
                    prop_assert_eq!(consumer.pop(), model.pop_front());
                }
                prop_assert_eq!(producer.free(), 4 - model.len());
                prop_assert_eq!(consumer.len(), model.len());
            }
        }
    }
}
