//! Completion queues.

use rackweave_verbs::{Completion, CqError, CqId};
use std::collections::VecDeque;

struct Cq {
    entries: VecDeque<Completion>,
    capacity: u32,
    users: u32,
    overflowed: bool,
}

/// All completion queues of a NIC.
pub(crate) struct CqTable {
    cqs: Vec<Option<Cq>>,
    free: Vec<u32>,
    entries_max: u32,
    /// Queues that have overflowed and whose queue pairs have not been failed yet. At most one
    /// entry per queue.
    overflows: Vec<CqId>,
}

/// Bytes of a queue of `capacity` entries.
pub(crate) fn bytes(capacity: u32) -> usize {
    capacity as usize * size_of::<Completion>()
}

impl CqTable {
    pub(crate) fn new(count_max: u32, entries_max: u32) -> Self {
        Self {
            cqs: (0..count_max).map(|_| None).collect(),
            free: (0..count_max).rev().collect(),
            entries_max,
            overflows: Vec::with_capacity(count_max as usize),
        }
    }

    pub(crate) fn create(&mut self, capacity: u32) -> Result<CqId, CqError> {
        if capacity == 0 || capacity > self.entries_max {
            return Err(CqError::BadCapacity {
                asked: capacity,
                limit: self.entries_max,
            });
        }
        let limit = self.cqs.len() as u32;
        let at = self.free.pop().ok_or(CqError::TooMany { limit })?;
        let entries = VecDeque::with_capacity(capacity as usize);
        self.cqs[at as usize] = Some(Cq {
            entries,
            capacity,
            users: 0,
            overflowed: false,
        });
        Ok(CqId(at))
    }

    pub(crate) fn destroy(&mut self, id: CqId) -> Result<(), CqError> {
        match self.get(id) {
            None => Err(CqError::Unknown(id)),
            Some(cq) if cq.users > 0 => Err(CqError::Busy(id)),
            Some(_) => {
                self.cqs[id.0 as usize] = None;
                self.free.push(id.0);
                Ok(())
            }
        }
    }

    pub(crate) fn exists(&self, id: CqId) -> bool {
        self.get(id).is_some()
    }

    /// Adds a queue pair to the users of `id`.
    pub(crate) fn add_user(&mut self, id: CqId) {
        self.get_mut(id).users += 1;
    }

    /// Removes a queue pair from the users of `id`.
    pub(crate) fn remove_user(&mut self, id: CqId) {
        let cq = self.get_mut(id);
        assert!(cq.users > 0, "users are counted");
        cq.users -= 1;
    }

    /// Appends a completion. Returns false if the queue is full: the completion is lost, and
    /// [`CqTable::take_overflow`] reports the queue, once.
    pub(crate) fn push(&mut self, id: CqId, completion: Completion) -> bool {
        let cq = self.cqs[id.0 as usize]
            .as_mut()
            .expect("queues in use are not destroyed");
        if cq.entries.len() < cq.capacity as usize && !cq.overflowed {
            cq.entries.push_back(completion);
            return true;
        }
        if !cq.overflowed {
            cq.overflowed = true;
            self.overflows.push(id);
        }
        false
    }

    /// Whether one more completion fits.
    #[inline]
    pub(crate) fn has_space(&self, id: CqId) -> bool {
        let cq = self.get(id);
        cq.is_some_and(|cq| cq.entries.len() < cq.capacity as usize)
    }

    /// A queue that has overflowed since it was last reported.
    #[inline]
    pub(crate) fn take_overflow(&mut self) -> Option<CqId> {
        self.overflows.pop()
    }

    pub(crate) fn poll(&mut self, id: CqId, limit: usize, into: &mut Vec<Completion>) -> usize {
        let Some(Some(cq)) = self.cqs.get_mut(id.0 as usize) else {
            return 0;
        };
        let count = limit.min(cq.entries.len());
        into.extend(cq.entries.drain(..count));
        count
    }

    pub(crate) const fn bytes_per_slot() -> usize {
        size_of::<Option<Cq>>() + size_of::<u32>() + size_of::<CqId>()
    }

    /// Bytes of all queues.
    pub(crate) fn bytes(&self) -> usize {
        self.cqs.iter().flatten().map(|cq| bytes(cq.capacity)).sum()
    }

    fn get(&self, id: CqId) -> Option<&Cq> {
        self.cqs.get(id.0 as usize)?.as_ref()
    }

    fn get_mut(&mut self, id: CqId) -> &mut Cq {
        self.cqs[id.0 as usize]
            .as_mut()
            .expect("queues in use are not destroyed")
    }
}
