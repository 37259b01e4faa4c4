//! Requests and answers between two nodes with soft NICs, and the cache.

mod cache;
mod cache_threads;
mod closing;
mod lies;
mod random;
mod serve;
mod setup;
