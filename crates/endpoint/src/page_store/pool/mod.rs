//! The buffer frames of a node, which its workers share.
//!
//! A buffer frame is *free*, or the [`table`] says which page is in it, or it is in [`quarantine`],
//! or it holds an old version that is still being read. A thread that holds the frame's latch may
//! do what the latch permits; to insert or remove a page it must also hold the shard's lock.

mod arrival;
mod doubt;
mod lease;
mod log;
mod quarantine;
mod sizes;
pub(super) mod table;

pub(super) use lease::LeaseRequest;
pub use log::RedoLog;
pub(super) use sizes::SizeClass;

use super::guard::Unfix;
use super::{FixError, PoolConfig, PoolError};
use doubt::Doubts;
use lease::Leases;
use log::Gate;
use quarantine::Quarantine;
use rackweave_base::memory::{FrameRead, FrameWrite, Frames, Retired};
use rackweave_base::{Block, Duration, Instant};
use rackweave_wire::fabric::page::control::PoolLayout;
use rackweave_wire::fabric::page::header::VOID;
use rackweave_wire::fabric::page::request::FRAMES_MAX;
use rackweave_wire::fabric::page::{FrameState, HEADER_LEN, PageId, is_page_size};
use sizes::Sizes;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use table::{Shard, Table};

/// Offsets of the words of a page's header.
pub(super) const PAGE_AT: usize = 0;
pub(super) const VERSION_AT: usize = 8;
pub(super) const CHECKSUM_AT: usize = 16;
pub(super) const STORE_AT: usize = 24;
pub(super) const LSN_AT: usize = 32;
pub(super) const EPOCH_AT: usize = 40;

/// A failed write is retried after this time.
const WRITE_AGAIN: Duration = Duration::from_millis(1);

/// The buffer frames of a node.
#[derive(Debug)]
pub struct Pool {
    pub(super) config: PoolConfig,
    layout: PoolLayout,
    pub(super) sizes: Sizes,
    pub(super) frames: Frames,
    pub(super) table: Table,
    /// The whole block, for the words behind the buffer frames.
    states: Block,
    pub(super) doubts: Doubts,
    leases: Leases,
    /// Number of buffer frames freed so far, to detect progress.
    freed: AtomicU64,
    quarantine: Mutex<Quarantine>,
    unfixes: Mutex<VecDeque<Unfix>>,
    unfix_count: AtomicUsize,
    /// Buffer frames about which a request to the directory is in flight. They will be usable
    /// again.
    pub(super) moving: AtomicUsize,
    fault: Mutex<Option<Fault>>,
    identities: Box<[AtomicU64]>,
    /// By store: whether a page of it was ever in the pool.
    used: Box<[AtomicBool]>,
    losses: Mutex<Vec<Loss>>,
    workers: AtomicU32,
    gate: Gate,
}

/// A change that was not accepted: the directory had given the page's latch to another node,
/// because it declared this node dead.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Loss {
    /// The page.
    pub page: PageId,
    /// The version that the change would have created.
    pub version: u64,
}

#[derive(Clone, Copy, Debug)]
struct Fault {
    error: FixError,
    at: Instant,
}

impl Pool {
    /// Creates a pool for pages of one size in `block`, which the directory knows as the node's
    /// buffer frames.
    ///
    /// # Errors
    /// As [`Self::with_page_sizes`].
    pub fn new(block: Block, config: PoolConfig) -> Result<Arc<Self>, PoolError> {
        Self::with_page_sizes(block, config, &[])
    }

