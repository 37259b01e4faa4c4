//! State shared by all threads of an embedded rack.
//!
//! Each machine is behind a lock of its own and communicates with the others only through links;
//! all switches together are one machine, so that a packet passes from one to the next without a
//! change of thread. A thread that drives the rack takes each lock if it is free and moves on if it
//! is not: its holder is driving that machine. The controller takes one lock at a time. A thread
//! that has a node may try to lock a second one (`cut_through`); none waits for one while it has
//! another.

mod agenda;
mod cut_through;
mod drive;
mod waiting;

use super::tasks::Tasks;
use crate::build::{self, Kind, Parts, RackError};
use crate::config::{FaultSection, RackConfig};
use crate::linked::{LinkedNode, LinkedSwitch, LinkedSwitches};
use crate::locked::{LockedMachine, try_lock};
use agenda::Agenda;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use cut_through::PlainPaths;
use rackweave_base::packet::Pool;
use rackweave_base::{Instant, Memory, NodeId, Packet, PortId, Rng};
use rackweave_controller::{
    Controller, LocalRegions, NodeAddress, Site, TargetReply, TargetRequest, Topology,
};
use rackweave_link::{Doorbell, Fault, Link, in_process};
use rackweave_nic::Nic;
use rackweave_programs::{Pipeline, PipelineConfig};
use rackweave_switch::Switch;
use rackweave_target::{Target, TargetError};
use rackweave_verbs::Verbs;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::Thread;
use waiting::Waiting;

pub(crate) struct Shared {
    epoch: std::time::Instant,
    memory: Memory,
    pool: Pool,
    /// By switch.
    pipelines: Vec<PipelineConfig>,
    topology: Topology,
    nodes: Vec<LockedMachine<LinkedNode>>,
    addresses: Vec<(NodeId, NodeAddress)>,
    paths: PlainPaths,
    switches: LockedMachine<LinkedSwitches>,
    agenda: Agenda,
    controller: Mutex<Controller>,
    /// The regions that the controller has made.
    pub regions: LocalRegions,
    /// Set when the switch has reports for the controller.
    news: AtomicBool,
    /// Set when a channel to the page directory requests a new connection.
    page_alarm: Arc<AtomicBool>,
    pub(super) stop: AtomicBool,
    waiting: Waiting,
    /// When a waiting thread last drove, in nanoseconds.
    driven: AtomicU64,
    /// When much was last moved in one call, in nanoseconds.
    much: AtomicU64,
    /// The driver threads, and how many of them sleep until they are woken, or nap.
    drivers: Mutex<Vec<Thread>>,
    has_drivers: AtomicBool,
    sleeping: AtomicUsize,
    napping: AtomicUsize,
    pub(super) tasks: Tasks,
}

impl Shared {
    pub fn new(config: &RackConfig, mut parts: Parts) -> Result<Self, RackError> {
        let topology = parts.topology;
        let addresses = build::addresses(&topology);
        let paths = PlainPaths::new(config, addresses.clone());
        let mut nodes = Vec::new();
        let agenda = Agenda::new(config.node.len(), &topology);
        let mut links = Links::new(&topology);
        for (at, nic) in parts.nics.into_iter().enumerate() {
            let mut rng = |end: &str| parts.rng.fork(&format!("link {at} {end}"));
            let rngs = [rng("node"), rng("switch")];
            let faults = config.faults_of(NodeId(at as u16));
            let place = build::place_of(&topology, NodeId(at as u16));
            let bells = [agenda.of_port(place), agenda.of_node(at)];
            let [link, far] = link(config, faults, (rngs, bells), &parts.memory)?;
            links.plug(place, far);
            nodes.push(LockedMachine::new(LinkedNode {
                direct: Vec::new(),
                nic,
                link,
                target: None,
                dead: false,
                has_more: false,
            }));
        }
        for (at, cable) in topology.cables().enumerate() {
            let mut rng = |end: &str| parts.rng.fork(&format!("cable {at} {end}"));
            let rngs = [rng("upper"), rng("lower")];
            let bells = [cable.lower, cable.upper].map(|place| agenda.of_port(place));
            let [upper, lower] = link(config, config.faults, (rngs, bells), &parts.memory)?;
            links.plug(cable.upper, upper);
            links.plug(cable.lower, lower);
        }
        let egress_high = config.switch.egress_packets as usize / 2;
        let linked_switches = parts.switches.into_iter().zip(links.0).enumerate();
        let linked_switches = linked_switches.map(|(at, (switch, links))| LinkedSwitch {
            switch,
            stuck_since: Default::default(),
            ran: Instant::ZERO,
            arrivals: agenda.arrivals(at),
            links,
            up: topology.up(at),
            egress_high,
        });
        let switches = LockedMachine::new(LinkedSwitches(linked_switches.collect()));
        Ok(Self {
            epoch: std::time::Instant::now(),
            regions: LocalRegions::new(parts.memory.clone()),
            memory: parts.memory,
            pool: parts.pool,
            pipelines: parts.pipelines,
            addresses,
            paths,
            topology,
            nodes,
            switches,
            agenda,
            controller: Mutex::new(parts.controller),
            news: AtomicBool::new(false),
            page_alarm: Arc::default(),
            stop: AtomicBool::new(false),
            waiting: Waiting::new(config.node.len()),
            driven: AtomicU64::new(0),
            much: AtomicU64::new(0),
            drivers: Mutex::new(Vec::new()),
            has_drivers: AtomicBool::new(false),
            sleeping: AtomicUsize::new(0),
            napping: AtomicUsize::new(0),
            tasks: Tasks::default(),
        })
    }

    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    pub fn time(&self) -> Instant {
        Instant::from_nanos(self.epoch.elapsed().as_nanos() as u64)
    }

