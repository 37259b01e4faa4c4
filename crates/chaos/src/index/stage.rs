//! A rack with an index on it, and those who use it.

use super::browser::{Browser, Desk, Script};
use super::endpoint::{Seat, ServerActor};
use super::local::Local;
use super::mover::{Mover, Moves};
use super::plan::Plan;
use super::shared::Shared;
use super::work::Work;
use rackweave_base::{NodeId, Rng};
use rackweave_controller::connect::PairAttributes;
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

/// Looks without anybody who moves a range until what was left is cleared up.
const LOOKS_UNTIL_CLEAR: u32 = 5;

/// A rack at work.
pub(super) struct Stage<'a> {
    pub plan: &'a Plan,
    pub rack: SimulatedRack,
    pub shared: Rc<Shared>,
    pub moves: Rc<Moves>,
    /// By endpoint: how often it has started, and what is left of it while it is down.
    starts: Vec<u64>,
    down: Vec<Option<Down>>,
    /// By compute node: how often it has come back.
    lives: Vec<u32>,
    pub desks: Vec<Rc<Desk>>,
    /// How often nobody was seen who moves a range.
    idle_looks: u32,
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
        let mut rack =
            SimulatedRack::new(&plan.config).map_err(|error| format!("no rack: {error}"))?;
        rack.set_read_lines(ReadLines::AnyOrder);
        let map = PartitionMap::split(&plan.boundaries).map_err(|error| error.to_string())?;
        let seats = plan.endpoints.iter().zip(0..);
        let seats = seats.map(|(&node, at)| Seat::new(EndpointId(at), node));
        let moves = Moves::new(seats.collect(), map);
        let mut stage = Self {
            plan,
            rack,
            shared,
            moves,
            starts: vec![0; plan.endpoints.len()],
            down: plan.endpoints.iter().map(|_| None).collect(),
            lives: vec![0; plan.compute.len()],
            desks: Vec::new(),
            idle_looks: 0,
        };
        let mut rng = Rng::new(plan.seed).fork("load");
        for at in 0..plan.endpoints.len() {
            let loaded = stage.first_entries(&mut rng, at);
            stage.start(at, None, &loaded)?;
        }
        for at in 0..plan.compute.len() {
            stage.take_desks(at)?;
        }
        stage.connect()?;
        Ok(stage)
    }

    /// What an endpoint has from the beginning.
    fn first_entries(&self, rng: &mut Rng, at: usize) -> Vec<(u64, Vec<u8>)> {
        let map = self.moves.map.borrow();
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
        tree: Option<Tree>,
        loaded: &[(u64, Vec<u8>)],
    ) -> Result<(), String> {
        let map = self.moves.map.borrow().clone();
        let seat = self.moves.seats[at].clone();
        let tree = match tree {
            Some(tree) => tree,
            None => self.new_tree(seat.endpoint, &map)?,
        };
        let entries = loaded.iter().map(|(key, value)| (*key, value));
        let filled = tree.bulk_load(entries);
        if !loaded.is_empty() {
            filled.map_err(|error| format!("{} is not loaded: {error}", seat.endpoint))?;
        }
        self.starts[at] += 1;
        let memory = self.rack.memory().clone();
        let nic = self
            .rack
            .nic_mut(seat.node)
            .ok_or("the endpoint's node is dead")?;
        seat.start(nic, &memory, tree, map, self.starts[at])?;
        let node = seat.node;
        let actor = ServerActor::new(self.plan, seat, self.starts[at]);
        self.rack.spawn_server(node, Box::new(actor));
        Ok(())
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
        let map = self.moves.map.borrow().clone();
        for (number, client) in (0..).zip(&self.plan.clients) {
            if client.node == node {
                let nic = self.rack.nic_mut(node).ok_or("the client's node is dead")?;
                let pd = nic.create_pd();
                let who = number + LIFE * self.lives[at];
                let desk = Desk::new(self.plan, client, who, pd, map.clone());
                self.desks.push(Rc::new(desk));
            }
        }
        Ok(())
    }

    /// Connects whoever has no way to an endpoint that is up.
    pub fn connect(&mut self) -> Result<(), String> {
        for desk in self.desks.clone() {
            for at in 0..self.plan.endpoints.len() {
                let seat = self.moves.seats[at].clone();
                let gone = desk.client.borrow().is_gone(seat.endpoint);
                if gone && !desk.is_dead.get() && seat.is_up() {
                    self.attach(&desk, &seat)?;
                }
            }
        }
        Ok(())
    }

    fn attach(&mut self, desk: &Desk, seat: &Seat) -> Result<(), String> {
        let at = seat.endpoint.index();
        let start = self.starts[at];
        let memory = self.rack.memory().clone();
        let remote = seat.remote().ok_or("the endpoint is down")?;
        let former = desk.ends.borrow_mut()[at].take();
        let there = self
            .rack
            .nic_mut(seat.node)
            .ok_or("the endpoint's node is dead")?;
        if let Some((accepted, of)) = former
            && of == start
        {
            seat.remove(there, accepted);
        }
        let accepted = seat.accept(there, desk.reads())?;
        desk.ends.borrow_mut()[at] = Some((accepted, start));
        let here = self
            .rack
            .nic_mut(desk.node)
            .ok_or("the client's node is dead")?;
        let mut client = desk.client.borrow_mut();
        let ends = client.attach(here, &memory, desk.pd, seat.endpoint, remote);
        let ends = ends.map_err(|error| error.to_string())?;
        drop(client);
        let mut pairs = vec![(ends.rpc, accepted.rpc)];
        pairs.extend(ends.reader.zip(accepted.reader));
        for (ours, theirs) in pairs {
            let attributes: &PairAttributes = &self.plan.pair;
            let made = self
                .rack
                .connect((desk.node, ours), (seat.node, theirs), attributes);
            made.map_err(|error| format!("no connection: {error}"))?;
        }
        self.rack.wake(desk.node);
        self.rack.wake(seat.node);
        Ok(())
    }

    /// The clients of a node follow a script.
    pub fn spawn_clients(&mut self, node: NodeId, script: impl Fn() -> Script) {
        for desk in self.desks.clone() {
            if desk.node == node && !desk.is_dead.get() {
                let browser = Browser::new(self.shared.clone(), desk, script(), self.plan.seed);
                self.rack.spawn(node, Box::new(browser));
            }
        }
    }

    /// The programs beside an endpoint get to work.
    pub fn spawn_locals(&mut self, at: usize) {
        let seat = self.moves.seats[at].clone();
        for number in 0..self.plan.locals {
            let who = 100_000 + 100 * (self.starts[at] as u32) + 10 * at as u32 + number as u32;
            let rng = Rng::new(self.plan.seed ^ u64::from(who)).fork("local");
            let work = Work::new(&self.shared, rng);
            let local = Local::new(self.shared.clone(), seat.clone(), who, work);
            self.rack.spawn(seat.node, Box::new(local));
        }
    }

    /// A boundary begins to move, unless another is moving.
    pub fn move_boundary(&mut self, left: u16, place: u16) {
        let alive = |node: &&NodeId| {
            let desks = self.desks.iter();
            desks
                .clone()
                .any(|desk| desk.node == **node && !desk.is_dead.get())
        };
        let Some(&node) = self.plan.compute.iter().find(alive) else {
            return;
        };
        let rng = Rng::new(self.plan.seed ^ self.rack.now().as_nanos()).fork("mover");
        let (shared, moves) = (self.shared.clone(), self.moves.clone());
        if let Some(mover) = Mover::new(shared, moves, rng, left, place) {
            self.rack.spawn(node, Box::new(mover));
        }
    }

    /// If whoever moved a range has been gone for a while, another one ends what was left half done.
    pub fn clear_up(&mut self) {
        self.idle_looks = match self.moves.under_way.get() {
            true => 0,
            false => self.idle_looks + 1,
        };
        if self.idle_looks == LOOKS_UNTIL_CLEAR
            && let Err(error) = self.moves.resolve()
        {
            self.shared.wrong(error);
        }
    }

    /// A node with clients dies.
    pub fn crash(&mut self, node: NodeId) -> bool {
        let mut any = false;
        for desk in self.desks.iter().filter(|desk| desk.node == node) {
            any |= !desk.is_dead.replace(true);
        }
        if any {
            self.rack.crash_node_silently(node);
        }
        any
    }

    pub fn is_dead(&self, node: NodeId) -> bool {
        let mut desks = self.desks.iter().filter(|desk| desk.node == node);
        desks.all(|desk| desk.is_dead.get())
    }

    /// A node is there again, with new clients.
    pub fn revive(&mut self, node: NodeId) -> Result<(), String> {
        if !self.rack.revive_node(node) {
            return Err(format!("{node:?} could not be revived"));
        }
        let at = usize::from(node.0);
        self.lives[at] += 1;
        self.take_desks(at)?;
        self.connect()
    }

    /// An endpoint's process ends, or its whole node dies. True if it was up.
    pub fn stop(&mut self, at: usize, hard: bool) -> bool {
        let seat = self.moves.seats[at].clone();
        let now = self.rack.now();
        let nic = self
            .rack
            .nic_mut(seat.node)
            .map(|nic| nic as &mut dyn Verbs);
        let Some(shard) = seat.stop(nic.filter(|_| !hard)) else {
            return false;
        };
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
        let Some(Down { began, shard, hard }) = self.down[at].take() else {
            return Ok(());
        };
        let seat = self.moves.seats[at].clone();
        if hard && !self.rack.revive_node(seat.node) {
            return Err(format!("{:?} could not be revived", seat.node));
        }
        let map = self.moves.map.borrow().clone();
        let part = map.part_of(seat.endpoint);
        let tree = match (keeps, part) {
            (true, Some(part)) => {
                let opened = Tree::open(shard.tree().block().clone());
                let tree = opened.map_err(|error| format!("no tree after a stop: {error}"))?;
                // What was coming in has to go again.
                let cut = tree.shrink(part.low, part.last);
                cut.map_err(|error| format!("a tree after a stop: {error}"))?;
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
        self.start(at, tree, &[])?;
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
        let map = self.moves.map.borrow();
        for seat in &self.moves.seats {
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
