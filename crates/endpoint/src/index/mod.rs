//! A B+tree index over the endpoints of storage nodes: hosts and their DPUs.
//!
//! - [`PartitionMap`] maps keys to endpoints.
//! - [`Shard`] is the state of one endpoint: a tree, and which of its keys are owned.
//! - [`Reader`] reads an endpoint's tree by READs of its memory.
//!
//! docs/index.md describes the guarantees.

mod client;
mod coordinator;
mod map;
pub mod message;
mod meter;
mod mover;
mod op;
mod reader;
mod rebalancer;
mod replica;
mod sampler;
mod server;
mod shard;
mod statistics;

pub use crate::btree::Direction;
pub use client::{AttachError, ClientEnds, IndexClient, IndexClientConfig};
pub use client::{DatagramClient, DatagramClientConfig, DatagramClientStatistics};
pub use coordinator::{BeginMoveError, Coordinator, CoordinatorConfig, CoordinatorEvent};
pub use map::{ENDPOINTS_MAX, EndpointId, MapError, Part, PartitionMap};
pub use meter::Meter;
pub use mover::{Move, MoveError, Moved, Mover, Progress, Side};
pub use op::{Access, Answer, BeginError, IndexError, Op, Reply, Ticket, Value};
pub use reader::{Found, Query, Reader, ReaderConfig, ReaderError, RemoteTree};
pub use rebalancer::{EndpointSample, RebalanceConfig, Rebalancer, Step};
pub use replica::{Replica, ReplicaServer, ReplicaThread};
pub use sampler::{KeySampler, SampleConfig};
pub use server::{DatagramServer, DatagramServerConfig, DatagramServerStatistics};
pub use server::{EndpointReport, IndexServer, ServerThread};
pub use shard::{Denied, HandoverError, Marked, MoveId, Shard, ShardError, ShardState};
pub use shard::{ReplicationError, ReplicationState};
pub use statistics::{ClientStatistics, ReaderStatistics, ShardStatistics};
