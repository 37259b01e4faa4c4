//! The directory's entry of a page, and its pure transitions.
//!
//! In the switch, an entry has three cells: the *holder* (the node that has the latch, or none),
//! the *latch word* and the *place*. There are three because a packet may change each once, in this
//! order: the holder decides whether an operation is allowed, the latch word gives the resulting
//! version, and only then is the page's place determined.
//!
//! In the memory of a server, for pages that the switch does not index, it has two words that nodes
//! change by READ, WRITE and compare-and-swap: [`FallbackLatch`] and [`PageLocation`], at
//! `16 × page index`.

use super::request::FRAMES_MAX;
use core::fmt;

/// Version and lock bit, as in Böttcher et al. 2020: bit 0 is the lock, bits 1 to 63 the version.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct LatchWord(pub u64);

impl LatchWord {
    /// An open latch of this version.
    pub const fn open(version: u64) -> Self {
        Self(version << 1)
    }

    /// The version.
    pub const fn version(self) -> u64 {
        self.0 >> 1
    }

    /// Whether a node has the latch exclusively.
    pub const fn is_locked(self) -> bool {
        self.0 & 1 == 1
    }

    /// The same version, locked.
    pub const fn locked(self) -> Self {
        Self(self.0 | 1)
    }

    /// The same version, open: the holder changed nothing.
    pub const fn released(self) -> Self {
        Self(self.0 & !1)
    }

    /// The next version, open: the holder changed the page.
    pub const fn changed(self) -> Self {
        Self::open(self.version() + 1)
    }
}

impl fmt::Display for LatchWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lock = if self.is_locked() { ", locked" } else { "" };
        write!(f, "version {}{lock}", self.version())
    }
}

/// The location of the newest version of a page.
///
/// | bits | content |
/// |---|---|
/// | 0–23 | buffer frame |
/// | 24–39 | node |
/// | 40 | a node caches it, at this node and buffer frame |
/// | 41 | the cached one is newer than the home |
/// | 42 | a write to the home is in flight |
/// | 43 | the newest version is lost |
/// | 44–63 | how often it has moved, modulo 2^20 |
///
/// The count distinguishes a place from the same place at another time: a node may drop a page and
/// fetch it again into the same buffer frame, and a read that began there before must not be
/// trusted. It grows when a node turns out not to have the page any more, not when one gets it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct PageLocation(pub u64);

impl PageLocation {
    /// The page is at home, and has never moved.
    pub const HOME: PageLocation = PageLocation(0);
    const CACHED: u64 = 1 << 40;
    const DIRTY: u64 = 1 << 41;
    const WRITING: u64 = 1 << 42;
    const LOST: u64 = 1 << 43;
    const MOVES_AT: u32 = 44;

    /// In a buffer frame of a node, the same as at home; it has never moved.
    pub const fn clean(node: u16, frame: u32) -> Self {
        Self(Self::CACHED | (node as u64) << 24 | (frame & (FRAMES_MAX - 1)) as u64)
    }

    /// In a buffer frame of a node, newer than at home; it has never moved.
    pub const fn dirty(node: u16, frame: u32) -> Self {
        Self(Self::clean(node, frame).0 | Self::DIRTY)
    }

    /// How often it has moved, modulo 2^20.
    pub const fn moves(self) -> u32 {
        (self.0 >> Self::MOVES_AT) as u32
    }

    /// The page is now at the place in the bits `to`.
    const fn to(self, to: u64) -> Self {
        let moves = (self.0 >> Self::MOVES_AT).wrapping_add(1);
        Self(to | moves << Self::MOVES_AT)
    }

    /// Whether no buffer frame has it, and nothing is lost.
    pub const fn is_home(self) -> bool {
        self.0 & (Self::CACHED | Self::LOST) == 0
    }

    /// Node and buffer frame that cache the page, if one does.
    pub const fn cached(self) -> Option<(u16, u32)> {
        if self.0 & Self::CACHED == 0 {
            return None;
        }
        Some(((self.0 >> 24) as u16, self.0 as u32 & (FRAMES_MAX - 1)))
    }

    /// Whether this is the buffer frame of the place.
    pub const fn is_at(self, node: u16, frame: u32) -> bool {
        matches!(self.cached(), Some((n, f)) if n == node && f == frame)
    }

    /// Whether the home has an older version.
    pub const fn is_dirty(self) -> bool {
        self.0 & Self::DIRTY != 0
    }

    /// Whether a write to the home is in flight.
    pub const fn is_writing(self) -> bool {
        self.0 & Self::WRITING != 0
    }

    /// Whether the newest version is lost.
    pub const fn is_lost(self) -> bool {
        self.0 & Self::LOST != 0
    }

