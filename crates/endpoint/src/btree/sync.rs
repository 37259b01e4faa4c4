//! The synchronisation primitives of a tree, in three versions: the real ones; those of `loom`,
//! which tracks every access and tries the orders that the memory model allows; and those of
//! `shuttle`, which schedules threads at random.

#[cfg(loom)]
pub(super) use loom::{
    sync::atomic::{AtomicU32, AtomicU64, Ordering, fence},
    sync::{Arc, Mutex},
    thread::yield_now,
};

#[cfg(shuttle)]
pub(super) use shuttle::{
    sync::atomic::{AtomicU32, AtomicU64, Ordering, fence},
    sync::{Arc, Mutex},
    thread::yield_now,
};

#[cfg(not(any(loom, shuttle)))]
pub(super) use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
#[cfg(not(any(loom, shuttle)))]
pub(super) use std::{
    sync::{Arc, Mutex},
    thread::yield_now,
};
