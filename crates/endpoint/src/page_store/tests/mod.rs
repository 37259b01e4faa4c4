//! The page store on a played rack.

mod allocation;
mod bench;
mod faults;
mod fixes;
mod histories;
mod limits;
mod log;
mod played;
mod store;
mod threads;