    /// Creates a pool for pages of several sizes: `stores` has that of each store's pages. Each
    /// size has buffer frames of its own, in proportion to the number of its stores.
    ///
    /// # Errors
    /// If a page size or the number of buffer frames is out of range, or the block is too small.
    pub fn with_page_sizes(
        block: Block,
        config: PoolConfig,
        stores: &[u32],
    ) -> Result<Arc<Self>, PoolError> {
        if !is_page_size(config.frame_size) {
            return Err(PoolError::PageSize(config.frame_size));
        }
        if config.frames > FRAMES_MAX {
            return Err(PoolError::Frames {
                frames: config.frames,
                page_size: config.frame_size,
            });
        }
        let sizes = Sizes::new(&config, stores)?;
        let layout = PoolLayout::new(config.frame_size, config.frames);
        let layout = layout.with_page_sizes(stores.iter().copied());
        let (needs, has) = (layout.bytes(), block.len() as u64);
        if has < needs {
            return Err(PoolError::TooSmall { needs, has });
        }
        let (states, smallest) = (block.clone(), config.frame_size);
        let size_of = |frame| sizes.frame_size(frame, smallest);
        let (size, count) = (smallest as usize, config.frames);
        let frames = Frames::with_sizes(block, size, count, HEADER_LEN, size_of)
            .ok_or(PoolError::TooSmall { needs, has })?;
        for frame in 0..config.frames {
            frames
                .header_word(frame, PAGE_AT)
                .store(VOID, Ordering::Release);
        }
        Ok(Arc::new(Self {
            config,
            layout,
            sizes,
            table: Table::new(&frames),
            frames,
            states,
            doubts: Doubts::default(),
            leases: Leases::default(),
            freed: AtomicU64::new(0),
            quarantine: Mutex::default(),
            unfixes: Mutex::default(),
            unfix_count: AtomicUsize::new(0),
            moving: AtomicUsize::new(0),
            fault: Mutex::default(),
            identities: (0..256).map(|_| AtomicU64::new(config.store_id)).collect(),
            used: (0..256).map(|_| AtomicBool::new(false)).collect(),
            losses: Mutex::default(),
            workers: AtomicU32::new(0),
            gate: Gate::default(),
        }))
    }

    /// Bytes of a store's pages.
    pub fn page_size(&self, store: u8) -> u32 {
        self.sizes.of_store(store).page_size
    }

    /// Number of buffer frames for a store's pages.
    pub fn frames_of(&self, store: u8) -> u32 {
        self.sizes.of_store(store).count
    }

    /// The same for the page size that has the fewest.
    pub fn frames_of_any(&self) -> u32 {
        let counts = self.sizes.iter().map(|class| class.count);
        counts.min().unwrap_or_default()
    }

    /// The pool's configuration.
    pub fn config(&self) -> &PoolConfig {
        &self.config
    }

    /// Sets the identity that pages of a store carry from now on and must carry when they arrive;
    /// zero accepts any.
    pub fn set_identity(&self, store: u8, identity: u64) {
        self.identities[usize::from(store)].store(identity, Ordering::Release);
    }

    /// The identity of a store, or zero.
    pub fn identity(&self, store: u8) -> u64 {
        self.identities[usize::from(store)].load(Ordering::Acquire)
    }

    /// Buffer frames that hold no page and are available immediately.
    pub fn frames_free(&self) -> usize {
        self.sizes.sum(SizeClass::free)
    }

    /// Number of pages whose latches are yet to be released.
    pub fn unfixes_pending(&self) -> usize {
        self.unfix_count.load(Ordering::Acquire)
    }

    /// Changes that were not accepted, since the last call.
    pub fn losses(&self) -> Vec<Loss> {
        core::mem::take(&mut *lock(&self.losses))
    }

    pub(super) fn next_worker(&self) -> u32 {
        self.workers.fetch_add(1, Ordering::Relaxed)
    }

    /// A free buffer frame for a page, latched, with a void header.
    pub(super) fn take_free(&self, page: PageId) -> Option<FrameWrite> {
        let frame = self.sizes.of_store(page.store()).take()?;
        Some(
            self.frames
                .claim(frame)
                .expect("nobody latches a free frame"),
        )
    }

    /// Returns an unused buffer frame from [`Self::take_free`].
    pub(super) fn put_back(&self, write: FrameWrite) {
        let frame = write.frame();
        write.retire();
        self.sizes.at(frame).put(frame);
    }

    /// Number of buffer frames freed so far.
    pub(super) fn freed(&self) -> u64 {
        self.freed.load(Ordering::Relaxed)
    }

    /// Removes a page from the pool. It must not be the only copy.
    pub(super) fn drop_page(&self, page: PageId, write: FrameWrite) {
        let frame = write.frame();
        let shard = self.table.lock(page);
        shard.remove(frame);
        self.void(frame);
        write.retire();
        drop(shard);
        self.isolate(frame);
    }

