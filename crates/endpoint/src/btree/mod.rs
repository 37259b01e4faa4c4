//! A B+tree in a region: local threads change it, remote readers walk it.
//!
//! Keys are 64-bit numbers, values are bytes. A value of eight bytes is in its leaf, any other
//! value in a record of the heap. The layout is that of [`rackweave_wire::fabric::tree`].
//!
//! Local threads couple optimistic latches (Leis et al., Optimistic Lock Coupling, IEEE Data Eng.
//! Bull. 2019): on the way down, they check the latch of a parent again after they have read that
//! of the child. A writer locks only what it changes: the leaf, and also the parent when a tree
//! node splits or is merged into its neighbour. Remote readers do not use latches. For them, every
//! change of a tree node ends with an update of its check word, and a change of several tree nodes
//! happens in an order in which every intermediate state is valid:
//!
//! * a split completes the new right half, then cuts the left one, then updates the parent;
//! * a merge completes the left tree node, then ends the right one's epoch, while both latches are
//!   held and neither can change otherwise;
//! * the root stays where it is: when the tree grows, its content moves to two new children.
//!
//! A tree node that underflows (less than a quarter full) is merged with a neighbour under the same
//! parent if both together fill at most three quarters of one.
//!
//! Tree nodes may be *pinned* for switches, which keep pointers and cannot be notified of changes
//! ([`Tree::pin`], [`Tree::outline`]). A pinned tree node stays in use, and its low fence does not
//! rise, until it is unpinned.

mod allocator;
mod arena;
mod bounds;
mod bulk;
mod check;
mod config;
mod error;
mod heap;
mod latch;
#[cfg(all(test, any(loom, shuttle)))]
mod model;
mod node;
mod outline;
#[cfg(all(test, not(any(loom, shuttle))))]
mod pin_tests;
mod pins;
mod remove;
mod scan;
mod split;
mod start;
mod sync;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
mod tree;
mod write;
mod writer;

use sync::AtomicU64 as Word;

pub use check::Summary;
pub use config::TreeConfig;
pub use error::TreeError;
pub use outline::OutlineNode;
pub use pins::PIN_BANKS;
pub use scan::Direction;
pub use start::Begun;
pub use tree::{Statistics, Tree};
