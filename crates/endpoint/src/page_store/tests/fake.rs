//! A model of a rack for tests: one directory, the homes, and the buffer frames of several nodes.
//!
//! It follows the transitions of `wire::fabric::page::entry`, moves pages in two halves with time
//! in between, and asserts a node's obligations: see `Model`.

mod directory;

use crate::page_store::directory::{Answer, Mode, Op, Served, Ticket};
use rackweave_base::{Block, Duration, Instant, Rng};
use rackweave_wire::fabric::page::control::PoolLayout;
use rackweave_wire::fabric::page::header::VOID;
use rackweave_wire::fabric::page::{LatchWord, PageHeader, PageId, PageLocation, PageSource};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};

/// The rack. Clones share it.
#[derive(Clone, Debug)]
pub struct Rack(Arc<Mutex<Model>>);

#[derive(Debug)]
pub struct Model {
    pub entries: HashMap<PageId, Entry>,
    /// Pages whose entries were written by a node that breaks the protocol.
    pub forged: HashSet<PageId>,
    /// The content returned by reads of homes.
    pub homes: HashMap<PageId, Vec<u8>>,
    /// The content after a power failure.
    pub durable: HashMap<PageId, Vec<u8>>,
    /// Flushes of a store that were carried out.
    pub flushes: u32,
    nodes: Vec<Node>,
    page_size: usize,
    /// Number of pages of a store.
    pub pages: u64,
    /// Number of homes that fit on the device.
    pub room: usize,
    /// The status with which storage fails reads and writes.
    pub fault: Option<u16>,
    /// The directory does not respond.
    pub is_gone: bool,
    /// It executes requests, but its answers are lost.
    pub is_mute: bool,
    /// How often the directory was lost and rebuilt.
    pub beginnings: u64,
    /// Probability that a movement aborts.
    pub breaks: f64,
    pub delay_max: u64,
    /// Operations in flight for a page of a node.
    busy: HashSet<(u16, (PageId, bool))>,
    /// Pages that are being written home.
    writes: HashSet<PageId>,
    rng: Rng,
}

/// A directory's entry.
#[derive(Clone, Copy, Default, Debug)]
pub struct Entry {
    pub latch: LatchWord,
    pub holder: Option<u16>,
    /// It must determine whether it has the newest version.
    pub is_doubted: bool,
    pub place: PageLocation,
}

#[derive(Debug)]
struct Node {
    block: Block,
    /// Transfers out of its buffer frames, by group; the second is the one that grows.
    groups: [u32; 2],
    turned: bool,
}

/// One worker's directory.
#[derive(Debug)]
pub struct FakeDirectory {
    rack: Rack,
    node: u16,
    under_way: Vec<UnderWay>,
    next: u32,
    pub room: usize,
}

#[derive(Debug)]
struct UnderWay {
    ticket: Ticket,
    op: Op,
    due: Instant,
    phase: Phase,
    /// The directory that was asked.
    beginning: u64,
}

#[derive(Clone, Debug)]
enum Phase {
    Ask,
    /// The first half of a page has been moved.
    Half {
        from: From,
        latch: LatchWord,
    },
    /// A page is being written home; these were its bytes at the start.
    Writing(Vec<u8>),
    /// The answer is in flight.
    Answered(Answer, LatchWord),
}

#[derive(Clone, Copy, Debug)]
enum From {
    Home,
    Frame { node: u16, frame: u32, group: usize },
}

impl Rack {
    pub fn new(seed: u64, page_size: usize, pages: u64) -> Self {
        Self(Arc::new(Mutex::new(Model {
            entries: HashMap::new(),
            forged: HashSet::new(),
            homes: HashMap::new(),
            durable: HashMap::new(),
            flushes: 0,
            nodes: Vec::new(),
            page_size,
            pages,
            room: usize::MAX,
            fault: None,
            is_gone: false,
            is_mute: false,
            beginnings: 0,
            breaks: 0.0,
            delay_max: 2000,
            busy: HashSet::new(),
            writes: HashSet::new(),
            rng: Rng::new(seed),
        })))
    }

