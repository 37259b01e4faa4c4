//! The map from pages to buffer frames: chains through the buffer frames, read without a lock.
//!
//! A lookup follows a chain without a lock. A concurrent change may divert it, and it then misses;
//! a caller that must be certain looks again under the shard's lock. The buffer frame that a lookup
//! returns must be latched and checked again, since it may hold another page by then. Changes are
//! made under the shard's lock.

use rackweave_base::memory::Frames;
use rackweave_wire::fabric::page::PageId;
use rackweave_wire::fabric::page::header::VOID;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

const NOBODY: u32 = u32::MAX;
const SHARDS: usize = 64;
/// Maximum steps of a lookup: a concurrent change may have turned the chain into a cycle.
const STEPS_MAX: u32 = 64;

/// Metadata of the page in a buffer frame. It changes under the frame's latch or, where stated,
/// under the shard's lock.
#[derive(Debug)]
pub(in super::super) struct Meta {
    /// The page's number, or [`VOID`]. Changes under the shard's lock.
    page: AtomicU64,
    /// Its version.
    pub version: AtomicU64,
    /// The LSN up to which the engine's log must be durable before the page leaves this node; zero
    /// if no guard of this node has set one. Changes under the frame's latch.
    pub lsn: AtomicU64,
    /// The token of the page's lease, or zero ([`super::lease`]). Set under the frame's latch.
    pub lease: AtomicU64,
    next: AtomicU32,
    flags: AtomicU8,
    referenced: AtomicU8,
}

/// The page is newer than at home.
pub(in super::super) const DIRTY: u8 = 1;
/// The page is being written home. Changes under the shard's lock.
pub(in super::super) const EVICTING: u8 = 2;
/// A fetch into the buffer frame failed: its bytes may be of no version.
pub(in super::super) const TORN: u8 = 4;
/// The page was changed, and the latch is being released.
pub(in super::super) const UNFIXING: u8 = 8;
/// The directory has reported that a change being released was accepted before and has since been
/// replaced.
pub(in super::super) const SETTLED: u8 = 32;
/// A change being released was reported to the directory by other means.
pub(in super::super) const PUBLISHED: u8 = 64;
/// The page is being fetched into the buffer frame for the first time.
pub(in super::super) const LOADING: u8 = 16;

impl Meta {
    fn new() -> Self {
        Self {
            page: AtomicU64::new(VOID),
            version: AtomicU64::new(0),
            lsn: AtomicU64::new(0),
            lease: AtomicU64::new(0),
            next: AtomicU32::new(NOBODY),
            flags: AtomicU8::new(0),
            referenced: AtomicU8::new(0),
        }
    }

    /// Whether the buffer frame holds this page.
    #[inline]
    pub fn has(&self, page: PageId) -> bool {
        self.page.load(Ordering::Acquire) == page.number()
    }

    /// The page, if there is one.
    pub fn page(&self) -> Option<PageId> {
        PageId::from_number(self.page.load(Ordering::Acquire))
    }

    pub fn is(&self, flag: u8) -> bool {
        self.flags.load(Ordering::Acquire) & flag != 0
    }

    pub fn set(&self, flag: u8) {
        self.flags.fetch_or(flag, Ordering::AcqRel);
    }

    pub fn clear(&self, flags: u8) {
        self.flags.fetch_and(!flags, Ordering::AcqRel);
    }

    /// Marks the page as used.
    #[inline]
    pub fn touch(&self) {
        // Even a store of the same value would take the cache line from other cores.
        if self.referenced.load(Ordering::Relaxed) == 0 {
            self.referenced.store(1, Ordering::Relaxed);
        }
    }

    /// Whether the page was used since the last call.
    pub fn take_reference(&self) -> bool {
        self.referenced.load(Ordering::Relaxed) != 0
            && self.referenced.swap(0, Ordering::Relaxed) != 0
    }
}

/// The map from pages to buffer frames.
#[derive(Debug)]
pub(in super::super) struct Table {
    metas: Box<[Meta]>,
    buckets: Box<[AtomicU32]>,
    shards: Box<[Mutex<()>]>,
    shift: u32,
}

/// A locked shard.
pub(in super::super) struct Shard<'a> {
    table: &'a Table,
    bucket: usize,
    page: PageId,
    _lock: MutexGuard<'a, ()>,
}

impl Table {
    pub fn new(frames: &Frames) -> Self {
        let buckets = (frames.count() as usize * 2).next_power_of_two();
        Self {
            metas: (0..frames.count()).map(|_| Meta::new()).collect(),
            buckets: (0..buckets).map(|_| AtomicU32::new(NOBODY)).collect(),
            shards: (0..SHARDS).map(|_| Mutex::new(())).collect(),
            shift: 64 - buckets.trailing_zeros(),
        }
    }

    #[inline]
    pub fn meta(&self, frame: u32) -> &Meta {
        &self.metas[frame as usize]
    }

    /// Where the page appears to be.
    #[inline]
    pub fn find(&self, page: PageId) -> Option<u32> {
        let mut at = self.buckets[self.bucket(page)].load(Ordering::Acquire);
        for _ in 0..STEPS_MAX {
            let meta = self.metas.get(at as usize)?;
            if meta.has(page) {
                return Some(at);
            }
            at = meta.next.load(Ordering::Acquire);
        }
        None
    }

    /// The page's shard, locked.
    pub fn lock(&self, page: PageId) -> Shard<'_> {
        let bucket = self.bucket(page);
        let lock = self.shards[bucket % SHARDS]
            .lock()
            .expect("no holder of this lock panics");
        Shard {
            table: self,
            bucket,
            page,
            _lock: lock,
        }
    }

    #[inline]
    fn bucket(&self, page: PageId) -> usize {
        (page.number().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize
    }
}

impl Shard<'_> {
    /// Where the page is.
    pub fn find(&self) -> Option<u32> {
        let mut at = self.table.buckets[self.bucket].load(Ordering::Acquire);
        while let Some(meta) = self.table.metas.get(at as usize) {
            if meta.has(self.page) {
                return Some(at);
            }
            at = meta.next.load(Ordering::Acquire);
        }
        None
    }

    /// Enters the page as being in this buffer frame; it must be in no other.
    pub fn insert(&self, frame: u32) {
        debug_assert_eq!(self.find(), None, "{} is in two buffer frames", self.page);
        let (meta, head) = (self.table.meta(frame), &self.table.buckets[self.bucket]);
        let next = head.load(Ordering::Acquire);
        meta.next.store(next, Ordering::Release);
        meta.lease.store(0, Ordering::Release);
        meta.page.store(self.page.number(), Ordering::Release);
        meta.flags.store(LOADING, Ordering::Release);
        head.store(frame, Ordering::Release);
    }

    /// Removes the page from this buffer frame.
    pub fn remove(&self, frame: u32) {
        let meta = self.table.meta(frame);
        debug_assert!(meta.has(self.page));
        let mut link = &self.table.buckets[self.bucket];
        loop {
            let at = link.load(Ordering::Acquire);
            if at == frame {
                break;
            }
            link = &self.table.meta(at).next;
        }
        link.store(meta.next.load(Ordering::Acquire), Ordering::Release);
        meta.page.store(VOID, Ordering::Release);
        meta.flags.store(0, Ordering::Release);
    }
}
