//! The page store on a played rack.

mod bench;
mod faults;
mod fixes;
mod histories;
mod played;
mod store;
mod threads;
