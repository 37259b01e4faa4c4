//! The library that a database links against.
//!
//! - [`flow`]: producers and consumers of zero-sided flows.
//! - [`page_store`]: the pages of all nodes and SSDs behind one buffer pool per node.
//! - [`btree`]: a B+tree in a memory region, modified by local threads and read remotely.
//! - `index`: that tree over the endpoints of storage nodes, by RPC and by one-sided READs.
//! - [`rpc`]: calls between nodes over SEND and RECV.
//! - [`sequencer`]: ranges of numbers, each handed out at most once.
//! - `exchange`: many streams with credit over one connection.
//! - `messaging`: messages between compute and storage nodes, by one-sided WRITEs.
//!
//! An endpoint knows verbs and the encodings of `rackweave_wire::fabric`. It must not know the
//! switch, the controller or the kind of rack: the ends of a flow are rings in local memory, and a
//! waiting thread drives the rack through [`rackweave_verbs::Progress`].

pub mod btree;
#[cfg(not(any(loom, shuttle)))]
pub mod exchange;
pub mod flow;
// The models of `btree` provide its words but not its block.
#[cfg(not(any(loom, shuttle)))]
pub mod index;
#[cfg(not(any(loom, shuttle)))]
pub mod messaging;
pub mod page_store;
mod resources;
pub mod rpc;
pub mod sequencer;

pub use resources::ResourceError;

#[cfg(test)]
mod test_network;
