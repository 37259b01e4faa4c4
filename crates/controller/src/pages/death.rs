//! Nodes that die, or are declared dead, and nodes that return.
//!
//! First everything of the node is shut down: its channels, its lanes, its queues at targets. Only
//! then are its latches opened, so that no operation of it can reach a page of another owner. A
//! node that is alive but declared dead finds its channels fenced, and returns empty.

use super::registry::NodeRegistry;
use super::set_up::with_pages;
use super::{PageSetUpError, fallback};
use crate::lanes::Connected;
use crate::{Controller, Site};
use core::ops::Range;
use rackweave_base::NodeId;
use rackweave_base::canary::{Canary, planted};
use rackweave_programs::pages::{End, LostPage, NodeDeath};
use rackweave_programs::{Pipeline, Task};
use rackweave_switch::transfer::EngineTask;
use rackweave_wire::fabric::page::{
    FallbackLatch, Outcome, PageId, PageLocation, PageSource, control,
};
use std::collections::BTreeSet;

impl Controller {
    /// Handles the death of a node: its latches are opened, versions that only it had are lost, and
    /// waiting nodes get their completions. Latches in the server's memory are opened, too. If it
    /// was the memory server, its entries are rebuilt elsewhere.
    pub(crate) fn page_node_died(&mut self, site: &mut dyn Site, node: NodeId) {
        for store in self.page_stores_of(node) {
            self.page_target_died(site, store);
        }
        let member = self.pages.as_ref().and_then(|it| it.index(node));
        if let Some(index) = member {
            self.page_member_died(site, index);
        }
        if self.page_server() == Some(node) {
            self.server_died(site);
        }
    }

    pub(super) fn page_member_died(&mut self, site: &mut dyn Site, index: usize) {
        let registry = self.pages.as_mut().expect("as the caller knows");
        let node = registry.spec.nodes[index].node;
        let Some(dead) = registry.nodes[index].take() else {
            return;
        };
        let slots = registry.slots_of(index);
        let lives = planted(Canary::PagesNotFenced) && site.node(node, &mut |_| {});
        if !lives {
            self.cut_off(site, &dead, slots);
        }
        // If it is alive, it may use its leases for a while.
        self.hold_latches(site);
        let mut death = with_pages(site, |pages| pages.node_died(node.0));
        self.fallback_died(site, node.0, &mut death);
        self.note_lost(death.lost);
    }

    /// Shuts down everything of a dead node, and ends what others wait for from it.
    fn cut_off(&mut self, site: &mut dyn Site, dead: &NodeRegistry, slots: Range<u16>) {
        fence(site, dead);
        self.stop_slots(site, &slots);
        let mut starving: BTreeSet<u16> = self
            .cargo(site, &dead.sources)
            .into_iter()
            .map(|(_, slot)| slot)
            .collect();
        let dropped = self.forget_node(site, dead, slots.clone());
        self.free_sources(site, &dropped);
        let is_source = |lane| dead.sources.iter().any(|source| source.lane == lane);
        site.switch(&mut |_, switch| {
            let fed = |task| fed_by(switch.program(), task, &is_source);
            starving.extend(dropped.iter().filter_map(fed));
        });
        if planted(Canary::PagesDroppedTasks) {
            starving.clear();
        }
        for slot in starving.difference(&slots.clone().collect()) {
            self.relink_slot(site, *slot);
            self.end_slot(
                site,
                *slot,
                End::new(Outcome::SourceGone, PageSource::Memory),
            );
        }
    }

    /// Removes a dead node's lanes from the tables; returns the tasks that referred to them.
    pub(super) fn forget_node(
        &mut self,
        site: &mut dyn Site,
        dead: &NodeRegistry,
        slots: Range<u16>,
    ) -> Vec<Task> {
        let node = dead.pool.node;
        let registry = self.pages.as_mut().expect("pages are set up");
        let mut lanes: Vec<Connected> = [dead.sources.as_slice(), &dead.requests].concat();
        for slot in slots.clone() {
            if let Some(slot) = registry.slots[usize::from(slot)].take() {
                lanes.extend([slot.target, slot.word, slot.relay]);
            }
        }
        let mut dropped = Vec::new();
        site.switch(&mut |_, switch| {
            let program = switch.program_mut();
            for lane in &lanes {
                program.engine.disconnect(lane.lane, lane.switch_qpn);
            }
            for lane in &dead.requests {
                let _known = program.pages.set_role(lane.lane, None);
            }
            for slot in slots.clone() {
                let _known = program.pages.set_slot(slot, None, Default::default());
            }
            let _known = program.pages.set_node(node.0, None);
            dropped = switch.purge();
        });
        for &(_, server, qpn) in &dead.fallback {
            site.node(server, &mut |verbs| {
                let _gone = verbs.destroy_qp(qpn);
            });
        }
        // If it is alive, nothing from before may reach its new resources.
        site.node(node, &mut |verbs| {
            for lane in &lanes {
                let _gone = verbs.destroy_qp(lane.node_qpn);
            }
            for &(near, ..) in &dead.fallback {
                let _gone = verbs.destroy_qp(near);
            }
        });
        site.remove_region(node, &dead.pool.region);
        for channel in &dead.channels {
            site.remove_region(node, &channel.control);
        }
        dropped
    }