    pub fn install_hosts(&self) -> Result<(), RackError> {
        Ok(self.control(|controller, site| controller.install_hosts(site))?)
    }

    /// Calls `act` with the controller.
    pub fn control<R>(&self, act: impl FnOnce(&mut Controller, &mut dyn Site) -> R) -> R {
        let mut controller = self
            .controller
            .lock()
            .expect("the controller does not panic");
        act(&mut controller, &mut &*self)
    }

    /// The same, unless another thread is using it.
    pub fn try_control<R>(
        &self,
        act: impl FnOnce(&mut Controller, &mut dyn Site) -> R,
    ) -> Option<R> {
        let mut controller = try_lock(&self.controller)?;
        Some(act(&mut controller, &mut &*self))
    }

    pub fn with_nic<R>(&self, node: usize, act: impl FnOnce(&mut Nic) -> R) -> R {
        self.act_for(node, self.nodes[node].lock(), act)
    }

    /// The same, unless another thread has the NIC.
    pub fn try_with_nic<R>(&self, node: usize, act: impl FnOnce(&mut Nic) -> R) -> Option<R> {
        let linked = self.nodes[node].try_lock()?;
        Some(self.act_for(node, linked, act))
    }

    /// Calls `act` with the NIC of a node, and executes what can cut through.
    fn act_for<R>(
        &self,
        node: usize,
        linked: MutexGuard<'_, LinkedNode>,
        act: impl FnOnce(&mut Nic) -> R,
    ) -> R {
        let mut work = 0;
        let result = self.act_on(node, linked, |linked| {
            let result = act(&mut linked.nic);
            if linked.nic.wants_to_send() && !linked.dead {
                work = self.cut_through(node, &mut linked.nic).work;
            }
            result
        });
        // No lock is held: a waker may do anything.
        self.note_moved(work);
        result
    }

    /// Calls `act` with a node, and puts what follows from it on the agenda.
    fn act_on<R>(
        &self,
        node: usize,
        mut linked: MutexGuard<'_, LinkedNode>,
        act: impl FnOnce(&mut LinkedNode) -> R,
    ) -> R {
        let result = act(&mut linked);
        if linked.nic.wants_to_send() || linked.target.is_some() {
            self.agenda.ring_node(node);
            drive::note_posted();
        }
        self.agenda
            .note_deadline(&self.nodes[node], linked.deadline());
        result
    }

    fn act_on_node(&self, node: NodeId, act: &mut dyn FnMut(&mut dyn Verbs)) -> bool {
        let at = usize::from(node.0);
        let Some(place) = self.nodes.get(at) else {
            return false;
        };
        let linked = place.lock();
        if linked.dead {
            return false;
        }
        self.act_on(at, linked, |linked| act(&mut linked.nic));
        true
    }

    /// Calls `act` with switch 0.
    pub fn with_switch<R>(&self, act: impl FnOnce(&mut Switch<Pipeline>) -> R) -> R {
        self.with_switch_at(0, act).expect("there is a switch 0")
    }

    /// Calls `act` with a switch; `None` if there is no such switch.
    pub fn with_switch_at<R>(
        &self,
        at: usize,
        act: impl FnOnce(&mut Switch<Pipeline>) -> R,
    ) -> Option<R> {
        let mut linked_switches = self.switches.lock();
        let result = act(&mut linked_switches.0.get_mut(at)?.switch);
        self.paths.look(&linked_switches, &self.topology);
        self.agenda.ring_switch(at);
        drive::note_posted();
        self.agenda
            .note_deadline(&self.switches, linked_switches.deadline());
        Some(result)
    }

    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Puts a target behind a node's NIC, in place of an existing one, which ends.
    pub fn set_target(
        &self,
        node: usize,
        make: impl FnOnce(&mut Nic) -> Result<Target, TargetError>,
    ) -> Result<(), TargetError> {
        self.act_on(node, self.nodes[node].lock(), |linked| {
            if let Some(target) = linked.target.take() {
                target.destroy(&mut linked.nic);
            }
            linked.target = Some(make(&mut linked.nic)?);
            Ok(())
        })
    }

