//! The same machines in virtual time, on modelled hardware.
//!
//! Management is out of band: the controller acts at one instant, between two events. Reports of
//! the switch reach it after the model's delay.
//!
//! There are two ways to use it. Programs that are [actors](Actor) are spawned and charged for
//! their operations, and [`SimulatedRack::run`] advances time. Or the thread that built the rack
//! calls services as on any other [`Rack`]: while a call waits, the next events happen.

mod node;
mod pages;
mod simulation;
mod target;

use crate::build::{Kind, RackError};
use crate::config::RackConfig;
use crate::rack::{Backend, Rack};
use crate::statistics::{Observed, RackStatistics, by_name};
use crate::testing::{Faults, SimulatedMachines, Taps};
use core::cell::{Ref, RefCell, RefMut};
use core::ops::Deref;
use core::sync::atomic::AtomicBool;
use node::SimulatedNode;
use rackweave_base::{Block, Instant, Memory, NodeId, Rkey};
use rackweave_controller::ask::{AskError, Reply, Request};
use rackweave_controller::{Controller, Site, Topology};
use rackweave_nic::Nic;
use rackweave_programs::Pipeline;
use rackweave_sim::world::{Actor, ActorId, DirectionReport, LinkReport, WorldConfig};
use rackweave_sim::{CpuReport, ReadLines};
use rackweave_switch::{Switch, Tap};
use rackweave_target::{Backend as Medium, TargetConfig, TargetError};
use rackweave_verbs::NodeAccess;
use send_wrapper::SendWrapper;
use simulation::Simulation;
use std::sync::Arc;
use target::SharedTarget;
pub use target::{SsdBackend, SsdStall};

/// A rack in virtual time. As a [`Rack`] it can be used by services.
///
/// Time is advanced by one thread: any thread other than the one that built the rack panics if it
/// uses the rack, or what was made on it.
pub struct SimulatedRack {
    rack: Rack,
    world: Arc<World>,
}

/// State shared by its handles.
struct World {
    simulation: SendWrapper<RefCell<Simulation>>,
    config: RackConfig,
    memory: Memory,
    topology: Topology,
    page_alarm: Arc<AtomicBool>,
    observed: Observed,
    identity: u64,
}

/// Why [`SimulatedRack::run`] returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RunEnd {
    /// All actors are done.
    Done,
    /// The time limit is reached.
    Deadline,
    /// A control event entered by [`SimulatedRack::at`].
    Control(u64),
    /// No event will ever happen again.
    Stalled,
}

impl SimulatedRack {
    /// Builds a rack at time zero.
    ///
    /// # Errors
    /// If the configuration is invalid or the programs do not fit the switch.
    pub fn new(config: &RackConfig) -> Result<Self, RackError> {
        Self::with_models(config, |_| {})
    }

    /// The same on other hardware: `change` may replace the models of nodes, switch and links, but
    /// not the number of nodes.
    ///
    /// # Errors
    /// As for [`SimulatedRack::new`].
    pub fn with_models(
        config: &RackConfig,
        change: impl FnOnce(&mut WorldConfig),
    ) -> Result<Self, RackError> {
        let simulation = Simulation::with_models(config, change)?;
        let world = Arc::new(World {
            config: config.clone(),
            memory: simulation.memory.clone(),
            topology: simulation.topology.clone(),
            page_alarm: simulation.page_alarm.clone(),
            observed: Observed::new(config, &simulation.topology),
            // A simulated world contains no other rack.
            identity: config.seed.max(1),
            simulation: SendWrapper::new(RefCell::new(simulation)),
        });
        Ok(Self {
            rack: Rack::new(world.clone()),
            world,
        })
    }

    fn get(&self) -> Ref<'_, Simulation> {
        self.world.simulation.borrow()
    }

    fn get_mut(&self) -> RefMut<'_, Simulation> {
        self.world.simulation.borrow_mut()
    }

    /// The current virtual time.
    pub fn now(&self) -> Instant {
        self.get().world.now()
    }

    /// The number of events so far.
    pub fn events(&self) -> u64 {
        self.get().world.events()
    }

    /// The hash over all packets so far.
    pub fn trace_hash(&self) -> u64 {
        self.get().world.trace_hash()
    }

    /// Starts a program on a node.
    pub fn spawn(&mut self, node: NodeId, actor: Box<dyn Actor>) -> ActorId {
        self.get_mut().world.spawn(node, actor)
    }

    /// The same for a program that serves others and never ends by itself.
    pub fn spawn_server(&mut self, node: NodeId, actor: Box<dyn Actor>) -> ActorId {
        self.get_mut().world.spawn_server(node, actor)
    }

    /// Sets how all NICs read the bytes of READ responses from now on.
    pub fn set_read_lines(&mut self, read_lines: ReadLines) {
        self.get_mut().world.set_read_lines(read_lines);
    }

    /// Has this share of requests from node to node executed without packets, at once
    /// ([`World::set_cut_through`](rackweave_sim::World::set_cut_through)).
    pub fn set_cut_through(&mut self, share: f64) {
        self.get_mut().world.set_cut_through(share);
    }

    /// Steps the waiting actors of a node, as if a packet had arrived: their memory was changed.
    pub fn wake(&mut self, node: NodeId) {
        self.get_mut().world.wake(node);
    }

    /// Makes `run` return with `token` at a given time.
    pub fn at(&mut self, at: Instant, token: u64) {
        self.get_mut().world.at(at, token);
    }

    /// Runs until all actors are done, a control event, or `until`.
    pub fn run(&mut self, until: Instant) -> RunEnd {
        self.get_mut().run(until)
    }

    /// Kills a node without notifying the controller, which will detect it.
    pub fn crash_node_silently(&mut self, node: NodeId) {
        self.get_mut().world.crash(node);
    }

    /// Gives a crashed node a new NIC.
    pub fn revive_node(&mut self, node: NodeId) -> bool {
        self.get_mut().revive_node(node)
    }

    /// Disconnects or reconnects a node's cable.
    pub fn set_link_down(&mut self, node: NodeId, down: bool) {
        self.get_mut().world.set_link_down(node, down);
    }

    /// The switches and the places of nodes.
    pub fn topology(&self) -> &Topology {
        &self.world.topology
    }

    /// Disconnects or reconnects a cable between switches, numbered as in [`Topology::cables`].
    /// Returns false if there is no such cable.
    pub fn set_cable_down(&mut self, cable: usize, down: bool) -> bool {
        self.get_mut().world.set_cable_down(cable, down)
    }

    /// The report of a cable between switches since the start: downwards and upwards.
    pub fn cable_report(&self, cable: usize) -> Option<[DirectionReport; 2]> {
        self.get().world.cable_report(cable)
    }

    /// The report of a node's link since the start.
    pub fn link_report(&self, node: NodeId) -> Option<LinkReport> {
        self.get().world.link_report(node)
    }

    /// The report of a node's cores since the start.
    pub fn cpu_report(&self, node: NodeId) -> Option<CpuReport> {
        self.get().world.cpu_report(node)
    }
}

