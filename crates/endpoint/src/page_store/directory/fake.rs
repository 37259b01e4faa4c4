//! A model of a rack for tests: switch, memory server and SSD in one model behind [`Verbs`].
//!
//! Packets of one queue pair stay in order; everything else takes random time. Pages move in
//! pieces, the header first, so that a torn page can be detected. Faults are random. The controller
//! is represented by [`Model::promote`] and [`Model::demote`], which act instantaneously.

mod directory;
mod movement;
mod rack;
mod verbs;

pub(super) use rack::FakeRack;

use super::conformance::{FRAMES, NODES, PAGES, stamped};
use movement::Transfer;
use rack::control_region;
use rackweave_base::{Block, Lkey, Memory, Qpn, Rkey, Rng};
use rackweave_verbs::{Completion, CompletionOpcode};
use rackweave_wire::fabric::page::{FallbackLatch, LatchWord, PageId, PageLocation, Request};
use std::collections::{BTreeMap, HashMap, VecDeque};

pub(super) const PAGE: usize = 4096;
pub(super) const SLOTS: u16 = 6;
const STORE: u8 = 2;
const CONTROL_ADDRESS: u64 = 0x7000_0000;
const CONTROL_KEY: Lkey = Lkey(77);
const ENTRIES_ADDRESS: u64 = 0x10_0000;
const ENTRIES_KEY: Rkey = Rkey(0xfeed);
/// The place in the server's memory while the switch has the entry: not a place.
const ELSEWHERE: u64 = u64::MAX;
pub(super) const SWITCH_QP: Qpn = Qpn(5);
pub(super) const SERVER_QP: Qpn = Qpn(6);

/// Faults, as probabilities.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Faults {
    pub busy: f64,
    pub locked: f64,
    pub wrong_header: f64,
    pub source_gone: f64,
    pub full: f64,
    pub moves: f64,
}

/// The switch's entry.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub holder: Option<u16>,
    pub latch: LatchWord,
    pub place: PageLocation,
}

/// A node in the model.
pub(super) struct Node {
    pub frames: Block,
    pub control: Block,
    cq: VecDeque<Completion>,
    /// Posted and not completed, by queue pair.
    posted: HashMap<Qpn, VecDeque<(u64, CompletionOpcode)>>,
    broken: HashMap<Qpn, bool>,
    /// Transfers out of its buffer frames, by epoch.
    flying: [u32; 2],
    epoch: usize,
}

enum Event {
    /// A request reaches the switch.
    Asked {
        node: u16,
        id: u64,
        request: Request,
        to: u64,
    },
    /// A work request reaches the server.
    Accessed {
        node: u16,
        id: u64,
        operation: rackweave_verbs::Operation,
        to: u64,
    },
    /// An answer reaches a node.
    Served {
        node: u16,
        qpn: Qpn,
        id: u64,
        to: u64,
        bytes: Vec<u8>,
    },
    /// A piece of a page moves.
    Piece(Transfer),
    /// The end of a movement reaches a node.
    Ended {
        node: u16,
        slot: u8,
        words: (u64, u64),
    },
}

pub(super) struct Model {
    pub rng: Rng,
    pub faults: Faults,
    pub now: u64,
    pub nodes: Vec<Node>,
    pub entries: HashMap<u64, Entry>,
    pub server: Block,
    pub ssd: Vec<u8>,
    /// Flushes of the store that were carried out.
    pub flushes: u32,
    events: BTreeMap<(u64, u64), Event>,
    sequence: u64,
    /// When the last packet of a queue pair arrives, by node, queue pair and direction.
    last: HashMap<(u16, Qpn, bool), u64>,
    commands: u32,
    /// An event has reached a node.
    pub touched: bool,
    /// The node and buffer frame at which a slot aims.
    aims: HashMap<(u16, u8), u64>,
}

pub(super) fn page(n: u64) -> PageId {
    PageId::new(STORE, n).unwrap()
}

impl Model {
    fn new(seed: u64, faults: Faults, indexed: bool) -> Self {
        let memory = Memory::new(1 << 28);
        let node = |_| Node {
            frames: memory.allocate(PAGE * FRAMES as usize).unwrap(),
            control: control_region(&memory),
            cq: VecDeque::new(),
            posted: HashMap::new(),
            broken: HashMap::new(),
            flying: [0; 2],
            epoch: 0,
        };
        let mut model = Self {
            rng: Rng::new(seed),
            faults,
            now: 0,
            nodes: (0..NODES).map(node).collect(),
            entries: HashMap::new(),
            server: memory.allocate(16 * PAGES as usize).unwrap(),
            flushes: 0,
            ssd: (0..PAGES).flat_map(|n| stamped(page(n), 0, PAGE)).collect(),
            events: BTreeMap::new(),
            sequence: 0,
            last: HashMap::new(),
            commands: 0,
            touched: false,
            aims: HashMap::new(),
        };
        if indexed {
            (0..PAGES).for_each(|n| model.promote(page(n)));
        }
        model
    }

