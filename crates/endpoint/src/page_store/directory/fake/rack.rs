//! The nodes of a model, as the conformance suite drives them.

use super::verbs::NodeVerbs;
use super::{
    CONTROL_ADDRESS, CONTROL_KEY, ENTRIES_ADDRESS, ENTRIES_KEY, Faults, Model, Node, PAGE,
    SERVER_QP, SLOTS, STORE, SWITCH_QP, page,
};
use crate::page_store::directory::conformance::{self, FRAMES, PAGES};
use crate::page_store::directory::{
    Channel, ChannelParts, Directory, FallbackParts, Op, Reply, Ticket,
};
use rackweave_base::{Block, Instant, Memory};
use rackweave_verbs::CqId;
use rackweave_wire::fabric::page::{PageId, control};
use std::cell::RefCell;
use std::rc::Rc;

/// The fake rack, with a channel for each node.
pub(in crate::page_store::directory) struct FakeRack {
    pub model: Rc<RefCell<Model>>,
    pub channels: Vec<Channel>,
    pub(super) frames: Vec<Block>,
}

impl FakeRack {
    pub fn new(seed: u64, faults: Faults, indexed: bool) -> Self {
        let model = Model::new(seed, faults, indexed);
        let parts = |(node, it): (u16, &Node)| ChannelParts {
            node,
            requests: SWITCH_QP,
            cq: CqId(1),
            slots: SLOTS,
            control: it.control.clone(),
            control_address: CONTROL_ADDRESS,
            control_lkey: CONTROL_KEY,
            frames: FRAMES,
            fallback: vec![FallbackParts {
                qpn: SERVER_QP,
                address: ENTRIES_ADDRESS,
                rkey: ENTRIES_KEY,
                entries: PAGES,
                store: STORE,
            }],
            alarm: Default::default(),
            owed: Default::default(),
        };
        Self {
            channels: (0..)
                .zip(&model.nodes)
                .map(parts)
                .map(Channel::new)
                .collect(),
            frames: model.nodes.iter().map(|node| node.frames.clone()).collect(),
            model: Rc::new(RefCell::new(model)),
        }
    }

    fn verbs(&self, node: usize) -> (Instant, NodeVerbs) {
        let now = Instant::from_nanos(self.model.borrow().now);
        (now, NodeVerbs::new(&self.model, node as u16))
    }
}

impl conformance::World for FakeRack {
    fn nodes(&self) -> usize {
        self.channels.len()
    }

    fn page_size(&self) -> usize {
        PAGE
    }

    fn page(&self, n: u64) -> PageId {
        page(n)
    }

    fn beyond(&self) -> PageId {
        page(PAGES)
    }

    fn frames(&self, node: usize) -> &Block {
        &self.frames[node]
    }

    fn begin(&mut self, node: usize, op: Op) -> Option<Ticket> {
        let (now, mut verbs) = self.verbs(node);
        self.channels[node].begin(now, &mut verbs, op)
    }

    fn poll(&mut self, node: usize) -> Option<Reply> {
        let (now, mut verbs) = self.verbs(node);
        self.channels[node].poll(now, &mut verbs)
    }

    fn step(&mut self) {
        self.model.borrow_mut().step();
    }
}

/// The control region of a channel that has been connected once.
pub(super) fn control_region(memory: &Memory) -> Block {
    let bytes = control::control_bytes(SLOTS, u16::from(STORE) + 1) as usize;
    let region = memory.allocate(bytes).unwrap();
    for at in [
        control::generation_at(SLOTS),
        control::server_generation_at(SLOTS),
    ] {
        let first = control::generation(0, 1).to_le_bytes();
        region.write(at as usize, &first);
    }
    let entries = control::entries_at(SLOTS, STORE) as usize;
    region.write(entries, &ENTRIES_ADDRESS.to_le_bytes());
    region.write(entries + 8, &u64::from(ENTRIES_KEY.0).to_le_bytes());
    region
}
