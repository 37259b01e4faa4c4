//! The layout of a B+tree in a region, for remote readers.
//!
//! A tree fills one block of memory: tree nodes of one size, the first of which is the superblock,
//! then a heap of value records. Everything is made of little-endian 64-bit words.
//!
//! ```text
//! tree node 0   superblock: the description of the tree
//! tree node 1   the root, always; its content moves to new children when the tree grows
//! tree node 2…  inner tree nodes and leaves
//! heap          value records, in units of 64 bytes
//! ```
//!
//! A tree node:
//!
//! ```text
//! word 0        latch of the local threads: bit 0 locked, the rest counts changes
//! word 1        check: a sum over everything below
//! word 2        epoch (bits 0-31), level (32-39, 0 for a leaf), entries (40-55)
//! word 3        low fence: the least key that belongs here
//! word 4        last fence: the greatest key that belongs here
//! word 5        the tree node to the right on the same level, or nothing
//! word 6        the name of the tree xor the number of the tree node: its identity
//! word 7…       one bit per entry: whether its value is a reference into the heap
//! then          entries of two words, in ascending order of key: key and value, or in an inner
//!               tree node the least key of a child and the pointer to it
//! ```
//!
//! A READ is not atomic: its cache lines may be from different moments, in any order. Therefore the
//! check covers every word except the latch, which makes an image that mixes two states of a tree
//! node recognisable whatever part of it is old. The check is a sum with one summand per entry, so
//! a writer that adds an entry adds a summand and need not read the others. It is written last: an
//! image whose words match its check is the content of the tree node when the check was read.
//!
//! Word 6 identifies the tree node to a reader that did not choose the address: a query that the
//! network answers with the deepest tree node it knows. The check covers the number a second time,
//! so that the word alone is not trusted.
//!
//! A pointer has the number of a tree node and its epoch, which is odd while the tree node is in
//! use. Freeing makes the epoch even, reuse makes it odd again: an older pointer does not match any
//! later epoch.

mod image;
mod layout;
mod record;
mod superblock;

pub use image::{Image, Unusable, Value};
pub use layout::{
    CHECK_WORD, FIRST_BITMAP_WORD, LAST_WORD, LATCH_WORD, LOW_WORD, Layout, META_WORD, Meta,
    NEXT_WORD, NODE_SIZES, NodePointer, ROOT, TREE_WORD, check_of_entry, check_of_header, identity,
};
pub use record::{RECORD_HEADER_WORDS, RecordError, UNIT, VALUE_MAX, ValueRef, check_of_record};
pub use superblock::{FAN_OUT_MIN, MAGIC, Superblock, SuperblockError};
