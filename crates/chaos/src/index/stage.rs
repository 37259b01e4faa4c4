//! A rack with an index on it, and those who use it.

use super::browser::{Browser, ClientSlot, Script};
use super::coordinator::{Chair, Orders};
use super::endpoint::{Seat, ServerActor};
use super::local::Local;
use super::network::Guide;
use super::plan::Plan;
use super::shared::Shared;
use super::switches::Switches;
use super::work::Work;
use rackweave_base::{NodeId, Rng};
use rackweave_endpoint::btree::{Direction, Tree, TreeConfig};
use rackweave_endpoint::index::{EndpointId, PartitionMap, Shard};
use rackweave_rack::SimulatedRack;
use rackweave_sim::ReadLines;
use rackweave_sim::checkers::index_history::{Began, ValueStamp, check_value};
use rackweave_verbs::Verbs;
use std::rc::Rc;
use std::sync::Arc;

/// Users' numbers of one life of their node are so far below those of the next.
const LIFE: u32 = 1000;

/// A rack at work.
pub(super) struct Stage<'a> {
    pub plan: &'a Plan,
    pub rack: SimulatedRack,
    pub shared: Rc<Shared>,
    pub orders: Rc<Orders>,
    pub seats: Vec<Rc<Seat>>,
    /// The map of the beginning.
    first: PartitionMap,
    /// By endpoint: how often it has started, and what is left of it while it is down.
    pub starts: Vec<u64>,
    down: Vec<Option<Down>>,
    /// By compute node: how often it has come back.
    lives: Vec<u32>,
    pub slots: Vec<Rc<ClientSlot>>,
    /// Who moves ranges.
    pub chair: Option<Rc<Chair>>,
    pub coordinators: u32,
    /// Who loads the switches, if they lead queries.
    pub guide: Option<Guide>,
}

/// An endpoint that is down.
struct Down {
    began: Began,
    shard: Arc<Shard>,
    /// Its NIC is gone, too.
    hard: bool,
}

impl<'a> Stage<'a> {
    pub fn new(plan: &'a Plan, shared: Rc<Shared>) -> Result<Self, String> {
        let rack = match plan.network {
            Some(_) => SimulatedRack::with_models(&plan.config, Switches::change_models),
            None => SimulatedRack::new(&plan.config),
        };
        let mut rack = rack.map_err(|error| format!("no rack: {error}"))?;
        rack.set_read_lines(ReadLines::AnyOrder);
        let first = PartitionMap::split(&plan.boundaries).map_err(|error| error.to_string())?;
        let seats = plan.endpoints.iter().zip(0..);
        let seats = seats.map(|(&node, at)| Seat::new(EndpointId(at), node));
        let mut stage = Self {
            plan,
            rack,
            shared,
            orders: Rc::default(),
            seats: seats.collect(),
            first,
            starts: vec![0; plan.endpoints.len()],
            down: plan.endpoints.iter().map(|_| None).collect(),
            lives: vec![0; plan.compute.len()],
            slots: Vec::new(),
            chair: None,
            coordinators: 0,
            guide: None,
        };
        stage.guide = Guide::new(&mut stage)?;
        let mut rng = Rng::new(plan.seed).fork("load");
        for at in 0..plan.endpoints.len() {
            let loaded = stage.first_entries(&mut rng, at);
            stage.start(at, stage.map(), None, &loaded)?;
        }
        for at in 0..plan.compute.len() {
            stage.take_desks(at)?;
        }
        stage.connect()?;
        Ok(stage)
    }

    /// What an endpoint has from the beginning.
    fn first_entries(&self, rng: &mut Rng, at: usize) -> Vec<(u64, Vec<u8>)> {
        let map = self.map();
        let mut entries = Vec::new();
        for index in 0..self.shared.keys.count {
            let key = self.shared.keys.key(index);
            if map.owner(key).index() == at && rng.chance(self.plan.loaded) {
                let (stamp, value) = self.shared.value(key, self.plan.values.len(rng));
                self.shared.history.borrow_mut().load(key, stamp);
                entries.push((key, value));
            }
        }
        entries
    }

