//! The layout of a tree node, and the computation of its check.

use core::fmt;

/// The word of the local latch.
pub const LATCH_WORD: usize = 0;
/// The word of the check.
pub const CHECK_WORD: usize = 1;
/// The word of epoch, level and number of entries: see [`Meta`].
pub const META_WORD: usize = 2;
/// The word of the low fence.
pub const LOW_WORD: usize = 3;
/// The word of the last fence.
pub const LAST_WORD: usize = 4;
/// The word of the pointer to the right neighbour.
pub const NEXT_WORD: usize = 5;
/// The word that identifies the tree node and its tree: see [`identity`].
pub const TREE_WORD: usize = 6;
/// The first word of the bits that mark references.
pub const FIRST_BITMAP_WORD: usize = 7;

/// The sizes that a tree node may have, in bytes.
pub const NODE_SIZES: [u32; 4] = [512, 1024, 2048, 4096];

/// The tree node that is the root.
pub const ROOT: u32 = 1;

/// The offsets of the parts of a tree node of a certain size.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(into = "u32", try_from = "u32")]
pub struct Layout {
    words: u16,
    entries_at: u16,
    capacity: u16,
}

impl From<Layout> for u32 {
    /// Returns the size of a tree node in bytes.
    fn from(layout: Layout) -> u32 {
        layout.bytes() as u32
    }
}

impl TryFrom<u32> for Layout {
    type Error = &'static str;

    fn try_from(bytes: u32) -> Result<Self, &'static str> {
        Self::new(bytes).ok_or("no tree nodes have this size")
    }
}

impl Layout {
    /// The layout of tree nodes of `bytes`, or `None` if that is not one of [`NODE_SIZES`].
    pub fn new(bytes: u32) -> Option<Self> {
        NODE_SIZES
            .contains(&bytes)
            .then(|| Self::of_words(bytes as usize / 8))
    }

    /// A layout of any number of words from 16 to 512, for models and tests.
    ///
    /// # Panics
    /// If the number is out of that range.
    pub fn of_words(words: usize) -> Self {
        assert!((16..=512).contains(&words), "16 to 512 words");
        // The number of bits determines where entries begin, which determines how many fit.
        let most = (words - FIRST_BITMAP_WORD) / 2;
        let bitmap = most.div_ceil(64);
        // Entries are pairs of words and do not straddle cache lines.
        let entries_at = (FIRST_BITMAP_WORD + bitmap).next_multiple_of(2);
        Self {
            words: words as u16,
            entries_at: entries_at as u16,
            capacity: ((words - entries_at) / 2) as u16,
        }
    }

    /// Number of words of a tree node.
    #[inline]
    pub fn words(self) -> usize {
        usize::from(self.words)
    }

    /// Number of bytes of a tree node.
    #[inline]
    pub fn bytes(self) -> usize {
        self.words() * 8
    }

    /// Maximum entries of a tree node.
    #[inline]
    pub fn capacity(self) -> usize {
        usize::from(self.capacity)
    }

    /// Number of words of the bits that mark references.
    #[inline]
    pub fn bitmap_words(self) -> usize {
        usize::from(self.capacity).div_ceil(64)
    }

    /// The word of the key of entry `index`; its value is the next one.
    #[inline]
    pub fn entry(self, index: usize) -> usize {
        usize::from(self.entries_at) + 2 * index
    }

    /// Offset of a tree node, in bytes from the start of the block.
    #[inline]
    pub fn offset(self, index: u32) -> u64 {
        u64::from(index) * self.bytes() as u64
    }
}

/// A reference to a tree node in a certain epoch.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, serde::Serialize, serde::Deserialize)]
pub struct NodePointer {
    /// The index of the tree node in the block.
    pub index: u32,
    /// Its epoch, odd.
    pub epoch: u32,
}

impl NodePointer {
    /// No tree node.
    pub const NONE: Self = Self { index: 0, epoch: 0 };

    /// Decodes a word.
    #[inline]
    pub fn from_word(word: u64) -> Self {
        Self {
            index: word as u32,
            epoch: (word >> 32) as u32,
        }
    }

    /// Encodes the word.
    #[inline]
    pub fn to_word(self) -> u64 {
        u64::from(self.index) | u64::from(self.epoch) << 32
    }

    /// Whether it refers to no tree node.
    #[inline]
    pub fn is_none(self) -> bool {
        self.index == 0
    }
}

