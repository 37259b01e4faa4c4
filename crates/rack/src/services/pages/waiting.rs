//! What a thread that waits for a page does meanwhile.

use super::WorkerPools;
use crate::Node;
use core::task::Waker;
use rackweave_base::Instant;
use rackweave_verbs::{NodeAccess, Progress, Verbs};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, TryLockError, Weak};

/// Rounds of a wait between two polls of free workers.
const RESTING_EVERY: u32 = 64;

/// A node, as a thread that waits there uses it.
///
/// The awaited page may depend on a free worker at any node, which has to find out about a page in
/// doubt, or to give back a latch that was granted too late. So free workers are polled now and
/// then, too.
pub(super) struct Waiting {
    node: Node,
    worker_pools: Weak<WorkerPools>,
    rounds: AtomicU32,
}

impl Waiting {
    pub fn new(node: Node, worker_pools: &Arc<WorkerPools>) -> Self {
        Self {
            node,
            worker_pools: Arc::downgrade(worker_pools),
            rounds: AtomicU32::new(0),
        }
    }

    fn poll_resting(&self) {
        let Some(worker_pools) = self.worker_pools.upgrade() else {
            return;
        };
        let mut worker_pools = match worker_pools.try_lock() {
            Ok(worker_pools) => worker_pools,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // Another thread polls them, or this thread is looking for a worker.
            Err(TryLockError::WouldBlock) => return,
        };
        for resting in worker_pools
            .values_mut()
            .flat_map(|worker_pool| &mut worker_pool.resting)
        {
            resting.poll();
        }
    }
}

impl Progress for Waiting {
    fn drive(&self) -> bool {
        let round = self.rounds.fetch_add(1, Ordering::Relaxed);
        if round % RESTING_EVERY == RESTING_EVERY - 1 {
            self.poll_resting();
        }
        self.node.drive()
    }

    fn relax(&self, idle_rounds: u32) {
        self.node.relax(idle_rounds);
    }

    fn wake_later(&self, waker: &Waker) {
        self.node.wake_later(waker);
    }
}

impl NodeAccess for Waiting {
    fn act(&self, act: &mut dyn FnMut(&mut dyn Verbs)) {
        self.node.act(act);
    }

    fn try_act(&self, act: &mut dyn FnMut(&mut dyn Verbs)) -> bool {
        self.node.try_act(act)
    }

    fn now(&self) -> Instant {
        self.node.now()
    }
}