    /// An endpoint starts, with the tree that is there or with a new one that is loaded.
    fn start(
        &mut self,
        at: usize,
        map: PartitionMap,
        tree: Option<Tree>,
        loaded: &[(u64, Vec<u8>)],
    ) -> Result<(), String> {
        let seat = self.seats[at].clone();
        let tree = match tree {
            Some(tree) => tree,
            None => self.new_tree(seat.endpoint, &map)?,
        };
        if !loaded.is_empty() {
            let entries = loaded.iter().map(|(key, value)| (*key, value));
            let filled = tree.bulk_load(entries);
            filled.map_err(|error| format!("{} is not loaded: {error}", seat.endpoint))?;
        }
        self.starts[at] += 1;
        let memory = self.rack.memory().clone();
        let mut nic = self
            .rack
            .nic_mut(seat.node)
            .ok_or("the endpoint's node is dead")?;
        seat.start(&mut *nic, &memory, tree, map, self.starts[at])?;
        drop(nic);
        let node = seat.node;
        let actor = ServerActor::new(self.plan, seat, self.starts[at]);
        self.rack.spawn_server(node, Box::new(actor));
        self.enter_server(at)
    }

    fn new_tree(&self, endpoint: EndpointId, map: &PartitionMap) -> Result<Tree, String> {
        let (low, last) = map
            .part_of(endpoint)
            .map_or((0, u64::MAX), |part| (part.low, part.last));
        let config = TreeConfig {
            low,
            last,
            tree: 1 + u64::from(endpoint.0) + 16 * self.starts[endpoint.index()],
            ..self.plan.tree
        };
        let block = self.rack.memory().allocate(config.bytes() as usize);
        let block = block.map_err(|error| error.to_string())?;
        Tree::create(block, &config).map_err(|error| format!("no tree: {error}"))
    }

    /// The clients of a node come into being.
    fn take_desks(&mut self, at: usize) -> Result<(), String> {
        let node = self.plan.compute[at];
        let map = self.map();
        for (number, client) in (0..).zip(&self.plan.clients) {
            if client.node == node {
                let mut nic = self.rack.nic_mut(node).ok_or("the client's node is dead")?;
                let pd = nic.create_pd();
                let who = number + LIFE * self.lives[at];
                let slot = ClientSlot::new(self.plan, client, who, pd, map.clone());
                self.slots.push(Rc::new(slot));
            }
        }
        Ok(())
    }

    /// The clients of a node follow a script.
    pub fn spawn_clients(&mut self, node: NodeId, script: impl Fn() -> Script) {
        for slot in self.slots.clone() {
            if slot.node == node && !slot.is_dead.get() {
                let browser = Browser::new(self.shared.clone(), slot, script(), self.plan.seed);
                self.rack.spawn(node, Box::new(browser));
            }
        }
    }

    /// The programs beside an endpoint get to work.
    pub fn spawn_locals(&mut self, at: usize) {
        let seat = self.seats[at].clone();
        for number in 0..self.plan.locals {
            let who = 100_000 + 100 * (self.starts[at] as u32) + 10 * at as u32 + number as u32;
            let rng = Rng::new(self.plan.seed ^ u64::from(who)).fork("local");
            let work = Work::new(&self.shared, rng);
            let local = Local::new(self.shared.clone(), seat.clone(), who, work);
            self.rack.spawn(seat.node, Box::new(local));
        }
    }

    /// A boundary shall move.
    pub fn move_boundary(&mut self, left: u16, place: u16) {
        self.orders.waiting.borrow_mut().push_back((left, place));
        if let Some(chair) = &self.chair {
            self.rack.wake(chair.node);
        }
    }

    /// What was decided last: the newest map that an endpoint has or had when it stopped.
    pub fn map(&self) -> PartitionMap {
        let up = self.seats.iter().filter_map(|seat| seat.shard());
        let down = self.down.iter().flatten().map(|down| down.shard.clone());
        let maps = up.chain(down).map(|shard| shard.map());
        let newest = maps.max_by_key(|map| map.version());
        newest.map_or_else(|| self.first.clone(), |map| (*map).clone())
    }

    /// Whether all moves have come to an end.
    pub fn is_settled(&self) -> bool {
        self.chair.as_ref().is_some_and(|chair| chair.is_ready())
    }

    /// A node with clients dies.
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

