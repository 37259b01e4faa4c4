//! A node's part of the page directory: buffer frames, and for each worker a channel with its
//! slots. Made once, and reconnected whenever a connection has failed or the switch has restarted.

use super::registry::{NodeRegistry, SlotRegistry};
use super::set_up::{READS_MAX, address, make, with_pages};
use super::{PageChannel, PagePool, PageSetUpError};
use crate::lanes::{Connected, PASSIVE_TIMEOUT, Wanted};
use crate::{Controller, LaneError, NodeAddress, Site};
use rackweave_base::{NodeId, Psn, Qpn, Rkey};
use rackweave_programs::pages::{ChannelEntry, NodeEntry, PageRole, SOURCES, SlotEntry};
use rackweave_switch::transfer::{LaneId, LaneKind};
use rackweave_verbs::{Access, CqId, Mtu, QpCapabilities};
use rackweave_wire::fabric::page::completion::COMPLETION_LEN;
use rackweave_wire::fabric::page::control;

impl Controller {
    /// Makes buffer frames and channels on a node, and connects them.
    pub(super) fn bring_node_up(
        &mut self,
        site: &mut dyn Site,
        index: usize,
    ) -> Result<(), PageSetUpError> {
        let registry = self.pages.as_ref().expect("pages are set up");
        let (member, page_size) = (registry.spec.nodes[index], registry.spec.page_size);
        let (stores, epoch) = (registry.spec.stores.len() as u16, registry.epoch);
        let generation = control::generation(registry.restarts, 1);
        let (pd, _) = self.home(site, member.node)?;
        let remote = Access::LOCAL_WRITE | Access::REMOTE_READ | Access::REMOTE_WRITE;
        let bytes = control::pool_bytes(page_size, member.frames);
        let region = make(site, member.node, pd, bytes, remote)?;
        let at = control::epoch_at(page_size, member.frames);
        site.store_word(member.node, region.rkey, at, epoch.to_le_bytes());
        let mut registry = NodeRegistry {
            pool: PagePool {
                node: member.node,
                region,
                frames: member.frames,
            },
            sources: Vec::new(),
            requests: Vec::new(),
            channels: Vec::new(),
            fallback: Vec::new(),
        };
        for worker in 0..member.workers {
            let length = control::control_bytes(member.slots, stores);
            let control = make(site, member.node, pd, length, remote)?;
            let (cq, qpn) = self.make_requester(site, member.node, member.slots)?;
            for at in [
                control::generation_at(member.slots),
                control::server_generation_at(member.slots),
            ] {
                site.store_word(member.node, control.rkey, at, generation.to_le_bytes());
            }
            registry.channels.push(PageChannel {
                node: member.node,
                worker,
                requests: qpn,
                cq,
                slots: member.slots,
                control,
                generation,
                server_generation: generation,
                first: Psn::default(),
                fallback: Vec::new(),
            });
        }
        let connected = self.connect_node(site, index, &mut registry);
        let workers = 0..usize::from(member.workers);
        let open = |worker| self.open_channel(site, index, &registry, worker);
        let connected = connected.and_then(|()| workers.into_iter().try_for_each(open));
        self.pages.as_mut().expect("as above").nodes[index] = Some(registry);
        if connected.is_err() {
            // The next process of this node must not be given the queue pairs of this one.
            self.page_member_died(site, index);
        }
        connected
    }

    /// Connects all lanes of a node, with its queue pairs or new ones. Its channels are not open
    /// yet.
    pub(super) fn connect_node(
        &mut self,
        site: &mut dyn Site,
        index: usize,
        registry: &mut NodeRegistry,
    ) -> Result<(), PageSetUpError> {
        let pages = self.pages.as_ref().expect("pages are set up");
        let first_source = pages.first_source[index];
        let stores = pages.members[index];
        let node = registry.pool.node;
        let at = address(site, node)?;
        for bit in 0..SOURCES {
            let lane = LaneId(first_source.0 + u16::from(bit));
            let wanted = self.wanted_source();
            let old = registry.sources.get(usize::from(bit)).copied();
            let made = self.link(site, (lane, old), (node, at), wanted)?;
            put(&mut registry.sources, usize::from(bit), made);
            let role = PageRole::Source { node: node.0, bit };
            with_pages(site, |pages| pages.set_role(lane, Some(role)))?;
        }
        let entry = NodeEntry {
            address: registry.pool.region.address,
            rkey: registry.pool.region.rkey,
            // Including the spare one.
            frames: registry.pool.frames + 1,
            first_source,
            stores,
        };
        with_pages(site, |pages| pages.set_node(node.0, Some(entry)))?;
        for worker in 0..registry.channels.len() {
            self.connect_channel(site, index, registry, worker)?;
        }
        Ok(())
    }

