//! One thread's interface to the pool: fixes, and the background work that they cause.
//!
//! Calls start an operation and return a ticket; [`Worker::poll`] advances all pending operations;
//! `take…` returns the result. Operations advance only while the worker is polled, so poll a worker
//! until [`Worker::is_idle`] before it rests.
//!
//! [`fix`] describes how a fix proceeds, [`background`] the work behind it: releasing latches,
//! evicting pages, freeing buffer frames. [`flush`] writes everything home. [`poll`] has the order
//! in which a worker advances all of it, and its time limits.

mod answers;
mod background;
mod doubt;
mod end;
mod fix;
mod flush;
mod lease;
mod log;
mod poll;
mod replies;

use super::directory::{Directory, Mode, Ticket};
use super::guard::{Local, PageGuard};
use super::pool::Loss;
use super::pool::table::TORN;
use super::{FixError, FlushError, Pool, Statistics};
use background::{Eviction, PendingUnfix};
use doubt::Doubt;
use fix::{Pending, State};
use flush::Flushing;
use log::LogQuestion;
use rackweave_base::memory::Frames;
use rackweave_base::{Duration, Instant, Rng};
use rackweave_wire::fabric::page::PageId;
use replies::Job;
use slotmap::{DefaultKey as Key, SlotMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A fix in flight.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[must_use = "the page stays fixed until the ticket is taken or abandoned"]
pub struct Fix(Key);

/// A validation in flight.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Validation(Key);

/// A flush in flight.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Flush(Key);

/// The result of a flush.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Flushed {
    /// Changed pages that have been written home.
    pub written: u64,
}

/// One thread's interface to the pool.
#[derive(Debug)]
pub struct Worker<D: Directory> {
    pool: Arc<Pool>,
    frames: Frames,
    local: Arc<Local>,
    directory: D,
    rng: Rng,
    now: Instant,
    fixes: SlotMap<Key, Pending>,
    /// Fixes that wait for something other than the directory.
    runnable: Vec<Key>,
    spare: Vec<Key>,
    validations: SlotMap<Key, Validating>,
    waiting_validations: Vec<Key>,
    flushes: SlotMap<Key, Flushing>,
    jobs: Vec<(Ticket, Job)>,
    unfixes: Vec<PendingUnfix>,
    evictions: Vec<Eviction>,
    asking: bool,
    ask_at: Instant,
    /// The number of rebuilds of the directory when it was last read.
    beginning: u64,
    /// The page in doubt that this worker resolves.
    doubt: Option<Doubt>,
    log_question: LogQuestion,
    /// When to continue a machine of the store, which has no timer of its own.
    wake_at: Option<Instant>,
    statistics: Statistics,
}

#[derive(Debug)]
struct Validating {
    page: PageId,
    version: u64,
    result: Option<Result<bool, FixError>>,
    not_before: Instant,
    gone_since: Option<Instant>,
}

impl<D: Directory> Worker<D> {
    /// Creates a worker with its own directory.
    pub fn new(pool: Arc<Pool>, directory: D) -> Self {
        let mut rng = Rng::new(pool.config.seed ^ u64::from(pool.config.node) << 32);
        let rng = rng.fork(&pool.next_worker().to_string());
        Self {
            frames: pool.frames.handle(),
            local: Local::new(Arc::clone(&pool)),
            pool,
            directory,
            rng,
            now: Instant::ZERO,
            fixes: SlotMap::default(),
            runnable: Vec::new(),
            spare: Vec::new(),
            validations: SlotMap::default(),
            waiting_validations: Vec::new(),
            flushes: SlotMap::default(),
            jobs: Vec::new(),
            unfixes: Vec::new(),
            evictions: Vec::new(),
            asking: false,
            ask_at: Instant::ZERO,
            beginning: 0,
            doubt: None,
            log_question: LogQuestion::default(),
            wake_at: None,
            statistics: Statistics::default(),
        }
    }

    /// The pool.
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// The directory.
    pub fn directory(&self) -> &D {
        &self.directory
    }

    /// The worker's counters.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// Changes of the node's workers that were not accepted, since the last call.
    pub fn losses(&self) -> Vec<Loss> {
        self.pool.losses()
    }

