//! A rack with a page store on it, and its users. [`drives`] are the media of the store.

mod drives;

pub(super) use drives::area_blocks;

use super::actors::{Browser, Work};
use super::allocators::{self, Store, StoreUser};
use super::attendant::Attendant;
use super::plan::PagesPlan;
use super::rogue::Rogue;
use super::shared::{Excuses, Session, Shared};
use crate::SeedReport;
use crate::campaign;
use core::cell::Cell;
use drives::Drives;
use rackweave_base::{Duration, NodeId, Rng};
use rackweave_controller::LostPage;
use rackweave_endpoint::page_store::PoolConfig;
use rackweave_endpoint::page_store::directory::Channel;
use rackweave_rack::services::{PageOptions, PageService, Prepare, StoreMedium};
use rackweave_rack::testing::Faults;
use rackweave_rack::{SimulatedRack, SsdStall, TargetOptions};
use rackweave_sim::checkers::page_history::Who;
use rackweave_sim::world::Actor;
use rackweave_target::MemoryBackend;
use std::rc::Rc;

/// The identity of the stores.
pub(super) const IDENTITY: u64 = 0x5eed;

/// The size of the target.
fn target(plan: &PagesPlan) -> TargetOptions {
    TargetOptions {
        commands: 8,
        page_size: plan.page_sizes().max(),
    }
}

/// Distance between a node's numbers before and after a crash.
const LIVES: u16 = 100;

/// A running rack.
pub(super) struct Harness<'a> {
    pub plan: &'a PagesPlan,
    pub rack: SimulatedRack,
    pages: PageService,
    pub shared: Rc<Shared>,
    drives: Drives,
    /// Nodes that are alive and presumed dead.
    presumed: Vec<NodeId>,
    /// By node: how often it has returned.
    lives: Vec<u16>,
    /// By node; empty while it is down.
    pub sessions: Vec<Vec<Rc<Session>>>,
    /// Crashed nodes of which the controller does not know.
    pub unreported: Vec<NodeId>,
    pub target_stopped: bool,
    /// The power has failed.
    pub is_cut: bool,
    /// No further fault is to occur.
    pub quiet: bool,
    pub report: &'a mut SeedReport,
}

impl<'a> Harness<'a> {
    pub(super) fn lost_pages(&self) -> Vec<LostPage> {
        let lost = self.rack.lost_pages();
        lost.expect("the controller of a simulated rack answers")
    }

    /// Builds the rack over this medium.
    pub fn new(
        plan: &'a PagesPlan,
        seed: u64,
        medium: MemoryBackend,
        shared: Rc<Shared>,
        report: &'a mut SeedReport,
    ) -> Result<Self, String> {
        let mut config = plan.config.clone();
        config.seed ^= seed;
        let rack = campaign::rack_of(&config)?;
        let drives = Drives {
            medium,
            stall: SsdStall::default(),
            targets: Cell::new(0),
        };
        let stores = drives.namespaces(plan, &shared)?.into_iter();
        let stores = stores.zip(plan.page_sizes());
        let stores = stores.map(|(backend, page_size)| StoreMedium {
            name: "chaos".into(),
            node: plan.store.target,
            backend,
            page_size: Some(page_size),
        });
        let options = PageOptions {
            nodes: plan.nodes.iter().chain(&plan.rogue).copied().collect(),
            indexed: Some(plan.indexed()),
            fallback: plan.server,
            standbys: plan.standby.into_iter().collect(),
            target: target(plan),
            prepare: Prepare::Leave,
            lease_after: plan.lease_after,
            ..PageOptions::default()
        };
        let pages = PageService::with_stores(&rack, &options, stores.collect());
        let mut harness = Self {
            plan,
            rack,
            pages: pages.map_err(|error| format!("no pages: {error}"))?,
            shared,
            drives,
            presumed: Vec::new(),
            lives: vec![0; plan.nodes.len()],
            sessions: vec![Vec::new(); plan.nodes.len()],
            unreported: Vec::new(),
            target_stopped: false,
            is_cut: false,
            quiet: false,
            report,
        };
        if !plan.is_open_to_rogue() {
            let members: Vec<NodeId> = plan.nodes.iter().map(|member| member.node).collect();
            harness.rack.open_store_to(0, &members);
        }
        for at in 0..plan.nodes.len() {
            harness.open_sessions(at)?;
        }
        Ok(harness)
    }

