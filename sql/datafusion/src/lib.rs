//! Rackweave as the exchange of `DataFusion`'s distributed queries.
//!
//! The crate joins two things that do not know each other: the exchange streams of Rackweave,
//! which carry messages of bytes between nodes, and the transport interface of
//! `datafusion-distributed`, which plans a query in stages and hands their tasks to workers.
//!
//! - [`codec`]: plans, requests, metrics and errors as bytes.
//! - [`batches`]: record batches as bytes, and back without a copy of the columns.
//! - [`channel`]: the consumers' side, a coordinator or an executor.
//! - [`counters`]: what nodes hold for queries.
//! - [`worker`]: the workers' side, around `datafusion-distributed`'s own
//!   [`Worker`](datafusion_distributed::Worker).
//! - [`columns`]: tables whose columns storage nodes serve.
//!
//! A worker at one node, and a session at another one that plans for it:
//!
//! ```no_run
//! use datafusion::execution::SessionStateBuilder;
//! use datafusion::prelude::{CsvReadOptions, SessionContext};
//! use datafusion_distributed::{DistributedExt as _, SessionStateBuilderExt as _, Worker};
//! use rackweave::Rack;
//! use rackweave::exchange::{Exchange, ExchangeOptions};
//! use rackweave_datafusion::channel::{
//!     ChannelOptions, RackweaveChannelResolver, RackweaveWorkerResolver, worker_session_builder,
//! };
//! use rackweave_datafusion::worker::serve;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let rack = Rack::builder().build()?;
//! let start = |node: &str| -> Result<Exchange, Box<dyn std::error::Error>> {
//!     Ok(Exchange::start(&rack, &rack.node(node)?, ExchangeOptions::default())?)
//! };
//! let channels = |exchange: &Exchange| {
//!     RackweaveChannelResolver::new(exchange.clone(), ChannelOptions::default())
//! };
//!
//! let storage = start("storage0")?;
//! let worker = Worker::from_session_builder(worker_session_builder(channels(&storage)));
//! tokio::spawn(serve(storage, worker));
//!
//! let compute = start("compute0")?;
//! let state = SessionStateBuilder::new()
//!     .with_default_features()
//!     .with_distributed_worker_resolver(RackweaveWorkerResolver::new(["storage0"])?)
//!     .with_distributed_channel_resolver(channels(&compute))
//!     .with_distributed_planner();
//! let session = SessionContext::from(state.build());
//! let rows = session.read_csv("rows/", CsvReadOptions::default()).await?;
//! println!("{} rows", rows.count().await?);
//! # Ok(())
//! # }
//! ```

pub mod batches;
pub mod channel;
pub mod codec;
pub mod columns;
pub mod counters;
pub mod worker;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