    /// Starts to fix a page.
    ///
    /// The worker must not already have fixed it, unless both fixes are shared: it would wait for
    /// itself. Doing so panics in debug builds and returns [`FixError::Conflict`] in others. For a
    /// worker that interleaves several tasks see [`Self::fix_in_turn`].
    ///
    /// # Panics
    /// In debug builds, as described.
    pub fn fix(&mut self, page: PageId, mode: Mode) -> Fix {
        if self.local.conflicts(page, mode) {
            debug_assert!(
                false,
                "this worker has fixed {page} already, and waits for itself"
            );
            return self.fail_at_once(page, mode);
        }
        self.fix_in_turn(page, mode)
    }

    /// As [`Self::fix`], for a worker that interleaves several tasks. It may wait for a page that
    /// it has fixed itself, since it will drop that guard meanwhile.
    pub fn fix_in_turn(&mut self, page: PageId, mode: Mode) -> Fix {
        self.begin(Pending::new(page, mode))
    }

    /// As [`Self::fix`], but a page that the worker has already fixed is an error in every build.
    ///
    /// # Errors
    /// [`FixError::Conflict`], as described.
    pub fn try_fix(&mut self, page: PageId, mode: Mode) -> Result<Fix, FixError> {
        match self.local.conflicts(page, mode) {
            true => Err(FixError::Conflict(page)),
            false => Ok(self.fix_in_turn(page, mode)),
        }
    }

    /// Starts to fix a page exclusively in order to rewrite it completely, whatever its content:
    /// the page on storage may be damaged. The guard reads as zeroes, has no LSN, and counts as
    /// changed.
    ///
    /// # Errors
    /// [`FixError::Conflict`] if this worker has already fixed it.
    pub fn restore(&mut self, page: PageId) -> Result<Fix, FixError> {
        let fix = self.try_fix(page, Mode::Exclusive)?;
        if let Some(pending) = self.fixes.get_mut(fix.0) {
            (pending.checked, pending.restores) = (false, true);
        }
        Ok(fix)
    }

    /// As [`Self::try_fix`], within the time limit of calls. Unless `checked`, the fix also accepts
    /// a page that does not match its checksum.
    pub(super) fn try_fix_in_time(
        &mut self,
        page: PageId,
        mode: Mode,
        checked: bool,
    ) -> Result<Fix, FixError> {
        let fix = self.try_fix(page, mode)?;
        self.set_limit(fix, self.pool.config.limit());
        if let Some(pending) = self.fixes.get_mut(fix.0) {
            pending.checked = checked;
        }
        Ok(fix)
    }

    /// Limits the duration of a fix. After the limit, from the next poll on, [`Self::take`] returns
    /// [`FixError::TimedOut`], or [`FixError::Gone`] if the directory does not respond. Without a
    /// limit a fix waits for as long as the latch is held elsewhere.
    pub fn set_limit(&mut self, fix: Fix, limit: Duration) {
        if let Some(pending) = self.fixes.get_mut(fix.0) {
            pending.limit = Some(limit);
        }
    }

    /// Fetches a page into the pool, if it is not there. The result is not reported; nothing
    /// happens if no buffer frame is free.
    pub fn prefetch(&mut self, page: PageId) {
        let mut pending = Pending::new(page, Mode::Shared);
        pending.is_prefetch = true;
        pending.is_abandoned = true;
        let _ = self.begin(pending);
    }

    /// The result of a fix; `None` while it is in flight, and always `None` after the result was
    /// taken.
    pub fn take(&mut self, fix: Fix) -> Option<Result<PageGuard, FixError>> {
        let pending = self.fixes.get_mut(fix.0)?;
        if !matches!(pending.state, State::Ready(_)) {
            if pending.ends_at()? > self.now {
                return None;
            }
            pending.is_abandoned = true;
            self.statistics.failed += 1;
            return Some(Err(match pending.gone_since {
                Some(_) => FixError::Gone,
                None => FixError::TimedOut(pending.page),
            }));
        }
        let pending = self.fixes.remove(fix.0)?;
        match pending.state {
            State::Ready(Ok(mut guard)) if pending.restores => {
                guard.clear();
                Some(Ok(guard))
            }
            State::Ready(result) => Some(result),
            _ => None,
        }
    }

    /// Abandons a fix, whose result will not be taken.
    pub fn abandon(&mut self, fix: Fix) {
        drop(self.take(fix));
        if let Some(pending) = self.fixes.get_mut(fix.0) {
            pending.is_abandoned = true;
        }
    }

