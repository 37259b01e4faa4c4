//! NVMe targets in virtual time: the machine on a core of its node, over modelled SSDs.

use rackweave_base::{Duration, Instant, Rng};
use rackweave_sim::world::{Actor, Context, Step};
use rackweave_sim::{Category, Ssd, SsdAccess, SsdModel};
use rackweave_target::{Backend, Io, IoDone, IoKind, Target};
use rackweave_verbs::Service;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

/// A target that the node's core and the controller act on in turn; nothing once it has been taken.
#[derive(Clone)]
pub(super) struct SharedTarget(Arc<Mutex<Option<Target>>>);

impl SharedTarget {
    pub fn new(target: Target) -> Self {
        Self(Arc::new(Mutex::new(Some(target))))
    }

    pub fn lock(&self) -> MutexGuard<'_, Option<Target>> {
        self.0.lock().expect("no holder of this lock panics")
    }
}

/// The target's program: it polls, as targets in user space do, as long as there is a target.
pub(super) struct TargetActor(pub SharedTarget);

impl Actor for TargetActor {
    fn step(&mut self, context: &mut Context<'_>) -> Step {
        let mut target = self.0.lock();
        let Some(target) = target.as_mut() else {
            return Step::Done;
        };
        let now = context.now();
        // A round takes a completion and posts what follows from it.
        let cost = context.cpu().poll_cost + context.cpu().post_cost;
        if target.poll(now, context.nic()) {
            context.charge(Category::Communication, cost);
        }
        match target.poll_timeout() {
            Some(due) => Step::WaitUntil(due.max(now + Duration::from_nanos(1))),
            None => Step::WaitForPacket,
        }
    }
}

/// A namespace that takes the time of SSDs: its blocks lie elsewhere, striped over drives.
pub struct SsdBackend<B> {
    blocks: B,
    ssds: Vec<Ssd>,
    /// Blocks of a stripe.
    stripe: u64,
    /// By the time at which they end, and the order of submission.
    under_way: BTreeMap<(Instant, u64), Io>,
    submitted: u64,
}

impl<B: Backend> SsdBackend<B> {
    /// `drives` drives of one model under `blocks`, which takes no time itself; each holds
    /// `stripe_bytes` in a row.
    pub fn new(
        blocks: B,
        model: &SsdModel,
        drives: usize,
        stripe_bytes: u32,
        rng: &mut Rng,
    ) -> Self {
        let ssd = |drive| Ssd::new(model.clone(), rng.fork(&format!("ssd {drive}")));
        Self {
            ssds: (0..drives.max(1)).map(ssd).collect(),
            stripe: u64::from((stripe_bytes / blocks.block_size()).max(1)),
            blocks,
            under_way: BTreeMap::new(),
            submitted: 0,
        }
    }
}

impl<B: Backend> Backend for SsdBackend<B> {
    fn block_size(&self) -> u32 {
        self.blocks.block_size()
    }

    fn blocks(&self) -> u64 {
        self.blocks.blocks()
    }

    fn submit(&mut self, now: Instant, io: Io) -> Result<(), Io> {
        let drive = (io.block / self.stripe) as usize % self.ssds.len();
        let len = io.blocks * self.block_size();
        let ends = match io.kind {
            IoKind::Read => self.ssds[drive].submit(now, len, SsdAccess::Read),
            IoKind::Write => self.ssds[drive].submit(now, len, SsdAccess::Write),
            // The drive's buffer is protected, and zeroes are noted in its tables.
            IoKind::Flush | IoKind::WriteZeroes => now,
        };
        self.under_way.insert((ends, self.submitted), io);
        self.submitted += 1;
        Ok(())
    }

    fn poll(&mut self, now: Instant, done: &mut Vec<IoDone>) {
        while let Some(first) = self.under_way.first_entry() {
            if first.key().0 > now {
                break;
            }
            let (key, io) = first.remove_entry();
            if let Err(io) = self.blocks.submit(now, io) {
                self.under_way.insert(key, io);
                break;
            }
        }
        self.blocks.poll(now, done);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let first = self.under_way.keys().next().map(|&(ends, _)| ends);
        match (first, self.blocks.poll_timeout()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }
}
