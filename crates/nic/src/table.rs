//! The queue pairs of a NIC, by number.
//!
//! The low bits of a number are the slot plus two, so that it is never 0 or 1 (specification 1.4,
//! 3.5.10: these are reserved for management); the high bits count the slot's occupants, so that
//! packets for a queue pair that has been destroyed do not reach its successor.

use crate::qp::Qp;
use rackweave_base::Qpn;
use std::collections::VecDeque;

/// Numbers below this are not assigned.
const RESERVED: u32 = 2;
const QPN_BITS: u32 = 24;

struct Slot {
    qp: Option<Box<Qp>>,
    generation: u32,
}

pub(crate) struct QpTable {
    slots: Vec<Slot>,
    /// Free slots, ordered by how long they have been free, longest first.
    free: VecDeque<u32>,
    index_bits: u32,
}

impl QpTable {
    pub(crate) fn new(count_max: u32) -> Self {
        let index_bits = u32::BITS - (count_max + RESERVED - 1).leading_zeros();
        assert!(index_bits <= QPN_BITS, "the configuration is clamped");
        Self {
            slots: (0..count_max)
                .map(|_| Slot {
                    qp: None,
                    generation: 0,
                })
                .collect(),
            free: (0..count_max).collect(),
            index_bits,
        }
    }

    pub(crate) const fn bytes_per_slot() -> usize {
        size_of::<Slot>() + size_of::<u32>()
    }

    /// Creates a queue pair for its number and slot and puts it into the table. Returns `None` if
    /// the table is full.
    pub(crate) fn insert(&mut self, make: impl FnOnce(Qpn, u32) -> Qp) -> Option<Qpn> {
        let index = self.free.pop_front()?;
        let slot = &mut self.slots[index as usize];
        let generation = slot.generation << self.index_bits & ((1 << QPN_BITS) - 1);
        let qpn = Qpn(generation | (index + RESERVED));
        slot.qp = Some(Box::new(make(qpn, index)));
        Some(qpn)
    }

    /// Removes a queue pair from the table.
    pub(crate) fn remove(&mut self, qpn: Qpn) -> Option<Box<Qp>> {
        let index = self.get_mut(qpn)?.index;
        let slot = &mut self.slots[index as usize];
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push_back(index);
        slot.qp.take()
    }

    /// The queue pair of this number.
    #[inline]
    pub(crate) fn get_mut(&mut self, qpn: Qpn) -> Option<&mut Qp> {
        let index = (qpn.0 & ((1 << self.index_bits) - 1)).wrapping_sub(RESERVED);
        let qp = self.slots.get_mut(index as usize)?.qp.as_deref_mut()?;
        (qp.qpn == qpn).then_some(qp)
    }

    /// The queue pair of this number.
    pub(crate) fn get(&self, qpn: Qpn) -> Option<&Qp> {
        let index = (qpn.0 & ((1 << self.index_bits) - 1)).wrapping_sub(RESERVED);
        let qp = self.slots.get(index as usize)?.qp.as_deref()?;
        (qp.qpn == qpn).then_some(qp)
    }

    /// The queue pair in this slot.
    #[inline]
    pub(crate) fn at(&mut self, index: u32) -> Option<&mut Qp> {
        self.slots[index as usize].qp.as_deref_mut()
    }

    /// All queue pairs, by slot.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Qp> {
        self.slots.iter().filter_map(|slot| slot.qp.as_deref())
    }

    /// All queue pairs, by slot.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Qp> {
        self.slots
            .iter_mut()
            .filter_map(|slot| slot.qp.as_deref_mut())
    }

    /// Maximum number of queue pairs.
    pub(crate) fn limit(&self) -> u32 {
        self.slots.len() as u32
    }
}
