//! Random histories of three nodes on a few pages over the fake rack, with faults, and with entries
//! that move between switch and server at any moment.
//!
//! These are checked at every reply: at most one node holds a latch; versions never go back, and
//! grow by one with each change; data is that of the version in the reply, complete; a changed page
//! is never called superseded unless it was overtaken. At the end no latch, no mark of a write and
//! no unreleased change remains.

mod replies;

use super::conformance::{FRAMES, NODES, World, stamped};
use super::fake::{FakeRack, Faults, PAGE, SLOTS, page};
use super::{Answer, Mode, Op, Ticket};
use rackweave_base::Rng;
use rackweave_wire::fabric::page::header::VOID;
use rackweave_wire::fabric::page::{LatchWord, PageId};
use std::collections::HashMap;

const PAGES: u64 = 3;
const OPERATIONS: usize = 1_500;

/// A node's knowledge of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Copy {
    frame: u32,
    version: u64,
    dirty: bool,
    latched: bool,
}

#[derive(Default)]
struct Node {
    copies: HashMap<u64, Copy>,
    /// Buffer frames that may be used, those whose headers were voided with the number of quiesces
    /// since, and where a page was last: it must be fetched into another frame, because a node may
    /// look for it there during the fetch.
    free: Vec<u32>,
    voided: Vec<(u32, u8)>,
    last: HashMap<u64, u32>,
    under_way: HashMap<Ticket, (Op, u64)>,
    quiescing: Option<Vec<u32>>,
}

impl Node {
    fn is_busy(&self, page: PageId) -> bool {
        let of = |(op, _): &(Op, u64)| op.page() == Some(page);
        self.under_way.values().any(of)
    }
}

struct History {
    world: FakeRack,
    rng: Rng,
    nodes: Vec<Node>,
    /// The version of the last change, from its reply.
    committed: Vec<u64>,
    holder: Vec<Option<usize>>,
    counts: HashMap<&'static str, u32>,
}

impl History {
    fn new(seed: u64, faults: Faults, indexed: bool) -> Self {
        let node = || Node {
            free: (0..FRAMES).collect(),
            ..Node::default()
        };
        let history = Self {
            world: FakeRack::new(seed, faults, indexed),
            rng: Rng::new(seed ^ 0x5eed),
            nodes: (0..NODES).map(|_| node()).collect(),
            committed: vec![0; PAGES as usize],
            holder: vec![None; PAGES as usize],
            counts: HashMap::new(),
        };
        for node in 0..NODES {
            for frame in 0..FRAMES {
                history.void(node, frame);
            }
        }
        history
    }

    fn void(&self, node: usize, frame: u32) {
        let at = frame as usize * PAGE;
        self.world.frames(node).write(at, &VOID.to_le_bytes());
    }

    fn begin(&mut self, node: usize, op: Op) {
        let committed = op
            .page()
            .map_or(0, |page| self.committed[page.index() as usize]);
        if let Some(ticket) = self.world.begin(node, op) {
            self.nodes[node].under_way.insert(ticket, (op, committed));
        }
    }

    /// Voids a buffer frame, which becomes free after two quiesces.
    fn retire(&mut self, node: usize, frame: u32) {
        self.void(node, frame);
        self.nodes[node].voided.push((frame, 0));
    }

    fn act(&mut self, node: usize, winding_up: bool) {
        if self.nodes[node].under_way.len() >= usize::from(SLOTS) {
            return;
        }
        let voided = &self.nodes[node].voided;
        if !voided.is_empty() && self.nodes[node].quiescing.is_none() {
            let frames = voided.iter().map(|&(frame, _)| frame).collect();
            self.nodes[node].quiescing = Some(frames);
            return self.begin(node, Op::Quiesce);
        }
        let page = page(self.rng.below(PAGES));
        if self.nodes[node].is_busy(page) {
            return;
        }
        match self.nodes[node].copies.get(&page.number()).copied() {
            Some(copy) if copy.latched => self.give_back(node, page, copy),
            _ if winding_up => {}
            Some(copy) => self.use_copy(node, page, copy),
            None => self.fetch_anew(node, page),
        }
    }

    fn mode(&mut self) -> Mode {
        match self.rng.chance(0.5) {
            true => Mode::Shared,
            false => Mode::Exclusive,
        }
    }

    fn fetch_anew(&mut self, node: usize, page: PageId) {
        let mode = self.mode();
        let last = self.nodes[node].last.get(&page.number()).copied();
        let free = &mut self.nodes[node].free;
        let Some(at) = free.iter().position(|&frame| Some(frame) != last) else {
            return;
        };
        let frame = free.remove(at);
        let have = None;
        self.nodes[node].last.insert(page.number(), frame);
        self.begin(
            node,
            Op::Fetch {
                page,
                mode,
                frame,
                have,
            },
        );
    }

    fn use_copy(&mut self, node: usize, page: PageId, copy: Copy) {
        let frame = copy.frame;
        match self.rng.below(4) {
            0 => self.begin(node, Op::Verify { page, lease: None }),
            1 if copy.dirty => {
                let keep = self.rng.chance(0.5);
                self.begin(node, Op::Evict { page, frame, keep });
            }
            1 => {
                self.nodes[node].copies.remove(&page.number());
                self.retire(node, frame);
            }
            _ => {
                let mode = self.mode();
                // A dirty copy that is not the newest must be removed first: other nodes may read
                // from it.
                let have = Some(copy.version);
                self.begin(
                    node,
                    Op::Fetch {
                        page,
                        mode,
                        frame,
                        have,
                    },
                );
            }
        }
    }