    pub fn model(&self) -> MutexGuard<'_, Model> {
        self.0.lock().unwrap()
    }

    /// A node with these buffer frames.
    pub fn add_node(&self, block: Block) -> u16 {
        let mut model = self.model();
        model.nodes.push(Node {
            block,
            groups: [0; 2],
            turned: false,
        });
        model.nodes.len() as u16 - 1
    }

    pub fn directory(&self, node: u16) -> FakeDirectory {
        FakeDirectory {
            rack: self.clone(),
            node,
            under_way: Vec::new(),
            next: 0,
            room: 16,
        }
    }

    pub fn entry(&self, page: PageId) -> Entry {
        self.model().entries.get(&page).copied().unwrap_or_default()
    }

    /// The directory declares a node dead.
    pub fn presume_dead(&self, node: u16) {
        for entry in self.model().entries.values_mut() {
            if entry.holder == Some(node) {
                entry.holder = None;
                entry.latch = entry.latch.released();
            }
            entry.place = entry.place.died(node);
        }
    }

    /// Pages that are lost.
    pub fn lost(&self) -> Vec<PageId> {
        let model = self.model();
        let lost = model.entries.iter().filter(|(_, e)| e.place.is_lost());
        let mut lost: Vec<_> = lost.map(|(page, _)| *page).collect();
        lost.sort_unstable();
        lost
    }

    /// Accepts the loss of a page. False as long as a dead node's write may still arrive.
    pub fn accept_loss(&self, page: PageId) -> bool {
        let mut model = self.model();
        if model.writes.contains(&page) {
            return false;
        }
        let Some(entry) = model.entries.get_mut(&page) else {
            return false;
        };
        if !entry.place.is_lost() || entry.latch.is_locked() {
            return false;
        }
        entry.latch = entry.latch.changed();
        entry.place = entry.place.accepted();
        true
    }

    /// Everything except the homes is lost and forgotten.
    pub fn restart(&self) {
        let mut model = self.model();
        model.entries.clear();
        model.nodes.clear();
        model.busy.clear();
        model.writes.clear();
    }

    /// As [`Self::restart`], and writes home that were not flushed are lost too.
    pub fn cut_power(&self) {
        self.restart();
        let mut model = self.model();
        model.homes = model.durable.clone();
    }
}

impl Model {
    pub fn bytes(&self, node: u16, frame: u32) -> Vec<u8> {
        let mut bytes = vec![0; self.page_size];
        let block = &self.nodes[usize::from(node)].block;
        block.read(frame as usize * self.page_size, &mut bytes);
        bytes
    }

    pub fn header(&self, node: u16, frame: u32) -> PageHeader {
        PageHeader::parse(&self.bytes(node, frame)).unwrap()
    }

    /// Sets the content of a buffer frame before its node has checked it.
    pub fn arrived(&self, node: u16, frame: u32, bytes: &[u8]) {
        let block = &self.nodes[usize::from(node)].block;
        block.write(frame as usize * self.page_size, bytes);
    }

    /// Moves one half of a page, the first or the second.
    fn move_half(&self, from: From, page: PageId, node: u16, frame: u32, second: bool) {
        let bytes = match from {
            From::Home => self
                .homes
                .get(&page)
                .cloned()
                .unwrap_or_else(|| vec![0; self.page_size]),
            From::Frame { node, frame, .. } => self.bytes(node, frame),
        };
        let (at, half) = (frame as usize * self.page_size, self.page_size / 2);
        let start = if second { half } else { 0 };
        let block = &self.nodes[usize::from(node)].block;
        block.write(at + start, &bytes[start..start + half]);
    }

