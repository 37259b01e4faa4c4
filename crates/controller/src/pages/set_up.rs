//! Sets up a page directory.

use super::registry::PageRegistry;
use super::{PageSetUpError, PageSpec, TargetRequest};
use crate::{Controller, LaneError, NodeAddress, RegionName, RegionPurpose, Site};
use rackweave_base::NodeId;
use rackweave_programs::pages::{EntryState, Pages, SOURCES, StoreSet};
use rackweave_verbs::Access;
use rackweave_wire::fabric::page::PageId;
use std::collections::BTreeMap;

/// READs that a node may have in flight at the switch (specification 1.4, the maximum of our NIC).
pub(super) const READS_MAX: u8 = 16;

/// The number of pages of each store among the first `count` pages of all stores in turn, where
/// `pages` are the stores' sizes: those of the first store come first.
pub fn first_in_turn(count: u64, pages: impl Iterator<Item = u64>) -> impl Iterator<Item = u64> {
    pages.scan(count, |left, pages| {
        let first = pages.min(*left);
        *left -= first;
        Some(first)
    })
}

impl Controller {
    /// Sets up an empty page directory: every page is at home. Nodes that do not answer are left
    /// out until they return ([`Controller::page_node_returned`]).
    ///
    /// # Errors
    /// If the specification is invalid, no node or a target does not answer, or the switch, a node
    /// or a target lacks capacity.
    pub fn create_pages(
        &mut self,
        site: &mut dyn Site,
        spec: PageSpec,
    ) -> Result<(), PageSetUpError> {
        if self.pages.is_some() {
            return Err(PageSetUpError::Exists);
        }
        let config = with_pages(site, |pages| *pages.config());
        spec.check(&config)?;
        // Before anything is made.
        if !spec.nodes.iter().any(|member| is_there(site, member.node)) {
            return Err(PageSetUpError::NoNode);
        }
        for store in &spec.stores {
            if site
                .target(store.target, TargetRequest::Namespaces)
                .is_none()
            {
                return Err(PageSetUpError::NoTarget(store.target));
            }
        }
        let slots = spec.slots() as u16;
        let mut first_source = Vec::new();
        let mut first_request = Vec::new();
        let mut first_slot = Vec::new();
        let mut slot = 0;
        for node in &spec.nodes {
            first_source.push(self.lanes.take(u16::from(SOURCES) + 1)?);
            first_request.push(self.lanes.take(node.workers)?);
            first_slot.push(slot);
            slot += node.workers * node.slots;
        }
        let slot_lanes = self.lanes.take(slots * 3)?;
        let queue_lanes = spec
            .stores
            .iter()
            .map(|_| self.lanes.take(slots))
            .collect::<Result<_, _>>()?;
        let registry = PageRegistry {
            first_source,
            first_request,
            first_slot,
            slot_lanes,
            queue_lanes,
            server: spec.fallback,
            fallback: Vec::new(),
            nodes: vec![None; spec.nodes.len()],
            slots: vec![None; usize::from(slots)],
            stores: vec![None; spec.stores.len()],
            members: vec![StoreSet::ALL; spec.nodes.len()],
            lost: Vec::new(),
            accepted: BTreeMap::new(),
            epoch: self.keys().next_u64(),
            restarts: 0,
            spec,
        };
        self.pages = Some(registry);
        let made = self.bring_all_up(site);
        if made.is_err() {
            self.pages = None;
        }
        made
    }

    fn bring_all_up(&mut self, site: &mut dyn Site) -> Result<(), PageSetUpError> {
        let registry = self.pages.as_ref().expect("just made");
        let (nodes, stores) = (registry.nodes.len(), registry.stores.len());
        self.make_fallback(site)?;
        for index in 0..nodes {
            let registry = self.pages.as_ref().expect("as above");
            if is_there(site, registry.spec.nodes[index].node) {
                self.bring_node_up(site, index)?;
            }
        }
        for store in 0..stores {
            self.bring_store_up(site, store as u8)?;
        }
        self.set_leases(site);
        self.index_first(site)
    }

    /// Indexes the first pages.
    fn index_first(&mut self, site: &mut dyn Site) -> Result<(), PageSetUpError> {
        let registry = self.pages.as_ref().expect("pages are being set up");
        let mut indexed = Vec::new();
        let stores = registry.spec.stores.iter().map(|store| store.pages);
        for (store, count) in first_in_turn(registry.spec.indexed, stores).enumerate() {
            indexed.extend((0..count).filter_map(|index| PageId::new(store as u8, index)));
        }
        with_pages(site, |pages| {
            indexed
                .iter()
                .try_for_each(|&page| pages.insert(page, EntryState::default()))
        })?;
        for page in indexed {
            self.mark_indexed(site, page);
        }
        Ok(())
    }
}

/// Calls `act` with the page directory in the switch.
pub(super) fn with_pages<R>(site: &mut dyn Site, act: impl FnOnce(&mut Pages) -> R) -> R {
    let (mut act, mut result) = (Some(act), None);
    site.switch(&mut |_, switch| {
        if let Some(act) = act.take() {
            result = Some(act(&mut switch.program_mut().pages));
        }
    });
    result.expect("a site acts on its switch")
}

/// Whether a node answers.
pub(super) fn is_there(site: &mut dyn Site, node: NodeId) -> bool {
    site.node(node, &mut |_| {})
}

pub(super) fn address(site: &dyn Site, node: NodeId) -> Result<NodeAddress, LaneError> {
    let nodes = site.nodes();
    let found = nodes.iter().find(|(id, _)| *id == node);
    found
        .map(|(_, address)| *address)
        .ok_or(LaneError::NoNode(node))
}

pub(super) fn make(
    site: &mut dyn Site,
    node: NodeId,
    pd: rackweave_verbs::PdId,
    len: u64,
    access: Access,
    purpose: RegionPurpose,
) -> Result<RegionName, PageSetUpError> {
    site.make_region(node, pd, len, access, purpose)
        .map_err(|error| PageSetUpError::Region { node, error })
}
