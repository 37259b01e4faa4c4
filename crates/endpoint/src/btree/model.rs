//! Models of concurrent threads.
//!
//! `loom` checks the latch under every order of accesses that the memory model allows. A whole tree
//! is too large for that. Also, `loom` keeps only the last access to a word, so it misses orders in
//! which a reader is overtaken. `shuttle` checks the tree instead, with thousands of schedules
//! drawn from a seed, each with a few preemptions at random places.

#[cfg(loom)]
mod latches;
#[cfg(shuttle)]
mod trees;
