//! References to bytes of a block, and the names of the arenas that they refer to.
//!
//! Inside a process, a reference into its own arena has [`Origin::OWN`]. A reference that leaves
//! the process ([`BlockRef::exported`]) has the name by which other processes know the arena. One
//! that returns ([`BlockRef::imported`]) has `OWN` again.

use super::Memory;

/// Names the arena of a process of this host. The names are assigned by the program that connects
/// the processes; they have no meaning beyond it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Origin(pub u16);

impl Origin {
    /// This process's own arena.
    pub const OWN: Self = Self(0);

    /// No arena: references into it resolve to nothing.
    pub const NOWHERE: Self = Self(u16::MAX);

    /// Whether this can be the name of a process's arena.
    pub const fn is_name(self) -> bool {
        self.0 != Self::OWN.0 && self.0 != Self::NOWHERE.0
    }
}

/// Refers to bytes of a block without keeping the block alive.
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

    /// The offset of the first byte in its block; a block begins at a multiple of
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
    /// If the part is not within this reference.
    #[must_use]
    pub const fn part(&self, offset: u32, len: u32) -> Self {
        assert!(offset as u64 + len as u64 <= self.len as u64);
        Self {
            // Only a reference made up by a peer can get this far, and no block contains such an
            // end.
            offset: self.offset.saturating_add(offset as u64),
            len,
            ..*self
        }
    }

    /// The reference for another process, where `memory` is the arena of this one. If `memory` has
    /// no name for other processes, the result refers to [`Origin::NOWHERE`].
    #[must_use]
    pub fn exported(self, memory: &Memory) -> Self {
        match self.origin {
            Origin::OWN if memory.origin().is_name() => self.of(memory.origin()),
            Origin::OWN => self.of(Origin::NOWHERE),
            _ => self,
        }
    }

    /// The reference, received from another process, for this process, whose arena is `memory`.
    #[must_use]
    pub fn imported(self, memory: &Memory) -> Self {
        // An existing block has an odd generation (see `Memory`), so no correct process sends an
        // even one. A reference with OWN was not exported, and must not refer to this process's
        // arena.
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

    /// Decodes a reference. Any bytes are accepted: a reference is checked when it is resolved.
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
