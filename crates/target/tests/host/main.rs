//! The target over real soft NICs: a host that does what the specifications say, one that does not,
//! random mixtures of commands, lost packets, and queues that break.

mod breaking;
mod common;
mod errors;
mod files;
mod handshake;
mod io;
mod order;
mod random;
