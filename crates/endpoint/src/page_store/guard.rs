//! Guards of fixed pages, and the state that a worker shares with its guards.

use super::pool::{Pool, table::UNFIXING};
use super::{CommitError, Mode};
use core::ops::Range;
use rackweave_base::memory::{FrameRead, FrameWrite, SharedBytes, SharedBytesMut};
use rackweave_wire::fabric::page::{FrameState, PageId};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// A fixed page: its bytes behind the header.
///
/// Dropping a shared guard only releases the buffer frame; no other node is notified. After an
/// exclusive guard is dropped, the next worker of the node to be polled releases the page's latch,
/// with the next version if the page was changed; a change that is not accepted is recorded as a
/// [`Loss`](super::Loss). [`Self::commit`] does the same for a caller that waits for the outcome.
#[derive(Debug)]
pub struct PageGuard {
    page: PageId,
    version: u64,
    changed: bool,
    /// The LSN set through this guard, or zero.
    given_lsn: u64,
    hold: Hold,
    held: Option<usize>,
    outcome: Option<Arc<Outcome>>,
    local: Arc<Local>,
}

/// The outcome of releasing a latch.
pub(super) type Outcome = OnceLock<Result<(), CommitError>>;

/// A change in flight to the directory: see [`PageGuard::commit`].
#[derive(Debug)]
pub struct Commit {
    page: PageId,
    lsn: u64,
    pool: Arc<Pool>,
    outcome: Arc<Outcome>,
}

impl Commit {
    /// Whether the change was accepted; `None` until the directory has responded.
    pub fn outcome(&self) -> Option<Result<(), CommitError>> {
        self.outcome.get().copied()
    }

    /// Why there is no outcome yet.
    pub fn late(&self) -> CommitError {
        match self.pool.may_leave(self.lsn) {
            true => CommitError::TimedOut(self.page),
            false => CommitError::NotLogged(self.page),
        }
    }
}

#[derive(Debug)]
enum Hold {
    Shared(FrameRead),
    Exclusive(FrameWrite),
    Nothing,
}

/// A latch to be released. The frame stays latched until the directory has confirmed the release.
#[derive(Debug)]
pub(super) struct Unfix {
    pub write: FrameWrite,
    pub page: PageId,
    /// The version when the page was fixed.
    pub version: u64,
    pub changed: bool,
    /// The LSN up to which the engine's log must be durable first, or zero.
    pub lsn: u64,
    /// Whether to remove the page from the pool: the content of the buffer frame is not valid.
    pub discard: bool,
    /// The release was requested before, with unknown outcome.
    pub again: bool,
    /// Where to store the outcome if a caller waits for it.
    pub outcome: Option<Arc<Outcome>>,
}

impl Unfix {
    /// Stores the outcome for the caller that waits for it. False if none waits.
    pub fn tell(&self, outcome: Result<(), CommitError>) -> bool {
        let heard = |listener: &&Arc<Outcome>| Arc::strong_count(listener) > 1;
        let listener = self.outcome.as_ref().filter(heard);
        listener.is_some_and(|listener| listener.set(outcome).is_ok())
    }
}

/// State that a worker shares with its guards.
#[derive(Debug)]
pub(super) struct Local {
    pub pool: Arc<Pool>,
    held: Held,
}

/// The pages that a worker has fixed, as many as there are slots for, to detect a worker that would
/// wait for itself.
#[derive(Debug)]
struct Held {
    places: Box<[AtomicU64]>,
    next: AtomicU32,
    exclusive: AtomicU32,
}

const PLACES: usize = 64;
const USED: u64 = 1 << 63;
const EXCLUSIVE: u64 = 1 << 62;

impl Local {
    pub fn new(pool: Arc<Pool>) -> Arc<Self> {
        let held = Held {
            places: (0..PLACES).map(|_| AtomicU64::new(0)).collect(),
            next: AtomicU32::new(0),
            exclusive: AtomicU32::new(0),
        };
        Arc::new(Self { pool, held })
    }

