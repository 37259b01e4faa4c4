//! Tests of links from outside: between two processes, by tshark, and as models for loom.

#[cfg(loom)]
mod loom_ring;
#[cfg(all(target_os = "linux", not(loom)))]
mod shared_memory;
#[cfg(not(loom))]
mod tshark;
