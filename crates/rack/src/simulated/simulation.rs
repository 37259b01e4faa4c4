//! The machines of a simulated rack, and the controller.

use super::{RunEnd, SharedTarget};
use crate::build::{self, Kind, RackError};
use crate::config::choices;
use crate::config::{NodeConfig, RackConfig, Role};
use core::sync::atomic::{AtomicBool, Ordering};
use rackweave_base::packet::Pool;
use rackweave_base::{Duration, Instant, Memory, NodeId, PortId, Rng};
use rackweave_controller::ask::{Reply, Request};
use rackweave_controller::{
    Controller, LocalRegions, NodeAddress, Site, TargetReply, TargetRequest, Topology,
};
use rackweave_nic::Nic;
use rackweave_programs::{Pipeline, PipelineConfig};
use rackweave_sim::LinkModel;
use rackweave_sim::world::{CableModel, NodeModel, Stop, SwitchPort, World, WorldConfig};
use rackweave_switch::Switch;
use rackweave_target::TargetError;
use rackweave_verbs::Verbs;
use std::sync::Arc;

/// A rack in virtual time.
pub(super) struct Simulation {
    pub world: World<Pipeline>,
    pub controller: Controller,
    pub regions: LocalRegions,
    pub memory: Memory,
    pub pool: Pool,
    /// By switch.
    pub pipelines: Vec<PipelineConfig>,
    pub topology: Topology,
    pub config: RackConfig,
    pub rng: Rng,
    /// By node.
    pub targets: Vec<Option<SharedTarget>>,
    /// Set when a channel to the page directory requests a new connection.
    pub page_alarm: Arc<AtomicBool>,
}

/// Delay until the controller sees that a channel requests a new connection.
const PLEA_SEEN: Duration = Duration::from_micros(500);

/// The world as the controller sees it.
struct WorldSite<'a> {
    world: &'a mut World<Pipeline>,
    regions: &'a LocalRegions,
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

    fn regions(&self) -> Option<&LocalRegions> {
        Some(self.regions)
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

    fn target(
        &mut self,
        node: NodeId,
        request: TargetRequest,
    ) -> Option<Result<TargetReply, TargetError>> {
        let target = self.targets.get(usize::from(node.0));
        let target = target.and_then(Option::as_ref);
        match (target, self.world.nic_mut(node)) {
            (Some(target), Some(nic)) => {
                let mut target = target.lock();
                Some(request.answer(target.as_mut()?, nic))
            }
            _ => None,
        }
    }
}

impl Simulation {
    /// A rack at time zero. `change` may replace the models of nodes, switch and links, but not the
    /// number of nodes.
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

    /// Sends a request to the controller, which executes it at this moment.
    pub fn ask(&mut self, request: Request) -> Reply {
        let is_felt = request.is_felt();
        let is_flow = matches!(request, Request::CreateFlow(_));
        let reply = self.control(|controller, site| request.answer(controller, site));
        if is_felt {
            self.wake_all();
        } else if is_flow {
            self.world.kick();
        }
        reply
    }

    /// Runs until all actors are done, a control event, or `until`.
    pub fn run(&mut self, until: Instant) -> RunEnd {
        let has_pages = self.controller.page_spec().is_some();
        loop {
            let look = match has_pages {
                true => until.min(self.world.now() + PLEA_SEEN),
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

    /// Executes the next event, and all others at the same moment. Returns false if there is none.
    pub fn next_event(&mut self) -> bool {
        let Some(next) = self.world.next_at() else {
            return false;
        };
        self.run(next);
        true
    }

    /// Kills a node; flows with it abort.
    pub fn crash_node(&mut self, node: NodeId) {
        self.world.crash(node);
        self.control(|controller, site| controller.node_died(site, node));
        self.wake_all();
    }

    /// Gives a crashed node a new NIC.
    pub fn revive_node(&mut self, node: NodeId) -> bool {
        let nic = self.new_nic(node);
        self.world.revive(node, nic)
    }

    /// A NIC for a node, without regions and queue pairs.
    pub fn new_nic(&mut self, node: NodeId) -> Nic {
        let config = build::nic_config(&self.config, node, Kind::Simulated);
        Nic::new(
            config,
            self.memory.clone(),
            self.pool.clone(),
            Kind::Simulated.keys(self.rng.fork("revived")),
        )
    }

    /// Empties the tables of a switch. Returns false if there is no such switch.
    pub fn empty_switch_at(&mut self, at: usize) -> Result<bool, RackError> {
        let switch = self.world.switch_at_mut(at);
        let (Some(switch), Some(pipeline)) = (switch, self.pipelines.get(at)) else {
            return Ok(false);
        };
        switch.restart(Pipeline::new(pipeline, self.memory.clone()))?;
        Ok(true)
    }

    /// Restarts a switch with empty tables. Returns false if there is no such switch.
    pub fn restart_switch_at(&mut self, at: usize) -> Result<bool, RackError> {
        if !self.empty_switch_at(at)? {
            return Ok(false);
        }
        self.control(|controller, site| match at {
            0 => controller.switch_restarted(site),
            _ => controller.edge_switch_restarted(site, at),
        })?;
        self.wake_all();
        Ok(true)
    }

    /// Calls `act` with the controller.
    pub fn control<R>(&mut self, act: impl FnOnce(&mut Controller, &mut dyn Site) -> R) -> R {
        let mut site = WorldSite {
            world: &mut self.world,
            regions: &self.regions,
            topology: &self.topology,
            targets: &self.targets,
        };
        act(&mut self.controller, &mut site)
    }

    /// Has all waiting programs check their memory.
    pub fn wake_all(&mut self) {
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

/// Downwards first. A packet between two switches has the same delays as one for a node.
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