    /// Whether a fix in this mode would wait for a guard of the same worker.
    #[inline]
    pub fn conflicts(&self, page: PageId, mode: Mode) -> bool {
        if mode == Mode::Shared && self.held.exclusive.load(Ordering::Relaxed) == 0 {
            return false;
        }
        self.has(page, mode == Mode::Exclusive)
    }

    /// Whether one of the worker's guards holds the page: exclusively, or in either mode if `any`.
    pub fn has(&self, page: PageId, any: bool) -> bool {
        self.held.places.iter().any(|place| {
            let word = place.load(Ordering::Relaxed);
            word & !EXCLUSIVE == page.number() | USED && (any || word & EXCLUSIVE != 0)
        })
    }

    fn note(&self, page: PageId, exclusive: bool) -> Option<usize> {
        let mark = if exclusive { EXCLUSIVE } else { 0 };
        let next = self.held.next.load(Ordering::Relaxed) as usize;
        let free = (0..PLACES)
            .map(|at| (next + at) % PLACES)
            .find(|at| self.held.places[*at].load(Ordering::Relaxed) == 0)?;
        self.held.places[free].store(page.number() | USED | mark, Ordering::Relaxed);
        self.held.next.store(free as u32 + 1, Ordering::Relaxed);
        if exclusive {
            self.held.exclusive.fetch_add(1, Ordering::Relaxed);
        }
        Some(free)
    }