impl fmt::Display for NodePointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tree node {} of epoch {}", self.index, self.epoch)
    }
}

/// Epoch, level and number of entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Meta {
    /// Odd while the tree node is in use.
    pub epoch: u32,
    /// 0 for a leaf.
    pub level: u8,
    /// Number of entries.
    pub count: u16,
}

impl Meta {
    /// Decodes a word.
    #[inline]
    pub fn from_word(word: u64) -> Self {
        Self {
            epoch: word as u32,
            level: (word >> 32) as u8,
            count: (word >> 40) as u16,
        }
    }

    /// Encodes the word.
    #[inline]
    pub fn to_word(self) -> u64 {
        u64::from(self.epoch) | u64::from(self.level) << 32 | u64::from(self.count) << 40
    }

    /// Whether the tree node is in use.
    #[inline]
    pub fn is_live(self) -> bool {
        self.epoch & 1 == 1
    }
}

/// Odd numbers with about as many ones as zeroes, taken from the digits of pi.
const SECRETS: [u64; 4] = [
    0x243f_6a88_85a3_08d3,
    0x1319_8a2e_0370_7345,
    0xa409_3822_299f_31d1,
    0x082e_fa98_ec4e_6c89,
];

/// Combines both halves of a product: every bit of it depends on every bit of both factors.
#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

/// The contribution of an entry to the check.
#[inline]
pub fn check_of_entry(key: u64, value: u64, is_reference: bool) -> u64 {
    let secret = SECRETS[2 + usize::from(is_reference)];
    // The key is in both factors: exchanging the values of two entries changes the sum.
    fold(
        key ^ SECRETS[0],
        value ^ secret ^ key.rotate_left(32).wrapping_mul(SECRETS[1]),
    )
}

/// The identity of a tree node in [`TREE_WORD`]: the name of its tree, and its number.
#[inline]
pub fn identity(tree: u64, index: u32) -> u64 {
    tree ^ u64::from(index)
}

/// The contribution of the header words of tree node `index` to the check.
#[inline]
pub fn check_of_header(index: u32, meta: u64, low: u64, last: u64, next: u64, who: u64) -> u64 {
    let a = fold(
        meta ^ SECRETS[0],
        low ^ SECRETS[1] ^ u64::from(index).wrapping_mul(SECRETS[3]),
    );
    let b = fold(last ^ SECRETS[2], next ^ SECRETS[3] ^ a);
    fold(b ^ SECRETS[1], who ^ SECRETS[0])
}

/// The contribution of bytes, in words, to the check of a record.
pub(super) fn check_of_words(seed: u64, words: impl Iterator<Item = u64>) -> u64 {
    words.fold(seed ^ SECRETS[2], |sum, word| {
        fold(sum ^ word, SECRETS[1] ^ sum.rotate_left(17))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_fit_and_do_not_straddle_lines() {
        for (bytes, capacity) in [(512, 28), (1024, 60), (2048, 123), (4096, 250)] {
            let layout = Layout::new(bytes).unwrap();
            assert_eq!(layout.capacity(), capacity);
            assert_eq!(layout.entry(0) % 2, 0);
            assert!(layout.entry(0) >= FIRST_BITMAP_WORD + layout.bitmap_words());
            assert!(layout.entry(capacity) <= layout.words());
        }
        assert_eq!(Layout::new(513), None);
        assert_eq!(Layout::new(8192), None);
    }

    #[test]
    fn words_are_what_they_were() {
        let pointer = NodePointer {
            index: 7,
            epoch: u32::MAX,
        };
        assert_eq!(NodePointer::from_word(pointer.to_word()), pointer);
        let meta = Meta {
            epoch: 5,
            level: 3,
            count: 250,
        };
        assert_eq!(Meta::from_word(meta.to_word()), meta);
    }

    #[test]
    fn what_belongs_to_which_key_counts() {
        let sum = |a: (u64, u64), b: (u64, u64)| {
            check_of_entry(a.0, a.1, false).wrapping_add(check_of_entry(b.0, b.1, false))
        };
        for a in 0..40 {
            for b in 0..40 {
                if a != b {
                    assert_ne!(sum((1, a), (2, b)), sum((1, b), (2, a)));
                }
            }
        }
        assert_ne!(check_of_entry(1, 2, false), check_of_entry(1, 2, true));
    }
}
