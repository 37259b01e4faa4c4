//! The superblock, which describes a tree to a node that opens it.

use super::layout::{Layout, check_of_words};
use super::record::{UNIT, VALUE_MAX};

/// The first word of a tree: `rwtree`, and the version of the layout.
pub const MAGIC: u64 = u64::from_le_bytes(*b"rwtree\x00\x02");

/// The smallest allowed limit of children per inner tree node. A split leaves half of them, and
/// with fewer than two children each, every level could have as many tree nodes as the one below
/// it.
pub const FAN_OUT_MIN: u16 = 4;

/// The shape of a tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Superblock {
    /// Bytes of a tree node.
    pub node_size: u32,
    /// Number of slots for tree nodes, including the superblock and the root.
    pub tree_nodes: u32,
    /// Bytes of the heap, a multiple of [`UNIT`].
    pub heap_bytes: u64,
    /// Maximum length of a value in bytes.
    pub value_max: u32,
    /// The name of the tree, which is in every tree node.
    pub tree: u64,
    /// Maximum children of an inner tree node; 0 means as many as fit.
    pub fan_out: u16,
}

/// Why a block is not a tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SuperblockError {
    /// The block does not begin like a tree of this version.
    #[error(
        "the block begins with {found:#018x}, a tree of this version with {MAGIC:#018x}: it was \
         never formatted, or holds something else"
    )]
    Foreign {
        /// The first word.
        found: u64,
    },
    /// The check of the superblock does not match.
    #[error("the superblock is damaged: its check is {found:#018x}, {computed:#018x} would fit")]
    Damaged {
        /// The check in the block.
        found: u64,
        /// The check computed over the block.
        computed: u64,
    },
    /// A field has a value that no tree can have.
    #[error("the superblock says {what} = {value}, which no tree has")]
    Impossible {
        /// The field.
        what: &'static str,
        /// Its value.
        value: u64,
    },
    /// The block ends before the tree does.
    #[error("a tree of {needed} bytes does not fit a block of {given}")]
    TooShort {
        /// Bytes of the tree.
        needed: u64,
        /// Bytes of the block.
        given: u64,
    },
}

impl Superblock {
    /// Number of words of a superblock.
    pub const WORDS: usize = 7;

    /// Total bytes of the tree.
    pub fn bytes(&self) -> u64 {
        self.heap_at().saturating_add(self.heap_bytes)
    }

    /// Offset of the heap, in bytes.
    pub fn heap_at(&self) -> u64 {
        u64::from(self.tree_nodes) * u64::from(self.node_size)
    }

    /// Encodes the superblock.
    pub fn encode(&self) -> [u64; Self::WORDS] {
        let mut words = [
            MAGIC,
            u64::from(self.node_size) | u64::from(self.tree_nodes) << 32,
            self.heap_bytes,
            u64::from(self.value_max),
            self.tree,
            u64::from(self.fan_out),
            0,
        ];
        words[Self::WORDS - 1] = check(&words);
        words
    }

    /// Decodes the superblock of a block of `block_bytes`.
    ///
    /// # Errors
    /// If the words are not a superblock, or have impossible values.
    pub fn decode(words: &[u64; Self::WORDS], block_bytes: u64) -> Result<Self, SuperblockError> {
        if words[0] != MAGIC {
            return Err(SuperblockError::Foreign { found: words[0] });
        }
        let (found, computed) = (words[Self::WORDS - 1], check(words));
        if found != computed {
            return Err(SuperblockError::Damaged { found, computed });
        }
        let superblock = Self {
            node_size: words[1] as u32,
            tree_nodes: (words[1] >> 32) as u32,
            heap_bytes: words[2],
            value_max: u32::try_from(words[3]).unwrap_or(u32::MAX),
            tree: words[4],
            fan_out: u16::try_from(words[5]).unwrap_or(u16::MAX),
        };
        let capacity = Layout::new(superblock.node_size).map_or(0, Layout::capacity) as u64;
        let fields = [
            (
                "node_size",
                u64::from(superblock.node_size),
                Layout::new(superblock.node_size).is_some(),
            ),
            (
                "tree_nodes",
                u64::from(superblock.tree_nodes),
                superblock.tree_nodes >= 2,
            ),
            (
                "heap_bytes",
                superblock.heap_bytes,
                superblock.heap_bytes.is_multiple_of(UNIT),
            ),
            ("value_max", words[3], words[3] <= u64::from(VALUE_MAX)),
            (
                "fan_out",
                words[5],
                words[5] == 0 || (u64::from(FAN_OUT_MIN)..=capacity).contains(&words[5]),
            ),
        ];
        if let Some(&(what, value, _)) = fields.iter().find(|(_, _, possible)| !possible) {
            return Err(SuperblockError::Impossible { what, value });
        }
        let needed = superblock.bytes();
        if needed > block_bytes {
            return Err(SuperblockError::TooShort {
                needed,
                given: block_bytes,
            });
        }
        Ok(superblock)
    }
}

fn check(words: &[u64; Superblock::WORDS]) -> u64 {
    check_of_words(0, words[..Superblock::WORDS - 1].iter().copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: Superblock = Superblock {
        node_size: 1024,
        tree_nodes: 100,
        heap_bytes: 6400,
        value_max: 1000,
        tree: 7,
        fan_out: 16,
    };

    #[test]
    fn it_is_read_as_it_was_written() {
        let words = TREE.encode();
        assert_eq!(Superblock::decode(&words, TREE.bytes()), Ok(TREE));
        assert_eq!(
            Superblock::decode(&words, TREE.bytes() - 1),
            Err(SuperblockError::TooShort {
                needed: 108_800,
                given: 108_799
            })
        );
    }

    #[test]
    fn whatever_is_changed_is_noticed() {
        for word in 0..Superblock::WORDS {
            for bit in 0..64 {
                let mut words = TREE.encode();
                words[word] ^= 1 << bit;
                assert!(Superblock::decode(&words, u64::MAX).is_err());
            }
        }
    }

    #[test]
    fn an_impossible_shape_is_named() {
        let odd = Superblock {
            node_size: 700,
            ..TREE
        };
        let error = Superblock::decode(&odd.encode(), u64::MAX).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the superblock says node_size = 700, which no tree has"
        );
        for (fan_out, possible) in [(0, true), (3, false), (4, true), (60, true), (61, false)] {
            let words = Superblock { fan_out, ..TREE }.encode();
            let decoded = Superblock::decode(&words, u64::MAX);
            assert_eq!(decoded.is_ok(), possible, "{fan_out}");
        }
    }
}
