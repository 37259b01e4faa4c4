//! References to bytes of a block, and the names of the arenas that they lead to.
//!
//! Inside a process a reference into its own arena says [`Origin::OWN`]. A reference that leaves
//! the process ([`BlockRef::exported`]) says the name by which others know the arena, and one that
//! comes home ([`BlockRef::imported`]) says `OWN` again.

use super::Memory;

/// Names the arena of a process of this host. The names are given out by whoever joins the
/// processes; they mean nothing beyond it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Origin(pub u16);

impl Origin {
    /// The process's own arena.
    pub const OWN: Self = Self(0);

    /// No arena: references into it resolve to nothing.
    pub const NOWHERE: Self = Self(u16::MAX);

    /// Whether this can name the arena of a process.
    pub const fn is_name(self) -> bool {
        self.0 != Self::OWN.0 && self.0 != Self::NOWHERE.0
    }
}

/// Names bytes of a block without keeping the block alive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockRef {
    pub(super) slot: u32,
    pub(super) generation: u32,
    pub(super) offset: u64,
    pub(super) len: u32,
    pub(super) origin: Origin,
}

impl BlockRef {
    /// Bytes of an encoded reference.
    pub const ENCODED_LEN: usize = 24;

    /// The number of bytes referenced.
    #[expect(
        clippy::len_without_is_empty,
        reason = "an empty reference is of no use to ask for"
    )]
    pub const fn len(&self) -> u32 {
        self.len
    }

    /// Where in its block the first of them is; a block begins at a multiple of
    /// [`BLOCK_ALIGNMENT`](super::BLOCK_ALIGNMENT).
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// The arena that the bytes are in.
    pub const fn origin(&self) -> Origin {
        self.origin
    }

    /// The part of `len` bytes that starts `offset` bytes into this reference.
    ///
    /// # Panics
    /// If the part is not within it.
    #[must_use]
    pub const fn part(&self, offset: u32, len: u32) -> Self {
        assert!(offset as u64 + len as u64 <= self.len as u64);
        Self {
            // Only a reference made up by a peer can get this far, and such an end is in no block.
            offset: self.offset.saturating_add(offset as u64),
            len,
            ..*self
        }
    }

    /// The reference as another process is to see it, where `memory` is the arena of this one.
    /// Without a name by which others know `memory` it leads nowhere.
    #[must_use]
    pub fn exported(self, memory: &Memory) -> Self {
        match self.origin {
            Origin::OWN if memory.origin().is_name() => self.of(memory.origin()),
            Origin::OWN => self.of(Origin::NOWHERE),
            _ => self,
        }
    }

    /// The reference as this process sees it, where it came from another one and `memory` is the
    /// arena of this one.
    #[must_use]
    pub fn imported(self, memory: &Memory) -> Self {
        // A block that lives has an odd generation (see `Memory`), so no honest process sends an
        // even one. What says OWN was not exported, and must not reach into our own arena.
        if self.origin == Origin::OWN || self.generation.is_multiple_of(2) {
            self.of(Origin::NOWHERE)
        } else if self.origin == memory.origin() {
            self.of(Origin::OWN)
        } else {
            self
        }
    }

    /// The reference as bytes, for descriptors between processes of one host: offset (8),
    /// generation (4), length (4), slot (4), origin (2), zero (2), little-endian.
    pub fn encode(&self) -> [u8; Self::ENCODED_LEN] {
        let mut bytes = [0; Self::ENCODED_LEN];
        bytes[..8].copy_from_slice(&self.offset.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.generation.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.len.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.slot.to_le_bytes());
        bytes[20..22].copy_from_slice(&self.origin.0.to_le_bytes());
        bytes
    }

    /// The reference that `bytes` say. Any bytes will do: a reference is judged when it is
    /// resolved.
    pub fn decode(bytes: &[u8; Self::ENCODED_LEN]) -> Self {
        let [o0, o1, o2, o3, o4, o5, o6, o7, rest @ ..] = *bytes;
        let [g0, g1, g2, g3, l0, l1, l2, l3, s0, s1, s2, s3, n0, n1, _, _] = rest;
        Self {
            offset: u64::from_le_bytes([o0, o1, o2, o3, o4, o5, o6, o7]),
            generation: u32::from_le_bytes([g0, g1, g2, g3]),
            len: u32::from_le_bytes([l0, l1, l2, l3]),
            slot: u32::from_le_bytes([s0, s1, s2, s3]),
            origin: Origin(u16::from_le_bytes([n0, n1])),
        }
    }

    fn of(self, origin: Origin) -> Self {
        Self { origin, ..self }
    }
}
