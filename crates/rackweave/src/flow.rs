//! Flows: the switch moves items between rings in the memory of nodes, which only load and store.
//!
//! A [`Producer`] pushes items into a ring in its own memory, a [`Consumer`] takes them from one in
//! its own; neither posts a work request (*Zero-sided RDMA*, SIGMOD 2024). [`Rack::flow`] sets one
//! up between nodes, in one of three [shapes](FlowShape); dropping the [`Flow`] closes it.
//! `docs/flows.md` in the repository documents the guarantees of each shape.
//!
//! ```
//! use rackweave::flow::{Partitioner, Taken};
//! use rackweave::Rack;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let rack = Rack::builder().build()?;
//! // Items of 4 KiB, rings of 256 KiB.
//! let flow = rack.flow(["storage0"], ["compute0", "compute1"]).item_bytes(4096);
//! let flow = flow.ring_bytes(1 << 18).build()?;
//! let progress = rack.any_node(); // whoever waits drives the rack
//!
//! // Rows of 16 bytes go to the consumer that their key's hash says.
//! let mut rows = Partitioner::new(flow.take_producers(0)?, 16);
//! for key in 0..1000u64 {
//!     rows.push_wait(&progress, key, |row| row[..8].copy_from_slice(&key.to_le_bytes()))?;
//! }
//! rows.finish_wait(&progress)?;
//!
//! let mut came = 0;
//! for consumer in 0..2 {
//!     let mut consumer = flow.take_consumer(consumer)?;
//!     let mut count = |item: &[u8]| came += Partitioner::rows(item, 16).unwrap().count();
//!     while let Taken::Items(_) = consumer.take_each_wait(&progress, 1, &mut count) {}
//! }
//! assert_eq!(came, 1000);
//! # Ok(())
//! # }
//! ```
//!
//! [`Rack::flow`]: crate::Rack::flow

pub use rackweave_controller::{
    AbortReason, FlowError, FlowId, FlowShape, FlowSpec, FlowState, Loss, LossPolicy,
};
pub use rackweave_endpoint::flow::{
    Consumer, Doorbell, Partitioner, Producer, PushError, RingError, Stores, Taken, hash_key,
    wait_until,
};
pub use rackweave_rack::{Flow, FlowBuilder, NodeRef};