    fn give_back(&mut self, node: usize, page: PageId, copy: Copy) {
        self.holder[page.index() as usize] = None;
        let frame = copy.frame;
        if self.rng.chance(0.3) {
            return self.begin(node, Op::Release { page });
        }
        let bytes = stamped(page, copy.version + 1, PAGE);
        self.world.frames(node).write(frame as usize * PAGE, &bytes);
        self.begin(node, Op::Unfix { page, frame });
    }

    fn turn(&mut self, winding_up: bool) {
        self.world.step();
        for node in 0..NODES {
            while let Some(reply) = self.world.poll(node) {
                self.replied(node, reply);
            }
            if self.rng.chance(0.3) {
                self.act(node, winding_up);
            }
        }
    }

    fn is_idle(&self) -> bool {
        let idle = |node: &Node| {
            node.under_way.is_empty() && node.copies.values().all(|copy| !copy.latched)
        };
        self.nodes.iter().all(idle)
    }

    fn run(&mut self) {
        let ended = |history: &Self| history.counts.values().sum::<u32>() as usize;
        let mut turns = 0;
        while ended(self) < OPERATIONS {
            self.turn(false);
            turns += 1;
            assert!(turns < 4_000_000, "only {} operations end", ended(self));
        }
        while !self.is_idle() {
            self.turn(true);
            turns += 1;
            assert!(turns < 5_000_000, "operations do not end");
        }
        self.settle();
    }

    /// Checks that nothing is left behind.
    fn settle(&self) {
        let model = self.world.model.borrow();
        for (n, &committed) in (0..).zip(&self.committed) {
            let entry = model.entry(page(n));
            assert_eq!(entry.holder, None, "page {n}");
            assert_eq!(entry.latch, LatchWord::open(committed), "page {n}");
            assert!(!entry.place.is_writing(), "page {n}: {:?}", entry.place);
            let newest = stamped(page(n), committed, PAGE);
            let mut bytes = vec![0; PAGE];
            match entry.place.cached() {
                Some((node, frame)) if entry.place.is_dirty() => {
                    let frames = &model.nodes[node as usize].frames;
                    frames.read(frame as usize * PAGE, &mut bytes);
                }
                _ => {
                    let at = n as usize * PAGE;
                    bytes.copy_from_slice(&model.ssd[at..at + PAGE]);
                }
            }
            assert!(bytes == newest, "page {n}: a change is lost, {entry:?}");
        }
    }
}

fn name(answer: Answer) -> &'static str {
    match answer {
        Answer::Fetched(served) if served.indexed => "fetched, indexed",
        Answer::Fetched(_) => "fetched, fallback",
        Answer::Unchanged => "unchanged",
        Answer::Done => "done",
        Answer::Locked => "locked",
        Answer::Superseded => "superseded",
        Answer::Gone => "gone",
        Answer::Pending => "pending",
        _ => "other",
    }
}

/// Runs histories with these seeds; returns how often each answer occurred.
fn histories(faults: Faults, indexed: bool) -> HashMap<&'static str, u32> {
    let mut counts = HashMap::new();
    let number = |name| {
        std::env::var(name)
            .ok()
            .and_then(|it| it.parse::<u64>().ok())
    };
    let first = number("HISTORY_SEED");
    let count = number("HISTORY_SEEDS").unwrap_or(if first.is_some() { 1 } else { 12 });
    let first = first.unwrap_or(0);
    let seeds = first..first + count;
    for seed in seeds {
        println!("HISTORY_SEED={seed}, indexed {indexed}, {faults:?}");
        let mut history = History::new(seed, faults, indexed);
        history.run();
        for (name, count) in history.counts {
            *counts.entry(name).or_default() += count;
        }
    }
    println!("{counts:?}");
    for name in ["unchanged", "done", "locked"] {
        assert!(
            count == 1 || counts.contains_key(name),
            "no answer is {name}"
        );
    }
    counts
}

const FAULTS: Faults = Faults {
    busy: 0.1,
    locked: 0.05,
    wrong_header: 0.05,
    source_gone: 0.01,
    full: 0.05,
    moves: 0.0,
};

#[test]
fn histories_in_the_switch() {
    let counts = histories(Faults::default(), true);
    assert!(!counts.contains_key("fetched, fallback"));
    histories(FAULTS, true);
}

#[test]
fn histories_in_the_server() {
    let counts = histories(Faults::default(), false);
    assert!(!counts.contains_key("fetched, indexed"));
    histories(FAULTS, false);
}

#[test]
fn histories_while_entries_move() {
    let moves = 0.05;
    let counts = histories(Faults { moves, ..FAULTS }, true);
    assert!(counts.contains_key("fetched, fallback"));
    assert!(counts.contains_key("fetched, indexed"));
    histories(
        Faults {
            moves: 0.3,
            ..Faults::default()
        },
        false,
    );
}