    /// A node is there again, with new clients.
    pub fn revive(&mut self, node: NodeId) -> Result<(), String> {
        if !self.rack.revive_node(node) {
            return Err(format!("{node:?} could not be revived"));
        }
        for slot in self.slots.clone() {
            let ends = if slot.is_dead.get() {
                slot.ends.take()
            } else {
                Vec::new()
            };
            for (at, ends) in ends.into_iter().enumerate() {
                self.remove(at, ends);
            }
        }
        let at = usize::from(node.0);
        self.lives[at] += 1;
        self.take_desks(at)?;
        self.connect()
    }

    /// An endpoint's process ends, or its whole node dies. True if it was up.
    pub fn stop(&mut self, at: usize, hard: bool) -> bool {
        let seat = self.seats[at].clone();
        self.forget_server(at);
        let now = self.rack.now();
        let mut nic = self.rack.nic_mut(seat.node);
        let verbs = nic.as_deref_mut().map(|nic| nic as &mut dyn Verbs);
        let Some(shard) = seat.stop(verbs.filter(|_| !hard)) else {
            return false;
        };
        drop(nic);
        if hard {
            self.rack.crash_node_silently(seat.node);
        }
        let began = self.shared.history.borrow_mut().moment_now(now);
        self.down[at] = Some(Down { began, shard, hard });
        self.rack.wake(seat.node);
        true
    }

    pub fn is_down(&self, at: usize) -> bool {
        self.down[at].is_some()
    }

    /// An endpoint that is down starts again, with what it had or with nothing.
    pub fn restart(&mut self, at: usize, keeps: bool) -> Result<(), String> {
        if self.down[at].is_none() {
            return Ok(());
        }
        let seat = self.seats[at].clone();
        let others: Vec<_> = self.seats.iter().filter_map(|seat| seat.shard()).collect();
        // With what it had decided itself.
        let begun = Shard::begin_anew(&others, &self.map(), seat.endpoint);
        let map = begun.map_err(|error| format!("{} cannot begin anew: {error}", seat.endpoint))?;
        let Some(Down { began, shard, hard }) = self.down[at].take() else {
            return Ok(());
        };
        if hard && !self.rack.revive_node(seat.node) {
            return Err(format!("{:?} could not be revived", seat.node));
        }
        let part = map.part_of(seat.endpoint);
        let tree = match (keeps, part) {
            (true, Some(part)) => {
                let opened = Tree::open(shard.tree().block().clone());
                let tree = opened.map_err(|error| format!("no tree after a stop: {error}"))?;
                // What was coming in and was not committed has to go again.
                let (low, last) = tree.bounds();
                let fits = tree
                    .extend(low.min(part.low), last.max(part.last))
                    .and_then(|()| tree.shrink(part.low, part.last));
                fits.map_err(|error| format!("a tree after a stop: {error}"))?;
                Some(tree)
            }
            _ => None,
        };
        if let Some(part) = part {
            let kept = tree
                .as_ref()
                .map_or_else(Vec::new, |tree| self.content(tree));
            let now = self.rack.now();
            let mut history = self.shared.history.borrow_mut();
            history.restarted(now, began, part.keys(), kept, true);
        }
        self.start(at, map, tree, &[])?;
        self.connect()
    }

    /// What is in a tree, by the names of its values.
    fn content(&self, tree: &Tree) -> Vec<(u64, ValueStamp)> {
        let (low, last) = tree.bounds();
        let mut kept = Vec::new();
        tree.scan(low..=last, Direction::Forward, &mut |key, value| {
            match check_value(value, key, self.shared.seed) {
                Ok(stamp) => kept.push((key, stamp)),
                Err(error) => {
                    let what = format!("key {key:#x} after a stop: {error}");
                    self.shared.wrong(what);
                }
            }
            true
        });
        kept
    }

    /// Every tree is whole, and owns what the map says.
    pub fn check_trees(&self) {
        let map = self.map();
        for seat in &self.seats {
            let Some(shard) = seat.shard() else { continue };
            if let Err(error) = shard.tree().check() {
                self.shared.wrong(format!("{}: {error}", seat.endpoint));
            }
            let part = map.part_of(seat.endpoint);
            if shard.part() != part {
                let what = format!("{} has {:?}, not {part:?}", seat.endpoint, shard.part());
                self.shared.wrong(what);
            }
        }
    }
}