    fn forget(&self, place: Option<usize>) {
        let Some(place) = place else {
            return;
        };
        let word = self.held.places[place].swap(0, Ordering::Relaxed);
        if word & EXCLUSIVE != 0 {
            self.held.exclusive.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl PageGuard {
    pub(super) fn shared(local: &Arc<Local>, page: PageId, version: u64, read: FrameRead) -> Self {
        Self {
            page,
            version,
            changed: false,
            given_lsn: 0,
            hold: Hold::Shared(read),
            held: local.note(page, false),
            outcome: None,
            local: Arc::clone(local),
        }
    }

    pub(super) fn exclusive(
        local: &Arc<Local>,
        page: PageId,
        version: u64,
        write: FrameWrite,
    ) -> Self {
        Self {
            page,
            version,
            changed: false,
            given_lsn: 0,
            hold: Hold::Exclusive(write),
            held: local.note(page, true),
            outcome: None,
            local: Arc::clone(local),
        }
    }

    /// The page.
    pub fn page(&self) -> PageId {
        self.page
    }

    /// The version that was fixed.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The mode in which it is fixed.
    pub fn mode(&self) -> Mode {
        match self.hold {
            Hold::Exclusive(_) => Mode::Exclusive,
            _ => Mode::Shared,
        }
    }

    /// Whether [`Self::data_mut`] or [`Self::set_lsn`] was called: the page will get a new version.
    pub fn is_changed(&self) -> bool {
        self.changed
    }

    /// The pool that holds the page.
    pub(super) fn pool(&self) -> &Arc<Pool> {
        &self.local.pool
    }

    /// Whether the page was never written: every byte on storage is zero, including the header.
    pub(super) fn is_blank(&self) -> bool {
        let frame = match &self.hold {
            Hold::Shared(read) => read.frame(),
            Hold::Exclusive(write) => write.frame(),
            Hold::Nothing => return false,
        };
        // The pool has written a header, without a checksum until the page is written home.
        let header = self.pool().header(frame);
        let is_new = header.page == self.page.tag() && header.checksum == 0;
        is_new && self.data().is_all(0)
    }

    /// The page's bytes behind the header. They are a view, since the memory is registered with a
    /// NIC and the latch excludes only nodes that follow the protocol. Where all nodes are known to
    /// follow it, [`SharedBytes::as_slice`] returns the bytes without a copy.
    #[inline]
    pub fn data(&self) -> SharedBytes<'_> {
        match &self.hold {
            Hold::Shared(read) => read.bytes(),
            Hold::Exclusive(write) => write.bytes(),
            Hold::Nothing => unreachable!("a guard has its frame until it is dropped"),
        }
    }

    /// The page's bytes for writing. They are not a slice, because the NIC may read them
    /// concurrently for a node whose request was late and which discards the result.
    ///
    /// # Panics
    /// If the page is fixed shared.
    pub fn data_mut(&mut self) -> SharedBytesMut<'_> {
        match &mut self.hold {
            Hold::Exclusive(write) => {
                self.changed = true;
                write.bytes_mut()
            }
            _ => panic!("{} is fixed shared and cannot be changed", self.page),
        }
    }

    /// Changes a range of the page's bytes in a copy, which is then written back. A shorter range
    /// copies less.
    ///
    /// # Panics
    /// If the page is fixed shared, or is shorter than the range.
    pub fn update<R>(&mut self, range: Range<usize>, change: impl FnOnce(&mut [u8]) -> R) -> R {
        let mut bytes = self.data_mut();
        let mut copy = vec![0; range.len()];
        bytes.slice(range.clone()).copy_to(&mut copy);
        let result = change(&mut copy);
        bytes.write(range.start, &copy);
        result
    }

    /// The log sequence number of the last change of the page that set one, on any node, or zero.
    /// It moves with the page, to other nodes and home.
    ///
    /// After a crash it tells which log records the page contains: those up to this one.
    #[inline]
    pub fn lsn(&self) -> u64 {
        match &self.hold {
            Hold::Shared(read) => self.local.pool.lsn(read.frame()),
            Hold::Exclusive(write) => self.local.pool.lsn(write.frame()),
            Hold::Nothing => 0,
        }
    }

    /// Sets the LSN of the engine's log record for this change; the page counts as changed. The
    /// page leaves this node only when the log is durable up to this LSN
    /// ([`RedoLog`](super::RedoLog)), so the record must be appended before the guard is dropped.
    ///
    /// # Panics
    /// If the page is fixed shared; in debug builds if it already has a higher LSN.
    pub fn set_lsn(&mut self, lsn: u64) {
        let had = self.lsn();
        debug_assert!(lsn >= had, "{}: LSN {lsn} after {had}", self.page);
        self.put_lsn(lsn);
    }

    /// Fills the page with zeroes and clears its LSN.
    pub(super) fn clear(&mut self) {
        self.data_mut().fill(0);
        self.put_lsn(0);
    }

    /// Releases the latch as a drop does, and reports later whether the change was accepted. The
    /// outcome arrives when a worker of the node is polled.
    pub fn commit(mut self) -> Commit {
        let outcome = Arc::new(Outcome::new());
        match self.hold {
            Hold::Exclusive(_) => self.outcome = Some(Arc::clone(&outcome)),
            _ => _ = outcome.set(Ok(())),
        }
        Commit {
            page: self.page,
            lsn: if self.changed { self.lsn() } else { 0 },
            pool: Arc::clone(self.pool()),
            outcome,
        }
    }

    fn put_lsn(&mut self, lsn: u64) {
        let Hold::Exclusive(write) = &self.hold else {
            panic!("{} is fixed shared and cannot be changed", self.page);
        };
        self.local.pool.set_lsn(write.frame(), lsn);
        self.changed = true;
        self.given_lsn = lsn;
    }
}

impl Drop for PageGuard {
    fn drop(&mut self) {
        self.local.forget(self.held);
        let pool = &self.local.pool;
        match core::mem::replace(&mut self.hold, Hold::Nothing) {
            Hold::Shared(read) => pool.let_go(read),
            Hold::Exclusive(write) => {
                let meta = pool.table.meta(write.frame());
                if self.changed {
                    pool.mark_changed(write.frame(), self.page, self.version + 1);
                    meta.lsn.fetch_max(self.given_lsn, Ordering::AcqRel);
                    meta.set(UNFIXING);
                    pool.set_state(write.frame(), FrameState::changed(self.version));
                } else {
                    pool.set_unlatched(write.frame());
                }
                let lsn = if self.changed {
                    meta.lsn.load(Ordering::Acquire)
                } else {
                    0
                };
                pool.push_unfix(Unfix {
                    write,
                    page: self.page,
                    version: self.version,
                    changed: self.changed,
                    lsn,
                    discard: false,
                    again: false,
                    outcome: self.outcome.take(),
                });
            }
            Hold::Nothing => {}
        }
    }
}