    /// Removes an old version from the pool. Its readers may continue. False if a writer holds it.
    pub(super) fn detach(&self, shard: &Shard<'_>, frame: u32) -> bool {
        let Some(retired) = self.frames.try_retire(frame) else {
            return false;
        };
        shard.remove(frame);
        self.void(frame);
        if retired == Retired::Idle {
            self.isolate(frame);
        }
        true
    }

    /// Ends a read.
    #[inline]
    pub(super) fn let_go(&self, read: FrameRead) {
        let frame = read.frame();
        if read.release() {
            self.isolate(frame);
        }
    }

    /// Voids the header, so that no page is found in the buffer frame.
    pub(super) fn void(&self, frame: u32) {
        self.set_state(frame, FrameState::NOTHING);
        let word = self.frames.header_word(frame, PAGE_AT);
        word.store(VOID, Ordering::Release);
    }

    /// Quarantines a buffer frame that is void, retired, and without readers.
    fn isolate(&self, frame: u32) {
        lock(&self.quarantine).push(frame);
        let class = self.sizes.at(frame);
        class.isolated.fetch_add(1, Ordering::Relaxed);
    }

    /// Number of buffer frames in quarantine.
    pub(super) fn isolated(&self) -> usize {
        self.sizes
            .sum(|class| class.isolated.load(Ordering::Relaxed))
    }

    /// A question for the directory, if one is due.
    pub(super) fn ask(&self, now: Instant) -> Option<u64> {
        lock(&self.quarantine).ask(now)
    }

    /// Handles the answer to a question.
    pub(super) fn heard(&self, question: u64, ended: bool) {
        let mut free = Vec::new();
        lock(&self.quarantine).heard(question, ended, &mut free);
        self.freed.fetch_add(free.len() as u64, Ordering::Relaxed);
        for frame in free {
            let class = self.sizes.at(frame);
            class.isolated.fetch_sub(1, Ordering::Relaxed);
            class.put(frame);
        }
    }

    /// Queues the release of a page's latch.
    pub(super) fn push_unfix(&self, unfix: Unfix) {
        let mut unfixes = lock(&self.unfixes);
        unfixes.push_back(unfix);
        self.unfix_count.fetch_add(1, Ordering::Release);
    }

    pub(super) fn pop_unfix(&self) -> Option<Unfix> {
        if self.unfixes_pending() == 0 {
            return None;
        }
        let unfix = lock(&self.unfixes).pop_front()?;
        self.unfix_count.fetch_sub(1, Ordering::Release);
        Some(unfix)
    }

    pub(super) fn lose(&self, loss: Loss) {
        lock(&self.losses).push(loss);
    }

    /// Notes that a page of a store arrives.
    pub(super) fn note_used(&self, store: u8) {
        let used = &self.used[usize::from(store)];
        // All workers of the node read it.
        if !used.load(Ordering::Relaxed) {
            used.store(true, Ordering::Relaxed);
        }
    }

    /// The stores of which pages were in the pool. A flush makes all of them durable, whichever
    /// node wrote to them: a node that has died since can no longer do so.
    pub(super) fn used_stores(&self) -> impl Iterator<Item = u8> + '_ {
        let stores = self.used.iter().zip(0..=u8::MAX);
        let used = stores.filter(|(used, _)| used.load(Ordering::Relaxed));
        used.map(|(_, store)| store)
    }

    /// Records that a write failed, or finally succeeded.
    pub(super) fn set_fault(&self, fault: Option<(FixError, Instant)>) {
        *lock(&self.fault) = fault.map(|(error, at)| Fault { error, at });
    }

    /// Why changed pages cannot be written, if so.
    pub(super) fn fault(&self) -> Option<FixError> {
        (*lock(&self.fault)).map(|fault| fault.error)
    }

    /// Whether an attempt to write changed pages makes sense.
    pub(super) fn may_write(&self, now: Instant) -> bool {
        (*lock(&self.fault)).is_none_or(|fault| now.since(fault.at) >= WRITE_AGAIN)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no holder of this lock panics")
}
