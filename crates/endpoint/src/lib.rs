//! What a database links against.
//!
//! - [`flow`]: producers and consumers of zero-sided flows.
//! - [`page_store`]: pages of all nodes and SSDs behind one buffer pool for each node.
//! - [`btree`]: a B+tree in a region, changed by local threads and read from afar.
//! - `index`: that tree over the endpoints of storage nodes, by RPC and by one-sided READs.
//! - [`rpc`]: calls from node to node over SEND and RECV.
//! - [`sequencer`]: ranges of numbers that nobody gets twice.
//! - `messaging`: messages between units, by one-sided WRITEs.
//!
//! An endpoint knows verbs and the encodings of `rackweave_wire::fabric`. It must not know the
//! switch, the controller or the kind of rack: a flow's ends are rings in local memory, and
//! whoever waits helps through [`rackweave_verbs::Progress`].

pub mod btree;
pub mod flow;
// The models of `btree` have its words and not its block.
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