    /// Abandons all fixes, whose results will not be taken.
    pub fn abandon_all(&mut self) {
        let keys: Vec<_> = self.fixes.keys().collect();
        keys.into_iter().for_each(|key| self.abandon(Fix(key)));
    }

    /// Starts to check whether a guard's version is still the newest, and no node is about to
    /// change it. If several guards are validated after the last of them was fixed, the versions
    /// that are still the newest all existed at one moment.
    pub fn validate(&mut self, guard: &PageGuard) -> Validation {
        let result = (guard.mode() == Mode::Exclusive).then_some(Ok(true));
        let key = self.validations.insert(Validating {
            page: guard.page(),
            version: guard.version(),
            not_before: Instant::ZERO,
            gone_since: None,
            result,
        });
        if result.is_none() {
            self.waiting_validations.push(key);
        }
        Validation(key)
    }

    /// The result of a validation; `None` while it is in flight.
    pub fn take_validation(&mut self, validation: Validation) -> Option<Result<bool, FixError>> {
        let result = self.validations.get_mut(validation.0)?.result?;
        self.validations.remove(validation.0);
        Some(result)
    }

    /// Starts to write home all pages of the pool that are changed and unfixed now, and to make
    /// durable everything that the pool has written home so far. The pages are kept.
    pub fn flush(&mut self) -> Flush {
        let frames = self.pool.config.frames;
        Flush(self.flushes.insert(Flushing::new(None, frames, self.now)))
    }

    /// As [`Self::flush`] for one page. [`Flushed::written`] is 1 if this flush has written it: the
    /// version that the pool had at the time of the call, or a later one, is durable. It is 0 if
    /// there was nothing to write, or another node has changed the page since.
    pub fn flush_page(&mut self, page: PageId) -> Flush {
        Flush(self.flushes.insert(Flushing::new(Some(page), 1, self.now)))
    }

    /// The result of a flush; `None` while it is in flight.
    pub fn take_flush(&mut self, flush: Flush) -> Option<Result<Flushed, FlushError>> {
        let result = self.flushes.get_mut(flush.0)?.result?;
        self.flushes.remove(flush.0);
        Some(result)
    }

    /// Reads a page in the pool without a latch. `read` may see bytes that change concurrently; its
    /// result is then discarded and it is called again. `None` if the page is not there, or is
    /// being changed on this node.
    ///
    /// The result is consistent with some version that this node had; it is not checked whether
    /// that is the newest. The version is returned with it.
    pub fn read_optimistic<R>(
        &self,
        page: PageId,
        mut read: impl FnMut(&Peek<'_>) -> R,
    ) -> Option<(R, u64)> {
        loop {
            let frame = self.pool.table.find(page)?;
            let stamp = self.frames.stamp(frame)?;
            let meta = self.pool.table.meta(frame);
            let version = meta.version.load(Ordering::Acquire);
            if !meta.has(page) || meta.is(TORN) {
                return None;
            }
            let result = read(&Peek {
                frames: &self.frames,
                frame,
            });
            if self.frames.is_unchanged(frame, stamp) && meta.has(page) {
                meta.touch();
                return Some((result, version));
            }
        }
    }

    fn begin(&mut self, pending: Pending) -> Fix {
        let key = self.fixes.insert(pending);
        self.runnable.push(key);
        Fix(key)
    }

    fn fail_at_once(&mut self, page: PageId, mode: Mode) -> Fix {
        let mut pending = Pending::new(page, mode);
        pending.state = State::Ready(Err(FixError::Conflict(page)));
        self.statistics.failed += 1;
        Fix(self.fixes.insert(pending))
    }
}

/// A page that is being read without a latch.
#[derive(Debug)]
pub struct Peek<'a> {
    frames: &'a Frames,
    frame: u32,
}

impl Peek<'_> {
    /// Copies bytes behind the header from `at` on; zeroes if the page is too short.
    pub fn read(&self, at: usize, target: &mut [u8]) {
        if !self.frames.peek(self.frame, at, target) {
            target.fill(0);
        }
    }

    /// The little-endian word at byte `at`.
    pub fn word(&self, at: usize) -> u64 {
        let mut bytes = [0; 8];
        self.read(at, &mut bytes);
        u64::from_le_bytes(bytes)
    }
}
