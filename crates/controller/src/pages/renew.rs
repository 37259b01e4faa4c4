//! Reconnecting channels.
//!
//! A node whose queue pairs have given up, as after a cable was disconnected for long, writes a
//! request into the channel's control region. The channel is then stopped, reconnected at both
//! ends, and notified by its next generation; it repeats its pending requests.

use super::PageSetUpError;
use super::set_up::with_pages;
use crate::{Controller, Site};
use rackweave_base::canary::{Canary, planted};
use rackweave_wire::fabric::page::control;

impl Controller {
    /// Reconnects every channel whose node has requested it. Returns false if there was none.
    pub fn page_pleas(&mut self, site: &mut dyn Site) -> bool {
        let Some(registry) = &self.pages else {
            return false;
        };
        let (mut pleas, mut server_pleas) = (Vec::new(), Vec::new());
        for (index, node) in registry.nodes.iter().enumerate() {
            for channel in node.iter().flat_map(|node| &node.channels) {
                let mut load = |at| site.load_word(channel.node, channel.control.rkey, at);
                let plea = load(control::plea_at(channel.slots));
                let server_plea = load(control::server_plea_at(channel.slots));
                let at = (index, usize::from(channel.worker));
                if plea.map(u64::from_le_bytes) == Some(channel.generation) {
                    pleas.push(at);
                } else if server_plea.map(u64::from_le_bytes) == Some(channel.server_generation) {
                    server_pleas.push(at);
                }
            }
        }
        if planted(Canary::PagesNoRenewal) {
            return false;
        }
        // A node that has died meanwhile needs no action.
        for &(index, worker) in &pleas {
            let _dead = self.renew_channel(site, index, worker);
        }
        for &(index, worker) in &server_pleas {
            let _dead = self.renew_server(site, index, worker);
        }
        !pleas.is_empty() || !server_pleas.is_empty()
    }

    /// Reconnects a channel to the memory server.
    pub(super) fn renew_server(
        &mut self,
        site: &mut dyn Site,
        index: usize,
        worker: usize,
    ) -> Result<(), PageSetUpError> {
        if self.page_server().is_none() {
            return Ok(());
        }
        let renewed = self.with_node(index, |controller, node| {
            controller.connect_fallback(site, node, worker)?;
            let channel = &mut node.channels[worker];
            channel.server_generation += 1;
            let at = control::server_generation_at(channel.slots);
            let word = channel.server_generation.to_le_bytes();
            site.store_word(channel.node, channel.control.rkey, at, word);
            Ok(())
        });
        renewed.unwrap_or(Ok(()))
    }

    /// Reconnects a channel.
    pub(super) fn renew_channel(
        &mut self,
        site: &mut dyn Site,
        index: usize,
        worker: usize,
    ) -> Result<(), PageSetUpError> {
        let Some(registry) = &self.pages else {
            return Ok(());
        };
        let member = registry.spec.nodes[index];
        let stores = registry.stores.len() as u8;
        let first = registry.first_slot[index] + worker as u16 * member.slots;
        let slots = first..first + member.slots;
        let number = self.first_channel(index) + worker as u16;
        with_pages(site, |pages| pages.set_channel(number, None))?;
        self.stop_slots(site, &slots);
        let connected = self.with_node(index, |controller, node| {
            controller.connect_channel(site, index, node, worker)
        });
        let Some(connected) = connected else {
            return Ok(());
        };
        connected?;
        for store in 0..stores {
            self.bring_queues_up(site, slots.clone(), store)?;
        }
        self.start_channel(site, index, worker)
    }

    /// Opens a channel that was reconnected, and notifies its node.
    pub(super) fn start_channel(
        &mut self,
        site: &mut dyn Site,
        index: usize,
        worker: usize,
    ) -> Result<(), PageSetUpError> {
        let started = self.with_node(index, |controller, node| {
            let opened = controller.open_channel(site, index, node, worker);
            controller.next_generation(site, &mut node.channels[worker]);
            opened
        });
        started.unwrap_or(Ok(()))
    }
}
