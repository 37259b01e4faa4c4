//! The entries of a cache, and eviction.

use super::super::ColumnData;
use super::CacheCounters;
use super::flight::Flight;
use std::collections::HashMap;
use std::sync::Arc;

/// The state of a column.
#[derive(Clone)]
pub(super) enum State {
    /// It is cached.
    Ready(Arc<ColumnData>),
    /// A worker is fetching it.
    Coming(Arc<Flight>),
}

pub(super) struct Entries {
    capacity: u64,
    entries: HashMap<Arc<str>, Entry>,
    /// All cached columns, in a ring; free slots are in `vacant`.
    ring: Vec<Option<CacheSlot>>,
    vacant: Vec<usize>,
    /// Where the search for space continues.
    hand: usize,
    /// Dropped columns; the holder of the lock frees their memory after it has released the lock.
    gone: Vec<Arc<ColumnData>>,
    counters: CacheCounters,
}

enum Entry {
    /// Its slot in the ring.
    Ready(usize),
    Coming(Arc<Flight>),
}

struct CacheSlot {
    name: Arc<str>,
    data: Arc<ColumnData>,
    /// It was requested since the hand last passed.
    asked: bool,
}

impl CacheSlot {
    fn bytes(&self) -> u64 {
        self.data.shape().bytes()
    }

    /// Whether it is pinned. Only the owner of a pin can clone it, and the cache hands out the
    /// first one under its lock, so no pin can appear while this is false and the lock is held.
    fn is_pinned(&self) -> bool {
        Arc::strong_count(&self.data) > 1
    }
}

impl Entries {
    pub fn new(capacity: u64) -> Self {
        Self {
            capacity,
            entries: HashMap::new(),
            ring: Vec::new(),
            vacant: Vec::new(),
            hand: 0,
            gone: Vec::new(),
            counters: CacheCounters::default(),
        }
    }

    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    pub fn counters(&self) -> CacheCounters {
        self.counters
    }

    /// Takes the columns dropped since the last call.
    #[must_use = "to be dropped when the lock is not held any more"]
    pub fn gone(&mut self) -> Vec<Arc<ColumnData>> {
        core::mem::take(&mut self.gone)
    }

    /// Looks up a requested column.
    pub fn look(&mut self, name: &str) -> Option<State> {
        match self.entries.get(name)? {
            Entry::Ready(at) => {
                self.counters.hits += 1;
                let slot = slot(&mut self.ring, *at);
                slot.asked = true;
                Some(State::Ready(slot.data.clone()))
            }
            Entry::Coming(flight) => {
                self.counters.joined += 1;
                Some(State::Coming(flight.clone()))
            }
        }
    }

    pub fn peek(&mut self, name: &str) -> Option<Arc<ColumnData>> {
        match self.entries.get(name)? {
            Entry::Ready(at) => Some(slot(&mut self.ring, *at).data.clone()),
            Entry::Coming(_) => None,
        }
    }

    /// Starts a fetch of an unknown column.
    pub fn depart(&mut self, name: Arc<str>) -> Arc<Flight> {
        self.counters.misses += 1;
        let flight = Arc::new(Flight::default());
        let before = self.entries.insert(name, Entry::Coming(flight.clone()));
        debug_assert!(before.is_none(), "only what is not known is brought");
        flight
    }

    /// Enters a fetched column.
    pub fn arrive(&mut self, name: &Arc<str>, flight: &Arc<Flight>, data: Arc<ColumnData>) {
        self.count_brought(&data);
        if self.leave(name, flight) {
            self.keep(name.clone(), data);
        } else {
            self.counters.stale += 1;
        }
    }

    /// Ends a fetch that failed.
    pub fn fail(&mut self, name: &str, flight: &Arc<Flight>) {
        self.counters.failures += 1;
        self.leave(name, flight);
    }

    /// Keeps a column, replacing any entry of that name.
    pub fn replace(&mut self, name: Arc<str>, data: Arc<ColumnData>) {
        self.count_brought(&data);
        self.invalidate(&name);
        self.keep(name, data);
    }

    /// Removes the entry of a column. False if there is none.
    pub fn invalidate(&mut self, name: &str) -> bool {
        match self.entries.remove(name) {
            None => return false,
            Some(Entry::Ready(at)) => self.vacate(at),
            Some(Entry::Coming(_)) => {}
        }
        self.counters.invalidations += 1;
        true
    }

    fn count_brought(&mut self, data: &ColumnData) {
        self.counters.brought += 1;
        self.counters.bytes_brought += data.shape().bytes();
    }

    /// Removes a flight from the entries. False if it was already removed by an invalidation.
    fn leave(&mut self, name: &str, flight: &Arc<Flight>) -> bool {
        let there = matches!(
            self.entries.get(name),
            Some(Entry::Coming(coming)) if Arc::ptr_eq(coming, flight)
        );
        if there {
            self.entries.remove(name);
        }
        there
    }

    fn keep(&mut self, name: Arc<str>, data: Arc<ColumnData>) {
        let bytes = data.shape().bytes();
        if !self.make_room(bytes) {
            self.counters.bypassed += 1;
            return;
        }
        let new = CacheSlot {
            name: name.clone(),
            data,
            asked: false,
        };
        let at = match self.vacant.pop() {
            Some(at) => {
                self.ring[at] = Some(new);
                at
            }
            None => {
                self.ring.push(Some(new));
                self.ring.len() - 1
            }
        };
        self.entries.insert(name, Entry::Ready(at));
        self.counters.columns_held += 1;
        self.counters.bytes_held += bytes;
    }

    /// Evicts columns until this many bytes are free. False, with nothing evicted, if the pinned
    /// ones leave too little.
    fn make_room(&mut self, bytes: u64) -> bool {
        let pinned = self.ring.iter().flatten().filter(|slot| slot.is_pinned());
        let pinned: u64 = pinned.map(CacheSlot::bytes).sum();
        if pinned.saturating_add(bytes) > self.capacity {
            return false;
        }
        // Two rounds: after the first no column has a second chance left. Pins released meanwhile
        // only help.
        while self.counters.bytes_held + bytes > self.capacity {
            let at = self.hand;
            self.hand = (self.hand + 1) % self.ring.len();
            let Some(slot) = &mut self.ring[at] else {
                continue;
            };
            if slot.is_pinned() {
                continue;
            }
            if core::mem::take(&mut slot.asked) {
                continue;
            }
            self.counters.evictions += 1;
            self.counters.bytes_evicted += slot.bytes();
            let name = slot.name.clone();
            self.entries.remove(&name);
            self.vacate(at);
        }
        true
    }

    /// Vacates a slot of the ring.
    fn vacate(&mut self, at: usize) {
        let slot = self.ring[at].take().expect("what is here has a place");
        self.counters.columns_held -= 1;
        self.counters.bytes_held -= slot.bytes();
        self.gone.push(slot.data);
        self.vacant.push(at);
    }
}

fn slot(ring: &mut [Option<CacheSlot>], at: usize) -> &mut CacheSlot {
    ring[at].as_mut().expect("what is here has a place")
}
