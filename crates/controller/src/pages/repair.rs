//! Handles movements, queues and targets that fail, and targets that return.
//!
//! A movement that was aborted leaves its lanes at PSNs on which the two ends disagree, so they are
//! relinked before the slot gets its completion and with it its next request.
//!
//! A write whose queue is closed may still be at the target's medium. The target executes
//! overlapping commands in the order in which they arrived, so the page may be rewritten at once
//! (`rackweave_target`).

use super::registry::SlotRegistry;
use super::set_up::{address, with_pages};
use super::{PageSetUpError, nvme};
use crate::lanes::Connected;
use crate::{Controller, NodeAddress, Site};
use core::ops::Range;
use rackweave_base::Psn;
use rackweave_programs::pages::{End, PageTask, StoreEntry, cargo};
use rackweave_programs::{Pipeline, Task};
use rackweave_switch::transfer::{EngineEvent, EngineTask, LaneId, LaneKind};
use rackweave_verbs::Access;
use rackweave_wire::fabric::page::{Outcome, PageSource};

impl Controller {
    /// Handles a failed movement of a page from one node's memory to another's.
    pub(super) fn page_move_failed(
        &mut self,
        site: &mut dyn Site,
        (slot, command): (u16, Psn),
        source: LaneId,
    ) {
        let mut last = None;
        site.switch(&mut |_, switch| last = Some(switch.program().engine.cookie(source)));
        // The report was delayed. The lane may have been relinked since, and carry another page:
        // relinking it again would make that page's slot wait forever.
        if last == Some(cargo(slot, command)) {
            self.relink_source(site, source);
        }
        // The slot, too, may have another request by now.
        if with_pages(site, |pages| pages.under_way(slot)) == Some(command) {
            self.relink_slot(site, slot);
            self.end_slot(
                site,
                slot,
                End::new(Outcome::SourceGone, PageSource::Memory),
            );
        }
    }

    /// An NVMe target does not reply, or has refused a command's packet: the queue is replaced.
    pub(super) fn storage_silent(&mut self, site: &mut dyn Site, slot: u16, store: u8) {
        if !with_pages(site, |pages| pages.has_command(slot, store)) {
            return;
        }
        self.close_queue(site, slot, store);
        self.relink_slot(site, slot);
        // If the target has been removed, commands end at once until it returns.
        let _gone = self.bring_queue_up(site, slot, store);
        self.end_slot(
            site,
            slot,
            End::new(Outcome::StorageGone, PageSource::Storage),
        );
    }

    /// Forgets a slot's command and closes its queue.
    pub(super) fn close_queue(&mut self, site: &mut dyn Site, slot: u16, store: u8) {
        with_pages(site, |pages| pages.forget_command(slot, store));
        let Some(registry) = &mut self.pages else {
            return;
        };
        let target = registry.spec.stores[usize::from(store)].target;
        let queue = registry.stores[usize::from(store)].as_mut();
        let Some(queue) = queue.and_then(|store| store.queues[usize::from(slot)].take()) else {
            return;
        };
        nvme::close(site, target, queue.node_qpn);
        site.switch(&mut |_, switch| {
            let engine = &mut switch.program_mut().engine;
            engine.disconnect(queue.lane, queue.switch_qpn);
            // The end of the old command must not count for the queue that replaces it.
            let _ended = switch.purge_if(|_, task| {
                let of = |page: &PageTask| {
                    matches!(*page, PageTask::Finish { slot: s, store: t, .. }
                        if (s, t) == (slot, store))
                };
                matches!(task, Task::Page(page) if of(page))
            });
        });
    }

