//! The last READs and atomics that a responder received: those still to be answered, and those that
//! may be requested again (InfiniBand specification 1.4, 9.7.5.1.4: responder resources).
//!
//! The ring holds the last `capacity` of them, `capacity` being the number that the peer may have
//! in flight. A peer that respects it never requests again an older one, nor sends a new one while
//! `capacity` are unanswered.

use rackweave_base::{Psn, Rkey};
use rackweave_verbs::Mtu;
use rackweave_wire::Reth;

/// Maximum READs and atomics in flight (the negotiated number is in `1..=READS_MAX`).
pub(crate) const READS_MAX: u8 = 16;

/// The operation that was requested.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Asked {
    /// A READ of this range.
    Read { address: u64, length: u32 },
    /// An atomic; the result is the old value of the word.
    Atomic { before: u64 },
}

/// Response packets still to be sent for a READ. One step is O(1), whatever its length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stream {
    pub(crate) psn: Psn,
    pub(crate) address: u64,
    pub(crate) rkey: Rkey,
    pub(crate) left: u32,
    /// Whether the next response is the first since the READ was requested or requested again.
    pub(crate) at_start: bool,
}

/// One READ or atomic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Resource {
    pub(crate) first_psn: Psn,
    pub(crate) packets: u32,
    pub(crate) asked: Asked,
    pub(crate) stream: Stream,
    /// The message sequence number that its responses carry.
    pub(crate) msn: u32,
    pending: bool,
    /// Whether it is pending only because it was requested again.
    replayed: bool,
}

/// The last READs and atomics, oldest first.
pub(crate) struct ReadRing {
    slots: Vec<Resource>,
    capacity: u32,
    mask: u32,
    /// Running numbers of the oldest entry held and of the next entry.
    oldest: u32,
    next: u32,
    /// No entry before this one is pending.
    first_pending: u32,
    pending: u32,
    streams: u32,
}

/// Bytes of the largest ring.
pub(crate) const fn bytes_max() -> usize {
    READS_MAX as usize * size_of::<Resource>()
}

impl ReadRing {
    /// A ring for `capacity` READs and atomics in flight.
    pub(crate) fn new(capacity: u8) -> Self {
        let slots = capacity.max(1).next_power_of_two();
        Self {
            slots: Vec::with_capacity(slots as usize),
            capacity: u32::from(capacity),
            mask: u32::from(slots) - 1,
            oldest: 0,
            next: 0,
            first_pending: 0,
            pending: 0,
            streams: 0,
        }
    }

    /// Whether any response is still to be sent.
    #[inline]
    pub(crate) fn is_pending(&self) -> bool {
        self.pending != 0
    }

    /// Whether bytes of a READ are still to be sent.
    #[inline]
    pub(crate) fn is_streaming(&self) -> bool {
        self.streams != 0
    }

    /// Whether one more request may be admitted: not if `capacity` are unanswered.
    pub(crate) fn has_room(&self) -> bool {
        if self.next.wrapping_sub(self.oldest) < self.capacity {
            return true;
        }
        if self.capacity == 0 {
            return false;
        }
        // A pending replay does not count: a new request of the peer means that it has received
        // what it had requested again.
        let oldest = self.get(self.oldest);
        !oldest.pending || oldest.replayed
    }

    /// Admits a READ.
    pub(crate) fn admit_read(&mut self, psn: Psn, reth: &Reth, mtu: Mtu, msn: u32) {
        let Reth {
            address,
            rkey,
            length,
        } = *reth;
        let stream = Stream {
            psn,
            address,
            rkey,
            left: length,
            at_start: true,
        };
        let asked = Asked::Read { address, length };
        self.admit(psn, mtu.packets(length), asked, stream, msn);
    }

