//! Rebuilds a lost directory from the nodes' state.
//!
//! The switch loses its directory when it restarts, a memory server its entries when it dies. Then
//! the pages that nodes hold latched or have changed are decisive: each node records them in a word
//! beside the buffer frame ([`FrameState`](rackweave_wire::fabric::page::FrameState)), and `claims`
//! makes entries of these words.

use super::set_up::with_pages;
use super::{PageSetUpError, fallback, nvme};
use crate::{Controller, Site};
use rackweave_base::NodeId;
use rackweave_programs::pages::NodeDeath;
use rackweave_wire::fabric::page::{FallbackLatch, PageId, PageLocation};
use std::collections::BTreeSet;

impl Controller {
    /// Handles a restart of the switch, which has lost the directory: reconnects everything,
    /// rebuilds the directory, and has pending requests repeated.
    pub(crate) fn pages_restarted(&mut self, site: &mut dyn Site) {
        if self.pages.is_none() {
            return;
        }
        let connected = self.close_all_queues(site);
        if self.server_is_gone(site) {
            self.forget_server();
        }
        let is_partial = self.reconnect_nodes(site);
        for (store, connected) in (0u8..).zip(connected) {
            let is_up = connected && self.bring_store_up(site, store).is_ok();
            if !is_up {
                self.enter_store_without_target(site, store);
            }
        }
        let survey = self.survey(site, is_partial);
        let indexed = self.indexed_before(site);
        for page in indexed {
            let state = self.settle_claims(site, page, &survey);
            let _fits = with_pages(site, |pages| pages.insert(page, state));
        }
        self.unmark_writes(site);
        self.set_leases(site);
        // The leases of the lost directory are known to nobody.
        self.hold_latches(site);
        for (index, worker) in self.all_channels() {
            let _table_fits = self.start_channel(site, index, worker);
        }
        if self.page_server().is_none() {
            self.server_died(site);
        }
    }

    /// Skips the numbers of the rebuilds that another controller may have begun before it died
    /// without having saved them: that of its own restart, and if entries are in the memory of a
    /// server, those of servers that died or returned.
    pub(crate) fn reserve_rebuilds(&mut self) {
        let Some(registry) = &mut self.pages else {
            return;
        };
        let spec = &registry.spec;
        registry.restarts += match spec.fallback.iter().chain(&spec.standbys).count() {
            0 => 1,
            servers => (2 + servers + spec.stores.len()) as u64,
        };
    }

    /// Closes every queue at every target, also those that another controller was making when it
    /// died.
    pub(crate) fn close_queues_at_targets(&self, site: &mut dyn Site) {
        for target in self.page_targets() {
            nvme::close_all(site, target);
        }
    }

    /// Connects stores whose targets have returned while no controller ran, or one that died
    /// meanwhile.
    pub(crate) fn connect_missing_targets(&mut self, site: &mut dyn Site) {
        for target in self.page_targets() {
            // A target that is missing, or refuses, is connected when its node joins again.
            let _refused = self.page_node_joined(site, target);
        }
    }

    fn page_targets(&self) -> BTreeSet<NodeId> {
        let stores = self.pages.iter().flat_map(|it| &it.spec.stores);
        stores.map(|store| store.target).collect()
    }

    /// Closes every queue at every target; returns which stores had their target.
    fn close_all_queues(&mut self, site: &mut dyn Site) -> Vec<bool> {
        self.close_queues_at_targets(site);
        let registry = self.pages.as_mut().expect("as the caller knows");
        registry.restarts += 1;
        let stores = registry.stores.iter_mut().map(Option::take);
        stores.map(|store| store.is_some()).collect()
    }

    /// Reconnects all nodes that reply. Returns true if one did not.
    fn reconnect_nodes(&mut self, site: &mut dyn Site) -> bool {
        let mut is_partial = false;
        for index in 0..self.pages.as_ref().map_or(0, |it| it.nodes.len()) {
            let node = self.pages.as_mut().and_then(|b| b.nodes[index].take());
            let Some(mut node) = node else { continue };
            if self.connect_node(site, index, &mut node).is_ok() {
                self.pages.as_mut().expect("as above").nodes[index] = Some(node);
                continue;
            }
            is_partial = true;
            let registry = self.pages.as_ref().expect("as above");
            let slots = registry.slots_of(index);
            let _of_the_dead = self.forget_node(site, &node, slots);
            let mut death = NodeDeath::default();
            self.fallback_died(site, node.pool.node.0, &mut death);
            self.note_lost(death.lost);
        }
        is_partial
    }

