//! The same machines in virtual time, on modelled hardware.
//!
//! Management is out of band: the controller acts at one instant, between two events. News from
//! the switch takes the time that the model says to reach it.

use crate::Flow;
use crate::build::{self, Kind, RackError};
use crate::choices;
use crate::config::{NodeConfig, RackConfig, Role};
use core::sync::atomic::{AtomicBool, Ordering};
use rackweave_base::packet::Pool;
use rackweave_base::{Duration, Instant, Memory, NodeId, PortId, Qpn, Rkey, Rng};
use rackweave_controller::connect::PairAttributes;
use rackweave_controller::{
    Controller, FlowError, FlowId, FlowSpec, FlowState, LaneError, LocalRegions, Loss, NodeAddress,
    RegionError, RegionName, Site, Topology,
};
use rackweave_nic::Nic;
use rackweave_programs::{Pipeline, PipelineConfig};
use rackweave_sim::world::{
    Actor, ActorId, CableModel, DirectionReport, LinkReport, NodeModel, Stop, SwitchPort, World,
    WorldConfig,
};
use rackweave_sim::{CpuReport, LinkModel, ReadLines};
use rackweave_switch::{Switch, Tap};
use rackweave_target::Target;
use rackweave_verbs::{Access, PdId, Verbs};
use std::sync::Arc;

/// A rack in virtual time.
pub struct SimulatedRack {
    world: World<Pipeline>,
    controller: Controller,
    regions: LocalRegions,
    memory: Memory,
    pool: Pool,
    /// By switch.
    pipelines: Vec<PipelineConfig>,
    topology: Topology,
    config: RackConfig,
    rng: Rng,
    /// By node.
    targets: Vec<Option<SharedTarget>>,
    /// Set when a channel to the page directory asks to be connected afresh.
    page_alarm: Arc<AtomicBool>,
}

/// How soon the controller sees that a channel asks to be connected afresh.
const PLEA_SEEN: Duration = Duration::from_micros(500);

/// Why [`SimulatedRack::run`] came back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RunEnd {
    /// All actors are done.
    Done,
    /// The time is up.
    Deadline,
    /// A control event entered by [`SimulatedRack::at`].
    Control(u64),
    /// Nothing will ever happen again.
    Stalled,
}

/// The world as the controller sees it.
struct WorldSite<'a> {
    world: &'a mut World<Pipeline>,
    regions: &'a mut LocalRegions,
    topology: &'a Topology,
    targets: &'a [Option<SharedTarget>],
}

impl Site for WorldSite<'_> {
    fn now(&self) -> Instant {
        self.world.now()
    }

    fn nodes(&self) -> Vec<(NodeId, NodeAddress)> {
        build::addresses(self.topology)
    }

    fn node(&mut self, node: NodeId, act: &mut dyn FnMut(&mut dyn Verbs)) -> bool {
        match self.world.nic_mut(node) {
            Some(nic) => {
                act(nic);
                true
            }
            None => false,
        }
    }

    fn switch(&mut self, act: &mut dyn FnMut(Instant, &mut Switch<Pipeline>)) {
        let now = self.world.now();
        act(now, self.world.switch_mut());
    }

    fn switches(&self) -> usize {
        self.topology.switches()
    }

    fn switch_at(&mut self, at: usize, act: &mut dyn FnMut(Instant, &mut Switch<Pipeline>)) {
        let now = self.world.now();
        if let Some(switch) = self.world.switch_at_mut(at) {
            act(now, switch);
        }
    }

    fn topology(&self) -> Topology {
        self.topology.clone()
    }

    fn make_region(
        &mut self,
        node: NodeId,
        pd: PdId,
        len: u64,
        access: Access,
    ) -> Result<RegionName, RegionError> {
        let nic = self.world.nic_mut(node).ok_or(RegionError::NoNode)?;
        self.regions.make(nic, node, pd, len, access)
    }

    fn remove_region(&mut self, node: NodeId, name: &RegionName) {
        let verbs = self.world.nic_mut(node).map(|nic| nic as &mut dyn Verbs);
        self.regions.remove(verbs, node, name);
    }

    fn target(&mut self, node: NodeId, act: &mut dyn FnMut(&mut Target, &mut dyn Verbs)) -> bool {
        let target = self.targets.get(usize::from(node.0));
        let target = target.and_then(Option::as_ref);
        match (target, self.world.nic_mut(node)) {
            (Some(target), Some(nic)) => {
                let mut target = target.lock();
                target.as_mut().map(|target| act(target, nic)).is_some()
            }
            _ => false,
        }
    }

    fn compare_swap_word(
        &mut self,
        node: NodeId,
        rkey: Rkey,
        offset: u64,
        words: (u64, u64),
    ) -> Option<u64> {
        self.regions.compare_swap(node, rkey, offset, words)
    }

    fn load_word(&mut self, node: NodeId, rkey: Rkey, offset: u64) -> Option<[u8; 8]> {
        self.regions.load(node, rkey, offset)
    }

    fn store_word(&mut self, node: NodeId, rkey: Rkey, offset: u64, bytes: [u8; 8]) {
        self.regions.store(node, rkey, offset, bytes);
    }
}

