//! Models of what threads do at a time.
//!
//! `loom` tries the latch under every order of accesses that the memory model allows. A whole tree
//! is too large for that, and `loom` remembers only the last access to a word, so that it overlooks
//! orders in which a reader is overtaken; `shuttle` tries it instead, with thousands of schedules
//! drawn from a seed, each with a few preemptions at random places.

#[cfg(loom)]
mod latches;
#[cfg(shuttle)]
mod trees;
