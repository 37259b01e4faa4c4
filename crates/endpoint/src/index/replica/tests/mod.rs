//! Endpoints with replicas, on nodes with soft NICs that fail.

mod random;
mod steps;
mod users;
mod world;
