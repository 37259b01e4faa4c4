//! Memory that NICs may read and write.
//!
//! All regions of a rack lie in one arena ([`Rack::memory`](crate::Rack::memory)),
//! whose size `memory_limit` bounds. A [`Block`] of it is made with [`Memory::allocate`], and
//! becomes a region when a NIC registers it ([`Verbs::register`](crate::verbs::Verbs::register)).
//! Flows, pages, indexes and messages make theirs themselves. A block stays mapped as long as
//! somebody has it.

pub use rackweave_base::memory::{
    BLOCK_ALIGNMENT, BLOCKS_MAX, Block, BlockRef, Memory, MemoryError, SharedBytes, SharedBytesMut,
};
