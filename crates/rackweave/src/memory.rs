//! Memory that NICs may read and write.
//!
//! All regions of a rack are in one arena ([`Rack::memory`](crate::Rack::memory)), whose size
//! `memory_limit` bounds. [`Memory::allocate`] allocates a [`Block`] of it, which becomes a region
//! when a NIC registers it ([`Verbs::register`](crate::verbs::Verbs::register)). Flows, pages,
//! indexes and messages allocate theirs themselves. A block stays mapped until its last handle is
//! dropped.

pub use rackweave_base::memory::{
    BLOCK_ALIGNMENT, BLOCKS_MAX, Block, BlockRef, Memory, MemoryError, SharedBytes, SharedBytesMut,
};
