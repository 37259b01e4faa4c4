//! What happens when nodes and targets fail, and when they come back.
//!
//! A movement that broke off leaves its lanes at PSNs that the two ends do not agree on, so they
//! are linked afresh before the slot gets its completion and with it its next request.

use super::set_up::{address, with_pages};
use super::{PageSetUpError, nvme};
use crate::lanes::Connected;
use crate::{Controller, Site};
use rackweave_base::NodeId;
use rackweave_programs::Task;
use rackweave_programs::pages::{End, EntryState, LostPage, NodeDeath, PageTask};
use rackweave_switch::transfer::{LaneId, LaneKind};
use rackweave_verbs::Access;
use rackweave_wire::fabric::page::{FallbackLatch, Outcome, PageId, Place, Source};

impl Controller {
    /// A page did not get from one node's memory to another's.
    pub(super) fn page_move_failed(&mut self, site: &mut dyn Site, slot: u16, source: LaneId) {
        self.relink_source(site, source);
        self.relink_slot(site, slot);
        self.end_slot(site, slot, End::new(Outcome::SourceGone, Source::Memory));
    }

    /// An NVMe target does not answer, or has refused a command's packet: the queue is made anew.
    pub(super) fn storage_silent(&mut self, site: &mut dyn Site, slot: u16, store: u8) {
        if !with_pages(site, |pages| pages.has_command(slot, store)) {
            return;
        }
        self.break_queue(site, slot, store);
        // If the target is gone, commands end at once until it is back.
        let _gone = self.bring_queue_up(site, slot, store);
        self.end_slot(site, slot, End::new(Outcome::StorageGone, Source::Storage));
    }

    /// Forgets a slot's command and closes its queue.
    fn break_queue(&mut self, site: &mut dyn Site, slot: u16, store: u8) {
        with_pages(site, |pages| pages.forget_command(slot, store));
        self.relink_slot(site, slot);
        let Some(book) = &mut self.pages else { return };
        let target = book.spec.stores[usize::from(store)].target;
        let queue = book.stores[usize::from(store)].as_mut();
        let Some(queue) = queue.and_then(|store| store.queues[usize::from(slot)].take()) else {
            return;
        };
        nvme::close(site, target, queue.node_qpn);
        site.switch(&mut |_, switch| {
            let engine = &mut switch.program_mut().engine;
            engine.disconnect(queue.lane, queue.switch_qpn);
            switch.purge();
        });
    }

    /// Links a slot's lanes for data afresh, if its node is there.
    fn relink_slot(&mut self, site: &mut dyn Site, slot: u16) {
        let Some(book) = &self.pages else { return };
        let Some(lanes) = book.slots[usize::from(slot)] else {
            return;
        };
        let node = book.spec.nodes[lanes.node].node;
        let Ok(at) = address(site, node) else { return };
        let wanted = self.wanted(LaneKind::Target, Access::REMOTE_WRITE);
        let target = self.relink_lane(site, &lanes.target, at, wanted);
        let wanted = self.wanted_relay();
        let relay = self.relink_lane(site, &lanes.relay, at, wanted);
        let (Ok(target), Ok(relay)) = (target, relay) else {
            return; // the node is dead, and will be brought up again
        };
        with_pages(site, |pages| pages.reset_relay(slot, wanted.psn));
        if let Some(slot) = self
            .pages
            .as_mut()
            .and_then(|book| book.slots[usize::from(slot)].as_mut())
        {
            (slot.target, slot.relay) = (target, relay);
        }
    }

    /// Links a source lane afresh; it carries nothing any more.
    fn relink_source(&mut self, site: &mut dyn Site, lane: LaneId) {
        let Some(book) = &self.pages else { return };
        let Some((index, bit)) = book.source(lane) else {
            return;
        };
        let node = book.spec.nodes[index].node;
        let Some(made) = book.nodes[index]
            .as_ref()
            .map(|book| book.sources[usize::from(bit)])
        else {
            return;
        };
        let Ok(at) = address(site, node) else { return };
        let wanted = self.wanted_source();
        let Ok(linked) = self.relink_lane(site, &made, at, wanted) else {
            return;
        };
        if let Some(book) = self.pages.as_mut().and_then(|b| b.nodes[index].as_mut()) {
            book.sources[usize::from(bit)] = linked;
        }
        with_pages(site, |pages| pages.free_source(node.0, bit));
    }

    /// Gives a slot its completion.
    fn end_slot(&self, site: &mut dyn Site, slot: u16, end: End) {
        site.switch(&mut |now, switch| {
            switch.inject(now, Task::Page(PageTask::Complete { slot, end }));
        });
    }

    /// The movements under way on a node's source lanes: lane and slot.
    fn cargo(&self, site: &mut dyn Site, sources: &[Connected]) -> Vec<(LaneId, u16)> {
        let mut cargo = Vec::new();
        site.switch(&mut |_, switch| {
            let engine = &switch.program().engine;
            cargo = sources
                .iter()
                .filter_map(|source| Some((source.lane, engine.cargo(source.lane)? as u16)))
                .collect();
        });
        cargo
    }