    /// Connects a channel's lanes and those of its slots. The switch accepts no requests from it
    /// yet.
    pub(super) fn connect_channel(
        &mut self,
        site: &mut dyn Site,
        index: usize,
        registry: &mut NodeRegistry,
        worker: usize,
    ) -> Result<(), PageSetUpError> {
        let pages = self.pages.as_ref().expect("pages are set up");
        let (timeout, first_request) = (pages.spec.timeout, pages.first_request[index]);
        let first_slot = pages.first_slot[index];
        let node = registry.pool.node;
        let at = address(site, node)?;
        let channel = &registry.channels[worker];
        let (slots, control) = (channel.slots, channel.control);
        let lane = LaneId(first_request.0 + worker as u16);
        let wanted = Wanted {
            qpn: Some(channel.requests),
            reads: READS_MAX,
            timeout,
            ..self.wanted(LaneKind::Program, Access::empty())
        };
        let old = registry.requests.get(worker).copied();
        let made = self.link(site, (lane, old), (node, at), wanted)?;
        let made = Connected {
            is_lent: false,
            ..made
        };
        put(&mut registry.requests, worker, made);
        registry.channels[worker].first = wanted.psn;
        let slot = first_slot + worker as u16 * slots;
        for at_slot in 0..slots {
            let place = control.address + u64::from(at_slot) * COMPLETION_LEN;
            self.bring_slot_up(site, (index, at), slot + at_slot, (place, control.rkey))?;
        }
        self.connect_fallback(site, registry, worker)
    }

    /// Makes the switch accept a channel's requests.
    pub(super) fn open_channel(
        &mut self,
        site: &mut dyn Site,
        index: usize,
        registry: &NodeRegistry,
        worker: usize,
    ) -> Result<(), PageSetUpError> {
        let pages = self.pages.as_ref().expect("pages are set up");
        let (lane, channel) = (registry.requests[worker].lane, &registry.channels[worker]);
        let entry = ChannelEntry {
            node: registry.pool.node.0,
            lane,
            first: channel.first,
            first_slot: pages.first_slot[index] + worker as u16 * channel.slots,
            slots: channel.slots,
        };
        let number = self.first_channel(index) + worker as u16;
        with_pages(site, |pages| {
            pages.set_role(lane, Some(PageRole::Requests(number)))?;
            pages.set_channel(number, Some(entry))
        })?;
        Ok(())
    }

    /// Notifies a node that a channel has been reconnected.
    pub(super) fn next_generation(&self, site: &mut dyn Site, channel: &mut PageChannel) {
        let directory = self.pages.as_ref().map_or(0, |registry| registry.restarts);
        let connected = control::connected_of(channel.generation);
        channel.generation = control::generation(directory, connected.wrapping_add(1));
        let at = control::generation_at(channel.slots);
        let word = channel.generation.to_le_bytes();
        site.store_word(channel.node, channel.control.rkey, at, word);
    }

    fn link(
        &mut self,
        site: &mut dyn Site,
        (lane, old): (LaneId, Option<Connected>),
        (node, at): (NodeId, NodeAddress),
        wanted: Wanted,
    ) -> Result<Connected, LaneError> {
        match old {
            Some(old) => self.relink_lane(site, &old, at, wanted),
            None => self.connect_lane(site, lane, (node, at), wanted),
        }
    }

    /// The number of the first channel of a node.
    pub(super) fn first_channel(&self, index: usize) -> u16 {
        let registry = self.pages.as_ref().expect("pages are set up");
        let before = registry.spec.nodes[..index].iter();
        before.map(|node| node.workers).sum()
    }

