//! What a database links against.
//!
//! - [`flow`]: producers and consumers of zero-sided flows.
//! - [`page_store`]: pages of all nodes and SSDs behind one buffer pool for each node.
//!
//! Messaging, index, RPC and sequencer will stand beside them.
//!
//! An endpoint knows verbs and the encodings of `rackweave_wire::fabric`. It must not know the
//! switch, the controller or the kind of rack: a flow's ends are rings in local memory, and
//! whoever waits helps through [`rackweave_verbs::Progress`].

pub mod flow;
pub mod page_store;