    /// Ends all pending operations of these slots: at a target, on a lane, and in the switch.
    pub(super) fn stop_slots(&mut self, site: &mut dyn Site, slots: &Range<u16>) {
        let stores = self.pages.as_ref().map_or(0, |it| it.stores.len()) as u8;
        for slot in slots.clone() {
            for store in 0..stores {
                self.close_queue(site, slot, store);
            }
        }
        let registry = self.pages.as_ref().expect("pages are set up");
        let nodes = registry.nodes.iter().flatten();
        let sources: Vec<Connected> = nodes
            .flat_map(|registry| registry.sources.clone())
            .collect();
        for (lane, slot) in self.cargo(site, &sources) {
            if slots.contains(&slot) {
                self.relink_source(site, lane);
            }
        }
        let mut dropped = Vec::new();
        site.switch(&mut |_, switch| {
            dropped = switch.purge_if(|program, task| {
                slot_of(program, task).is_some_and(|slot| slots.contains(&slot))
            });
        });
        self.free_sources(site, &dropped);
        with_pages(site, |pages| {
            slots.clone().for_each(|slot| pages.forget_request(slot));
        });
    }

    /// Frees the source lanes of transfers that were dropped before they started, or after their
    /// end. Those of transfers that failed are relinked first.
    pub(super) fn free_sources(&mut self, site: &mut dyn Site, dropped: &[Task]) {
        for task in dropped {
            let lane = match *task {
                Task::Engine(EngineTask::Start(start)) => start.source,
                Task::Engine(EngineTask::WriteWordAt { lane, .. })
                | Task::Event(EngineEvent::Written { lane, .. }) => lane,
                Task::Engine(EngineTask::Refuse { lane, .. }) => lane,
                Task::Event(EngineEvent::Done { lane, .. } | EngineEvent::Refused { lane, .. }) => {
                    lane
                }
                Task::Event(EngineEvent::Failed { lane, .. }) => {
                    self.relink_source(site, lane);
                    continue;
                }
                _ => continue,
            };
            let Some(registry) = &self.pages else { return };
            if let Some((index, bit)) = registry.source(lane) {
                let node = registry.spec.nodes[index].node;
                with_pages(site, |pages| pages.free_source(node.0, bit));
            }
        }
    }

    /// Relinks a slot's lanes for data, if its node is live.
    pub(super) fn relink_slot(&mut self, site: &mut dyn Site, slot: u16) {
        let Some((lanes, at)) = self.slot_at(site, slot) else {
            return;
        };
        let wanted = self.wanted(LaneKind::Target, Access::REMOTE_WRITE);
        let target = self.relink_lane(site, &lanes.target, at, wanted);
        let wanted = self.wanted_relay();
        let relay = self.relink_lane(site, &lanes.relay, at, wanted);
        let (Ok(target), Ok(relay)) = (target, relay) else {
            return; // the node is dead, and will be brought up again
        };
        with_pages(site, |pages| pages.reset_relay(slot, wanted.psn));
        if let Some(slot) = self.slot_mut(slot) {
            (slot.target, slot.relay) = (target, relay);
        }
    }

    /// A node has not acknowledged a completion: the lane is relinked and the completion sent
    /// again, until the node is known to be dead.
    pub(super) fn requester_silent(&mut self, site: &mut dyn Site, slot: u16) {
        let Some((lanes, at)) = self.slot_at(site, slot) else {
            return;
        };
        let (address, rkey) = lanes.completions;
        let wanted = self.wanted(LaneKind::Word { address, rkey }, Access::REMOTE_WRITE);
        let Ok(word) = self.relink_lane(site, &lanes.word, at, wanted) else {
            return;
        };
        if let Some(slot) = self.slot_mut(slot) {
            slot.word = word;
        }
        site.switch(&mut |now, switch| {
            switch.inject(now, Task::Page(PageTask::Repeat { slot }));
        });
    }

    /// The lanes of a slot, and its node's address.
    fn slot_at(&mut self, site: &dyn Site, slot: u16) -> Option<(SlotRegistry, NodeAddress)> {
        let lanes = *self.slot_mut(slot)?;
        let node = self.pages.as_ref()?.spec.nodes[lanes.node].node;
        Some((lanes, address(site, node).ok()?))
    }