    /// Starts another target in place of one that ended, if it did.
    pub fn start_target(&mut self) -> Result<(), String> {
        if !core::mem::take(&mut self.target_stopped) {
            return Ok(());
        }
        let target = self.plan.store.target;
        let namespaces = self.drives.namespaces(self.plan, &self.shared)?;
        let added = self
            .rack
            .add_target(target, self::target(self.plan), namespaces);
        added.map_err(|error| format!("no target: {error}"))?;
        let connected = self.rack.reconnect_target(target);
        connected.map_err(|error| format!("the target did not come back: {error}"))
    }

    /// The workers of a node get buffer frames and channels.
    fn open_sessions(&mut self, at: usize) -> Result<(), String> {
        let member = self.plan.nodes[at];
        let (plan, life) = (self.plan, u64::from(self.lives[at]));
        let pool = |pool: &mut PoolConfig| {
            pool.store_id = IDENTITY;
            pool.checksums = plan.checksums;
            pool.evict_batch = plan.evict_batch;
            pool.patience = plan.patience;
            pool.seed = plan.seed ^ life << 48;
        };
        let workers = self.pages.polled_workers(member.node, pool);
        let workers = workers.map_err(|error| error.to_string())?;
        if let (Some(lag), Some(worker)) = (plan.log_lag, workers.first()) {
            let log = self.shared.logs.borrow_mut().open(self.number(at), lag);
            worker.pool().set_log(log);
        }
        let node = self.number(at);
        let workers = workers.into_iter().zip(0..);
        self.sessions[at] = workers
            .map(|(worker, at)| Session::new(Who { node, worker: at }, worker))
            .collect();
        Ok(())
    }

    /// The number by which the checker knows a node in its present life.
    pub fn number(&self, at: usize) -> u16 {
        at as u16 + LIVES * self.lives[at]
    }

    pub fn is_alive(&self, at: usize) -> bool {
        !self.sessions[at].is_empty()
    }

    /// All workers of a node that use the first store, or only its first one, do this work.
    pub fn spawn(&mut self, at: usize, all: bool, work: impl Fn() -> Work) {
        let count = if all { self.plan.browsers() } else { 1 };
        let sessions: Vec<_> = self.sessions[at].iter().take(count).cloned().collect();
        for session in sessions {
            let who = session.who;
            let browser = Browser::new(self.shared.clone(), session, work());
            self.begin(at, who, browser);
        }
    }

    /// The node's user of the second store, if any, runs a script.
    pub fn spawn_store_user(&mut self, at: usize, script: allocators::Script) {
        let session = self.sessions[at].last().cloned();
        if let Some(session) = session.filter(|_| self.plan.second.is_some()) {
            let who = session.who;
            let user = StoreUser::new(self.shared.clone(), session, script);
            self.begin(at, who, user);
        }
    }

    /// Starts an actor, if it has a worker.
    fn begin(&mut self, at: usize, who: Who, actor: Option<impl Actor + 'static>) {
        match actor {
            Some(actor) => _ = self.rack.spawn(self.plan.nodes[at].node, Box::new(actor)),
            None => self.shared.wrong.push(format!("{who} did not end")),
        }
    }

    pub fn spawn_rogue(&mut self) {
        let Some(node) = self.plan.rogue.map(|rogue| rogue.node) else {
            return;
        };
        let parts = self.rack.page_ends(node).map(|ends| ends.channels);
        if let Some(parts) = parts.and_then(|channels| channels.into_iter().next()) {
            let rogue = Rogue::new(self.shared.clone(), Channel::new(parts), self.plan);
            self.rack.spawn(node, Box::new(rogue));
        }
    }

    /// A live node is presumed dead.
    pub fn presume(&mut self, at: usize) {
        let (now, number) = (self.rack.now(), self.number(at));
        let node = self.plan.nodes[at].node;
        self.shared.crash(now, number);
        let before = self.lost_pages();
        self.rack.declare_dead(node);
        self.report_losses(&before);
        for session in core::mem::take(&mut self.sessions[at]) {
            session.is_presumed_dead.set(true);
        }
        self.presumed.push(node);
    }

    /// The switch restarts.
    pub fn restart_switch(&mut self) -> Result<(), String> {
        let before = self.lost_pages();
        self.made_again();
        campaign::restart_switch(&self.rack)?;
        self.report_losses(&before);
        self.attend();
        Ok(())
    }

    /// The memory server crashes, and the controller is notified.
    pub fn crash_server(&mut self, server: NodeId) {
        let before = self.lost_pages();
        self.made_again();
        self.rack.crash_node(server);
        self.report_losses(&before);
        self.attend();
    }

