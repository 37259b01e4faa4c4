//! The layout of a channel's control region, and of the area after a node's buffer frames.
//!
//! A control region, of a channel with *n* slots over *s* stores:
//!
//! | at | bytes | content |
//! |---|---|---|
//! | 0 | 16 × *n* | completions, by slot: the switch writes them |
//! | 16 *n* | 16 × *n* | responses, by slot |
//! | 32 *n* | 32 × *n* | scratch, by slot: an entry (16), result of a compare-and-swap (8) |
//! | 64 *n* | 8 | generation: the controller increments it after it reconnects the channel |
//! | 64 *n* + 8 | 8 | plea: a node whose connections have failed writes the generation here |
//! | 64 *n* + 16 | 8 | generation of the connection to the memory server |
//! | 64 *n* + 24 | 8 | plea for that connection only |
//! | 64 *n* + 32 | 16 × *s* | by store: address and key of its entries at the memory server |
//!
//! A node's buffer frames are followed by one more, the *spare*, in which the node examines homes;
//! by a [`FrameState`] for each, from which a lost directory is rebuilt; by a [`Doubt`] for each,
//! which the controller writes during the rebuild; by a word with the directory's *epoch*, a random
//! number drawn by the controller; by a word that says how often the controller has begun to read
//! the states; and by the node's *lease words*.
//!
//! # Leases
//!
//! A node with a lease on a version of a page may read it without asking whether it is the newest.
//! The switch revokes the lease, by a WRITE of zero into the page's lease word at the node, before
//! another node's change of the page can be accepted; so every read begins with a look at that
//! word. A lease is valid while
//!
//! - the page's lease word ([`lease_word_at`]) is the token that the node stored there *before* it
//!   asked for the lease, and
//! - less than [`LEASE`] has passed since the node *sent* the last request that the directory has
//!   answered, and that directory is the one that granted the lease.
//!
//! The switch does not revoke the leases of a node that was declared dead, nor those of a directory
//! that was lost. They have expired when [`HOLD`] has passed, and until then the directory grants
//! no latch.
//!
//! All words are little-endian.

use super::PageId;
use rackweave_base::Duration;
use serde::{Deserialize, Serialize};

/// Bytes of a slot.
pub const SLOT_LEN: u64 = 64;

/// In place of a generation: this node was considered dead, and what it held is lost or belongs to
/// other nodes.
pub const FENCED: u64 = u64::MAX;

/// Bytes of a [`Doubt`] and of the node's word about it.
const DOUBT_LEN: u64 = 32;

/// Offset of the version in a doubt. It is written last, so that the words before it belong to it.
pub const DOUBT_VERSION_AT: u64 = 16;

/// Offset, after a doubt, of the word in which the node writes the version of the last doubt that
/// it has resolved.
pub const FOUND_OUT_AT: u64 = 24;

/// The generation of a channel that was connected `connected` times, the last time to a directory
/// that had been rebuilt `directory` times.
pub const fn generation(directory: u64, connected: u32) -> u64 {
    directory << 32 | connected as u64
}

/// How often the directory of a generation was rebuilt.
pub const fn directory_of(generation: u64) -> u64 {
    generation >> 32
}

/// How often the channel of a generation was connected.
pub const fn connected_of(generation: u64) -> u32 {
    generation as u32
}

/// Offset of the generation in the control region of a channel with this many slots.
pub const fn generation_at(slots: u16) -> u64 {
    slots as u64 * SLOT_LEN
}

/// Offset of the plea.
pub const fn plea_at(slots: u16) -> u64 {
    generation_at(slots) + 8
}

/// Offset of the generation of the connection to the memory server.
pub const fn server_generation_at(slots: u16) -> u64 {
    generation_at(slots) + 16
}

/// Offset of the plea for that connection.
pub const fn server_plea_at(slots: u16) -> u64 {
    generation_at(slots) + 24
}

/// The address of the entries of a store that is not open to the node, which has no key to them.
pub const NO_ENTRIES: u64 = 0;

/// Offset of address and key of a store's entries; the address is [`NO_ENTRIES`] if it is not open
/// to the node.
pub const fn entries_at(slots: u16, store: u8) -> u64 {
    generation_at(slots) + 32 + store as u64 * 16
}

/// Bytes of the control region of a channel with this many slots over this many stores.
pub const fn control_bytes(slots: u16, stores: u16) -> u64 {
    generation_at(slots) + 32 + stores as u64 * 16
}

/// How long after its last answered request a node may use its leases.
pub const LEASE: Duration = Duration::from_millis(10);

/// How long a directory grants no latch after a node was declared dead, or the directory before it
/// was lost: [`LEASE`], by any two clocks of which one is at most twice as fast as the other.
pub const HOLD: Duration = Duration::from_millis(20);

/// Maximum lease words of a node: half a megabyte.
const LEASE_WORDS_MAX: u32 = 1 << 16;