    /// The specification of a lane for pages.
    pub(super) fn wanted(&mut self, kind: LaneKind, access: Access) -> Wanted {
        let mtu = self.pages.as_ref().map_or(Mtu::B4096, |it| it.spec.mtu);
        Wanted {
            kind,
            access,
            mtu,
            psn: self.random_psn(),
            qpn: None,
            reads: 1,
            timeout: PASSIVE_TIMEOUT,
        }
    }

    fn bring_slot_up(
        &mut self,
        site: &mut dyn Site,
        (index, at): (usize, NodeAddress),
        slot: u16,
        (address, rkey): (u64, Rkey),
    ) -> Result<(), PageSetUpError> {
        let registry = self.pages.as_ref().expect("pages are set up");
        let node = (registry.spec.nodes[index].node, at);
        let [target, word, relay] = registry.lanes_of(slot);
        let old = registry.slots[usize::from(slot)];
        let write = Access::REMOTE_WRITE;
        let wanted = self.wanted(LaneKind::Target, write);
        let old_target = old.map(|old| old.target);
        let made_target = self.link(site, (target, old_target), node, wanted)?;
        let wanted = self.wanted(LaneKind::Word { address, rkey }, write);
        let made_word = self.link(site, (word, old.map(|old| old.word)), node, wanted)?;
        let wanted = self.wanted_relay();
        let made_relay = self.link(site, (relay, old.map(|old| old.relay)), node, wanted)?;
        let entry = SlotEntry {
            node: node.0.0,
            target,
            word,
            relay,
        };
        with_pages(site, |pages| {
            pages.set_role(target, Some(PageRole::Target(slot)))?;
            pages.set_role(word, Some(PageRole::Word(slot)))?;
            pages.set_role(relay, Some(PageRole::Relay(slot)))?;
            pages.set_slot(slot, Some(entry), wanted.psn)
        })?;
        let made = SlotRegistry {
            node: index,
            target: made_target,
            word: made_word,
            relay: made_relay,
            completions: (address, rkey),
        };
        let registry = self.pages.as_mut().expect("as above");
        registry.slots[usize::from(slot)] = Some(made);
        Ok(())
    }

    /// A lane for pages out of a node's buffer frames. The switch gives it to the next transfer as
    /// soon as it has refused a page by its header, while the node's NIC still sends the rest: a
    /// NIC that accepts one READ at a time would refuse the next one, and break the queue pair.
    pub(super) fn wanted_source(&mut self) -> Wanted {
        Wanted {
            reads: READS_MAX,
            ..self.wanted(LaneKind::Source, Access::REMOTE_READ)
        }
    }

    pub(super) fn wanted_relay(&mut self) -> Wanted {
        let access = Access::REMOTE_READ | Access::REMOTE_WRITE;
        Wanted {
            reads: READS_MAX,
            ..self.wanted(LaneKind::Program, access)
        }
    }

    /// A queue pair for sending requests, with a completion queue of its own.
    fn make_requester(
        &mut self,
        site: &mut dyn Site,
        node: NodeId,
        slots: u16,
    ) -> Result<(CqId, Qpn), LaneError> {
        let (pd, _) = self.home(site, node)?;
        let mut made = Err(LaneError::NoNode(node));
        let slots = u32::from(slots);
        site.node(node, &mut |verbs| {
            made = verbs
                .create_cq(slots * 6)
                .map_err(|error| LaneError::Cq { node, error })
                .and_then(|cq| {
                    let capabilities = QpCapabilities {
                        send_max: slots * 2,
                        receive_max: 1,
                        segments_max: 1,
                    };
                    let qpn = verbs.create_qp(pd, cq, cq, capabilities);
                    let qpn = qpn.map_err(|error| LaneError::Qp { node, error })?;
                    Ok((cq, qpn))
                });
        });
        made
    }
}

/// Stores a value at its index, or after the last one.
fn put(all: &mut Vec<Connected>, at: usize, made: Connected) {
    match all.get_mut(at) {
        Some(place) => *place = made,
        None => all.push(made),
    }
}
