//! The page store on a fake rack.

mod allocation;
mod bench;
mod doubts;
mod fake;
mod faults;
mod fixes;
mod histories;
mod lease_model;
mod limits;
mod log;
mod store;
mod threads;
