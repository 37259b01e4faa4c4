//! A second store, whose pages are allocated and freed: its plan, and the state shared between its
//! users and the harness.
//!
//! One worker of each node is a [`user`] of the store. The first formats it, the others open it.
//! They allocate pages, read and change them, including those of others, and free them; they flush,
//! leave the store and open it again, and sometimes all of them close it together.
//! `rackweave_sim::checkers::PageUse` judges the allocations; `PageHistory` judges the content of
//! the pages, with those of the first store.

mod user;

pub(super) use user::{Script, StoreUser};

use super::disturb::{self, Disturbance};
use super::plan::{BLOCK, Indexing};
use crate::wrong::nanos;
use core::cell::RefCell;
use core::fmt;
use rackweave_base::{Duration, Instant, NodeId, Rng};
use rackweave_controller::{PageNode, PageStoreSpec};
use rackweave_sim::checkers::PageUse;
use rackweave_target::MemoryBackend;
use rackweave_wire::fabric::page::PageId;
use std::collections::BTreeMap;

/// The number of the store. The other store is number 0.
pub(super) const STORE: u8 = 1;

/// The share of seeds with this store.
const SHARE: f64 = 0.4;

/// Page 0 is the superblock and page 1 the only map: these stores are not large.
const MAP: u64 = 1;
const FIRST: u64 = 2;

/// Maximum bytes of the store.
const BYTES: u64 = 4 << 20;

/// Buffer frames that a node has for the store.
const FRAMES: u32 = 5;

/// The store, and what its users do.
#[derive(Clone, Copy, Debug)]
pub(super) struct StorePlan {
    /// Bytes of a page.
    pub page_size: u32,
    /// Pages, including superblock and map.
    pub pages: u64,
    /// Number of successive operations of a user.
    pub operations: u32,
    /// Approximate number of pages that its users keep in use.
    pub in_use: u64,
    pub pause_max: Duration,
    pub hold_max: Duration,
    pub flush_chance: f64,
    /// Probability that a user leaves the store and opens it again.
    pub reopen_chance: f64,
    /// Probability that a user requests the closing of the store.
    pub close_chance: f64,
    /// Probability that a user gives nothing back when it leaves the store.
    pub leak_chance: f64,
}

impl StorePlan {
    /// How many of its pages the switch indexes.
    pub fn indexed(&self, rng: &mut Rng, indexing: Indexing) -> u32 {
        match indexing {
            Indexing::All => self.pages as u32,
            Indexing::None => 0,
            Indexing::Hot(_) => rng.below(self.pages) as u32,
        }
    }

    /// Draws the store of a seed, if it has one, beside one with pages of `page_size` bytes.
    pub fn draw(rng: &mut Rng, page_size: u32) -> Option<Self> {
        if !rng.chance(SHARE) {
            return None;
        }
        let micros = Duration::from_micros;
        let most = BYTES / u64::from(page_size);
        let pages = rng.between(FIRST + 10, 120).min(most);
        Some(Self {
            page_size,
            pages,
            operations: rng.between(10, 100) as u32,
            in_use: rng.between(2, pages),
            pause_max: *rng.pick(&[micros(1), micros(10), micros(50)]),
            hold_max: *rng.pick(&[micros(1), micros(5), micros(30)]),
            flush_chance: *rng.pick(&[0.02, 0.1, 0.3]),
            reopen_chance: *rng.pick(&[0.0, 0.02, 0.1]),
            close_chance: *rng.pick(&[0.0, 0.01, 0.05]),
            leak_chance: *rng.pick(&[0.0, 0.2]),
        })
    }

    /// The same store with pages of another size.
    pub fn with_page_size(self, page_size: u32) -> Self {
        let pages = self.pages.min(BYTES / u64::from(page_size));
        Self {
            page_size,
            pages,
            in_use: self.in_use.min(pages),
            ..self
        }
    }

    /// Adds a worker and some buffer frames at each node, whose frames are for pages of `page_size`
    /// bytes. A pool gives each size half of its frames.
    pub fn enlarge(self, nodes: &mut [PageNode], page_size: u32) {
        for node in nodes {
            node.workers += 1;
            node.frames = match self.page_size == page_size {
                true => node.frames + FRAMES,
                false => {
                    let half = (node.frames * page_size).max(FRAMES * self.page_size);
                    2 * half / self.page_size.min(page_size)
                }
            };
        }
    }

    /// The store on the target's second namespace.
    pub fn spec(&self, target: NodeId) -> PageStoreSpec {
        PageStoreSpec {
            target,
            nsid: 2,
            block_size: BLOCK,
            page_size: self.page_size,
            pages: self.pages,
        }
    }

