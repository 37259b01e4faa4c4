//! A B+tree in the memory of storage nodes, served by their cores: 64-bit keys, byte-string values.
//!
//! An [`IndexService`] owns the trees and answers requests; each thread has an [`IndexConnection`],
//! which reads in one of three ways ([`Access`]): by requests to the endpoint's cores, by one-sided
//! READs of its memory, or by READs that switches on the path guide down the tree (*BlueField*,
//! ADMS 2022; *Fat-B+Tree*). Writes are requests. `docs/index.md` and `docs/in-network.md` in the
//! repository document the guarantees.
//!
//! ```
//! use rackweave::index::{Access, Direction, IndexOptions, IndexService, Op};
//! use rackweave::Rack;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let rack = Rack::builder().build()?;
//! let index = IndexService::new(&rack, &IndexOptions::default())?;
//! index.load((0..1000).map(|key| (key * 10, key.to_string().into_bytes())))?;
//!
//! let mut client = index.connect(&rack.node("compute0")?, Access::OneSided)?;
//! assert_eq!(client.get(70)?.as_deref(), Some(&b"7"[..]));
//! assert!(client.insert(71, b"new")?, "there was none");
//! assert!(client.delete(80)?, "there was one");
//! let found = client.scan(65..=95, Direction::Forward, 100)?;
//! let keys: Vec<_> = found.iter().map(|(key, _)| *key).collect();
//! assert_eq!(keys, [70, 71, 90]);
//!
//! // Many at a time: they are begun, and end in any order.
//! for key in 0..32 {
//!     client.begin(&Op::Get { key: key * 10 })?;
//! }
//! let mut ended = 0;
//! while ended < 32 {
//!     match client.poll() {
//!         Some(reply) => ended += u64::from(reply.result.is_ok()),
//!         None => drop(client.node().drive()),
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! With [`IndexOptions::datagrams`] requests may also arrive as UDP datagrams
//! ([`IndexService::connect_by_datagrams`]), which need no connection state.
//!
//! With [`IndexOptions::network`] and [`IndexService::load_network`] the switches hold the upper
//! levels. With several endpoints an [`IndexCoordinator`] moves ranges of keys between them while
//! clients continue, on request or automatically ([`RebalanceConfig`]).

pub use rackweave_controller::index::{
    AdapterConfig, KeyWeights, PlanLimits, PlanSummary, Verdict,
};
pub use rackweave_endpoint::btree::{Tree, TreeConfig, TreeError};
pub use rackweave_endpoint::index::*;
pub use rackweave_rack::services::{
    CallError, IndexConnection, IndexCoordinator, IndexOptions, IndexService, IndexServiceError,
    KEYS_MAX, VALUE_MAX,
};
pub use rackweave_rack::{
    Attach, Attached, BRANCHES, Index, IndexCounters, IndexEndpointSpec, IndexLoss, IndexNetwork,
    IndexNetworkError, IndexNetworkSpec, IndexSetUpError, IndexSpec, LoadProgress, NetworkSummary,
    ReplicaStatus, SharedDatagramServer, SharedReplica, SharedServer,
};
