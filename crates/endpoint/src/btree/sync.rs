//! What a tree is made of, in three versions: the real one, the one in which `loom` watches every
//! access and tries the orders that the memory model allows, and the one in which `shuttle` lets
//! threads take turns at random.

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