/// Number of lease words in a pool of `frames`: a power of two, at least two for each buffer frame
/// if there are not too many, so that few pages share one.
pub const fn lease_words(frames: u32) -> u32 {
    if frames >= LEASE_WORDS_MAX / 2 {
        return LEASE_WORDS_MAX;
    }
    frames.next_power_of_two() * 2
}

/// Offset of a page's lease word from the first of `words`. Pages that share a word revoke each
/// other's leases.
pub const fn lease_word_at(page: PageId, words: u32) -> u64 {
    // Neighbours have different words, and the stores begin at different ones.
    let at = page.index().wrapping_add(page.store() as u64 * 0x9e37);
    (at & (words as u64 - 1)) * 8
}

/// The region of a node's buffer frames: the frames, a spare one to read homes into, and words:
/// for each frame its state and the controller's doubt about it, the epoch, the survey, and the
/// lease words.
///
/// Frames have the size of the rack's smallest page. A larger page takes several adjacent ones: it
/// is named by the first, whose words are the page's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct PoolLayout {
    /// Bytes of a buffer frame.
    pub frame_size: u32,
    /// Number of buffer frames.
    pub frames: u32,
    /// Bytes of the spare one: of the rack's largest page.
    pub spare: u32,
}

impl PoolLayout {
    /// Frames for pages of one size.
    pub const fn new(page_size: u32, frames: u32) -> Self {
        Self {
            frame_size: page_size,
            frames,
            spare: page_size,
        }
    }

    /// The same frames for pages of these sizes, of which none is smaller.
    pub fn with_page_sizes(self, sizes: impl Iterator<Item = u32>) -> Self {
        Self {
            spare: sizes.max().unwrap_or(self.spare),
            ..self
        }
    }

    /// Bytes of the region.
    pub const fn bytes(self) -> u64 {
        self.leases_at() + lease_words(self.frames) as u64 * 8
    }

    /// Offset of a buffer frame; the spare one follows the last one.
    pub const fn frame_at(self, frame: u32) -> u64 {
        frame as u64 * self.frame_size as u64
    }

    /// Offset of the state of a buffer frame.
    pub const fn state_at(self, frame: u32) -> u64 {
        self.frame_at(self.frames) + self.spare as u64 + frame as u64 * 8
    }

    /// Offset of the doubt about a buffer frame: four words.
    pub const fn doubt_at(self, frame: u32) -> u64 {
        self.state_at(self.frames) + frame as u64 * DOUBT_LEN
    }

    /// Offset of the epoch.
    pub const fn epoch_at(self) -> u64 {
        self.doubt_at(self.frames)
    }

    /// Offset of the word in which the controller writes the directory for which it is about to
    /// read the states of the buffer frames. A grant of an earlier directory that the node has not
    /// stated by then is void.
    pub const fn survey_at(self) -> u64 {
        self.epoch_at() + 8
    }

    /// Offset of the first lease word.
    pub const fn leases_at(self) -> u64 {
        self.survey_at() + 8
    }

    /// Offset of a page's lease word.
    pub const fn lease_at(self, page: PageId) -> u64 {
        self.leases_at() + lease_word_at(page, lease_words(self.frames))
    }
}

/// What a node states about a buffer frame, for rebuilding the directory.
///
/// | bits | content |
/// |---|---|
/// | 0 | as far as the node knows, the page in it is newer than its home |
/// | 1 | the node has the page's latch |
/// | 2 | the node has changed the page under the latch, which is being returned |
/// | 8–63 | the version in the latch word when the page was fixed |
///
/// The page's number is in the buffer frame's header, and so is the version of the bytes: if that
/// version differs, a transfer has begun to replace the bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FrameState(pub u64);

impl FrameState {
    /// The buffer frame has nothing that other nodes could not get from elsewhere.
    pub const NOTHING: FrameState = FrameState(0);
    const DIRTY: u64 = 1;
    const LATCHED: u64 = 2;
    const CHANGED: u64 = 4;
    const VERSION_AT: u32 = 8;

    const fn of(version: u64, flags: u64) -> Self {
        Self(flags | version << Self::VERSION_AT)
    }

    /// Newer than the home.
    pub const fn dirty(version: u64) -> Self {
        Self::of(version, Self::DIRTY)
    }

    /// Latched by the node; newer than the home if `dirty`.
    pub const fn latched(version: u64, dirty: bool) -> Self {
        Self::of(version, Self::LATCHED | if dirty { Self::DIRTY } else { 0 })
    }

    /// Fixed in this version and changed: the bytes have the next version.
    pub const fn changed(version: u64) -> Self {
        Self::of(version, Self::LATCHED | Self::CHANGED)
    }

    /// The same state for a page in doubt that is published as the version after `version`.
    pub const fn renumbered(self, version: u64) -> Self {
        match self.is_changed() {
            true => Self::changed(version),
            false => Self::dirty(version + 1),
        }
    }

    /// Whether it is newer than the home.
    pub const fn is_dirty(self) -> bool {
        self.0 & Self::DIRTY != 0
    }

