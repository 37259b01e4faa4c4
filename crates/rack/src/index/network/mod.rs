//! The index in the network: which tree nodes the switches know, and how that stays true.
//!
//! An [`IndexNetwork`] stands between the endpoints' trees and the controller. A load of the
//! switches goes
//!
//! 1. each endpoint tells what its upper levels look like ([`rackweave_endpoint::btree`]);
//! 2. the controller plans what to keep of them, by how often keys are asked for;
//! 3. the endpoints pin every tree node that the plan leads to, or say that it is not there any
//!    more, and what leads there then leads to its parent;
//! 4. the switches' idle bank is filled, some entries at a time, while the other one serves;
//! 5. the banks change places, and when no query of before can be under way any more, what only
//!    the old bank led to is unpinned.
//!
//! So whatever a switch says was pinned before it could say it, and stays so until nobody can have
//! heard it any more.
//!
//! An endpoint that starts again is a server with another number. What switches know of the one
//! before leads nobody to the new one: queries of other servers' numbers get the root.

mod error;
mod outlines;
mod state;

pub use error::IndexNetworkError;
pub use rackweave_programs::index::entries::{BRANCHES, IndexCounters};
pub use state::{IndexNetwork, IndexNetworkSpec, LoadProgress, NetworkSummary};
