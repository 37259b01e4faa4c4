//! The registry of lanes: which are taken, and the home of each node's queue pairs.

use super::LaneError;
use rackweave_base::{NodeId, Qpn};
use rackweave_switch::transfer::LaneId;
use rackweave_verbs::{CqId, PdId};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex, MutexGuard};

/// Which lanes are free, and the nodes' resources for theirs.
pub(crate) struct LaneRegistry {
    numbers: Mutex<LaneNumbers>,
    homes: Mutex<Vec<Arc<HomePlace>>>,
}

/// What is kept of the lanes beyond the controller's process, besides the lanes in use.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct LaneState {
    generation: u8,
    homes: Vec<Option<(PdId, CqId)>>,
}

struct LaneNumbers {
    used: Vec<bool>,
    generation: u8,
}

/// Domain and completion queue that a node's lanes share. Locked while the node is asked for them:
/// waiting threads need the same node.
type HomePlace = Mutex<Option<(PdId, CqId)>>;

impl LaneRegistry {
    pub fn new(lanes: u16) -> Self {
        Self {
            numbers: Mutex::new(LaneNumbers {
                used: vec![false; usize::from(lanes)],
                generation: 0,
            }),
            homes: Mutex::default(),
        }
    }

    pub fn state(&self) -> LaneState {
        let homes = self.homes.lock().expect("no holder panics");
        // One that is being asked for is made again.
        let known = |place: &Arc<HomePlace>| place.try_lock().ok().and_then(|place| *place);
        LaneState {
            generation: self.numbers().generation,
            homes: homes.iter().map(known).collect(),
        }
    }

    /// Takes over a state in which `lanes` are in use.
    pub fn restore(&self, state: LaneState, lanes: impl Iterator<Item = LaneId>) {
        let mut numbers = self.numbers();
        numbers.generation = state.generation;
        for lane in lanes {
            if let Some(used) = numbers.used.get_mut(lane.index()) {
                *used = true;
            }
        }
        let places = state.homes.into_iter();
        let places = places.map(|home| Arc::new(Mutex::new(home)));
        *self.homes.lock().expect("no holder panics") = places.collect();
    }

    fn numbers(&self) -> MutexGuard<'_, LaneNumbers> {
        self.numbers.lock().expect("no holder panics")
    }

    pub fn used(&self) -> usize {
        self.numbers().used()
    }

    /// Takes `count` adjacent lanes.
    pub fn take(&self, count: u16) -> Result<LaneId, LaneError> {
        self.numbers().take(count)
    }

    pub fn give_back(&self, lane: LaneId) {
        self.numbers().used[lane.index()] = false;
    }

    /// Makes later queue pair numbers differ from earlier ones.
    pub fn renew(&self) {
        self.numbers().renew();
    }

    pub(super) fn qpn(&self, lane: LaneId) -> Qpn {
        Qpn(u32::from(self.numbers().generation) << 16 | u32::from(lane.0))
    }

    pub(crate) fn home(&self, node: NodeId) -> Arc<HomePlace> {
        let at = usize::from(node.0);
        let mut homes = self.homes.lock().expect("no holder panics");
        if homes.len() <= at {
            homes.resize_with(at + 1, Arc::default);
        }
        homes[at].clone()
    }

    /// Forgets what was made on a node: a node that has restarted has lost it.
    pub fn forget_home(&self, node: NodeId) {
        *self.home(node).lock().expect("no holder panics") = None;
    }
}

impl LaneNumbers {
    fn used(&self) -> usize {
        self.used.iter().filter(|&&used| used).count()
    }

    fn take(&mut self, count: u16) -> Result<LaneId, LaneError> {
        let wanted = usize::from(count);
        let first = self
            .used
            .windows(wanted)
            .position(|run| run.iter().all(|&used| !used));
        let Some(first) = first else {
            let free = self.used.len() - self.used();
            return Err(LaneError::NoLanes {
                asked: count,
                free,
                all: self.used.len(),
            });
        };
        self.used[first..first + wanted].fill(true);
        self.renew();
        Ok(LaneId(first as u16))
    }

    pub(crate) fn renew(&mut self) {
        // Eight bits of generation above the lane number: a number repeats after 256 generations.
        self.generation = self.generation.wrapping_add(1).max(1);
    }
}
