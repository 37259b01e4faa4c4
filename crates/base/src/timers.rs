//! Deadlines by index: an indexed binary heap, so that moving a deadline costs O(log n).

use crate::Instant;

const ABSENT: u32 = u32::MAX;

/// At most one deadline per key, for keys in `0..capacity`.
#[derive(Debug)]
pub struct Timers {
    /// Heap of (deadline, key), smallest first; ties are ordered by key, so that runs are
    /// reproducible.
    heap: Vec<(Instant, u32)>,
    /// The position of each key in the heap, or `ABSENT`.
    place: Vec<u32>,
}

impl Timers {
    /// Timers for keys `0..capacity`, none set.
    pub fn new(capacity: usize) -> Self {
        Self {
            heap: Vec::with_capacity(capacity),
            place: vec![ABSENT; capacity],
        }
    }

    /// Sets the deadline of `key`, replacing an earlier one.
    pub fn set(&mut self, key: u32, deadline: Instant) {
        let at = self.place[key as usize];
        if at == ABSENT {
            self.heap.push((deadline, key));
            let last = self.heap.len() - 1;
            self.place[key as usize] = last as u32;
            self.sift_up(last);
        } else {
            self.heap[at as usize].0 = deadline;
            let at = self.sift_up(at as usize);
            self.sift_down(at);
        }
    }

    /// Removes the deadline of `key`, if it has one.
    pub fn cancel(&mut self, key: u32) {
        let at = core::mem::replace(&mut self.place[key as usize], ABSENT);
        if at != ABSENT {
            self.remove_at(at as usize);
        }
    }

    /// The deadline of `key`.
    pub fn deadline(&self, key: u32) -> Option<Instant> {
        let at = self.place[key as usize];
        (at != ABSENT).then(|| self.heap[at as usize].0)
    }

    /// The earliest deadline.
    pub fn next(&self) -> Option<Instant> {
        self.heap.first().map(|&(deadline, _)| deadline)
    }

    /// Removes and returns the key with the earliest deadline, if that is not after `now`.
    pub fn pop_expired(&mut self, now: Instant) -> Option<u32> {
        let &(deadline, key) = self.heap.first()?;
        if deadline > now {
            return None;
        }
        self.place[key as usize] = ABSENT;
        self.remove_at(0);
        Some(key)
    }

    fn remove_at(&mut self, at: usize) {
        let last = self.heap.len() - 1;
        self.heap.swap(at, last);
        self.heap.pop();
        if at < self.heap.len() {
            self.place[self.heap[at].1 as usize] = at as u32;
            let at = self.sift_up(at);
            self.sift_down(at);
        }
    }

    fn sift_up(&mut self, mut at: usize) -> usize {
        while at > 0 {
            let parent = (at - 1) / 2;
            if self.heap[parent] <= self.heap[at] {
                break;
            }
            self.swap(parent, at);
            at = parent;
        }
        at
    }

    fn sift_down(&mut self, mut at: usize) {
        loop {
            let (left, right) = (2 * at + 1, 2 * at + 2);
            let mut least = at;
            for child in [left, right] {
                if child < self.heap.len() && self.heap[child] < self.heap[least] {
                    least = child;
                }
            }
            if least == at {
                return;
            }
            self.swap(least, at);
            at = least;
        }
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        self.place[self.heap[a].1 as usize] = a as u32;
        self.place[self.heap[b].1 as usize] = b as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;
    use std::collections::BTreeMap;

    #[test]
    fn agrees_with_a_sorted_map() {
        let mut rng = Rng::new(11);
        let mut timers = Timers::new(16);
        let mut model: BTreeMap<u32, Instant> = BTreeMap::new();
        for step in 0..20_000u64 {
            let key = rng.below(16) as u32;
            match rng.below(4) {
                0 => {
                    timers.cancel(key);
                    model.remove(&key);
                }
                1 => {
                    let now = Instant::from_nanos(step);
                    let expected = model
                        .iter()
                        .map(|(&k, &d)| (d, k))
                        .min()
                        .filter(|&(d, _)| d <= now)
                        .map(|(_, k)| k);
                    assert_eq!(timers.pop_expired(now), expected);
                    if let Some(k) = expected {
                        model.remove(&k);
                    }
                }
                _ => {
                    let deadline = Instant::from_nanos(step + rng.below(50));
                    timers.set(key, deadline);
                    model.insert(key, deadline);
                }
            }
            assert_eq!(timers.next(), model.values().min().copied());
            assert_eq!(timers.deadline(key), model.get(&key).copied());
        }
    }
}