    /// A changed page is now in this buffer frame. A write in flight is kept: it writes an older
    /// version, and the next write must wait for it.
    pub const fn moved(self, node: u16, frame: u32) -> Self {
        self.to(Self::dirty(node, frame).0 | self.0 & Self::WRITING)
    }

    /// A write to the home begins, if the buffer frame is the place, is newer than the home, and no
    /// other write is in flight.
    pub const fn writing(self) -> Self {
        Self(self.0 | Self::WRITING)
    }

    /// The write from this buffer frame has ended. If it `succeeded` and the buffer frame is still
    /// the place, the home is up to date; the place is kept if `kept`.
    pub const fn written(self, node: u16, frame: u32, succeeded: bool, kept: bool) -> Self {
        let rest = Self(self.0 & !Self::WRITING);
        if !succeeded || !self.is_at(node, frame) {
            return rest;
        }
        if kept {
            Self(rest.0 & !Self::DIRTY)
        } else {
            self.to(0)
        }
    }

    /// A read from the home has brought the page into this buffer frame. The buffer frame becomes
    /// the place, unless the page is cached already: another buffer frame is as good, and readers
    /// from there need not be disturbed.
    pub const fn read(self, node: u16, frame: u32) -> Self {
        if self.cached().is_some() || self.is_lost() {
            return self;
        }
        let kept = Self::WRITING | u64::MAX << Self::MOVES_AT;
        Self(self.0 & kept | Self::clean(node, frame).0)
    }

    /// The same place; no read of the page that began before is to be trusted.
    pub const fn counted(self) -> Self {
        self.to(self.0 & ((1 << Self::MOVES_AT) - 1))
    }

    /// The buffer frame turned out not to hold the page any more. A place in another buffer frame
    /// is kept.
    pub const fn dropped(self, node: u16, frame: u32) -> Self {
        if self.is_at(node, frame) && !self.is_dirty() {
            self.to(self.0 & Self::WRITING)
        } else {
            self
        }
    }

    /// No buffer frame of this node holds the page any more, unless it is the only copy.
    pub const fn dropped_by(self, node: u16) -> Self {
        match self.cached() {
            Some((at, frame)) if at == node => self.dropped(node, frame),
            _ => self,
        }
    }

    /// The node is dead. A page that only it had is lost. A write in flight is kept: it may be that
    /// of another node.
    pub const fn died(self, node: u16) -> Self {
        match self.cached() {
            Some((at, _)) if at == node => {
                let lost = if self.is_dirty() { Self::LOST } else { 0 };
                self.to(lost | self.0 & Self::WRITING)
            }
            _ => self,
        }
    }

    /// The newest version is lost, whatever was known before; but the holder of the latch may have
    /// it.
    pub const fn lost(self) -> Self {
        self.to(Self::LOST | self.0 & Self::WRITING)
    }

    /// The loss is accepted: the version at home becomes the newest. A write in flight is kept.
    pub const fn accepted(self) -> Self {
        self.to(self.0 & Self::WRITING)
    }

    /// The write in flight will not complete: the writer has left, and its queue is closed. The
    /// home still has an older version.
    pub const fn not_writing(self) -> Self {
        Self(self.0 & !Self::WRITING)
    }
}

/// The first word of an entry in a server's memory: version, lock and holder in one, so that one
/// compare-and-swap takes the latch, and a marker for pages that the switch indexes.
///
/// | bits | content |
/// |---|---|
/// | 0 | lock |
/// | 1–47 | version |
/// | 48–61 | the node that has the latch, plus one |
/// | 62 | in doubt: that node must determine whether its copy is the newest version |
/// | 63 | the switch has the entry |
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct FallbackLatch(pub u64);

impl FallbackLatch {
    /// The value of the word while the switch has the entry.
    pub const INDEXED: FallbackLatch = FallbackLatch(1 << 63);
    const HOLDER_AT: u32 = 48;
    const HOLDER_MASK: u64 = 0x3fff;
    const DOUBTED: u64 = 1 << 62;
    const VERSION_BITS: u32 = 47;

    /// The word for this latch word and holder.
    pub const fn new(latch: LatchWord, holder: Option<u16>) -> Self {
        let holder = match holder {
            Some(node) => (node as u64 + 1) & Self::HOLDER_MASK,
            None => 0,
        };
        let version = latch.version() & ((1 << Self::VERSION_BITS) - 1);
        Self(latch.is_locked() as u64 | version << 1 | holder << Self::HOLDER_AT)
    }

    /// Whether the switch has the entry.
    pub const fn is_indexed(self) -> bool {
        self.0 >> 63 == 1
    }

    /// The latch word.
    pub const fn latch(self) -> LatchWord {
        LatchWord(self.0 & ((1 << Self::HOLDER_AT) - 1))
    }