    /// Admits an atomic that has been executed.
    pub(crate) fn admit_atomic(&mut self, psn: Psn, before: u64, msn: u32) {
        let stream = Stream {
            psn,
            address: 0,
            rkey: Rkey(0),
            left: 0,
            at_start: true,
        };
        self.admit(psn, 1, Asked::Atomic { before }, stream, msn);
    }

    fn admit(&mut self, first_psn: Psn, packets: u32, asked: Asked, stream: Stream, msn: u32) {
        assert!(self.has_room(), "room is asked for before");
        if self.next.wrapping_sub(self.oldest) == self.capacity {
            self.settle(self.oldest);
            if self.first_pending == self.oldest {
                self.first_pending = self.oldest.wrapping_add(1);
            }
            self.oldest = self.oldest.wrapping_add(1);
        }
        let resource = Resource {
            first_psn,
            packets,
            asked,
            stream,
            msn,
            pending: false,
            replayed: false,
        };
        let at = (self.next & self.mask) as usize;
        if at < self.slots.len() {
            self.slots[at] = resource;
        } else {
            self.slots.push(resource);
        }
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        self.set_pending(number, false);
    }

    /// Replays a READ from `psn` on. Returns false if none of the last READs covers it.
    ///
    /// The replay may address all of it elsewhere: a network that routes queries to tree nodes may
    /// have learned a better one since. Any change from the original request is checked as if it
    /// were the first one.
    pub(crate) fn replay_read(&mut self, psn: Psn, reth: &Reth, mtu: Mtu) -> bool {
        let Some(number) = self.find(psn) else {
            return false;
        };
        let resource = *self.get(number);
        let Asked::Read { address, length } = resource.asked else {
            return false;
        };
        // Offset of the bytes of this PSN, if the MTU has not changed.
        let skipped = psn.distance_from(resource.first_psn) * mtu.bytes();
        let fits = reth.address == address.wrapping_add(u64::from(skipped))
            && u64::from(skipped) + u64::from(reth.length) <= u64::from(length);
        let is_whole = skipped == 0 && reth.length == length;
        if !fits && !is_whole {
            return false;
        }
        if is_whole {
            self.get_mut(number).asked = Asked::Read {
                address: reth.address,
                length,
            };
        }
        let Reth {
            address,
            rkey,
            length,
        } = *reth;
        self.settle(number);
        self.get_mut(number).stream = Stream {
            psn,
            address,
            rkey,
            left: length,
            at_start: true,
        };
        self.set_pending(number, true);
        true
    }

    /// Replays the result of an atomic. Returns false if it is not one of the last ones.
    pub(crate) fn replay_atomic(&mut self, psn: Psn) -> bool {
        match self.find(psn) {
            Some(number) if matches!(self.get(number).asked, Asked::Atomic { .. }) => {
                self.settle(number);
                self.set_pending(number, true);
                true
            }
            _ => false,
        }
    }

    /// The oldest entry that is still to be answered.
    #[inline]
    pub(crate) fn front(&mut self) -> Option<&mut Resource> {
        if self.pending == 0 {
            return None;
        }
        while !self.get(self.first_pending).pending {
            self.first_pending = self.first_pending.wrapping_add(1);
        }
        Some(self.get_mut(self.first_pending))
    }

    /// Marks the entry returned by [`ReadRing::front`] as answered.
    #[inline]
    pub(crate) fn finish_front(&mut self) {
        self.settle(self.first_pending);
    }

    fn find(&self, psn: Psn) -> Option<u32> {
        let count = self.next.wrapping_sub(self.oldest);
        (0..count)
            .map(|back| self.next.wrapping_sub(back + 1))
            .find(|&number| {
                let resource = self.get(number);
                psn.is_within(resource.first_psn, resource.packets)
            })
    }

    fn set_pending(&mut self, number: u32, replayed: bool) {
        let resource = self.get_mut(number);
        resource.pending = true;
        resource.replayed = replayed;
        let streams = u32::from(matches!(resource.asked, Asked::Read { .. }));
        self.pending += 1;
        self.streams += streams;
        let ahead = self.first_pending.wrapping_sub(number);
        if self.pending == 1 || ahead <= self.capacity {
            self.first_pending = number;
        }
    }

