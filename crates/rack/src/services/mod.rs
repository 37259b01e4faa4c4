//! What a database sets up on a rack, each in one call: pages, an index, sequencers.
//!
//! Other modules have the parts: targets, pools, channels, shards, server threads, clients. This
//! module assembles them for programs. A call that waits has a time limit and drives the rack
//! meanwhile.
//!
//! - [`PageService`] gives a [`Rack`] its page directory and stores, and lends [`PageWorker`]s to
//!   threads.
//! - [`IndexService`] is a B+tree over the endpoints of a rack; each thread has an
//!   [`IndexConnection`]. [`IndexCoordinator`] moves keys between endpoints.
//! - [`SequencerService`] is a sequencer in the switch, in a node's memory or in a server; a thread
//!   uses it through a [`SequencerClient`].
//!
//! A service holds its rack ([`Arc`]), and what it lends holds the service: they are dropped in any
//! order. Services are shared (`Clone`, `Send`, `Sync`); what they lend is for one thread at a
//! time. docs/embedding.md describes the rest.
//!
//! [`Rack`]: crate::Rack
//! [`Arc`]: std::sync::Arc

mod call;
mod index;
mod name;
pub(crate) mod others;
mod pages;
mod sequencer;
#[cfg(test)]
mod tests;
mod wait;

pub use call::ready_within;
pub use index::{
    CallError, IndexConnection, IndexCoordinator, IndexOptions, IndexService, IndexServiceError,
    KEYS_MAX, VALUE_MAX,
};
pub use others::OthersServed;
#[cfg(feature = "hosted")]
pub(crate) use pages::namespaces_of;
pub use pages::{
    BLOCK, CommitError, PageError, PageOptions, PageService, PageServiceError, PageWorker, Prepare,
    ReadGuard, Scan, StoreInfo, StoreMedium, StoreState, WriteGuard,
};
pub use sequencer::{
    AttachedSequencer, CounterServer, CounterServerSpec, CounterThread, SequencerClient,
    SequencerOptions, SequencerPlacement, SequencerService, SequencerServiceError,
};
pub use wait::{FOREVER, TIME_LIMIT, wait_within};

use crate::config::{
    BudgetName, GuestConfig, HostedSection, NodeConfig, RackConfig, Role, StoreConfig,
};

/// Bytes of the store of the default hosted rack. Blocks that were never written take no memory.
const HOSTED_STORE: u64 = 256 << 20;

impl RackConfig {
    /// A rack for all services at once: the default nodes, a memory node (`memory0`) for entries of
    /// pages that the switch does not index, and a software switch with capacity for flows, 65536
    /// indexed pages, 16 sequencers and an index. No hardware switch has capacity for all of them.
    pub fn with_all_programs() -> Self {
        let mut config = Self::default();
        config.node.push(NodeConfig::new("memory0", Role::Memory));
        let switch = &mut config.switch;
        switch.budget = BudgetName::Software;
        switch.page_entries = 1 << 16;
        switch.sequencers = 16;
        // The size of the network's part of an index in the paper (fat-btree, section IV-A).
        switch.index_servers = 8;
        switch.index_queries = 256;
        switch.index_fat_ranges = 1024;
        switch.index_nodes = 4096;
        switch.index_layers = 2;
        config
    }

    /// The hosted rack that `rackweave up` starts without a configuration: all programs, the
    /// default nodes, 8 places for guests, and a store of pages in the memory of the first storage
    /// node.
    pub fn hosted_default() -> Self {
        let mut config = Self::with_all_programs();
        // The switch indexes all pages of the store.
        config.node.retain(|node| node.role != Role::Memory);
        let store = StoreConfig::in_memory("pages", &config.node[0].name, HOSTED_STORE);
        config.store.push(store);
        // Guests have buffer frames, too.
        config.switch.page_workers = 64;
        config.switch.page_slots = 1024;
        config.switch.lanes = 8192;
        config.hosted = Some(HostedSection::default());
        config.with_guests(&GuestConfig::new(8))
    }
}
