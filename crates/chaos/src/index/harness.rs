//! A rack with an index on it, and its users.

use super::browser::{self, Browser, ClientSlot, Todo};
use super::coordinator::{Chair, Orders};
use super::endpoint::{ReplicaActor, ServerActor, spec};
use super::local::Local;
use super::network::Guide;
use super::plan::IndexPlan;
use super::shared::Shared;
use super::switches::Switches;
use super::work::Work;
use crate::{SeedReport, campaign};
use rackweave_base::{NodeId, Rng};
use rackweave_endpoint::btree::{Direction, Tree};
use rackweave_endpoint::index::{EndpointId, Shard};
use rackweave_rack::services::IndexService;
use rackweave_rack::{SharedReplica, SimulatedRack};
use rackweave_sim::ReadLines;
use rackweave_sim::checkers::index_history::{Began, ValueStamp, check_value};
use std::rc::Rc;
use std::sync::Arc;

/// Distance between the user numbers of one life of a node and the next.
const LIFE: u32 = 1000;

/// A running rack.
pub(super) struct Harness<'a> {
    pub plan: &'a IndexPlan,
    pub rack: SimulatedRack,
    pub shared: Rc<Shared>,
    pub orders: Rc<Orders>,
    pub index: IndexService,
    /// By endpoint: how often it has started, and its remaining state while it is down.
    pub starts: Vec<u64>,
    down: Vec<Option<Down>>,
    /// By endpoint: whether the node that had it first has crashed.
    crashed: Vec<bool>,
    /// Server threads of replicas that have an actor.
    replicas: Vec<SharedReplica>,
    /// By compute node: how often it has returned.
    lives: Vec<u32>,
    pub slots: Vec<Rc<ClientSlot>>,
    /// The coordinator that moves ranges.
    pub chair: Option<Rc<Chair>>,
    pub coordinators: u32,
    /// The guide that loads the switches, if they lead queries.
    pub guide: Option<Guide>,
    pub report: &'a mut SeedReport,
}

/// An endpoint that is down.
struct Down {
    began: Began,
    shard: Arc<Shard>,
    node: NodeId,
}

impl<'a> Harness<'a> {
    pub fn new(
        plan: &'a IndexPlan,
        shared: Rc<Shared>,
        report: &'a mut SeedReport,
    ) -> Result<Self, String> {
        let rack = match plan.network {
            Some(_) => SimulatedRack::with_models(&plan.config, Switches::change_models),
            None => SimulatedRack::new(&plan.config),
        };
        let rack = rack.map_err(|error| format!("no rack: {error}"))?;
        let mut rack = campaign::cutting_through(rack);
        rack.set_read_lines(ReadLines::AnyOrder);
        let network = plan.network.map(|network| network.spec);
        let index = IndexService::with_spec(&rack, spec(plan)?, network, None);
        let mut harness = Self {
            plan,
            rack,
            shared,
            orders: Rc::default(),
            index: index.map_err(|error| format!("no index: {error}"))?,
            starts: vec![0; plan.endpoints.len()],
            down: plan.endpoints.iter().map(|_| None).collect(),
            crashed: vec![false; plan.endpoints.len()],
            replicas: Vec::new(),
            lives: vec![0; plan.compute.len()],
            slots: Vec::new(),
            chair: None,
            coordinators: 0,
            guide: Guide::new(plan),
            report,
        };
        let mut rng = Rng::new(plan.seed).fork("load");
        let endpoints = (0..plan.endpoints.len() as u16).map(EndpointId);
        let loaded = endpoints
            .clone()
            .map(|at| harness.first_entries(&mut rng, at));
        let loaded: Vec<_> = loaded.flatten().collect();
        let filled = harness.index.load(loaded);
        filled.map_err(|error| format!("the index is not loaded: {error}"))?;
        for endpoint in endpoints {
            harness.started(endpoint);
        }
        for at in 0..plan.compute.len() {
            harness.open_sessions(at)?;
        }
        harness.connect()?;
        Ok(harness)
    }

    /// The initial entries of an endpoint.
    fn first_entries(&self, rng: &mut Rng, endpoint: EndpointId) -> Vec<(u64, Vec<u8>)> {
        let map = self.index.map();
        let mut entries = Vec::new();
        for index in 0..self.shared.keys.count {
            let key = self.shared.keys.key(index);
            if map.owner(key) == endpoint && rng.chance(self.plan.loaded) {
                let (stamp, value) = self.shared.value(key, self.plan.values.len(rng));
                self.shared.history.borrow_mut().load(key, stamp);
                entries.push((key, value));
            }
        }
        entries
    }

    /// An endpoint has started; spawns its server thread.
    fn started(&mut self, endpoint: EndpointId) {
        self.starts[endpoint.index()] += 1;
        let life = self.starts[endpoint.index()];
        for (of, node, server) in self.index.index().servers() {
            if of == endpoint {
                let actor = ServerActor::new(self.plan, endpoint, server.clone(), life);
                self.rack.spawn_server(node, Box::new(actor));
            }
        }
    }

