//! Setting a page directory up: nodes, their channels and slots, stores and their I/O queues.

use super::book::{NodeBook, PageBook, SlotBook};
use super::{PageChannel, PagePool, PageSetUpError, PageSpec};
use crate::lanes::{Connected, PASSIVE_TIMEOUT, Wanted};
use crate::{Controller, LaneError, NodeAddress, RegionName, Site};
use rackweave_base::{NodeId, Qpn, Rkey};
use rackweave_programs::pages::{
    ChannelEntry, EntryState, NodeEntry, PageRole, Pages, SOURCES, SlotEntry,
};
use rackweave_switch::transfer::{LaneId, LaneKind};
use rackweave_verbs::{Access, CqId, Mtu, QpCapabilities};
use rackweave_wire::fabric::page::PageId;

/// Bytes of a slot in a control region: completion, response, scratch.
const CONTROL_LEN: u64 = 64;
const COMPLETION_LEN: u64 = 16;

/// READs that a node may have in flight at the switch (specification 1.4, the most that our NIC
/// takes).
pub(super) const READS_MAX: u8 = 16;

/// Of stores with so many `pages` each, how many have the first `count` pages of all: those of the
/// first store come first.
pub fn first_in_turn(count: u64, pages: impl Iterator<Item = u64>) -> impl Iterator<Item = u64> {
    pages.scan(count, |left, pages| {
        let first = pages.min(*left);
        *left -= first;
        Some(first)
    })
}

impl Controller {
    /// Sets a page directory up, empty: every page is at home.
    ///
    /// # Errors
    /// If the specification makes no sense, or the switch, a node or a target lacks room.
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
        let slots = spec.slots() as u16;
        let mut first_source = Vec::new();
        let mut first_request = Vec::new();
        let mut first_slot = Vec::new();
        let mut slot = 0;
        for node in &spec.nodes {
            first_source.push(self.lanes.take(u16::from(SOURCES))?);
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
        let book = PageBook {
            first_source,
            first_request,
            first_slot,
            slot_lanes,
            queue_lanes,
            fallback: Vec::new(),
            nodes: vec![None; spec.nodes.len()],
            slots: vec![None; usize::from(slots)],
            stores: vec![None; spec.stores.len()],
            lost: Vec::new(),
            spec,
        };
        self.pages = Some(book);
        let made = self.bring_all_up(site);
        if made.is_err() {
            self.pages = None;
        }
        made
    }

    fn bring_all_up(&mut self, site: &mut dyn Site) -> Result<(), PageSetUpError> {
        let book = self.pages.as_ref().expect("just made");
        let (nodes, stores) = (book.nodes.len(), book.stores.len());
        self.make_fallback(site)?;
        for index in 0..nodes {
            self.bring_node_up(site, index)?;
        }
        for store in 0..stores {
            self.bring_store_up(site, store as u8)?;
        }
        self.index_first(site)
    }