    /// Relinks a source lane; it carries nothing any more.
    fn relink_source(&mut self, site: &mut dyn Site, lane: LaneId) {
        let Some(registry) = &self.pages else { return };
        let Some((index, bit)) = registry.source(lane) else {
            return;
        };
        let node = registry.spec.nodes[index].node;
        let made = registry.nodes[index].as_ref();
        let made = made.map(|node| (node.sources[usize::from(bit)], node.pool));
        let Some((made, pool)) = made else {
            return;
        };
        let Ok(at) = address(site, node) else { return };
        let wanted = self.wanted_source(bit, &pool);
        let Ok(linked) = self.relink_lane(site, &made, at, wanted) else {
            return;
        };
        if let Some(registry) = self.pages.as_mut().and_then(|b| b.nodes[index].as_mut()) {
            registry.sources[usize::from(bit)] = linked;
        }
        with_pages(site, |pages| pages.free_source(node.0, bit));
    }

    /// Gives a slot its completion.
    pub(super) fn end_slot(&self, site: &mut dyn Site, slot: u16, end: End) {
        site.switch(&mut |now, switch| {
            switch.inject(now, Task::Page(PageTask::Complete { slot, end }));
        });
    }

    /// The movements in flight on a node's source lanes: lane and slot.
    pub(super) fn cargo(&self, site: &mut dyn Site, sources: &[Connected]) -> Vec<(LaneId, u16)> {
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

    /// Handles the loss of a target: pending commands end, and new ones end at once.
    pub fn page_target_died(&mut self, site: &mut dyn Site, store: u8) {
        self.forget_undone_losses(site);
        let slots = match &mut self.pages {
            Some(registry) if registry.stores[usize::from(store)].is_some() => {
                registry.slots.len() as u16
            }
            _ => return,
        };
        with_pages(site, |pages| {
            if let Some(entry) = pages.store(store) {
                let gone = StoreEntry {
                    connected: false,
                    ..entry
                };
                let _known = pages.set_store(store, Some(gone));
            }
        });
        for slot in 0..slots {
            let is_under_way = with_pages(site, |pages| pages.has_command(slot, store));
            self.close_queue(site, slot, store);
            if is_under_way {
                self.relink_slot(site, slot);
                self.end_slot(
                    site,
                    slot,
                    End::new(Outcome::StorageGone, PageSource::Storage),
                );
            }
        }
        if let Some(registry) = &mut self.pages {
            let target = registry.spec.stores[usize::from(store)].target;
            if let Some(gone) = registry.stores[usize::from(store)].take() {
                nvme::close(site, target, gone.admin);
            }
        }
    }

    /// Handles the return of a target, with the same medium.
    ///
    /// # Errors
    /// If it refuses its queues.
    pub fn page_target_returned(
        &mut self,
        site: &mut dyn Site,
        store: u8,
    ) -> Result<(), PageSetUpError> {
        match &self.pages {
            Some(registry) if registry.stores[usize::from(store)].is_none() => {
                self.bring_store_up(site, store)
            }
            _ => Ok(()),
        }
    }
}

/// The slot that a recirculating task refers to, if it is a task of the page directory whose effect
/// is still pending.
fn slot_of(program: &Pipeline, task: &Task) -> Option<u16> {
    let of = |lane, cookie| program.pages.role(lane).map(|_| cookie as u16);
    match *task {
        Task::Page(task) => Some(task.slot()),
        Task::Engine(EngineTask::Start(start)) => of(start.source, start.cookie),
        Task::Engine(
            EngineTask::WriteWords { lane, cookie, .. }
            | EngineTask::WriteWordAt { lane, cookie, .. },
        ) => of(lane, cookie),
        Task::Engine(EngineTask::Refuse { lane, .. }) => of(lane, program.engine.cookie(lane)),
        // A task that would end a movement would end the slot's next one.
        Task::Event(
            EngineEvent::Done { lane, cookie }
            | EngineEvent::Refused { lane, cookie }
            | EngineEvent::Failed { lane, cookie, .. }
            | EngineEvent::Written { lane, cookie },
        ) => of(lane, cookie),
        _ => None,
    }
}