    /// Additional faults. Most of the faults planned for the other pages are over before the store
    /// is formatted; these ensure later crashes, too. If the store's entries move, those of
    /// superblock and map move often. `first` is the index of the store's first page.
    pub fn disturb(
        rng: &mut Rng,
        nodes: &[PageNode],
        first: u64,
        moves: bool,
        all: &mut Vec<(Instant, Disturbance)>,
    ) {
        let some_time = |rng: &mut Rng| Instant::ZERO + nanos(rng, 100_000, 6_000_000);
        let soon = |rng: &mut Rng| nanos(rng, 0, 1_500_000);
        for _ in 0..rng.between(0, 4) {
            all.push((some_time(rng), Disturbance::Accept));
        }
        if rng.chance(0.25) {
            let (at, node) = (some_time(rng), rng.pick(nodes).node);
            let reported_at = at + soon(rng);
            let kind = match rng.chance(0.3) {
                true => Disturbance::Presume,
                false => Disturbance::Crash,
            };
            all.push((at, kind(node)));
            all.push((reported_at, Disturbance::Tell(node)));
            all.push((reported_at + soon(rng), Disturbance::Accept));
            all.push((reported_at + soon(rng), Disturbance::Return(node)));
        }
        if rng.chance(0.15) {
            all.retain(|(_, other)| !matches!(other, Disturbance::Fill(_) | Disturbance::Free));
            all.push((some_time(rng), Disturbance::CutPower));
        }
        if !moves {
            return;
        }
        for _ in 0..rng.between(0, 20) {
            let page = first + rng.below(FIRST + 3);
            let at = disturb::some_time(rng);
            all.push((at, disturb::index(rng, page)));
        }
    }
}

impl fmt::Display for StorePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "; a store of {} pages, {} operations of each user, {} in use, held {}, pauses {}",
            self.pages, self.operations, self.in_use, self.hold_max, self.pause_max
        )
    }
}

/// The store as its users and the harness see it.
pub(super) struct Store {
    pub plan: StorePlan,
    /// The medium that the target has for it.
    pub medium: MemoryBackend,
    pub page_use: RefCell<PageUse>,
    users: RefCell<Users>,
}

/// The users of the store, by the number of the node in its present life.
#[derive(Default)]
struct Users {
    all: BTreeMap<u16, User>,
    /// The user that formats the store, until it is formatted.
    formatter: Option<u16>,
    is_formatted: bool,
    /// All users are to leave the store so that this user can close it, once it is chosen.
    closing: Option<Closer>,
    /// A user left the store without giving back or flushing everything: it is never closed then.
    is_left: bool,
    /// A node has crashed, or was presumed dead, or homes were damaged when the directory was
    /// rebuilt, so that pages may be lost.
    may_lose: bool,
}

#[derive(Clone, Copy, Default)]
struct User {
    /// The page that it reads or changes.
    page: Option<u64>,
    /// It has given everything back and waits for the closing.
    is_out: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Closer {
    Nobody,
    Node(u16),
}

impl Store {
    pub fn new(plan: StorePlan, medium: MemoryBackend) -> Self {
        let store = Self {
            plan,
            medium,
            page_use: RefCell::new(PageUse::new([])),
            users: RefCell::default(),
        };
        store.page_use.replace(PageUse::new(store.pages()));
        store
    }

    /// Whether the history of pages has this page of the store: it has neither superblock nor map.
    pub fn is_judged(page: PageId) -> bool {
        page.store() != STORE || page.index() >= FIRST
    }

    /// From now on pages may be lost.
    pub fn may_lose(&self) {
        self.users.borrow_mut().may_lose = true;
    }

    /// A node crashes or is presumed dead.
    pub fn crash(&self, node: u16) {
        let mut users = self.users.borrow_mut();
        users.all.remove(&node);
        users.may_lose = true;
        if users.closing == Some(Closer::Node(node)) {
            users.closing = None;
        }
        self.page_use.borrow_mut().may_leak();
    }

    /// The power fails everywhere, including the device.
    pub fn cut_power(&self, rng: &mut Rng) {
        self.medium.set_blocks_free(None);
        self.medium.power_cut(rng);
        self.page_use.borrow_mut().may_leak();
    }

    /// Another rack is built over the same medium.
    pub fn reopen(&self) {
        let mut users = self.users.borrow_mut();
        *users = Users {
            is_formatted: users.is_formatted,
            ..Users::default()
        };
    }

    /// The pages that can be allocated, by number.
    pub fn pages(&self) -> impl Iterator<Item = u64> + use<> {
        let pages = FIRST..self.plan.pages;
        pages.filter_map(|index| Some(PageId::new(STORE, index)?.number()))
    }

    /// The violations of allocation.
    pub fn judge(&self) -> Vec<String> {
        let empty = PageUse::new([]);
        let page_use = self.page_use.replace(empty);
        let violations = page_use.finish().err().unwrap_or_default();
        violations.iter().map(ToString::to_string).collect()
    }
}