    /// The same in the middle of a run: the programs beside it start again, too.
    fn started_again(&mut self, endpoint: EndpointId) {
        self.started(endpoint);
        if !self.shared.quiet.get() {
            self.spawn_locals(endpoint.index());
        }
    }

    /// Endpoints that are up.
    pub fn endpoints_up(&self) -> Vec<EndpointId> {
        let endpoints = (0..self.plan.endpoints.len()).filter(|&at| !self.is_down(at));
        endpoints.map(|at| EndpointId(at as u16)).collect()
    }

    /// Creates the clients of a node.
    fn open_sessions(&mut self, at: usize) -> Result<(), String> {
        let node = self.plan.compute[at];
        for (number, client) in (0..).zip(&self.plan.clients) {
            if client.node == node {
                let who = number + LIFE * self.lives[at];
                let made = self
                    .index
                    .client(node, browser::config(self.plan, client, who));
                let made = made.map_err(|error| format!("no client: {error}"))?;
                let slot = ClientSlot::new(who, made, self.plan.endpoints.len());
                for endpoint in self.endpoints_up() {
                    self.attached(&slot, endpoint);
                }
                self.slots.push(slot);
            }
        }
        Ok(())
    }

    /// Gives the clients of a node this work.
    pub fn spawn_clients(&mut self, node: NodeId, todo: impl Fn() -> Todo) {
        for slot in self.slots.clone() {
            if slot.node == node && !slot.is_dead.get() {
                let browser = Browser::new(self.shared.clone(), slot, todo(), self.plan.seed);
                self.rack.spawn(node, Box::new(browser));
            }
        }
    }

    /// Spawns the programs beside an endpoint.
    pub fn spawn_locals(&mut self, at: usize) {
        let index = self.index.index();
        let endpoint = EndpointId(at as u16);
        let server = index.servers().find(|(of, ..)| *of == endpoint);
        let (Some(shard), Some((_, node, server))) = (index.shard(endpoint), server) else {
            return;
        };
        for number in 0..self.plan.locals {
            let who = 100_000 + 100 * (self.starts[at] as u32) + 10 * at as u32 + number as u32;
            let rng = Rng::new(self.plan.seed ^ u64::from(who)).fork("local");
            let work = Work::new(&self.shared, rng);
            let place = (shard.clone(), server.clone());
            let local = Local::new(self.shared.clone(), place, who, work);
            self.rack.spawn(node, Box::new(local));
        }
    }

    /// Requests the move of a boundary.
    pub fn move_boundary(&mut self, left: u16, place: u16) {
        self.orders.waiting.borrow_mut().push_back((left, place));
        if let Some(chair) = &self.chair {
            self.rack.wake(chair.node);
        }
    }

    /// Whether all moves have ended.
    pub fn is_settled(&self) -> bool {
        self.chair.as_ref().is_some_and(|chair| chair.is_ready())
    }

    /// A node with clients crashes.
    pub fn crash(&mut self, node: NodeId) -> bool {
        let mut any = false;
        for slot in self.slots.iter().filter(|slot| slot.node == node) {
            any |= !slot.is_dead.replace(true);
        }
        if any {
            self.rack.crash_node_silently(node);
            if self.chair.as_ref().is_some_and(|chair| chair.node == node) {
                self.kill_coordinator();
            }
        }
        any
    }

    pub fn is_dead(&self, node: NodeId) -> bool {
        let mut slots = self.slots.iter().filter(|slot| slot.node == node);
        slots.all(|slot| slot.is_dead.get())
    }

    /// A node returns, with new clients.
    pub fn revive(&mut self, node: NodeId) -> Result<(), String> {
        campaign::revive_node(&mut self.rack, node)?;
        for slot in self.slots.iter().filter(|slot| slot.is_dead.get()) {
            self.index.forget(&mut slot.client.borrow_mut());
        }
        let at = usize::from(node.0);
        self.lives[at] += 1;
        self.connect_clients()?;
        self.open_sessions(at)?;
        self.connect()
    }

    /// The process of the node that had an endpoint first ends, or the whole node crashes. True if
    /// an endpoint was there.
    pub fn stop(&mut self, at: usize, hard: bool) -> bool {
        let node = self.plan.endpoints[at];
        let mut here = self.index.replicas();
        here.retain(|it| it.node == node);
        let here: Vec<_> = (here.iter())
            .filter_map(|it| self.index.index().shard(it.endpoint))
            .collect();
        if hard && !self.crashed[at] {
            self.rack.crash_node_silently(node);
            self.crashed[at] = true;
        }
        self.index.kill_at(node);
        for shard in &here {
            let now = self.rack.now();
            let began = self.shared.history.borrow_mut().moment_now(now);
            let shard = shard.clone();
            let place = shard.endpoint().index();
            self.down[place] = Some(Down { began, shard, node });
        }
        self.rack.wake(node);
        !here.is_empty()
    }

