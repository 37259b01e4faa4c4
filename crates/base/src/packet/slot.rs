//! Where the parts of packets are. A slot goes back to the thread that drops the packet, which uses
//! it for the next one; threads that drop more packets than they make pass slots on to those that
//! make more.

#![expect(clippy::vec_box, reason = "a packet is one of these boxes")]

use super::Parts;
use core::cell::RefCell;
use std::sync::{Mutex, PoisonError};

/// Slots that pass from one thread to another at a time.
const BATCH: usize = 64;

/// Slots that a thread keeps.
const KEPT_MAX: usize = 4 * BATCH;

/// Batches that no thread keeps.
static SPARE: Mutex<Vec<Vec<Box<Parts>>>> = Mutex::new(Vec::new());

thread_local! {
    static FREE: RefCell<Vec<Box<Parts>>> = const { RefCell::new(Vec::new()) };
}

/// A slot in use.
pub(super) struct Slot(Option<Box<Parts>>);

const IN_USE: &str = "it is there until it is dropped";

impl Slot {
    /// An empty one.
    #[inline]
    pub(super) fn take() -> Self {
        let kept = FREE.try_with(|free| free.borrow_mut().pop()).ok().flatten();
        Self(Some(kept.unwrap_or_else(obtain)))
    }

    #[inline]
    pub(super) fn parts(&self) -> &Parts {
        self.0.as_deref().expect(IN_USE)
    }

    #[inline]
    pub(super) fn parts_mut(&mut self) -> &mut Parts {
        self.0.as_deref_mut().expect(IN_USE)
    }
}

impl Drop for Slot {
    #[inline]
    fn drop(&mut self) {
        let Some(mut parts) = self.0.take() else {
            return;
        };
        // A payload returns to its pool.
        parts.clear();
        // A thread that ends keeps nothing.
        let _gone = FREE.try_with(|free| {
            let mut free = free.borrow_mut();
            if free.len() == KEPT_MAX {
                pass_on(&mut free);
            }
            free.push(parts);
        });
    }
}

/// A slot of another thread, or a new one.
#[cold]
fn obtain() -> Box<Parts> {
    let spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let Some(mut batch) = spare else {
        return Box::new(Parts::empty());
    };
    let first = batch.pop().expect("batches are not empty");
    let _gone = FREE.try_with(|free| free.borrow_mut().append(&mut batch));
    first
}

#[cold]
fn pass_on(free: &mut Vec<Box<Parts>>) {
    let batch = free.split_off(free.len() - BATCH);
    SPARE
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(batch);
}

#[cfg(test)]
mod tests {
    use super::super::{Packet, Payload};
    use super::*;

    #[test]
    fn a_used_slot_is_as_good_as_a_new_one() {
        let mut packet = Packet::new(&[7; 60], Payload::copied(&[8; 96]));
        packet.set_pad(&[9; 3]);
        packet.check = Some([1; 4]);
        packet.make_train(32);
        let copy = packet.clone();
        let at: *const Parts = &*packet;
        drop(packet);
        let again = Packet::with_payload(Payload::Empty);
        assert!(core::ptr::eq(&*again, at), "its slot is used again");
        assert!(again.header().is_empty() && again.pad().is_empty() && again.check.is_none());
        assert_eq!((again.payload.len(), again.fragments()), (0, 1));
        assert_eq!((copy.header(), copy.pad()), (&[7; 60][..], &[9; 3][..]));
        assert_eq!((copy.check, copy.fragments()), (Some([1; 4]), 3));
    }

    /// One thread makes packets and another drops them, as the two ends of a link do.
    #[test]
    fn a_thread_that_drops_packets_passes_slots_on() {
        let (sender, receiver) = std::sync::mpsc::sync_channel(KEPT_MAX);
        let kept = || FREE.with_borrow(Vec::len);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for number in 0..20 * KEPT_MAX as u32 {
                    let packet = Packet::new(&number.to_le_bytes(), Payload::Empty);
                    sender.send(packet).expect("the other thread takes all");
                }
                assert!(kept() <= BATCH);
            });
            scope.spawn(move || {
                for (number, packet) in (0u32..).zip(receiver) {
                    assert_eq!(packet.header(), number.to_le_bytes());
                }
                assert!(kept() <= KEPT_MAX);
            });
        });
    }
}
