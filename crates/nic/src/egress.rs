//! Selects the queue pair that sends next.
//!
//! Two rings of queue pairs: `control` for acknowledgements and congestion notifications, `bulk`
//! for requests and READ responses. Control goes first: its packets are small, and there is at most
//! one of each kind per queue pair at a time, since a later acknowledgement includes the earlier.
//! Within a ring, queue pairs send one packet each in round-robin order. A queue pair is in a ring
//! at most once, so the rings never grow.

use std::collections::VecDeque;

/// What a queue pair wants to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum EgressQueue {
    Control = 1,
    Bulk = 2,
}

pub(crate) struct Egress {
    control: VecDeque<u32>,
    bulk: VecDeque<u32>,
    /// The rings that a queue pair is in, by its index: bits of [`EgressQueue`].
    member: Vec<u8>,
}

impl Egress {
    pub(crate) fn new(qps_max: u32) -> Self {
        Self {
            control: VecDeque::with_capacity(qps_max as usize),
            bulk: VecDeque::with_capacity(qps_max as usize),
            member: vec![0; qps_max as usize],
        }
    }

    pub(crate) const fn bytes_per_qp() -> usize {
        2 * size_of::<u32>() + 1
    }

    #[inline]
    fn ring(&mut self, lane: EgressQueue) -> &mut VecDeque<u32> {
        match lane {
            EgressQueue::Control => &mut self.control,
            EgressQueue::Bulk => &mut self.bulk,
        }
    }

    /// Puts a queue pair that has something to send into a ring.
    #[inline]
    pub(crate) fn wake(&mut self, lane: EgressQueue, index: u32) {
        let member = &mut self.member[index as usize];
        if *member & lane as u8 == 0 {
            *member |= lane as u8;
            self.ring(lane).push_back(index);
        }
    }

    /// Whether any queue pair has something to send.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        !(self.control.is_empty() && self.bulk.is_empty())
    }

    /// Number of queue pairs in the ring.
    #[inline]
    pub(crate) fn waiting(&self, lane: EgressQueue) -> usize {
        match lane {
            EgressQueue::Control => self.control.len(),
            EgressQueue::Bulk => self.bulk.len(),
        }
    }

    /// Takes the next queue pair out of the ring.
    #[inline]
    pub(crate) fn next(&mut self, lane: EgressQueue) -> Option<u32> {
        let index = self.ring(lane).pop_front()?;
        self.member[index as usize] &= !(lane as u8);
        Some(index)
    }

    /// Removes a queue pair from both rings.
    pub(crate) fn remove(&mut self, index: u32) {
        if core::mem::take(&mut self.member[index as usize]) != 0 {
            self.control.retain(|&at| at != index);
            self.bulk.retain(|&at| at != index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_pair_is_in_a_ring_once() {
        let mut egress = Egress::new(3);
        for index in [2, 0, 2, 0] {
            egress.wake(EgressQueue::Bulk, index);
        }
        egress.wake(EgressQueue::Control, 2);
        assert_eq!(egress.next(EgressQueue::Bulk), Some(2));
        egress.wake(EgressQueue::Bulk, 2);
        assert_eq!(egress.next(EgressQueue::Bulk), Some(0));
        egress.remove(2);
        assert_eq!(egress.next(EgressQueue::Bulk), None);
        assert_eq!(egress.next(EgressQueue::Control), None);
    }
}