    /// A node has died: its latches open, what only it had is lost, and whoever waits for it is
    /// told. Latches in the server's memory are opened, too.
    pub(crate) fn page_node_died(&mut self, site: &mut dyn Site, node: NodeId) {
        for store in self.page_stores_of(node) {
            self.page_target_died(site, store);
        }
        let Some(index) = self.pages.as_ref().and_then(|book| book.index(node)) else {
            return;
        };
        let Some(dead) = self
            .pages
            .as_mut()
            .and_then(|book| book.nodes[index].take())
        else {
            return;
        };
        let mut death = with_pages(site, |pages| pages.node_died(node.0));
        self.fallback_died(site, node.0, &mut death);
        let book = self.pages.as_mut().expect("as above");
        book.lost.extend(&death.lost);
        let slots = book.slots_of(index);
        // Movements out of the dead node's memory.
        for (_, slot) in self.cargo(site, &dead.sources) {
            if !slots.contains(&slot) {
                self.relink_slot(site, slot);
                self.end_slot(site, slot, End::new(Outcome::SourceGone, Source::Memory));
            }
        }
        // Movements into it.
        let book = self.pages.as_ref().expect("as above");
        let others: Vec<Connected> = book
            .nodes
            .iter()
            .flatten()
            .flat_map(|book| book.sources.clone())
            .collect();
        for (lane, slot) in self.cargo(site, &others) {
            if slots.contains(&slot) {
                self.relink_source(site, lane);
            }
        }
        let stores = self.pages.as_ref().map_or(0, |book| book.stores.len()) as u8;
        for slot in slots.clone() {
            for store in 0..stores {
                self.break_queue(site, slot, store);
            }
        }
        self.forget_node(site, &dead, slots);
    }

    /// Takes a dead node's lanes out of the tables.
    fn forget_node(
        &mut self,
        site: &mut dyn Site,
        dead: &super::book::NodeBook,
        slots: std::ops::Range<u16>,
    ) {
        let node = dead.pool.node;
        let book = self.pages.as_mut().expect("pages are set up");
        let mut lanes = [dead.sources.as_slice(), &dead.requests].concat();
        for slot in slots.clone() {
            if let Some(slot) = book.slots[usize::from(slot)].take() {
                lanes.extend([slot.target, slot.word, slot.relay]);
            }
        }
        let channels: Vec<_> = dead.requests.iter().map(|lane| lane.lane).collect();
        site.switch(&mut |_, switch| {
            let program = switch.program_mut();
            for lane in &lanes {
                program.engine.disconnect(lane.lane, lane.switch_qpn);
            }
            for &lane in &channels {
                let _known = program.pages.set_role(lane, None);
            }
            for slot in slots.clone() {
                let _known = program.pages.set_slot(slot, None, Default::default());
            }
            let _known = program.pages.set_node(node.0, None);
            switch.purge();
        });
        for &(_, server, qpn) in &dead.fallback {
            site.node(server, &mut |verbs| {
                let _gone = verbs.destroy_qp(qpn);
            });
        }
        site.remove_region(node, &dead.pool.region);
        for channel in &dead.channels {
            site.remove_region(node, &channel.control);
        }
    }

    /// Opens a dead node's latches in the server's memory.
    fn fallback_died(&mut self, site: &mut dyn Site, node: u16, death: &mut NodeDeath) {
        let Some(book) = &self.pages else { return };
        let Some(server) = book.spec.fallback else {
            return;
        };
        let stores: Vec<_> = book.fallback.iter().zip(&book.spec.stores).collect();
        let mut changed = Vec::new();
        for (store, (region, spec)) in (0u8..).zip(stores) {
            for index in 0..spec.pages {
                let offset = index * super::fallback::ENTRY_LEN;
                let mut load = |offset| {
                    let bytes = site.load_word(server, region.rkey, offset);
                    bytes.map(u64::from_le_bytes)
                };
                let (Some(latch), Some(place)) = (load(offset), load(offset + 8)) else {
                    return;
                };
                let (latch, place) = (FallbackLatch(latch), Place(place));
                let Some(page) = PageId::new(store, index) else {
                    continue;
                };
                if latch.is_indexed() {
                    continue;
                }
                let after = place.died(node);
                if after != place {
                    if after.is_lost() && !place.is_lost() {
                        let version = latch.latch().version();
                        death.lost.push(LostPage { page, version });
                    }
                    changed.push((region.rkey, offset + 8, after.0));
                }
                if latch.holder() == Some(node) {
                    let open = FallbackLatch::new(latch.latch().released(), None);
                    death.released.push(page);
                    changed.push((region.rkey, offset, open.0));
                }
            }
        }
        for (rkey, offset, word) in changed {
            site.store_word(server, rkey, offset, word.to_le_bytes());
        }
    }