    pub fn is_down(&self, at: usize) -> bool {
        self.down[at].is_some()
    }

    /// The process of a node starts again, and the endpoints that were there and have no replica
    /// in their place, with their former state or with none.
    pub fn restart(&mut self, at: usize, keeps: bool) -> Result<(), String> {
        let node = self.plan.endpoints[at];
        if core::mem::take(&mut self.crashed[at]) {
            campaign::revive_node(&mut self.rack, node)?;
        }
        self.keep_replicas()?;
        for at in 0..self.down.len() {
            if self.down[at].as_ref().is_some_and(|it| it.node == node) {
                self.restart_endpoint(at, keeps)?;
            }
        }
        Ok(())
    }

    fn restart_endpoint(&mut self, at: usize, keeps: bool) -> Result<(), String> {
        let Some(Down { began, shard, .. }) = self.down[at].take() else {
            return Ok(());
        };
        let endpoint = EndpointId(at as u16);
        let restarted = match keeps {
            true => self.index.restart_with(endpoint, &shard),
            false => self.index.restart(endpoint),
        };
        let loss = restarted.map_err(|error| format!("{endpoint} does not start: {error}"))?;
        let is_whole = !keeps && loss.lost.is_none();
        if let Some(part) = loss.map.part_of(endpoint).filter(|_| !is_whole) {
            let index = self.index.index();
            let tree = index.shard(endpoint).map(|shard| shard.tree().clone());
            drop(index);
            let kept = tree.map_or_else(Vec::new, |tree| self.content(&tree));
            let now = self.rack.now();
            let mut history = self.shared.history.borrow_mut();
            history.restarted(now, began, part.keys(), kept, true);
        }
        self.started_again(endpoint);
        self.connect()
    }

    /// Looks after the replicas. An endpoint that is replaced by its replica has lost nothing.
    pub fn keep_replicas(&mut self) -> Result<(), String> {
        if !self.plan.replicas {
            return Ok(());
        }
        let replaced = self.index.keep_replicas();
        for endpoint in &replaced {
            self.down[endpoint.index()] = None;
            self.started_again(*endpoint);
            self.report.replaced += 1;
        }
        let threads = self.index.index().replica_servers();
        self.replicas.retain(|thread| !thread.is_stopped());
        for (node, thread) in threads {
            if !self.replicas.iter().any(|known| known.is(&thread)) {
                self.replicas.push(thread.clone());
                let actor = ReplicaActor::new(thread);
                self.rack.spawn_server(node, Box::new(actor));
            }
        }
        if !self.is_replicated() {
            // The threads are not notified when their replication begins or ends.
            for node in &self.plan.endpoints {
                self.rack.wake(*node);
            }
        }
        match replaced.is_empty() {
            true => Ok(()),
            false => self.connect(),
        }
    }

    /// Whether every endpoint has a replica with all its values.
    pub fn is_replicated(&self) -> bool {
        self.index.replicas().iter().all(|it| it.is_whole)
    }

    /// Has every endpoint start in place of its replica: nothing may be lost.
    pub fn replace_all(&mut self) -> Result<(), String> {
        for at in 0..self.plan.endpoints.len() {
            let endpoint = EndpointId(at as u16);
            let restarted = self.index.restart(endpoint);
            let loss = restarted.map_err(|error| format!("{endpoint}: {error}"))?;
            if let Some(lost) = loss.lost {
                return Err(format!("{endpoint} with a whole replica has lost {lost:?}"));
            }
            self.started_again(endpoint);
            self.report.replaced += 1;
        }
        self.connect()
    }

    /// The content of a tree, as the stamps of its values.
    fn content(&self, tree: &Tree) -> Vec<(u64, ValueStamp)> {
        let (low, last) = tree.bounds();
        let mut kept = Vec::new();
        tree.scan(low..=last, Direction::Forward, &mut |key, value| {
            match check_value(value, key, self.shared.seed) {
                Ok(stamp) => kept.push((key, stamp)),
                Err(error) => {
                    let what = format!("key {key:#x} after a stop: {error}");
                    self.shared.wrong.push(what);
                }
            }
            true
        });
        kept
    }

    /// Checks that every tree is intact and owns the range that the map says.
    pub fn check_trees(&self) {
        let index = self.index.index();
        let map = index.map();
        for endpoint in index.endpoints() {
            let Some(shard) = index.shard(endpoint) else {
                continue;
            };
            if let Err(error) = shard.tree().check() {
                self.shared.wrong.push(format!("{endpoint}: {error}"));
            }
            let part = map.part_of(endpoint);
            if shard.part() != part {
                let what = format!("{endpoint} has {:?}, not {part:?}", shard.part());
                self.shared.wrong.push(what);
            }
        }
    }
}
