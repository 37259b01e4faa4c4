//! Rackweave's own encodings: what the switch and the nodes agree on beyond RoCEv2.
//!
//! Each file gives the layout of one thing and its pure transitions; the machines on both sides
//! use the same functions.

pub mod lookup;
pub mod message;
pub mod page;
pub mod query;
pub mod ring;
pub mod rpc;
pub mod sequencer;
pub mod tree;
