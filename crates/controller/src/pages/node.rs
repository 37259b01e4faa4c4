//! A node's part of the page directory: buffer frames, and for each worker a channel with its
//! slots. Made once, and reconnected whenever a connection has failed or the switch has restarted.

use super::registry::{NodeRegistry, SlotRegistry};
use super::set_up::{READS_MAX, address, make, with_pages};
use super::{PageChannel, PagePool, PageSetUpError};
use crate::lanes::{Connected, LaneLink, PASSIVE_TIMEOUT, Wanted};
use crate::{Controller, LaneError, RegionName, RegionPurpose, Site};
use rackweave_base::{NodeId, Psn, Qpn, Rkey};
use rackweave_programs::pages::{ChannelEntry, NodeEntry, PageRole, SOURCES, SlotEntry};
use rackweave_switch::transfer::{LaneId, LaneKind};
use rackweave_verbs::{Access, CqId, Mtu, QpCapabilities};
use rackweave_wire::fabric::page::completion::COMPLETION_LEN;
use rackweave_wire::fabric::page::control;

/// Lanes of a slot.
const SLOT_LANES: usize = 3;

impl Controller {
    /// Makes buffer frames and channels on a node, and connects them.
    pub(super) fn bring_node_up(
        &mut self,
        site: &mut dyn Site,
        index: usize,
    ) -> Result<(), PageSetUpError> {
        let registry = self.pages.as_ref().expect("pages are set up");
        let member = registry.spec.nodes[index];
        let layout = registry.spec.layout(member.frames);
        let (stores, epoch) = (registry.spec.stores.len() as u16, registry.epoch);
        let generation = control::generation(registry.restarts, 1);
        let (pd, _) = self.home(site, member.node)?;
        let remote = Access::LOCAL_WRITE | Access::REMOTE_READ | Access::REMOTE_WRITE;
        let (bytes, purpose) = (layout.bytes(), RegionPurpose::Pages);
        let region = make(site, member.node, pd, bytes, remote, purpose)?;
        let at = layout.epoch_at();
        site.store_word(member.node, region.rkey, at, epoch.to_le_bytes());
        let mut registry = NodeRegistry {
            pool: PagePool {
                node: member.node,
                region,
                layout,
            },
            sources: Vec::new(),
            requests: Vec::new(),
            channels: Vec::new(),
            fallback: Vec::new(),
        };
        for worker in 0..member.workers {
            let length = control::control_bytes(member.slots, stores);
            let purpose = RegionPurpose::PageChannel {
                slots: member.slots,
            };
            let control = make(site, member.node, pd, length, remote, purpose)?;
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
        let mut links = Vec::new();
        for bit in 0..=SOURCES {
            links.push(LaneLink {
                lane: LaneId(first_source.0 + u16::from(bit)),
                old: registry.sources.get(usize::from(bit)).copied(),
                wanted: self.wanted_source(bit, &registry.pool),
            });
        }
        registry.sources = self.link_lanes(site, (node, at), &links)?;
        for (bit, link) in (0..).zip(links) {
            let role = match bit {
                SOURCES => PageRole::Lease(node.0),
                _ => PageRole::Source { node: node.0, bit },
            };
            with_pages(site, |pages| pages.set_role(link.lane, Some(role)))?;
        }
        let entry = NodeEntry {
            address: registry.pool.region.address,
            rkey: registry.pool.region.rkey,
            layout: registry.pool.layout,
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
        let mut links = vec![LaneLink {
            lane,
            old: registry.requests.get(worker).copied(),
            wanted,
        }];
        let first = first_slot + worker as u16 * slots;
        for slot in first..first + slots {
            let place = completions(control, slot - first);
            links.extend(self.slot_links(slot, place));
        }
        // Nodes are asked once for all of them: a channel has hundreds.
        let mut made = self.link_lanes(site, (node, at), &links)?.into_iter();
        let request = Connected {
            is_lent: false,
            ..made.next().expect("there is one for each link")
        };
        put(&mut registry.requests, worker, request);
        registry.channels[worker].first = wanted.psn;
        let (of_slots, _) = links[1..].as_chunks::<SLOT_LANES>();
        for (slot, [.., relay]) in (first..).zip(of_slots) {
            let lanes = core::array::from_fn(|_| made.next().expect("as above"));
            let place = completions(control, slot - first);
            self.enter_slot(site, (index, slot), (lanes, relay.wanted.psn), place)?;
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

    /// The lanes of a slot: for data from its target, for its completions, for data to its target.
    fn slot_links(&mut self, slot: u16, (address, rkey): (u64, Rkey)) -> [LaneLink; SLOT_LANES] {
        let registry = self.pages.as_ref().expect("pages are set up");
        let lanes = registry.lanes_of(slot);
        let old = registry.slots[usize::from(slot)];
        let old = [
            old.map(|it| it.target),
            old.map(|it| it.word),
            old.map(|it| it.relay),
        ];
        let write = Access::REMOTE_WRITE;
        let wanted = [
            self.wanted(LaneKind::Target, write),
            self.wanted(LaneKind::Word { address, rkey }, write),
            self.wanted_relay(),
        ];
        core::array::from_fn(|at| LaneLink {
            lane: lanes[at],
            old: old[at],
            wanted: wanted[at],
        })
    }

    /// Enters a slot with its lanes in the switch's tables.
    fn enter_slot(
        &mut self,
        site: &mut dyn Site,
        (index, slot): (usize, u16),
        ([target, word, relay], relay_psn): ([Connected; SLOT_LANES], Psn),
        completions: (u64, Rkey),
    ) -> Result<(), PageSetUpError> {
        let registry = self.pages.as_mut().expect("pages are set up");
        let entry = SlotEntry {
            node: registry.spec.nodes[index].node.0,
            target: target.lane,
            word: word.lane,
            relay: relay.lane,
        };
        registry.slots[usize::from(slot)] = Some(SlotRegistry {
            node: index,
            target,
            word,
            relay,
            completions,
        });
        with_pages(site, |pages| {
            pages.set_role(target.lane, Some(PageRole::Target(slot)))?;
            pages.set_role(word.lane, Some(PageRole::Word(slot)))?;
            pages.set_role(relay.lane, Some(PageRole::Relay(slot)))?;
            pages.set_slot(slot, Some(entry), relay_psn)
        })?;
        Ok(())
    }

    /// A lane for pages out of a node's buffer frames. The switch gives it to the next transfer as
    /// soon as it has refused a page by its header, while the node's NIC still sends the rest: a
    /// NIC that accepts one READ at a time would refuse the next one, and break the queue pair.
    ///
    /// The lane after the last one writes the node's lease words.
    pub(super) fn wanted_source(&mut self, bit: u8, pool: &PagePool) -> Wanted {
        if bit == SOURCES {
            let kind = LaneKind::Word {
                address: pool.region.address + pool.layout.leases_at(),
                rkey: pool.region.rkey,
            };
            return self.wanted(kind, Access::REMOTE_WRITE);
        }
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

/// Where the switch writes the completions of a channel's slot.
fn completions(control: RegionName, slot: u16) -> (u64, Rkey) {
    let at = control.address + u64::from(slot) * COMPLETION_LEN;
    (at, control.rkey)
}

/// Stores a value at its index, or after the last one.
fn put(all: &mut Vec<Connected>, at: usize, made: Connected) {
    match all.get_mut(at) {
        Some(place) => *place = made,
        None => all.push(made),
    }
}
