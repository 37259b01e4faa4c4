//! Leases, where the switch does not revoke them: of nodes that were declared dead, of a directory
//! that was lost, and of entries that leave the directory or get an older version.

use super::set_up::with_pages;
use crate::{Controller, Site};
use rackweave_base::NodeId;
use rackweave_wire::fabric::page::PageId;
use rackweave_wire::fabric::page::control::HOLD;

impl Controller {
    /// Has the directory give leases, if the specification says so.
    pub(super) fn set_leases(&self, site: &mut dyn Site) {
        let after = self.pages.as_ref().and_then(|it| it.spec.lease_after);
        with_pages(site, |pages| pages.set_leases(after));
    }

    /// Has the directory grant no latches until leases that nobody can revoke have expired. Called
    /// when no request of their nodes is answered any more.
    pub(super) fn hold_latches(&self, site: &mut dyn Site) {
        let spec = self.pages.as_ref().map(|registry| &registry.spec);
        if spec.is_some_and(|spec| spec.lease_after.is_some()) {
            site.switch(&mut |now, switch| {
                switch.program_mut().pages.hold_latches(now + HOLD);
            });
        }
    }

    /// Whether the directory grants no latches now.
    pub(super) fn holds_latches(&self, site: &mut dyn Site) -> bool {
        let mut holds = false;
        site.switch(&mut |now, switch| holds = switch.program().pages.holds_latches(now));
        holds
    }

    /// Revokes the leases of these nodes on a page, on which the directory gives no new ones
    /// meanwhile. Returns false if a node does not answer.
    pub(super) fn revoke_leases(&self, site: &mut dyn Site, page: PageId, leases: u32) -> bool {
        let Some(registry) = &self.pages else {
            return true;
        };
        (0..u32::BITS as u16)
            .filter(|node| leases >> node & 1 == 1)
            .all(|node| {
                let index = registry.index(NodeId(node));
                let Some(made) = index.and_then(|index| registry.nodes[index].as_ref()) else {
                    // It is dead, and latches are held back.
                    return true;
                };
                let (at, rkey) = (made.pool.layout.lease_at(page), made.pool.region.rkey);
                site.store_word(NodeId(node), rkey, at, [0; 8]);
                site.load_word(NodeId(node), rkey, at).is_some()
            })
    }

    /// Revokes the leases of a node on the pages of a store, which was closed to it.
    pub(super) fn revoke_leases_of(&self, site: &mut dyn Site, node: NodeId, store: u8) {
        let bit = 1u32.checked_shl(u32::from(node.0)).unwrap_or(0);
        let leased = with_pages(site, |pages| -> Vec<PageId> {
            let of_store = pages.pages().filter(|(page, _)| page.store() == store);
            let leased = of_store.filter(|(_, state)| state.leases & bit != 0);
            leased.map(|(page, _)| page).collect()
        });
        for page in leased {
            // A node that does not answer cannot read for long.
            let _revoked = self.revoke_leases(site, page, bit);
        }
    }
}