    /// Whether the node has the page's latch, or had it when it changed the page.
    pub const fn is_latched(self) -> bool {
        self.0 & Self::LATCHED != 0
    }

    /// Whether the latch is being returned, with the next version in the buffer frame.
    pub const fn is_changed(self) -> bool {
        self.0 & Self::CHANGED != 0
    }

    /// The version in the latch word.
    pub const fn version(self) -> u64 {
        self.0 >> Self::VERSION_AT
    }

    /// The version of the bytes.
    pub const fn content_version(self) -> u64 {
        self.version() + self.is_changed() as u64
    }
}

/// Written by the controller about a buffer frame when it rebuilds the directory: the node has the
/// latch of this page and must determine whether what it stated about the buffer frame is its
/// newest version.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Doubt {
    /// The page.
    pub page: PageId,
    /// What the node stated.
    pub state: FrameState,
    /// The version of the page's entry, above all earlier ones. Whatever the node determines, the
    /// page continues with the next one.
    pub version: u64,
}

impl Doubt {
    /// The controller's three words. A version of 0 withdraws the doubt.
    pub const fn words(&self) -> [u64; 3] {
        [self.page.tag(), self.state.0, self.version]
    }

    /// The doubt in these words, if they are one that the node has not resolved yet.
    pub const fn parse([page, state, version, found_out]: [u64; 4]) -> Option<Self> {
        match PageId::from_tag(page) {
            Some(page) if version > found_out => Some(Self {
                page,
                state: FrameState(state),
                version,
            }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::page::request::FRAMES_MAX;

    #[test]
    fn a_state_keeps_its_parts_apart() {
        assert_eq!(FrameState::default(), FrameState::NOTHING);
        let dirty = FrameState::dirty(77);
        assert!(dirty.is_dirty() && !dirty.is_latched());
        let latched = FrameState::latched(77, true);
        assert!(latched.is_dirty() && latched.is_latched() && !latched.is_changed());
        assert!(!FrameState::latched(1, false).is_dirty());
        let changed = FrameState::changed(77);
        assert!(changed.is_latched() && changed.is_changed());
        assert_eq!((changed.version(), changed.content_version()), (77, 78));
        assert_eq!(dirty.renumbered(99), FrameState::dirty(100));
        assert_eq!(changed.renumbered(99), FrameState::changed(99));
        let page = PageId::new(3, 4).unwrap();
        let doubt = Doubt {
            page,
            state: dirty,
            version: 1 << 32,
        };
        let [first, second, third] = doubt.words();
        let stands = |found_out| Doubt::parse([first, second, third, found_out]);
        assert_eq!(stands(0), Some(doubt));
        assert_eq!(stands((1 << 32) - 1), Some(doubt));
        assert_eq!(stands(1 << 32), None);
        assert_eq!(Doubt::parse([first, second, 0, 0]), None);
        assert_eq!(Doubt::parse([0; 4]), None);
    }

    #[test]
    fn a_generation_tells_directories_and_connections_apart() {
        assert_eq!(generation(0, 1), 1);
        let later = generation(7, 9);
        assert_eq!((directory_of(later), connected_of(later)), (7, 9));
    }

    #[test]
    fn parts_do_not_overlap() {
        const LAYOUT: PoolLayout = PoolLayout::new(4096, 4);
        assert_eq!((generation_at(3), plea_at(3)), (192, 200));
        assert_eq!((server_generation_at(3), server_plea_at(3)), (208, 216));
        assert_eq!((entries_at(3, 0), entries_at(3, 1)), (224, 240));
        assert_eq!(control_bytes(3, 2), 256);
        assert_eq!(LAYOUT.state_at(1), 5 * 4096 + 8);
        assert_eq!(LAYOUT.doubt_at(1), 5 * 4096 + 32 + 32);
        assert_eq!(LAYOUT.epoch_at(), 5 * 4096 + 32 + 128);
        assert_eq!(LAYOUT.survey_at(), 5 * 4096 + 32 + 128 + 8);
        assert_eq!(LAYOUT.leases_at(), 5 * 4096 + 32 + 128 + 16);
        assert_eq!(LAYOUT.bytes(), 5 * 4096 + 32 + 128 + 16 + 8 * 8);
        // The spare one has the largest page.
        let mixed = LAYOUT.with_page_sizes([4096, 65536].into_iter());
        assert_eq!(mixed.state_at(0), 4 * 4096 + 65536);
    }

    #[test]
    fn every_page_has_a_lease_word_in_the_pool() {
        assert_eq!((lease_words(4), lease_words(5)), (8, 16));
        assert_eq!(lease_words(FRAMES_MAX), LEASE_WORDS_MAX);
        for index in 0..100 {
            let at = |index| lease_word_at(PageId::new(3, index).unwrap(), 8);
            assert!(at(index) < 64 && at(index) % 8 == 0);
            assert_eq!(at(index), at(index + 8));
            assert_ne!(at(index), at(index + 1));
        }
    }
}
