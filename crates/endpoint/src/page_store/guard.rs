//! Guards of fixed pages, and what a worker and its guards share.

use super::pool::{Pool, table::UNFIXING};
use super::{CommitError, Mode};
use core::ops::Range;
use rackweave_base::memory::{FrameRead, FrameWrite, SharedBytes, SharedBytesMut};
use rackweave_wire::fabric::page::{FrameState, PageId};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// A fixed page: its bytes behind the header.
///
/// Dropped, a shared guard lets the buffer frame go; nobody else is told. An exclusive one has the
/// page's latch given back by whichever worker of the node is polled next, with the next version if
/// the page was changed; a change that is not taken is a [`Loss`](super::Loss). [`Self::commit`] is
/// the same for those who wait for the outcome.
#[derive(Debug)]
pub struct PageGuard {
    page: PageId,
    version: u64,
    changed: bool,
    /// The LSN that it was given, or zero.
    given_lsn: u64,
    hold: Hold,
    held: Option<usize>,
    outcome: Option<Arc<Outcome>>,
    local: Arc<Local>,
}

/// What became of a latch that was given back.
pub(super) type Outcome = OnceLock<Result<(), CommitError>>;

/// A change on its way to the directory: see [`PageGuard::commit`].
#[derive(Debug)]
pub struct Commit {
    page: PageId,
    lsn: u64,
    pool: Arc<Pool>,
    outcome: Arc<Outcome>,
}

impl Commit {
    /// Whether the change was taken; nothing as long as the directory has not answered.
    pub fn outcome(&self) -> Option<Result<(), CommitError>> {
        self.outcome.get().copied()
    }

    /// Why there is no answer yet.
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

/// A latch that is to be given back. The frame stays latched until the directory has confirmed it.
#[derive(Debug)]
pub(super) struct Unfix {
    pub write: FrameWrite,
    pub page: PageId,
    /// The version as it was fixed.
    pub version: u64,
    pub changed: bool,
    /// Up to which the engine's log must be durable before, or zero.
    pub lsn: u64,
    /// Whether the page shall leave the pool: what is in the buffer frame is of no use.
    pub discard: bool,
    /// It was asked for before, and nobody knows whether it was done.
    pub again: bool,
    /// Where the answer goes if somebody waits for it.
    pub outcome: Option<Arc<Outcome>>,
}

impl Unfix {
    /// Tells whoever waits for the outcome. False if nobody does.
    pub fn tell(&self, outcome: Result<(), CommitError>) -> bool {
        let heard = |told: &&Arc<Outcome>| Arc::strong_count(told) > 1;
        let told = self.outcome.as_ref().filter(heard);
        told.is_some_and(|told| told.set(outcome).is_ok())
    }
}

/// What a worker and its guards share.
#[derive(Debug)]
pub(super) struct Local {
    pub pool: Arc<Pool>,
    held: Held,
}

/// Which pages a worker has fixed, as far as there is room to note them: to find a worker that
/// waits for itself.
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

    /// Whether one of the worker's guards has the page, exclusively or, if `any`, at all.
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

    /// How it is fixed.
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

    /// The pool that has it.
    pub(super) fn pool(&self) -> &Arc<Pool> {
        &self.local.pool
    }

    /// Whether the page was never written: every byte on storage is zero, the header included.
    pub(super) fn is_blank(&self) -> bool {
        let frame = match &self.hold {
            Hold::Shared(read) => read.frame(),
            Hold::Exclusive(write) => write.frame(),
            Hold::Nothing => return false,
        };
        // The pool has given it a header, and it has no checksum before it is written.
        let header = self.pool().header(frame);
        let is_new = header.page == self.page.tag() && header.checksum == 0;
        is_new && self.data().is_all(0)
    }

    /// The page's bytes behind the header: a view, since the memory is registered with a NIC and
    /// the latch keeps only those away who keep the protocol. Where that is known of everybody,
    /// [`SharedBytes::as_slice`] gives them without a copy.
    #[inline]
    pub fn data(&self) -> SharedBytes<'_> {
        match &self.hold {
            Hold::Shared(read) => read.bytes(),
            Hold::Exclusive(write) => write.bytes(),
            Hold::Nothing => unreachable!("a guard has its frame until it is dropped"),
        }
    }

    /// The page's bytes, to be written. They are no slice, because the NIC may read them meanwhile
    /// for a node that asked too late and throws away what it gets.
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

    /// Changes some of the page's bytes in a copy, which is then written: the shorter the range,
    /// the less is copied.
    ///
    /// # Panics
    /// If the page is fixed shared, or has not that many bytes.
    pub fn update<R>(&mut self, range: Range<usize>, change: impl FnOnce(&mut [u8]) -> R) -> R {
        let mut bytes = self.data_mut();
        let mut copy = vec![0; range.len()];
        bytes.slice(range.clone()).copy_to(&mut copy);
        let result = change(&mut copy);
        bytes.write(range.start, &copy);
        result
    }

    /// The log sequence number of the page's last change that was given one, whoever made it, or
    /// zero. It goes with the page, to other nodes and home.
    ///
    /// After a crash it says what a page has of the log: records up to this one are in it.
    #[inline]
    pub fn lsn(&self) -> u64 {
        match &self.hold {
            Hold::Shared(read) => self.local.pool.lsn(read.frame()),
            Hold::Exclusive(write) => self.local.pool.lsn(write.frame()),
            Hold::Nothing => 0,
        }
    }

    /// Says which record of the engine's log has this change; the page counts as changed. It leaves
    /// this node when the log is durable up to there ([`RedoLog`](super::RedoLog)), so the record
    /// has to be appended before the guard is dropped.
    ///
    /// # Panics
    /// If the page is fixed shared; in debug builds if it has a higher LSN already.
    pub fn set_lsn(&mut self, lsn: u64) {
        let had = self.lsn();
        debug_assert!(lsn >= had, "{}: LSN {lsn} after {had}", self.page);
        self.put_lsn(lsn);
    }

    /// Makes the page one of zeroes that never had an LSN.
    pub(super) fn clear(&mut self) {
        self.data_mut().fill(0);
        self.put_lsn(0);
    }

    /// Gives the latch back as a drop does, and tells in the end whether the change was taken. That
    /// happens when a worker of the node is polled.
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