    /// Whether nothing is in flight.
    pub fn is_idle(&self) -> bool {
        self.events.is_empty()
    }

    fn push(&mut self, at: u64, event: Event) {
        self.sequence += 1;
        self.events.insert((at, self.sequence), event);
    }

    /// When an event on a queue pair arrives: not before the preceding ones.
    fn in_order(&mut self, node: u16, qpn: Qpn, back: bool) -> u64 {
        let delay = self.rng.between(200, 4_000);
        let last = self.last.entry((node, qpn, back)).or_default();
        *last = (*last + 1).max(self.now + delay);
        *last
    }

    fn answer(&mut self, node: u16, qpn: Qpn, id: u64, to: u64, bytes: Vec<u8>) {
        let at = self.in_order(node, qpn, true);
        self.push(
            at,
            Event::Served {
                node,
                qpn,
                id,
                to,
                bytes,
            },
        );
    }

    /// Executes the next event, and all at the same time; time passes even if there is none.
    pub fn step(&mut self) {
        let next = self.events.first_key_value().map(|(&(at, _), _)| at);
        self.now = next.unwrap_or(u64::MAX).min(self.now + 1_000).max(self.now);
        while let Some(entry) = self.events.first_entry() {
            if entry.key().0 > self.now {
                break;
            }
            let event = entry.remove();
            self.happen(event);
        }
        if self.rng.chance(self.faults.moves) {
            let page = page(self.rng.below(PAGES));
            match self.entries.contains_key(&page.number()) {
                true => self.demote(page),
                false => self.promote(page),
            }
        }
    }

    fn happen(&mut self, event: Event) {
        self.touched |= matches!(event, Event::Served { .. } | Event::Ended { .. });
        match event {
            Event::Asked {
                node,
                id,
                request,
                to,
            } => {
                if self.is_broken(node, SWITCH_QP) {
                    return;
                }
                let response = self.asked(node, request);
                self.answer(node, SWITCH_QP, id, to, response.emit().to_vec());
            }
            Event::Accessed {
                node,
                id,
                operation,
                to,
            } => {
                if !self.is_broken(node, SERVER_QP) {
                    let bytes = self.accessed(operation);
                    self.answer(node, SERVER_QP, id, to, bytes);
                }
            }
            Event::Served {
                node,
                qpn,
                id,
                to,
                bytes,
            } => {
                if !self.is_broken(node, qpn) {
                    let offset = (to - CONTROL_ADDRESS) as usize;
                    self.nodes[node as usize].control.write(offset, &bytes);
                    self.complete(node, qpn, id);
                }
            }
            Event::Piece(transfer) => self.piece(transfer),
            Event::Ended { node, slot, words } => {
                if !self.is_broken(node, SWITCH_QP) {
                    let control = &self.nodes[node as usize].control;
                    let at = usize::from(slot) * 16;
                    control.write(at + 8, &words.1.to_le_bytes());
                    control.write(at, &words.0.to_le_bytes());
                }
            }
        }
    }

    pub fn entry_words(&self, page: PageId) -> (FallbackLatch, PageLocation) {
        let mut bytes = [0; 16];
        self.server.read(16 * page.index() as usize, &mut bytes);
        let word = |at| u64::from_le_bytes(*bytes[at..].first_chunk().unwrap());
        (FallbackLatch(word(0)), PageLocation(word(8)))
    }

    pub fn set_entry_words(&self, page: PageId, latch: FallbackLatch, place: PageLocation) {
        let at = 16 * page.index() as usize;
        self.server.write(at, &latch.0.to_le_bytes());
        self.server.write(at + 8, &place.0.to_le_bytes());
    }

    /// The switch takes the entry over, unless a node is writing the page home.
    pub fn promote(&mut self, page: PageId) {
        let (word, place) = self.entry_words(page);
        if place.is_writing() {
            return;
        }
        let entry = Entry {
            holder: word.holder(),
            latch: word.latch(),
            place,
        };
        self.entries.insert(page.number(), entry);
        self.set_entry_words(page, FallbackLatch::INDEXED, PageLocation(ELSEWHERE));
    }

    /// The server's memory takes the entry over.
    pub fn demote(&mut self, page: PageId) {
        let Some(entry) = self.entries.remove(&page.number()) else {
            return;
        };
        let word = FallbackLatch::new(entry.latch, entry.holder);
        self.set_entry_words(page, word, entry.place);
    }

    /// The entry, wherever it is.
    pub fn entry(&self, page: PageId) -> Entry {
        match self.entries.get(&page.number()) {
            Some(entry) => *entry,
            None => {
                let (word, place) = self.entry_words(page);
                Entry {
                    holder: word.holder(),
                    latch: word.latch(),
                    place,
                }
            }
        }
    }
}