    fn settle(&mut self, number: u32) {
        let resource = self.get_mut(number);
        if !core::mem::take(&mut resource.pending) {
            return;
        }
        let streams = u32::from(matches!(resource.asked, Asked::Read { .. }));
        self.pending -= 1;
        self.streams -= streams;
    }

    #[inline]
    fn get(&self, number: u32) -> &Resource {
        &self.slots[(number & self.mask) as usize]
    }

    #[inline]
    fn get_mut(&mut self, number: u32) -> &mut Resource {
        &mut self.slots[(number & self.mask) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rackweave_base::Rng;

    const MTU: Mtu = Mtu::B256;

    fn reth(address: u64, length: u32) -> Reth {
        Reth {
            address,
            rkey: Rkey(1),
            length,
        }
    }

    #[test]
    fn answers_leave_in_order_of_psns_whatever_is_asked_again() {
        let mut rng = Rng::new(5);
        for capacity in 1..=READS_MAX {
            let mut ring = ReadRing::new(capacity);
            // PSNs of all admitted so far and whether they are pending: the model.
            let mut model: Vec<(Psn, bool, bool)> = Vec::new();
            let mut psn = Psn::new(Psn::SPACE - 40);
            for _ in 0..2000 {
                let known = model.len().saturating_sub(capacity as usize);
                match rng.below(4) {
                    0 => {
                        let oldest = (model.len() >= capacity as usize).then(|| model[known]);
                        let room = oldest.is_none_or(|(_, pending, replayed)| !pending || replayed);
                        assert_eq!(ring.has_room(), room);
                        if room {
                            ring.admit_read(psn, &reth(0, 256), MTU, 0);
                            model.push((psn, true, false));
                            psn = psn.add(1);
                        }
                    }
                    1 if model.len() > known => {
                        let at = rng.between(known as u64, model.len() as u64 - 1) as usize;
                        assert!(ring.replay_read(model[at].0, &reth(0, 256), MTU));
                        model[at] = (model[at].0, true, true);
                    }
                    _ => {
                        let first = model[known..].iter_mut().find(|entry| entry.1);
                        let front = ring.front().map(|resource| resource.first_psn);
                        assert_eq!(front, first.as_ref().map(|entry| entry.0));
                        if let Some(entry) = first {
                            entry.1 = false;
                            ring.finish_front();
                        }
                    }
                }
                let known = model.len().saturating_sub(capacity as usize);
                assert_eq!(
                    ring.is_pending(),
                    model[known..].iter().any(|entry| entry.1)
                );
                assert_eq!(ring.is_streaming(), ring.is_pending());
            }
        }
    }

    #[test]
    fn a_part_of_a_read_may_be_asked_for_again() {
        let mut ring = ReadRing::new(2);
        let psn = Psn::new(Psn::SPACE - 1);
        ring.admit_read(psn, &reth(5000, 1000), MTU, 0);
        let mut again =
            |skip, address, length| ring.replay_read(psn.add(skip), &reth(address, length), MTU);
        assert!(again(0, 5000, 1000));
        assert!(again(0, 5000, 300), "less may be asked for");
        assert!(!again(0, 7000, 300), "a part of it not elsewhere");
        assert!(again(0, 7000, 1000), "but all of it");
        assert!(!again(3, 5768, 232), "and then parts of that");
        assert!(again(3, 7768, 232));
        assert!(again(0, 5000, 1000));
        assert!(again(3, 5768, 232));
        assert!(!again(3, 5768, 233), "more may not");
        assert!(!again(3, 5767, 232));
        assert!(!again(4, 6024, 0), "its last packet is the fourth");
        assert!(!ring.replay_atomic(psn));
    }
}