    /// A target is gone: commands under way end, and new ones end at once.
    pub fn page_target_died(&mut self, site: &mut dyn Site, store: u8) {
        let slots = match &mut self.pages {
            Some(book) if book.stores[usize::from(store)].is_some() => book.slots.len() as u16,
            _ => return,
        };
        with_pages(site, |pages| {
            if let Some(entry) = pages.store(store) {
                let gone = rackweave_programs::pages::StoreEntry {
                    connected: false,
                    ..entry
                };
                let _known = pages.set_store(store, Some(gone));
            }
        });
        for slot in 0..slots {
            let is_under_way = with_pages(site, |pages| pages.has_command(slot, store));
            self.break_queue(site, slot, store);
            if is_under_way {
                self.end_slot(site, slot, End::new(Outcome::StorageGone, Source::Storage));
            }
        }
        if let Some(book) = &mut self.pages {
            let target = book.spec.stores[usize::from(store)].target;
            if let Some(gone) = book.stores[usize::from(store)].take() {
                nvme::close(site, target, gone.admin);
            }
        }
    }

    /// A target is there again, with the same medium.
    ///
    /// # Errors
    /// If it does not take its queues.
    pub fn page_target_returned(
        &mut self,
        site: &mut dyn Site,
        store: u8,
    ) -> Result<(), PageSetUpError> {
        match &self.pages {
            Some(book) if book.stores[usize::from(store)].is_none() => {
                self.bring_store_up(site, store)
            }
            _ => Ok(()),
        }
    }

    /// A node that had died is there again, with nothing in its memory.
    ///
    /// # Errors
    /// If it lacks room.
    pub fn page_node_returned(
        &mut self,
        site: &mut dyn Site,
        node: NodeId,
    ) -> Result<(), PageSetUpError> {
        let Some(book) = &self.pages else {
            return Ok(());
        };
        let Some(index) = book.index(node).filter(|&at| book.nodes[at].is_none()) else {
            return Ok(());
        };
        let (slots, stores) = (book.slots_of(index), book.stores.len() as u8);
        self.bring_node_up(site, index)?;
        for slot in slots {
            for store in 0..stores {
                self.bring_queue_up(site, slot, store)?;
            }
        }
        Ok(())
    }

    /// Pages whose newest version went down with a node, and that nobody has accepted as lost.
    pub fn lost_pages(&self) -> &[LostPage] {
        self.pages.as_ref().map_or(&[], |book| &book.lost)
    }

    /// Goes back to the version of a lost page that is at home. Its version number moves on, so
    /// that no copy from before is taken for it. False if it is not lost, or not any more: one that
    /// had it latched when it was lost may have given it back changed. False, too, as long as a
    /// node has its latch, or a target still works on what a dead node had it write: ask again.
    pub fn accept_loss(&mut self, site: &mut dyn Site, page: PageId) -> bool {
        let known = self.pages.as_ref().map_or(&[][..], |book| &book.lost);
        if !known.iter().any(|lost| lost.page == page) {
            return false;
        }
        let Some(state) = self.page_state(site, page) else {
            return false;
        };
        let store = self.pages.as_ref().and_then(|book| {
            let stores = &book.spec.stores;
            stores.get(usize::from(page.store()))
        });
        // What the dead node was writing home must not come after what is written from now on.
        if store.is_some_and(|store| nvme::is_draining(site, store.target)) {
            return false;
        }
        if state.place.is_lost() && state.latch.is_locked() {
            return false;
        }
        if let Some(book) = &mut self.pages {
            book.lost.retain(|lost| lost.page != page);
        }
        if !state.place.is_lost() {
            return false;
        }
        let latch = state.latch.changed();
        let place = state.place.accepted();
        let indexed = with_pages(site, |pages| {
            pages.change(page, |state| EntryState {
                latch,
                place,
                ..state
            })
        });
        if let (false, Some((server, rkey, offset))) = (indexed, self.fallback_entry(page)) {
            let latch = FallbackLatch::new(latch, None);
            site.store_word(server, rkey, offset + 8, place.0.to_le_bytes());
            site.store_word(server, rkey, offset, latch.0.to_le_bytes());
        }
        true
    }

    /// What the directory says of a page, wherever it says it.
    fn page_state(&self, site: &mut dyn Site, page: PageId) -> Option<EntryState> {
        if let Some(state) = with_pages(site, |pages| pages.entry(page)) {
            return Some(state);
        }
        let (server, rkey, offset) = self.fallback_entry(page)?;
        let mut load = |offset| site.load_word(server, rkey, offset).map(u64::from_le_bytes);
        let (latch, place) = (FallbackLatch(load(offset)?), Place(load(offset + 8)?));
        (!latch.is_indexed()).then_some(EntryState {
            latch: latch.latch(),
            holder: latch.holder(),
            place,
        })
    }
}
