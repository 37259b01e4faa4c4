//! NVMe targets in virtual time: the machine on a core of its node, over modelled SSDs.

use rackweave_base::{Duration, Instant, Rng};
use rackweave_sim::world::{Actor, Context, Step};
use rackweave_sim::{Category, Ssd, SsdAccess, SsdModel};
use rackweave_target::{Backend, Io, IoDone, IoKind, Target};
use rackweave_verbs::Service;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

/// A target that the node's core and the controller use in turn; empty once it has been removed.
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

/// The target's program: it polls, as user-space targets do, as long as there is a target.
pub(super) struct TargetActor(pub SharedTarget);

impl Actor for TargetActor {
    fn step(&mut self, context: &mut Context<'_>) -> Step {
        let mut target = self.0.lock();
        let Some(target) = target.as_mut() else {
            return Step::Done;
        };
        let now = context.now();
        // A round takes a completion and posts the work that follows from it.
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

/// Fault: holds the requests of all backends that were made with it or a clone of it.
#[derive(Clone, Default, Debug)]
pub struct SsdStall(Arc<Mutex<Instant>>);

impl SsdStall {
    /// No pending or later request ends before `end`. A stall can be extended; if it is shortened
    /// that may be noticed late, at its old end at the latest.
    pub fn hold_until(&self, end: Instant) {
        *self.0.lock().expect("no holder of this lock panics") = end;
    }

    fn end(&self) -> Instant {
        *self.0.lock().expect("no holder of this lock panics")
    }
}

/// A namespace with the timing of SSDs: its blocks are in another backend, striped over drives.
///
/// When it is dropped, pending requests are passed to that backend: they may be executed or not, as
/// that backend does with its pending requests when it is dropped.
pub struct SsdBackend<B: Backend> {
    blocks: B,
    ssds: Vec<Ssd>,
    /// Blocks per stripe.
    stripe: u64,
    /// Pending requests, by end time and order of submission.
    under_way: BTreeMap<(Instant, u64), Io>,
    submitted: u64,
    stall: SsdStall,
    /// Whether a stall has delayed a request.
    is_held: bool,
    rng: Rng,
    now: Instant,
}

impl<B: Backend> SsdBackend<B> {
    /// `drives` drives of one model under `blocks`, which itself takes no time; each holds
    /// `stripe_bytes` consecutively.
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
            stall: SsdStall::default(),
            is_held: false,
            rng: rng.fork("order"),
            now: Instant::ZERO,
        }
    }

    /// The same, delayed whenever `stall` is active.
    #[must_use]
    pub fn with_stall(mut self, stall: &SsdStall) -> Self {
        self.stall = stall.clone();
        self
    }

    /// Requests delayed by a stall end in any order, as NVMe allows.
    fn shuffle_held(&mut self) {
        let later = self.under_way.split_off(&(self.now, u64::MAX));
        let held = core::mem::replace(&mut self.under_way, later);
        let now = self.now;
        let shuffled = held
            .into_values()
            .map(|io| ((now, self.rng.next_u64()), io));
        self.under_way.extend(shuffled);
    }
}

impl<B: Backend> Drop for SsdBackend<B> {
    fn drop(&mut self) {
        for io in core::mem::take(&mut self.under_way).into_values() {
            let _no_room = self.blocks.submit(self.now, io);
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
        self.now = now;
        let drive = (io.block / self.stripe) as usize % self.ssds.len();
        let len = io.blocks * self.block_size();
        let ends = match io.kind {
            IoKind::Read => self.ssds[drive].submit(now, len, SsdAccess::Read),
            IoKind::Write => self.ssds[drive].submit(now, len, SsdAccess::Write),
            // The drive's buffer is power-protected, and zeroes are recorded in its tables.
            IoKind::Flush | IoKind::WriteZeroes => now,
        };
        self.under_way.insert((ends, self.submitted), io);
        self.submitted += 1;
        Ok(())
    }

    fn peek(&self, block: u64, bytes: &mut [u8]) -> bool {
        self.blocks.peek(block, bytes)
    }

    fn poll(&mut self, now: Instant, done: &mut Vec<IoDone>) {
        self.now = now;
        if now < self.stall.end() {
            self.is_held = true;
            return;
        }
        if core::mem::take(&mut self.is_held) {
            self.shuffle_held();
        }
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
        let next = first.into_iter().chain(self.blocks.poll_timeout()).min();
        next.map(|next| next.max(self.stall.end()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rackweave_base::Memory;
    use rackweave_target::{MemoryBackend, RegionRange};

    fn backend(medium: &MemoryBackend) -> SsdBackend<MemoryBackend> {
        let model = SsdModel::default();
        SsdBackend::new(medium.clone(), &model, 1, 4096, &mut Rng::new(1))
    }

    fn write() -> Io {
        let block = Memory::new(1 << 16).allocate(4096).unwrap();
        block.write(0, &[1; 4096]);
        Io {
            tag: 1,
            kind: IoKind::Write,
            block: 3,
            blocks: 1,
            buffer: Some(RegionRange { block, offset: 0 }),
        }
    }

    #[test]
    fn a_stall_holds_what_is_under_way_and_what_comes() {
        let (medium, stall) = (MemoryBackend::new(4096, 8), SsdStall::default());
        let mut ssd = backend(&medium).with_stall(&stall);
        ssd.submit(Instant::ZERO, write()).unwrap();
        let usual = ssd.poll_timeout().unwrap();
        let end = Instant::ZERO + Duration::from_secs(9);
        assert!(usual < end);
        stall.hold_until(end);
        assert_eq!(ssd.poll_timeout(), Some(end));
        let mut done = Vec::new();
        ssd.poll(usual, &mut done);
        ssd.submit(usual, write()).unwrap();
        ssd.poll(Instant::from_nanos(8_999_999_999), &mut done);
        assert!(done.is_empty());
        ssd.poll(end, &mut done);
        assert_eq!(done.len(), 2);
        assert_eq!(medium.bytes(3), [1; 4096]);
    }

    #[test]
    fn what_is_under_way_at_the_end_may_be_in_a_volatile_cache() {
        for volatile in [false, true] {
            let medium = MemoryBackend::new(4096, 8);
            let medium = if volatile {
                medium.with_volatile_cache()
            } else {
                medium
            };
            let mut ssd = backend(&medium);
            ssd.submit(Instant::ZERO, write()).unwrap();
            drop(ssd);
            assert_eq!(medium.bytes(3), [u8::from(volatile); 4096]);
        }
    }
}