    /// Indexes the first pages.
    fn index_first(&mut self, site: &mut dyn Site) -> Result<(), PageSetUpError> {
        let book = self.pages.as_ref().expect("pages are being set up");
        let mut indexed = Vec::new();
        let stores = book.spec.stores.iter().map(|store| store.pages);
        for (store, count) in first_in_turn(book.spec.indexed, stores).enumerate() {
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

    /// Connects a node: buffer frames, channels, slots.
    pub(super) fn bring_node_up(
        &mut self,
        site: &mut dyn Site,
        index: usize,
    ) -> Result<(), PageSetUpError> {
        let book = self.pages.as_ref().expect("pages are set up");
        let (member, page_size) = (book.spec.nodes[index], book.spec.page_size);
        let timeout = book.spec.timeout;
        let (first_source, first_request) = (book.first_source[index], book.first_request[index]);
        let first_slot = book.first_slot[index];
        let at = address(site, member.node)?;
        let (pd, _) = self.home(site, member.node)?;
        let frames = u64::from(member.frames) * u64::from(page_size);
        let remote = Access::LOCAL_WRITE | Access::REMOTE_READ | Access::REMOTE_WRITE;
        let region = make(site, member.node, pd, frames, remote)?;
        let mut sources = Vec::new();
        for bit in 0..SOURCES {
            let lane = LaneId(first_source.0 + u16::from(bit));
            let wanted = self.wanted_source();
            sources.push(self.connect_lane(site, lane, (member.node, at), wanted)?);
            let node = member.node.0;
            with_pages(site, |pages| {
                pages.set_role(lane, Some(PageRole::Source { node, bit }))
            })?;
        }
        let entry = NodeEntry {
            address: region.address,
            rkey: region.rkey,
            frames: member.frames,
            first_source,
        };
        with_pages(site, |pages| pages.set_node(member.node.0, Some(entry)))?;
        let mut book = NodeBook {
            pool: PagePool {
                node: member.node,
                region,
                frames: member.frames,
            },
            sources,
            requests: Vec::new(),
            channels: Vec::new(),
            fallback: Vec::new(),
        };
        for worker in 0..member.workers {
            let length = u64::from(member.slots) * CONTROL_LEN;
            let control = make(site, member.node, pd, length, remote)?;
            let (cq, qpn) = self.make_requester(site, member.node, member.slots)?;
            let lane = LaneId(first_request.0 + worker);
            let wanted = Wanted {
                qpn: Some(qpn),
                reads: READS_MAX,
                timeout,
                ..self.wanted(LaneKind::Program, Access::empty())
            };
            let requests = self.connect_lane(site, lane, (member.node, at), wanted)?;
            book.requests.push(Connected {
                is_lent: false,
                ..requests
            });
            let slot = first_slot + worker * member.slots;
            let number = lane.0 - first_request.0 + self.first_channel(index);
            let entry = ChannelEntry {
                node: member.node.0,
                lane,
                first: wanted.psn,
                first_slot: slot,
                slots: member.slots,
            };
            with_pages(site, |pages| {
                pages.set_role(lane, Some(PageRole::Requests(number)))?;
                pages.set_channel(number, Some(entry))
            })?;
            for at_slot in 0..member.slots {
                let place = control.address + u64::from(at_slot) * COMPLETION_LEN;
                let place = (place, control.rkey);
                self.bring_slot_up(site, (index, at), slot + at_slot, place)?;
            }
            let fallback = self.connect_fallback(site, &mut book, (cq, member.slots), timeout)?;
            book.channels.push(PageChannel {
                node: member.node,
                worker,
                requests: qpn,
                cq,
                slots: member.slots,
                control,
                fallback,
            });
        }
        self.pages.as_mut().expect("as above").nodes[index] = Some(book);
        Ok(())
    }

    /// The number of the first channel of a node.
    fn first_channel(&self, index: usize) -> u16 {
        let book = self.pages.as_ref().expect("pages are set up");
        let before = book.spec.nodes[..index].iter();
        before.map(|node| node.workers).sum()
    }

    /// A lane as pages need it.
    pub(super) fn wanted(&mut self, kind: LaneKind, access: Access) -> Wanted {
        Wanted {
            kind,
            access,
            mtu: Mtu::B4096,
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
        let book = self.pages.as_ref().expect("pages are set up");
        let node = book.spec.nodes[index].node;
        let [target, word, relay] = book.lanes_of(slot);
        let write = Access::REMOTE_WRITE;
        let wanted = self.wanted(LaneKind::Target, write);
        let made_target = self.connect_lane(site, target, (node, at), wanted)?;
        let wanted = self.wanted(LaneKind::Word { address, rkey }, write);
        let made_word = self.connect_lane(site, word, (node, at), wanted)?;
        let (made_relay, psn) = {
            let wanted = self.wanted_relay();
            let made = self.connect_lane(site, relay, (node, at), wanted)?;
            (made, wanted.psn)
        };
        let entry = SlotEntry {
            node: node.0,
            target,
            word,
            relay,
        };
        with_pages(site, |pages| {
            pages.set_role(target, Some(PageRole::Target(slot)))?;
            pages.set_role(word, Some(PageRole::Word(slot)))?;
            pages.set_role(relay, Some(PageRole::Relay(slot)))?;
            pages.set_slot(slot, Some(entry), psn)
        })?;
        let made = SlotBook {
            node: index,
            target: made_target,
            word: made_word,
            relay: made_relay,
        };
        let book = self.pages.as_mut().expect("as above");
        book.slots[usize::from(slot)] = Some(made);
        Ok(())
    }

    /// A lane for pages out of a node's buffer frames. The switch gives it to the next transfer as
    /// soon as it has refused a page by its header, while the node's NIC still sends the rest: a
    /// NIC that takes one READ at a time would refuse the next one, and break the queue pair off.
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

    /// A queue pair that asks, with a completion queue of its own.
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

/// Acts on the page directory in the switch.
pub(super) fn with_pages<R>(site: &mut dyn Site, act: impl FnOnce(&mut Pages) -> R) -> R {
    let (mut act, mut result) = (Some(act), None);
    site.switch(&mut |_, switch| {
        if let Some(act) = act.take() {
            result = Some(act(&mut switch.program_mut().pages));
        }
    });
    result.expect("a site acts on its switch")
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
) -> Result<RegionName, PageSetUpError> {
    site.make_region(node, pd, len, access)
        .map_err(|error| PageSetUpError::Region { node, error })
}
