//! The page store on a played rack.

mod allocation;
mod bench;
mod doubts;
mod faults;
mod fixes;
mod histories;
mod limits;
mod log;
mod played;
mod store;
mod threads;