    pub fn is_alive(&self, node: usize) -> bool {
        self.nodes.get(node).is_some_and(|place| !place.lock().dead)
    }

    pub fn crash(&self, node: usize) {
        self.nodes[node].lock().dead = true;
    }

    /// Restarts a switch with empty tables. Returns false if there is no such switch.
    pub fn restart_switch(&self, at: usize) -> Result<bool, RackError> {
        let Some(pipeline) = self.pipelines.get(at) else {
            return Ok(false);
        };
        let program = Pipeline::new(pipeline, self.memory.clone());
        match self.with_switch_at(at, |switch| switch.restart(program)) {
            Some(restarted) => Ok(restarted.map(|()| true)?),
            None => Ok(false),
        }
    }

    /// Bytes used besides the regions: the current number and the maximum.
    pub fn bytes_overhead(&self, config: &RackConfig) -> (usize, usize) {
        let switches = self.switches.lock();
        let switches: usize = switches.0.iter().map(|at| at.switch.bytes_max()).sum();
        let links = self.nodes.len() + self.topology.cables().count();
        let links = links * 2 * config.link.packets as usize * Packet::BYTES;
        let fixed = switches + links + self.pool.bytes_max();
        let (mut now, mut most) = (fixed, fixed);
        for at in 0..self.nodes.len() {
            now += self.with_nic(at, |nic| nic.bytes_overhead());
            most +=
                build::nic_config(config, NodeId(at as u16), Kind::Embedded).bytes_overhead_max();
        }
        (now, most)
    }

    pub fn page_alarm(&self) -> &Arc<AtomicBool> {
        &self.page_alarm
    }
}

/// The ends of all links at switches, by switch and port.
struct Links(Vec<Vec<Box<dyn Link>>>);

impl Links {
    /// Every port starts with an unconnected cable.
    fn new(topology: &Topology) -> Self {
        let loose = |_| Box::new(in_process::pair(1).0) as Box<dyn Link>;
        let ports = (0..topology.switches()).map(|at| topology.ports(at));
        Self(ports.map(|ports| (0..ports).map(loose).collect()).collect())
    }

    fn plug(&mut self, (switch, port): (usize, PortId), link: Box<dyn Link>) {
        self.0[switch][usize::from(port.0)] = link;
    }
}

/// The two ends of a link, with these faults where each sends. Each rings the doorbell of the other
/// end's machine: the first end the first of `doorbells`.
fn link(
    config: &RackConfig,
    faults: FaultSection,
    (rngs, doorbells): ([Rng; 2], [Doorbell; 2]),
    memory: &Memory,
) -> Result<[Box<dyn Link>; 2], RackError> {
    let (mut near, mut far) = in_process::pair(config.link.packets as usize);
    let [to_far, to_near] = doorbells;
    near.set_doorbell(to_far);
    far.set_doorbell(to_near);
    if !faults.any() {
        return Ok([Box::new(near), Box::new(far)]);
    }
    let faults = faults.to_links();
    let [near_rng, far_rng] = rngs;
    Ok([
        Box::new(Fault::new(near, faults, near_rng, memory.clone())?),
        Box::new(Fault::new(far, faults, far_rng, memory.clone())?),
    ])
}

impl Site for &Shared {
    fn now(&self) -> Instant {
        self.time()
    }

    fn nodes(&self) -> Vec<(NodeId, NodeAddress)> {
        self.addresses.clone()
    }

    fn regions(&self) -> Option<&LocalRegions> {
        Some(&self.regions)
    }

    fn node(&mut self, node: NodeId, act: &mut dyn FnMut(&mut dyn Verbs)) -> bool {
        self.act_on_node(node, act)
    }

    fn switch(&mut self, act: &mut dyn FnMut(Instant, &mut Switch<Pipeline>)) {
        let now = self.time();
        self.with_switch(|switch| act(now, switch));
    }

    fn switches(&self) -> usize {
        self.topology.switches()
    }

    fn switch_at(&mut self, at: usize, act: &mut dyn FnMut(Instant, &mut Switch<Pipeline>)) {
        let now = self.time();
        self.with_switch_at(at, |switch| act(now, switch));
    }

    fn topology(&self) -> Topology {
        self.topology.clone()
    }

    fn target(
        &mut self,
        node: NodeId,
        request: TargetRequest,
    ) -> Option<Result<TargetReply, TargetError>> {
        let at = usize::from(node.0);
        let linked = self.nodes.get(at)?.lock();
        self.act_on(at, linked, |linked| match &mut linked.target {
            Some(target) if !linked.dead => Some(request.answer(target, &mut linked.nic)),
            _ => None,
        })
    }
}