    /// The directory is lost, and rebuilt. If a crashed node is still unknown to the controller,
    /// the pages that it had are in doubt.
    fn made_again(&self) {
        let is_partial = !self.unreported.is_empty();
        // A restarted target may not have recovered yet.
        let is_blind = self.report.restarts > 0;
        let mut history = self.shared.history.borrow_mut();
        let damaged = self.shared.damaged.borrow();
        let is_damaged = |page| damaged.iter().any(|other| other.number() == page);
        history.made_again(is_partial, is_damaged);
        if let Some(store) = self.shared.store.as_ref().filter(|_| !damaged.is_empty()) {
            store.may_lose();
        }
        if is_blind {
            history.in_doubt();
        }
    }

    /// Spawns attendants, so that nodes answer queries about pages in doubt even if their workers
    /// rest.
    fn attend(&mut self) {
        for (member, sessions) in self.plan.nodes.iter().zip(&self.sessions) {
            let attendant = Attendant {
                shared: self.shared.clone(),
                sessions: sessions.clone(),
            };
            self.rack.spawn(member.node, Box::new(attendant));
        }
    }

    /// A node crashes.
    pub fn crash(&mut self, at: usize) {
        let (now, number) = (self.rack.now(), self.number(at));
        self.shared.crash(now, number);
        self.rack.crash_node_silently(self.plan.nodes[at].node);
        self.sessions[at].clear();
    }

    /// The controller is notified of a node's crash, and reports the losses.
    pub fn tell(&mut self, node: NodeId) {
        let before = self.lost_pages();
        self.rack.crash_node(node);
        self.report_losses(&before);
    }

    /// Reports losses to the checker that are not in `before`.
    fn report_losses(&self, before: &[LostPage]) {
        let mut history = self.shared.history.borrow_mut();
        for lost in self.lost_pages() {
            if !before.contains(&lost) && Store::is_judged(lost.page) {
                history.lost(lost.page.number(), lost.version);
            }
        }
    }

    /// A node returns.
    pub fn revive(&mut self, at: usize) -> Result<(), String> {
        let node = self.plan.nodes[at].node;
        if !self.presumed.contains(&node) {
            campaign::revive_node(&mut self.rack, node)?;
        }
        self.presumed.retain(|&other| other != node);
        let joined = self.pages.rejoin(node);
        joined.map_err(|error| format!("{node:?} did not come back: {error}"))?;
        self.lives[at] += 1;
        self.open_sessions(at)
    }

    /// Accepts all losses. Pages that are still latched stay lost.
    pub fn accept(&mut self) {
        for LostPage { page, version } in self.lost_pages() {
            if self.rack.accept_loss(page) && Store::is_judged(page) {
                let mut history = self.shared.history.borrow_mut();
                history.accept(page.number(), version);
            }
        }
    }

    pub fn fill(&self, free: Option<u64>) {
        self.drives.medium.set_blocks_free(free);
        if let Some(store) = &self.shared.store {
            store.medium.set_blocks_free(free);
        }
    }

    /// From now on requests may fail for another reason.
    pub fn excuse(&self, change: impl FnOnce(&mut Excuses)) {
        let mut excuses = self.shared.excuses.get();
        change(&mut excuses);
        self.shared.excuses.set(excuses);
    }

    /// The device answers nothing for this time.
    pub fn stall(&self, lasts: Duration) {
        self.drives.stall.hold_until(self.rack.now() + lasts);
    }

    /// Reads and writes of a page's home start or stop failing.
    pub fn set_broken(&self, page: u64, broken: bool) {
        let (first, count) = self.home(page);
        for block in first..first + count {
            self.drives.medium.set_broken(block, broken);
        }
    }

    /// A block of a page's home is damaged: its bytes differ from those written.
    pub fn damage(&self, page: u64, block: u64, zeroed: bool) {
        let block = self.home(page).0 + block;
        match zeroed {
            true => self.drives.medium.zero_block(block),
            false => {
                let mut rng = Rng::new(self.plan.seed ^ block).fork("damage");
                self.drives.medium.tear_block(block, &mut rng);
            }
        }
        let page = self.shared.page(page);
        self.shared.damaged.borrow_mut().insert(page);
    }

    /// The first block of a page's home, and its number of blocks.
    fn home(&self, page: u64) -> (u64, u64) {
        let blocks = u64::from(self.plan.store.page_size / self.plan.store.block_size);
        (page * blocks, blocks)
    }
}