impl Faults for SimulatedRack {
    fn crash_node(&self, node: NodeId) {
        self.get_mut().crash_node(node);
    }

    fn restart_switch_at(&self, at: usize) -> Result<bool, RackError> {
        self.get_mut().restart_switch_at(at)
    }
}

impl Taps for SimulatedRack {
    fn set_tap(&self, tap: Option<Box<dyn Tap>>) {
        self.get_mut().world.switch_mut().set_tap(tap);
    }
}

impl SimulatedMachines for SimulatedRack {
    fn nic_mut(&self, node: NodeId) -> Option<RefMut<'_, Nic>> {
        RefMut::filter_map(self.get_mut(), |it| it.world.nic_mut(node)).ok()
    }

    fn switch(&self) -> Ref<'_, Switch<Pipeline>> {
        Ref::map(self.get(), |it| it.world.switch())
    }

    fn switch_at(&self, at: usize) -> Option<Ref<'_, Switch<Pipeline>>> {
        Ref::filter_map(self.get(), |it| it.world.switch_at(at)).ok()
    }

    fn switch_at_mut(&self, at: usize) -> Option<RefMut<'_, Switch<Pipeline>>> {
        RefMut::filter_map(self.get_mut(), |it| it.world.switch_at_mut(at)).ok()
    }

    fn control<R>(&self, act: impl FnOnce(&mut Controller, &mut dyn Site) -> R) -> R {
        self.get_mut().control(act)
    }
}

impl Deref for SimulatedRack {
    type Target = Rack;

    fn deref(&self) -> &Rack {
        &self.rack
    }
}

impl From<SimulatedRack> for Rack {
    fn from(simulated: SimulatedRack) -> Self {
        simulated.rack
    }
}

impl Backend for World {
    fn config(&self) -> &RackConfig {
        &self.config
    }

    fn kind(&self) -> Kind {
        Kind::Simulated
    }

    fn identity(&self) -> u64 {
        self.identity
    }

    fn memory(&self) -> &Memory {
        &self.memory
    }

    fn node(self: Arc<Self>, node: NodeId) -> Option<Arc<dyn NodeAccess>> {
        let there = usize::from(node.0) < self.config.node.len();
        there.then(|| Arc::new(SimulatedNode::new(self, node)) as Arc<dyn NodeAccess>)
    }

    fn now(&self) -> Instant {
        self.simulation.borrow().world.now()
    }

    fn is_alive(&self, node: NodeId) -> bool {
        self.simulation.borrow().world.nic(node).is_some()
    }

    fn block(&self, node: NodeId, rkey: Rkey) -> Option<Block> {
        self.simulation.borrow().regions.block(node, rkey)
    }

    fn page_alarm(&self) -> Arc<AtomicBool> {
        self.page_alarm.clone()
    }

    fn set_target(
        &self,
        node: NodeId,
        config: TargetConfig,
        namespaces: Vec<Box<dyn Medium>>,
    ) -> Result<(), TargetError> {
        let mut simulation = self.simulation.borrow_mut();
        simulation.add_target(node, config, namespaces)
    }

    fn statistics(&self) -> RackStatistics {
        let mut simulation = self.simulation.borrow_mut();
        let nics = (0..self.config.node.len()).map(|at| {
            let nic = simulation.world.nic(NodeId(at as u16));
            nic.map(|nic| by_name(nic.counters().iter()))
        });
        let nics: Vec<_> = nics.collect();
        simulation.control(|controller, site| {
            self.observed.ask(controller, site);
            self.observed
                .look(site, |node| nics[usize::from(node.0)].clone())
        })
    }

    fn ask(&self, request: Request) -> Result<Reply, AskError> {
        Ok(self.simulation.borrow_mut().ask(request))
    }
}

#[cfg(test)]
mod congestion_tests;
#[cfg(test)]
mod link_tests;
#[cfg(test)]
mod pages_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod topology_tests;
