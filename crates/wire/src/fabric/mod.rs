//! Rackweave's own encodings: the formats shared by the switch and the nodes beyond RoCEv2.
//!
//! Each file defines one layout and its pure transitions; the machines on both sides use the same
//! functions.

pub mod exchange;
pub mod lookup;
pub mod message;
pub mod page;
pub mod query;
pub mod ring;
pub mod rpc;
pub mod sequencer;
pub mod tree;
