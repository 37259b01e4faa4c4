//! The data fabric of a disaggregated database, as a library.
//!
//! Rackweave makes the compute, memory and storage nodes of a rack, and the programmable switch
//! between them, act as one storage engine in which *the network does the work*: it finds a page
//! and latches it, shuffles rows between nodes that never post a work request, guides lookups down
//! a B+tree, and hands out sequence numbers. A database links against this crate. The rack runs in
//! the database's own process, with real RoCEv2 packets between software NICs and a software
//! switch; it needs no RDMA hardware and no root privileges.
//!
//! # The map
//!
//! | to | module | start with |
//! |---|---|---|
//! | build a rack | [`config`] | [`Rack::builder`] |
//! | join a running rack of processes | `hosted` | `Rack::join` (feature `hosted`) |
//! | fix, latch, change and write back pages | [`pages`] | [`PageService`](pages::PageService) |
//! | look up, insert, scan keys | [`index`] | [`IndexService`](index::IndexService) |
//! | shuffle, balance or replicate rows | [`flow`] | [`Rack::flow`] |
//! | exchange messages between nodes | [`messaging`] | [`Listener`](messaging::Listener), [`dial`](messaging::dial) |
//! | send a query's partitions in streams | [`exchange`] | [`Exchange`](exchange::Exchange) |
//! | serve columns over them | [`columns`] | [`Catalogue`](columns::Catalogue) |
//! | assign unique numbers | [`sequencer`] | [`SequencerService`](sequencer::SequencerService) |
//! | call a service of your own | [`rpc`] | [`Server`](rpc::Server), [`Client`](rpc::Client) |
//! | wait, or use verbs directly | [`verbs`] | [`wait_within`], [`NodeAccess`](verbs::NodeAccess) |
//! | observe the rack | [`statistics`] | [`Rack::statistics`], [`Rack::observer`] |
//! | handle errors | [`errors`] | |
//! | test: faults, virtual time | [`testing`] | [`EmbeddedRack`](testing::EmbeddedRack), [`SimulatedRack`](testing::SimulatedRack) |
//!
//! # A first program
//!
//! Two nodes share a page. The first changes it; the second reads it from the memory of the first,
//! where the switch has located it.
//!
//! ```
//! use rackweave::Rack;
//! use rackweave::pages::{PageOptions, PageService};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let rack = Rack::builder().build()?;
//! let pages = PageService::new(&rack, &PageOptions::default())?;
//!
//! let writer = pages.worker(&rack.node("compute0")?)?;
//! let page = writer.allocate()?;
//! let mut guard = writer.write(page)?;
//! guard.data_mut().write(0, b"hello");
//! guard.commit()?;
//!
//! let reader = pages.worker(&rack.node("compute1")?)?;
//! assert_eq!(reader.read(page)?.data().slice(..5), *b"hello");
//! assert!(reader.statistics().memory_indexed > 0, "it came out of the other's memory");
//! # Ok(())
//! # }
//! ```
//!
//! `crates/rackweave/examples` has a program for each of pages, index, shuffle, messages and
//! sequencer, and `kv`, a key-value engine with a redo log.
//!
//! # Threads and progress
//!
//! No thread is required: **a waiting call drives the rack**. Blocking calls have a time limit
//! ([`TIME_LIMIT`] by default), and each has a non-blocking counterpart: one call that starts the
//! operation and one that polls it. Driver threads ([`RackConfig::driver_threads`]) help where
//! there are cores for them, and sleep when nothing is due.
//!
//! Services ([`pages::PageService`], [`index::IndexService`], [`sequencer::SequencerService`]) are
//! shared by threads; what they lend, such as a [`pages::PageWorker`], is for one thread at a time.
//! Each owns what it needs, so they can be dropped in any order.
//!
//! `docs/embedding.md` in the repository describes how to build an engine on this crate: threads,
//! memory, latches, errors and how to handle them, shutdown, tests in virtual time. Every module
//! names the page that documents its guarantees.

pub mod columns;
pub mod config;
pub mod errors;
pub mod exchange;
pub mod flow;
#[cfg(feature = "hosted")]
pub mod hosted;
pub mod index;
pub mod memory;
pub mod messaging;
pub mod pages;
pub mod rpc;
pub mod sequencer;
pub mod statistics;
pub mod testing;
pub mod verbs;

pub use rackweave_base::{Instant, NodeId};
pub use rackweave_rack::services::{FOREVER, TIME_LIMIT, ready_within, wait_within};
pub use rackweave_rack::{Node, Rack, RackBuilder, RackConfig, RackError};
