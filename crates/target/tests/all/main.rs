//! The target over real software NICs: a conforming host, a nonconforming one, random mixtures of
//! commands, lost packets, and queues that break.

mod breaking;
mod common;
mod errors;
mod files;
mod handshake;
mod io;
mod order;
mod random;
