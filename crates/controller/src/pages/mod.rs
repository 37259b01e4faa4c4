//! The page directory's control plane: mirrors `rackweave_programs::pages`.
//!
//! `spec` has the specification and its results; `set_up` the whole set-up, `node` buffer frames,
//! channels and slots, `stores` their stores, `fallback` the entries in a memory server; `nvme` the
//! queues at a target; `repair` movements and targets that fail, `death` nodes that die and return,
//! `losses` the pages lost then; `renew` channels that are reconnected; `membership` the access of
//! nodes to stores; `rebuild` a directory that was lost, from what nodes claim (`claims`);
//! `promote` the choice of indexed pages; `leases` those that the switch does not revoke;
//! `registry` the state of it all.

mod claims;
mod death;
mod fallback;
mod leases;
mod losses;
mod membership;
mod node;
mod nvme;
mod promote;
mod rebuild;
mod registry;
mod renew;
mod repair;
mod set_up;
mod spec;
mod stores;

use crate::{Controller, Site};
use rackweave_programs::pages::PageDigest;

pub use nvme::{TargetReply, TargetRequest};
pub(crate) use registry::PageRegistry;
pub use set_up::first_in_turn;
pub use spec::{
    PageChannel, PageFallback, PageNode, PagePool, PageSetUpError, PageSpec, PageStoreSpec,
};

impl Controller {
    /// The buffer frames of a node and the channels of its workers; `None` if it is dead.
    pub fn page_node(&self, node: rackweave_base::NodeId) -> Option<(PagePool, &[PageChannel])> {
        let registry = self.pages.as_ref()?;
        let made = registry.nodes[registry.index(node)?].as_ref()?;
        Some((made.pool, &made.channels))
    }

    /// The specification of the page directory, if there is one.
    pub fn page_spec(&self) -> Option<&PageSpec> {
        self.pages.as_ref().map(|registry| &registry.spec)
    }

    /// The stores whose target is on a node.
    pub fn page_stores_of(&self, node: rackweave_base::NodeId) -> Vec<u8> {
        let stores = self.pages.iter().flat_map(|registry| &registry.spec.stores);
        (0u8..)
            .zip(stores)
            .filter(|(_, store)| store.target == node)
            .map(|(number, _)| number)
            .collect()
    }

    /// Handles a report of the page directory.
    pub(crate) fn handle_page_digest(&mut self, site: &mut dyn Site, digest: PageDigest) {
        match digest {
            PageDigest::Hot(page) => self.page_is_hot(site, page),
            PageDigest::MoveFailed {
                slot,
                source,
                command,
            } => self.page_move_failed(site, (slot, command), source),
            PageDigest::StorageSilent { slot, store } => self.storage_silent(site, slot, store),
            PageDigest::RequesterSilent { slot } => self.requester_silent(site, slot),
        }
    }
}