    /// Pages whose entries were in the switch: those whose entries are not in the memory server;
    /// without a server all pages, up to the capacity.
    fn indexed_before(&self, site: &mut dyn Site) -> Vec<PageId> {
        let registry = self.pages.as_ref().expect("as the caller knows");
        let capacity = with_pages(site, |pages| pages.config().entries as usize);
        let mut indexed = Vec::new();
        for (store, spec) in (0u8..).zip(&registry.spec.stores) {
            let region = registry.fallback.get(usize::from(store));
            let words = region.zip(registry.server).and_then(|(region, server)| {
                let offsets = (0..spec.pages).map(|index| index * fallback::ENTRY_LEN);
                site.load_words(server, region.rkey, &offsets.collect::<Vec<_>>())
            });
            let is_elsewhere = |index: u64| {
                let word = words.as_ref().map(|words| words[index as usize]);
                word.is_some_and(|word| !FallbackLatch(u64::from_le_bytes(word)).is_indexed())
            };
            let pages = (0..spec.pages).filter(|&index| !is_elsewhere(index));
            indexed.extend(pages.filter_map(|index| PageId::new(store, index)));
        }
        indexed.truncate(capacity);
        indexed
    }

    /// Clears the marks of writes, which will not complete: their queues are closed.
    fn unmark_writes(&self, site: &mut dyn Site) {
        let registry = self.pages.as_ref().expect("as the caller knows");
        let Some(server) = registry.server else {
            return;
        };
        for (region, spec) in registry.fallback.iter().zip(&registry.spec.stores) {
            for index in 0..spec.pages {
                let at = index * fallback::ENTRY_LEN;
                let latch = site.load_word(server, region.rkey, at);
                let latch = FallbackLatch(latch.map_or(0, u64::from_le_bytes));
                if !latch.is_indexed() {
                    site.update_word(server, region.rkey, at + 8, &mut |word| {
                        let place = PageLocation(word);
                        place.is_writing().then_some(place.not_writing().0)
                    });
                }
            }
        }
    }

    fn server_is_gone(&self, site: &mut dyn Site) -> bool {
        self.page_server()
            .is_some_and(|server| !site.node(server, &mut |_| {}))
    }

    fn forget_server(&mut self) {
        if let Some(registry) = &mut self.pages {
            registry.server = None;
            registry.fallback.clear();
        }
    }

    /// Handles the death of the memory server: the next one takes its place.
    pub(super) fn server_died(&mut self, site: &mut dyn Site) {
        self.forget_server();
        self.next_server(site);
        if self.page_server().is_some() {
            for (index, worker) in self.all_channels() {
                // A node that has died meanwhile needs no action.
                let _dead = self.renew_channel(site, index, worker);
            }
        }
    }

    /// Handles the return of a node that may be the memory server.
    pub(super) fn server_returned(
        &mut self,
        site: &mut dyn Site,
        node: NodeId,
    ) -> Result<(), PageSetUpError> {
        let may_serve = self.pages.as_ref().is_some_and(|registry| {
            let spec = &registry.spec;
            let is_known = spec.fallback == Some(node) || spec.standbys.contains(&node);
            registry.server.is_none() && is_known
        });
        if may_serve {
            self.server_died(site);
        }
        Ok(())
    }

    /// Rebuilds the entries that the switch does not have in the memory of the first eligible node
    /// that replies.
    fn next_server(&mut self, site: &mut dyn Site) {
        let Some(registry) = &self.pages else { return };
        let mut candidates = registry.spec.fallback.iter().chain(&registry.spec.standbys);
        let found = candidates.find(|&&node| site.node(node, &mut |_| {}));
        let Some(&server) = found else { return };
        let registry = self.pages.as_mut().expect("as above");
        registry.server = Some(server);
        registry.restarts += 1;
        if self.make_fallback(site).is_err() {
            return self.forget_server();
        }
        let registry = self.pages.as_ref().expect("as above");
        let mut nodes = registry.nodes.iter().flatten();
        let is_partial = nodes.any(|node| !site.node(node.pool.node, &mut |_| {}));
        let survey = self.survey(site, is_partial);
        let registry = self.pages.as_ref().expect("as above");
        let stores = (0u8..).zip(&registry.spec.stores);
        let pages = stores.flat_map(|(store, spec)| {
            (0..spec.pages).filter_map(move |index| PageId::new(store, index))
        });
        let pages: BTreeSet<PageId> = pages.collect();
        for page in pages {
            if with_pages(site, |pages| pages.entry(page)).is_some() {
                self.mark_indexed(site, page);
                continue;
            }
            let state = self.settle_claims(site, page, &survey);
            if let Some((server, rkey, offset)) = self.fallback_entry(page) {
                fallback::store(site, (server, rkey, offset), &state);
            }
        }
    }
}