    /// Opens a dead node's latches in the server's memory. Its own queue pairs there have been
    /// removed; those of live nodes continue meanwhile, so every word is updated atomically from
    /// its current value.
    pub(super) fn fallback_died(&mut self, site: &mut dyn Site, node: u16, death: &mut NodeDeath) {
        let Some(registry) = &self.pages else { return };
        let Some(server) = registry.server else {
            return;
        };
        let stores = registry.fallback.iter().zip(&registry.spec.stores);
        for (store, (region, spec)) in (0u8..).zip(stores) {
            for index in 0..spec.pages {
                let offset = index * fallback::ENTRY_LEN;
                let latch = site.load_word(server, region.rkey, offset);
                let Some(latch) = latch.map(|word| FallbackLatch(u64::from_le_bytes(word))) else {
                    return;
                };
                let Some(page) = PageId::new(store, index).filter(|_| !latch.is_indexed()) else {
                    continue;
                };
                // The node that writes a page home is its place here, so the mark is the dead
                // node's.
                let was_there =
                    |place: PageLocation| place.cached().is_some_and(|(at, _)| at == node);
                let after = |place: PageLocation| match was_there(place) {
                    true => place.died(node).not_writing(),
                    false => place,
                };
                let is_holder = latch.anyone() == Some(node);
                let place = site.update_word(server, region.rkey, offset + 8, &mut |word| {
                    Some(after(PageLocation(word)).0).filter(|&next| next != word)
                });
                let Some(place) = place.map(PageLocation) else {
                    return;
                };
                if after(place).is_lost() && (was_there(place) || is_holder) {
                    let version = latch.latch().version();
                    death.lost.push(LostPage { page, version });
                }
                let opened = site.update_word(server, region.rkey, offset, &mut |word| {
                    let latch = FallbackLatch(word);
                    let is_holder = latch.anyone() == Some(node);
                    is_holder.then(|| FallbackLatch::new(latch.latch().released(), None).0)
                });
                if opened.is_some_and(|word| FallbackLatch(word).anyone() == Some(node)) {
                    death.released.push(page);
                }
            }
        }
    }

    /// Handles a node that has joined, with its targets: stores there are connected again, and a
    /// memory server that is missing may be replaced. Its buffer frames return when its program
    /// asks for that ([`Controller::page_node_returned`]).
    ///
    /// # Errors
    /// If a target refuses its queues.
    pub fn page_node_joined(
        &mut self,
        site: &mut dyn Site,
        node: NodeId,
    ) -> Result<(), PageSetUpError> {
        for store in self.page_stores_of(node) {
            self.page_target_returned(site, store)?;
        }
        self.server_returned(site, node)
    }

    /// Handles the return of a node that had died, with empty memory.
    ///
    /// # Errors
    /// If it lacks capacity.
    pub fn page_node_returned(
        &mut self,
        site: &mut dyn Site,
        node: NodeId,
    ) -> Result<(), PageSetUpError> {
        self.server_returned(site, node)?;
        let Some(registry) = &self.pages else {
            return Ok(());
        };
        let Some(index) = registry
            .index(node)
            .filter(|&at| registry.nodes[at].is_none())
        else {
            return Ok(());
        };
        let (slots, stores) = (registry.slots_of(index), registry.stores.len() as u8);
        self.bring_node_up(site, index)?;
        for store in 0..stores {
            self.bring_queues_up(site, slots.clone(), store)?;
        }
        Ok(())
    }
}

/// Notifies a node that may be alive that it was declared dead.
fn fence(site: &mut dyn Site, dead: &NodeRegistry) {
    for channel in &dead.channels {
        let at = control::generation_at(channel.slots);
        let word = control::FENCED.to_le_bytes();
        site.store_word(channel.node, channel.control.rkey, at, word);
    }
}

/// The slot that waits for the operation of a dropped task on one of these source lanes.
fn fed_by(
    program: &Pipeline,
    task: &Task,
    is_source: &impl Fn(rackweave_switch::transfer::LaneId) -> bool,
) -> Option<u16> {
    match task {
        Task::Engine(EngineTask::Start(start)) if is_source(start.source) => {
            Some(start.cookie as u16)
        }
        Task::Engine(EngineTask::WriteWordAt { lane, cookie, .. }) if is_source(*lane) => {
            Some(*cookie as u16)
        }
        Task::Engine(EngineTask::Refuse { lane, .. }) if is_source(*lane) => {
            Some(program.engine.cookie(*lane) as u16)
        }
        Task::Event(event) if is_source(event.lane()) => Some(event.cookie() as u16),
        _ => None,
    }
}
