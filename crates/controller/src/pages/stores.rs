//! Stores: their targets, and an I/O queue for every slot.

use super::PageSetUpError;
use super::registry::StoreRegistry;
use super::set_up::{READS_MAX, address, with_pages};
use crate::lanes::{LaneLink, Wanted};
use crate::{Controller, Site};
use rackweave_programs::pages::{PageRole, StoreEntry, transfers_at_a_time};
use rackweave_switch::transfer::{LaneId, LaneKind};
use rackweave_verbs::Access;

impl Controller {
    /// Connects a store's target: an I/O queue for every slot whose node is live.
    pub(super) fn bring_store_up(
        &mut self,
        site: &mut dyn Site,
        store: u8,
    ) -> Result<(), PageSetUpError> {
        let registry = self.pages.as_ref().expect("pages are set up");
        let spec = registry.spec.stores[usize::from(store)];
        let present: Vec<u16> = (0..registry.slots.len() as u16)
            .filter(|&slot| registry.slots[usize::from(slot)].is_some())
            .collect();
        let (admin, controller) = super::nvme::admin(site, spec.target)?;
        let made = StoreRegistry {
            admin,
            controller,
            queues: vec![None; registry.slots.len()],
        };
        let registry = self.pages.as_mut().expect("as above");
        registry.stores[usize::from(store)] = Some(made);
        self.bring_queues_up(site, present, store)?;
        self.enter_store(site, store, true)?;
        Ok(())
    }

    /// Enters a store in the switch's table.
    fn enter_store(
        &self,
        site: &mut dyn Site,
        store: u8,
        connected: bool,
    ) -> Result<(), PageSetUpError> {
        let registry = self.pages.as_ref().expect("pages are set up");
        let spec = registry.spec.stores[usize::from(store)];
        let entry = StoreEntry {
            pages: spec.pages,
            page_size: spec.page_size,
            blocks_per_page: spec.page_size / spec.block_size,
            lanes: transfers_at_a_time(spec.page_size),
            nsid: spec.nsid,
            first_queue: registry.queue_lanes[usize::from(store)],
            connected,
        };
        with_pages(site, |pages| pages.set_store(store, Some(entry)))?;
        Ok(())
    }

    /// Enters a store whose target is missing: requests that need it end at once.
    pub(super) fn enter_store_without_target(&self, site: &mut dyn Site, store: u8) {
        let _table_fits = self.enter_store(site, store, false);
    }

    /// Connects the I/O queue of a slot at a store, and the forwarding of data between it and the
    /// node.
    pub(super) fn bring_queue_up(
        &mut self,
        site: &mut dyn Site,
        slot: u16,
        store: u8,
    ) -> Result<(), PageSetUpError> {
        self.bring_queues_up(site, slot..slot + 1, store)
    }

    /// The same for several slots: the target is asked a few times in all.
    pub(super) fn bring_queues_up(
        &mut self,
        site: &mut dyn Site,
        slots: impl IntoIterator<Item = u16>,
        store: u8,
    ) -> Result<(), PageSetUpError> {
        let registry = self.pages.as_ref().expect("pages are set up");
        let target = registry.spec.stores[usize::from(store)].target;
        let (first, timeout) = (
            registry.queue_lanes[usize::from(store)],
            registry.spec.timeout,
        );
        let Some(entry) = &registry.stores[usize::from(store)] else {
            return Ok(());
        };
        let controller = entry.controller;
        let at = address(site, target)?;
        let slots: Vec<u16> = slots.into_iter().collect();
        let qpns = super::nvme::open(site, target, slots.len())?;
        let mut links = Vec::new();
        for (slot, &qpn) in slots.iter().zip(&qpns) {
            let wanted = Wanted {
                qpn: Some(qpn),
                reads: READS_MAX,
                timeout,
                ..self.wanted(LaneKind::Program, Access::empty())
            };
            links.push(LaneLink {
                lane: LaneId(first.0 + slot),
                old: None,
                wanted,
            });
        }
        let made = self.link_lanes(site, (target, at), &links)?;
        let queues = qpns.into_iter().zip(slots.iter().map(|slot| slot + 1));
        super::nvme::connect(site, target, queues, controller)?;
        for ((slot, link), made) in slots.into_iter().zip(links).zip(made) {
            let psn = link.wanted.psn;
            with_pages(site, |pages| {
                pages.set_queue(slot, store, psn, psn);
                pages.set_role(link.lane, Some(PageRole::Queue { slot, store }))
            })?;
            let registry = self.pages.as_mut().expect("as above");
            if let Some(store) = &mut registry.stores[usize::from(store)] {
                store.queues[usize::from(slot)] = Some(made);
            }
        }
        Ok(())
    }
}