    /// The same word, in doubt: the holder must determine whether its copy is the newest version.
    #[must_use]
    pub const fn doubted(self) -> Self {
        Self(self.0 | Self::DOUBTED)
    }

    /// The node that has the latch and is not in doubt.
    pub const fn holder(self) -> Option<u16> {
        match self.0 & Self::DOUBTED {
            0 => self.anyone(),
            _ => None,
        }
    }

    /// The node that has the latch of a page in doubt.
    pub const fn doubter(self) -> Option<u16> {
        match self.0 & Self::DOUBTED {
            0 => None,
            _ => self.anyone(),
        }
    }

    /// The node that has the latch, in doubt or not.
    pub const fn anyone(self) -> Option<u16> {
        match self.0 >> Self::HOLDER_AT & Self::HOLDER_MASK {
            0 => None,
            holder => Some(holder as u16 - 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_latch_word_counts_changes() {
        let open = LatchWord::open(7);
        assert_eq!(open.0, 14);
        assert!(!open.is_locked() && open.locked().is_locked());
        assert_eq!(open.locked().version(), 7);
        assert_eq!(open.locked().released(), open);
        assert_eq!(open.locked().changed(), LatchWord::open(8));
        assert_eq!(open.locked().to_string(), "version 7, locked");
    }

    #[test]
    fn a_place_is_where_the_newest_version_is() {
        let clean = PageLocation::HOME.read(3, 9);
        assert_eq!(clean.cached(), Some((3, 9)));
        assert!(!clean.is_dirty());
        assert_eq!(clean.dropped(3, 8), clean, "another frame");
        assert!(clean.dropped(3, 9).is_home());
        assert_ne!(clean.dropped(3, 9).read(3, 9), clean, "it has moved");
        let dirty = clean.moved(4, 1);
        assert!(dirty.is_dirty() && dirty.is_at(4, 1));
        assert_eq!(
            dirty.read(3, 9),
            dirty,
            "an older version came from the home"
        );
        assert_eq!(dirty.dropped(4, 1), dirty, "nobody drops the only copy");
        assert_eq!(dirty.died(3), dirty);
        assert!(dirty.died(4).is_lost());
        assert!(clean.died(3).is_home());
    }

    #[test]
    fn a_write_under_way_outlives_the_death_of_who_is_not_known_to_write() {
        // Node 4 writes, node 5 changes the page and dies.
        let overtaken = PageLocation::dirty(4, 1).writing().moved(5, 2);
        let lost = overtaken.died(5);
        assert!(lost.is_lost() && lost.is_writing());
        assert!(lost.accepted().is_home() && lost.accepted().is_writing());
        let after = lost.accepted().written(4, 1, true, false);
        assert!(after.is_home() && !after.is_writing());
        let dead = PageLocation::dirty(4, 1).writing().died(4);
        assert!(dead.is_lost() && dead.is_writing());
        assert!(!dead.not_writing().is_writing() && dead.not_writing().is_lost());
    }

    #[test]
    fn a_write_that_was_overtaken_leaves_the_newer_place() {
        let writing = PageLocation::dirty(4, 1).writing();
        assert!(writing.written(4, 1, true, false).is_home());
        assert_eq!(writing.written(4, 1, true, true), PageLocation::clean(4, 1));
        assert_eq!(
            writing.written(4, 1, false, false),
            PageLocation::dirty(4, 1)
        );
        let overtaken = writing.moved(5, 2);
        assert!(overtaken.is_writing(), "the next write must wait");
        let after = overtaken.written(4, 1, true, false);
        assert!(after.is_at(5, 2) && after.is_dirty() && !after.is_writing());
    }

    #[test]
    fn moves_are_counted_beside_everything_else() {
        let mut place = PageLocation::HOME;
        for moves in 0..(1 << 20) + 3u32 {
            assert_eq!(place.moves(), moves & 0xf_ffff);
            place = place.moved(0xffff, moves);
            assert!(place.is_at(0xffff, moves & (FRAMES_MAX - 1)) && place.is_dirty());
        }
    }

    #[test]
    fn a_fallback_word_holds_all() {
        let word = FallbackLatch::new(LatchWord::open(99).locked(), Some(0));
        assert_eq!(word.holder(), Some(0));
        assert_eq!(word.latch(), LatchWord::open(99).locked());
        assert!(!word.is_indexed() && FallbackLatch::INDEXED.is_indexed());
        assert_eq!((word.doubted().holder(), word.doubter()), (None, None));
        assert_eq!(word.doubted().doubter(), Some(0));
        assert_eq!(word.doubted().latch(), word.latch());
        let open = FallbackLatch::new(LatchWord::open(99), None);
        assert_eq!((open.holder(), open.latch()), (None, LatchWord::open(99)));
        assert_eq!(FallbackLatch::default().latch(), LatchWord::open(0));
    }
}