    #[expect(
        clippy::too_many_lines,
        reason = "a request of each kind is answered in its arm"
    )]
    fn ask(&mut self, me: u16, op: Op) -> Result<(Answer, LatchWord), Phase> {
        if self.is_gone {
            return Ok((Answer::Gone, LatchWord(0)));
        }
        let (page, mode) = match op {
            Op::Fetch { page, mode, .. } => (page, mode),
            Op::Quiesce => return Ok((self.quiesce(me), LatchWord(0))),
            Op::Flush { store } => return Ok((self.flush(store), LatchWord(0))),
            Op::Verify { page, .. } | Op::Unfix { page, .. } => (page, Mode::Shared),
            Op::Release { page } | Op::Evict { page, .. } => (page, Mode::Shared),
            Op::ReadHome { page } | Op::Own { page, .. } | Op::Disown { page } => {
                (page, Mode::Shared)
            }
        };
        if page.index() >= self.pages {
            return Ok((Answer::Invalid, LatchWord(0)));
        }
        let header = |model: &Self, frame| model.header(me, frame);
        let mut entry = self.entries.get(&page).copied().unwrap_or_default();
        let answer = match op {
            Op::Quiesce | Op::Flush { .. } => unreachable!(),
            Op::ReadHome { .. } => self.read_home(me, page),
            Op::Verify { .. } if entry.place.is_lost() => Answer::Lost,
            Op::Verify { .. } => Answer::Done,
            Op::Unfix { .. } | Op::Release { .. } if entry.is_doubted => Answer::Locked,
            Op::Unfix { frame, .. } | Op::Own { frame, .. } if entry.holder == Some(me) => {
                entry.latch = entry.latch.changed();
                let found = header(self, frame);
                assert_eq!(found.page, page.tag());
                let version = match self.forged.contains(&page) {
                    true => found.version,
                    false => entry.latch.version(),
                };
                assert_eq!((found.version, found.checksum), (version, 0));
                (entry.holder, entry.is_doubted) = (None, false);
                entry.place = entry.place.moved(me, frame);
                Answer::Done
            }
            Op::Release { .. } | Op::Disown { .. } if entry.holder == Some(me) => {
                entry.latch = entry.latch.released();
                (entry.holder, entry.is_doubted) = (None, false);
                if matches!(op, Op::Disown { .. }) {
                    entry.place = entry.place.accepted();
                }
                Answer::Done
            }
            Op::Unfix { .. } | Op::Release { .. } | Op::Own { .. } | Op::Disown { .. } => {
                Answer::Superseded
            }
            Op::Evict { frame, .. } => {
                if !entry.place.is_at(me, frame) || !entry.place.is_dirty() {
                    Answer::Superseded
                } else if entry.place.is_writing() || self.writes.contains(&page) {
                    Answer::Locked
                } else {
                    entry.place = entry.place.writing();
                    self.writes.insert(page);
                    self.entries.insert(page, entry);
                    return Err(Phase::Writing(self.bytes(me, frame)));
                }
            }
            Op::Fetch { frame, have, .. } => {
                let found = header(self, frame).page;
                let expect = if have.is_some() { page.tag() } else { VOID };
                // An earlier attempt may have left another header, which is overwritten with void.
                // It may also be that of a page that was never written, over an old copy.
                let blank = have.is_some() && found == 0;
                assert!(
                    found == expect || blank,
                    "a fetch into a buffer frame in use"
                );
                if entry.place.is_lost() {
                    Answer::Lost
                } else if entry
                    .holder
                    .is_some_and(|holder| holder != me || mode == Mode::Shared)
                {
                    Answer::Locked
                } else {
                    if mode == Mode::Exclusive {
                        entry.holder = Some(me);
                        entry.latch = entry.latch.locked();
                    }
                    // A changed page is the newest, whatever its version number is.
                    let is_at = entry.place.is_at(me, frame) && entry.place.is_dirty();
                    if have == Some(entry.latch.version()) || have.is_some() && is_at {
                        Answer::Unchanged
                    } else {
                        let from = self.source(page, &mut entry, me, frame);
                        self.entries.insert(page, entry);
                        self.move_half(from, page, me, frame, false);
                        let latch = entry.latch;
                        return Err(Phase::Half { from, latch });
                    }
                }
            }
        };
        self.entries.insert(page, entry);
        match self.is_mute {
            true => Ok((Answer::Gone, LatchWord(0))),
            false => Ok((answer, entry.latch)),
        }
    }

    fn read_home(&mut self, me: u16, page: PageId) -> Answer {
        let block = &self.nodes[usize::from(me)].block;
        let bytes = |frames| PoolLayout::new(self.page_size as u32, frames).bytes();
        let frames = (block.len() as u64 - bytes(0)) / (bytes(1) - bytes(0));
        let home = self.homes.get(&page).cloned();
        let home = home.unwrap_or_else(|| vec![0; self.page_size]);
        block.write(frames as usize * self.page_size, &home);
        Answer::Done
    }

    /// A word of a pool behind its buffer frames.
    pub fn control_word(&self, node: u16, at: u64) -> u64 {
        let mut bytes = [0; 8];
        self.nodes[usize::from(node)]
            .block
            .read(at as usize, &mut bytes);
        u64::from_le_bytes(bytes)
    }

    pub fn set_control_word(&self, node: u16, at: u64, word: u64) {
        let block = &self.nodes[usize::from(node)].block;
        block.write(at as usize, &word.to_le_bytes());
    }

    /// The source from which a page is to be moved.
    fn source(&mut self, page: PageId, entry: &mut Entry, me: u16, target: u32) -> From {
        let Some((node, frame)) = entry.place.cached() else {
            return From::Home;
        };
        let found = self.header(node, frame);
        let own = (node, frame) == (me, target);
        if own || found.page != page.tag() {
            assert!(
                !entry.place.is_dirty(),
                "the only copy of {page} was dropped"
            );
            entry.place = entry.place.dropped(node, frame);
            return From::Home;
        }
        let owner = &mut self.nodes[usize::from(node)];
        let group = usize::from(owner.turned);
        owner.groups[group] += 1;
        From::Frame { node, frame, group }
    }

    fn quiesce(&mut self, me: u16) -> Answer {
        let node = &mut self.nodes[usize::from(me)];
        let old = usize::from(!node.turned);
        if node.groups[old] > 0 {
            return Answer::Pending;
        }
        node.turned = !node.turned;
        Answer::Done
    }

    fn flush(&mut self, store: u8) -> Answer {
        if let Some(status) = self.fault {
            return Answer::Storage(status);
        }
        let written = self.homes.iter();
        let written = written.filter(|(page, _)| page.store() == store);
        let written = written.map(|(page, bytes)| (*page, bytes.clone()));
        self.durable.extend(written);
        self.flushes += 1;
        Answer::Done
    }

    fn moved(
        &mut self,
        me: u16,
        (page, mode, frame): (PageId, Mode, u32),
        from: From,
        before: LatchWord,
    ) -> (Answer, LatchWord) {
        if let From::Frame { node, frame, group } = from {
            let found = self.header(node, frame).page;
            let good = found == page.tag() || found == VOID;
            assert!(
                good,
                "a buffer frame got another page while {page} was read from it"
            );
            self.nodes[usize::from(node)].groups[group] -= 1;
        }
        let broken = self.rng.chance(self.breaks);
        let fault = self.fault.filter(|_| matches!(from, From::Home));
        if !broken && fault.is_none() {
            self.move_half(from, page, me, frame, true);
        }
        let entry = self.entries.get_mut(&page).unwrap();
        let same = entry.latch == before;
        if broken || fault.is_some() {
            if mode == Mode::Exclusive && entry.holder == Some(me) {
                entry.holder = None;
                entry.latch = entry.latch.released();
            }
            let answer = fault.map_or(Answer::Gone, Answer::Storage);
            return (answer, entry.latch);
        }
        if !same {
            return (Answer::Locked, entry.latch);
        }
        let source = match from {
            From::Home => PageSource::Storage,
            From::Frame { .. } => PageSource::Memory,
        };
        if source == PageSource::Storage {
            entry.place = entry.place.read(me, frame);
        }
        let indexed = page.number() % 2 == 0;
        (Answer::Fetched(Served { source, indexed }), entry.latch)
    }

    fn written(&mut self, me: u16, op: Op, before: Vec<u8>) -> (Answer, LatchWord) {
        let Op::Evict { page, frame, keep } = op else {
            unreachable!()
        };
        assert!(
            self.bytes(me, frame) == before,
            "{page} was changed while it was written"
        );
        self.writes.remove(&page);
        let full = !self.homes.contains_key(&page) && self.homes.len() >= self.room;
        let answer = match self.fault {
            Some(status) => Answer::Storage(status),
            None if full => Answer::Full,
            None => Answer::Done,
        };
        if answer == Answer::Done {
            self.homes.insert(page, before);
        }
        let entry = self.entries.get_mut(&page).unwrap();
        entry.place = entry.place.written(me, frame, answer == Answer::Done, keep);
        match self.is_mute {
            true => (Answer::Gone, LatchWord(0)),
            false => (answer, entry.latch),
        }
    }

    fn delay(&mut self) -> Duration {
        Duration::from_nanos(self.rng.below(self.delay_max + 1))
    }
}

/// The page that an operation concerns, if only one of its kind may be in flight. One that resolves
/// a doubt (true) may be in flight besides.
fn lone(op: Op) -> Option<(PageId, bool)> {
    match op {
        Op::Fetch { page, .. } | Op::Unfix { page, .. } => Some((page, false)),
        Op::Release { page } | Op::Evict { page, .. } => Some((page, false)),
        Op::ReadHome { page } | Op::Own { page, .. } | Op::Disown { page } => Some((page, true)),
        Op::Verify { .. } | Op::Quiesce | Op::Flush { .. } => None,
    }
}
