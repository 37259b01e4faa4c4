//! Access of nodes to stores, and the keys of their entries.
//!
//! The switch checks requests that pass through it. Nodes access entries in the memory server's
//! region directly, so only the key protects them: a node gets it only if the store is open to it,
//! and a store that is closed to a node gets another key.

use super::PageSetUpError;
use super::fallback::{ENTRY_LEN, region_access};
use super::set_up::{make, with_pages};
use crate::{Controller, RegionName, RegionPurpose, Site};
use rackweave_base::NodeId;
use rackweave_verbs::QpModify;

impl Controller {
    /// Opens a store to these nodes and closes it to all others: their requests about its pages are
    /// refused and counted, by the switch and by the NIC of the memory server. Initially, every
    /// store is open to every node. Returns false if there is no such store, or the memory server
    /// has no memory for a second copy of its entries, which a new key needs; then nothing has
    /// changed.
    pub fn open_store_to(&mut self, site: &mut dyn Site, store: u8, nodes: &[NodeId]) -> bool {
        let Some(registry) = &self.pages else {
            return false;
        };
        if usize::from(store) >= registry.spec.stores.len() {
            return false;
        }
        let members = registry.spec.nodes.iter().zip(&registry.members);
        let changes: Vec<(bool, bool)> = members
            .map(|(member, stores)| (stores.has(store), nodes.contains(&member.node)))
            .collect();
        let closes = changes.iter().any(|&(was, is)| was && !is);
        if closes && self.change_key(site, store).is_err() {
            return false;
        }
        for (index, &(_, is_member)) in changes.iter().enumerate() {
            let registry = self.pages.as_mut().expect("as above");
            registry.members[index].set(store, is_member);
            let node = registry.spec.nodes[index].node;
            // A dead node gets its stores when it returns.
            with_pages(site, |pages| pages.set_member(node.0, store, is_member));
            if !is_member {
                self.revoke_leases_of(site, node, store);
            }
        }
        for (index, &(was, is)) in changes.iter().enumerate() {
            if closes || was != is {
                self.hand_out_keys(site, index);
            }
        }
        true
    }

    /// Moves a store's entries to a region with another key. Every channel is reconnected to the
    /// server afterwards.
    fn change_key(&mut self, site: &mut dyn Site, store: u8) -> Result<(), PageSetUpError> {
        let at = usize::from(store);
        let registry = self.pages.as_ref().expect("as the caller knows");
        let (Some(server), Some(&old)) = (registry.server, registry.fallback.get(at)) else {
            return Ok(());
        };
        let bytes = registry.spec.stores[at].pages * ENTRY_LEN;
        let (pd, _) = self.home(site, server)?;
        let region: RegionName = make(
            site,
            server,
            pd,
            bytes,
            region_access(),
            RegionPurpose::Pages,
        )?;
        let registry = self.pages.as_mut().expect("as above");
        // No node changes an entry after it has been copied. Pending requests are repeated.
        let nodes = registry.nodes.iter().flatten();
        for &(_, server, far) in nodes.flat_map(|node| &node.fallback) {
            site.node(server, &mut |verbs| {
                let _gone = verbs.modify_qp(far, QpModify::Reset);
            });
        }
        for offset in (0..bytes).step_by(8) {
            if let Some(word) = site.load_word(server, old.rkey, offset) {
                site.store_word(server, region.rkey, offset, word);
            }
        }
        registry.fallback[at] = region;
        site.remove_region(server, &old);
        Ok(())
    }

    /// Reconnects all channels of a node to the memory server, with the keys that it may have.
    fn hand_out_keys(&mut self, site: &mut dyn Site, index: usize) {
        let channels = self.all_channels().into_iter();
        for (index, worker) in channels.filter(|channel| channel.0 == index) {
            // A node that has died meanwhile needs no action.
            let _dead = self.renew_server(site, index, worker);
        }
    }
}
