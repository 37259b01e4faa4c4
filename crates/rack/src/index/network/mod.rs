//! The index in the network: which tree nodes the switches know, and how that stays correct.
//!
//! An [`IndexNetwork`] mediates between the endpoints' trees and the controller. A load of the
//! switches has these steps:
//!
//! 1. each endpoint reports the outline of its upper levels ([`rackweave_endpoint::btree`]);
//! 2. the controller plans what to keep of them, by how often keys are asked for;
//! 3. the endpoints pin every tree node that the plan leads to, or report that it no longer exists;
//!    entries that lead there then lead to its parent;
//! 4. the switches' idle bank is filled, some entries at a time, while the other one serves;
//! 5. the banks are swapped, and when no earlier query can be in flight any more, what only the old
//!    bank led to is unpinned.
//!
//! So every tree node that a switch leads to was pinned before the switch could lead there, and
//! stays pinned until no query can still be led there.
//!
//! An endpoint that restarts is a server with another number. Entries for its predecessor lead no
//! query to it: queries with other servers' numbers get the root.

mod error;
mod outlines;
mod state;

pub use error::IndexNetworkError;
pub use rackweave_programs::index::entries::{BRANCHES, IndexCounters};
pub use state::{IndexNetwork, IndexNetworkSpec, LoadProgress, NetworkSummary};