impl SimulatedRack {
    /// Builds a rack at time zero.
    ///
    /// # Errors
    /// If the configuration makes no sense or the programs do not fit the switch.
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
        let models = rackweave_sim::world::SwitchModel::default();
        let mut parts = build::build(
            config,
            Kind::Simulated,
            models.switch_config(config.node.len() as u16),
        )?;
        let link = LinkModel {
            bits_per_second: (config.link.gigabits_per_second * 1e9) as u64,
            check_needed: choices::icrc(config, Kind::Simulated).value,
            ..LinkModel::default()
        };
        let node = |(at, node): (usize, &NodeConfig)| {
            let (model, link) = match node.role {
                Role::Dpu => (NodeModel::bluefield_2(), LinkModel::default()),
                _ => (NodeModel::default(), link),
            };
            model.with_link(LinkModel {
                bits_per_second: choices::bits_per_second(config, NodeId(at as u16)).value,
                ..link
            })
        };
        let mut world = WorldConfig {
            seed: parts.rng.next_u64(),
            nodes: config.node.iter().enumerate().map(node).collect(),
            places: places(&parts.topology),
            cables: cables(&parts.topology, link),
            faults: config.faults.to_links(),
            ..WorldConfig::default()
        };
        change(&mut world);
        let mut world =
            World::with_switches(world, parts.memory.clone(), parts.nics, parts.switches)?;
        for (at, node) in config.node.iter().enumerate() {
            if !node.faults.is_empty() {
                let node = NodeId(at as u16);
                world.set_faults(node, config.faults_of(node).to_links())?;
            }
        }
        let mut rack = Self {
            world,
            controller: parts.controller,
            regions: LocalRegions::new(parts.memory.clone()),
            memory: parts.memory,
            pool: parts.pool,
            pipelines: parts.pipelines,
            topology: parts.topology,
            config: config.clone(),
            rng: parts.rng,
            targets: vec![None; config.node.len()],
            page_alarm: Arc::default(),
        };
        rack.control(|controller, site| controller.install_hosts(site))?;
        Ok(rack)
    }

    /// The configuration.
    pub fn config(&self) -> &RackConfig {
        &self.config
    }

    /// The arena of all regions.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// The virtual time.
    pub fn now(&self) -> Instant {
        self.world.now()
    }

    /// Events so far.
    pub fn events(&self) -> u64 {
        self.world.events()
    }

    /// The hash over everything that travelled so far.
    pub fn trace_hash(&self) -> u64 {
        self.world.trace_hash()
    }

    /// The same shape of flow with this rack's settings for batches, transfers and MTU.
    pub fn flow_spec(
        &self,
        producers: &[NodeId],
        consumers: &[NodeId],
        item_size: u32,
        ring_bytes: u32,
    ) -> FlowSpec {
        build::flow_spec(
            &self.config,
            Kind::Simulated,
            producers,
            consumers,
            item_size,
            ring_bytes,
        )
    }

    /// Sets a flow up.
    ///
    /// # Errors
    /// If the specification is out of range, or the switch or a node lacks room.
    pub fn create_flow(&mut self, spec: FlowSpec) -> Result<Flow, FlowError> {
        let made = self.control(|controller, site| controller.create_flow(site, spec));
        self.world.kick();
        made.map(|(id, rings)| Flow::local(id, &rings, |node, rkey| self.regions.block(node, rkey)))
    }

    /// A consumer joins a balanced or replicated flow; returns its number.
    ///
    /// # Errors
    /// As for [`Controller::add_consumer`].
    pub fn add_consumer(&mut self, flow: &mut Flow, node: NodeId) -> Result<usize, FlowError> {
        let id = flow.id;
        let (index, ring) =
            self.change(|controller, site| controller.add_consumer(site, id, node))?;
        flow.joined_consumer(&ring, |node, rkey| self.regions.block(node, rkey));
        Ok(index)
    }

    /// A consumer leaves; its stream ends after what it has been shown.
    ///
    /// # Errors
    /// As for [`Controller::remove_consumer`].
    pub fn remove_consumer(&mut self, id: FlowId, index: usize) -> Result<(), FlowError> {
        self.change(|controller, site| controller.remove_consumer(site, id, index))
    }

    /// A producer joins; returns its number.
    ///
    /// # Errors
    /// As for [`Controller::add_producer`].
    pub fn add_producer(&mut self, flow: &mut Flow, node: NodeId) -> Result<usize, FlowError> {
        let id = flow.id;
        let (index, rings) =
            self.change(|controller, site| controller.add_producer(site, id, node))?;
        flow.joined_producer(&rings, |node, rkey| self.regions.block(node, rkey));
        Ok(index)
    }

    /// A producer that has finished leaves.
    ///
    /// # Errors
    /// As for [`Controller::remove_producer`].
    pub fn remove_producer(&mut self, id: FlowId, index: usize) -> Result<(), FlowError> {
        self.change(|controller, site| controller.remove_producer(site, id, index))
    }

    /// Changes the weight of a running flow.
    ///
    /// # Errors
    /// As for [`Controller::set_weight`].
    pub fn set_weight(&mut self, id: FlowId, weight: Option<u32>) -> Result<(), FlowError> {
        self.change(|controller, site| controller.set_weight(site, id, weight))
    }

    /// Members of a flow that were lost.
    pub fn losses(&self, id: FlowId) -> &[Loss] {
        self.controller.losses(id)
    }

    fn change<R>(&mut self, act: impl FnOnce(&mut Controller, &mut dyn Site) -> R) -> R {
        let result = self.control(act);
        self.wake_all();
        result
    }

    /// How a flow is doing.
    pub fn flow_state(&self, id: FlowId) -> Option<FlowState> {
        self.controller.flow_state(id)
    }

    /// Breaks a flow off.
    pub fn close_flow(&mut self, id: FlowId) {
        self.control(|controller, site| controller.close_flow(site, id));
        self.wake_all();
    }

    /// Connects two queue pairs that are in state Reset.
    ///
    /// # Errors
    /// If a node is unknown or refuses.
    pub fn connect(
        &mut self,
        a: (NodeId, Qpn),
        b: (NodeId, Qpn),
        attributes: &PairAttributes,
    ) -> Result<(), LaneError> {
        self.control(|controller, site| controller.connect_pair(site, a, b, attributes))
    }

    /// A node's NIC; nothing if the node has crashed.
    pub fn nic_mut(&mut self, node: NodeId) -> Option<&mut Nic> {
        self.world.nic_mut(node)
    }

    /// Lets a program run on a node.
    pub fn spawn(&mut self, node: NodeId, actor: Box<dyn Actor>) -> ActorId {
        self.world.spawn(node, actor)
    }

    /// The same for a program that serves others and never ends by itself.
    pub fn spawn_server(&mut self, node: NodeId, actor: Box<dyn Actor>) -> ActorId {
        self.world.spawn_server(node, actor)
    }

    /// Says how all NICs read the bytes of READ responses from now on.
    pub fn set_read_lines(&mut self, read_lines: ReadLines) {
        self.world.set_read_lines(read_lines);
    }

    /// Steps the actors of a node that wait, as if a packet had come: their memory was changed.
    pub fn wake(&mut self, node: NodeId) {
        self.world.wake(node);
    }

    /// Lets `run` come back with `token` at a time.
    pub fn at(&mut self, at: Instant, token: u64) {
        self.world.at(at, token);
    }

    /// Runs until all actors are done, a control event, or `until`.
    pub fn run(&mut self, until: Instant) -> RunEnd {
        let has_pages = self.controller.page_spec().is_some();
        loop {
            let look = match has_pages {
                true => until.min(self.now() + PLEA_SEEN),
                false => until,
            };
            match self.world.run(look) {
                Stop::Deadline | Stop::Stalled if self.page_alarm.swap(false, Ordering::AcqRel) => {
                    self.control(|controller, site| controller.page_pleas(site));
                    self.wake_all();
                }
                Stop::Deadline if look < until => {}
                Stop::Digest => {
                    while let Some(digest) = self.world.poll_digest() {
                        self.control(|controller, site| controller.handle_digest(site, digest));
                    }
                    self.wake_all();
                }
                Stop::Done => return RunEnd::Done,
                Stop::Deadline => return RunEnd::Deadline,
                Stop::Control(token) => return RunEnd::Control(token),
                Stop::Stalled => return RunEnd::Stalled,
            }
        }
    }

    /// Kills a node; flows with it break off.
    pub fn crash_node(&mut self, node: NodeId) {
        self.world.crash(node);
        self.control(|controller, site| controller.node_died(site, node));
        self.wake_all();
    }

    /// Kills a node without telling the controller, who will find out.
    pub fn crash_node_silently(&mut self, node: NodeId) {
        self.world.crash(node);
    }

    /// Gives a crashed node a new NIC.
    pub fn revive_node(&mut self, node: NodeId) -> bool {
        let config = build::nic_config(&self.config, node, Kind::Simulated);
        let nic = Nic::new(
            config,
            self.memory.clone(),
            self.pool.clone(),
            Kind::Simulated.keys(self.rng.fork("revived")),
        );
        self.world.revive(node, nic)
    }

    /// Cuts or mends a node's cable.
    pub fn set_link_down(&mut self, node: NodeId, down: bool) {
        self.world.set_link_down(node, down);
    }

    /// Restarts switch 0 with empty tables; running flows are set up again.
    ///
    /// # Errors
    /// If the tables are too small for the nodes, which the first start rules out.
    pub fn restart_switch(&mut self) -> Result<(), RackError> {
        self.restart_switch_at(0).map(|_| ())
    }

    /// The same for any switch. Flows, pages and sequencers are those of switch 0; others know only
    /// the ways. False if there is no such switch.
    ///
    /// # Errors
    /// As for [`SimulatedRack::restart_switch`].
    pub fn restart_switch_at(&mut self, at: usize) -> Result<bool, RackError> {
        let switch = self.world.switch_at_mut(at);
        let (Some(switch), Some(pipeline)) = (switch, self.pipelines.get(at)) else {
            return Ok(false);
        };
        switch.restart(Pipeline::new(pipeline, self.memory.clone()))?;
        self.control(|controller, site| match at {
            0 => controller.switch_restarted(site),
            _ => controller.edge_switch_restarted(site, at),
        })?;
        self.wake_all();
        Ok(true)
    }

    /// Which switches there are, and where nodes hang.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Cuts or mends a cable between switches, numbered as in [`Topology::cables`]. False if there
    /// is no such cable.
    pub fn set_cable_down(&mut self, cable: usize, down: bool) -> bool {
        self.world.set_cable_down(cable, down)
    }

    /// What a cable between switches has done since the start: downwards and upwards.
    pub fn cable_report(&self, cable: usize) -> Option<[DirectionReport; 2]> {
        self.world.cable_report(cable)
    }

    /// Has `tap` see every packet at switch 0, or nobody.
    pub fn set_tap(&mut self, tap: Option<Box<dyn Tap>>) {
        self.world.switch_mut().set_tap(tap);
    }

    /// Switch 0.
    pub fn switch(&self) -> &Switch<Pipeline> {
        self.world.switch()
    }

    /// A switch. None if there is no such switch.
    pub fn switch_at(&self, at: usize) -> Option<&Switch<Pipeline>> {
        self.world.switch_at(at)
    }

    /// A switch, for the control plane.
    pub fn switch_at_mut(&mut self, at: usize) -> Option<&mut Switch<Pipeline>> {
        self.world.switch_at_mut(at)
    }

    /// What a node's link has done since the start.
    pub fn link_report(&self, node: NodeId) -> Option<LinkReport> {
        self.world.link_report(node)
    }

    /// What a node's cores have spent since the start.
    pub fn cpu_report(&self, node: NodeId) -> Option<CpuReport> {
        self.world.cpu_report(node)
    }

    /// Acts with the controller.
    pub(crate) fn control<R>(
        &mut self,
        act: impl FnOnce(&mut Controller, &mut dyn Site) -> R,
    ) -> R {
        let mut site = WorldSite {
            world: &mut self.world,
            regions: &mut self.regions,
            topology: &self.topology,
            targets: &self.targets,
        };
        act(&mut self.controller, &mut site)
    }

    fn wake_all(&mut self) {
        for node in 0..self.world.node_count() {
            self.world.wake(NodeId(node as u16));
        }
        self.world.kick();
    }
}

fn places(topology: &Topology) -> Vec<SwitchPort> {
    let places = topology
        .nodes()
        .map(|(_, place)| (place.switch, place.port));
    places.map(socket).collect()
}

/// Downwards first. A packet between two switches waits and travels as one for a node does.
fn cables(topology: &Topology, link: LinkModel) -> Vec<CableModel> {
    let cables = topology.cables().map(|cable| CableModel {
        ends: [cable.upper, cable.lower].map(socket),
        link,
    });
    cables.collect()
}

fn socket((switch, port): (usize, PortId)) -> SwitchPort {
    SwitchPort {
        switch: switch as u16,
        port,
    }
}

mod pages;
mod sequencer;
mod target;

use target::SharedTarget;
pub use target::{SsdBackend, SsdStall};

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
