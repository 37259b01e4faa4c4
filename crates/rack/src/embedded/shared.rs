//! State shared by all threads of an embedded rack.
//!
//! Each machine is behind a lock of its own and communicates with the others only through links;
//! all switches together are one machine, so that a packet passes from one to the next without a
//! change of thread. A thread that drives the rack takes each lock if it is free and moves on if it
//! is not: its holder is driving that machine. The controller takes one lock at a time; no thread
//! holds two machines.

use super::tasks::Tasks;
use crate::awake::{Credit, LockedMachine, NEVER, span, try_lock};
use crate::build::{self, Kind, Parts, RackError};
use crate::config::{FaultSection, RackConfig};
use crate::linked::{LinkedNode, LinkedSwitch, LinkedSwitches};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use rackweave_base::packet::Pool;
use rackweave_base::{Instant, Memory, NodeId, Packet, PortId, Rng};
use rackweave_controller::{
    Controller, LocalRegions, NodeAddress, Site, TargetReply, TargetRequest, Topology,
};
use rackweave_link::{Fault, Link, in_process};
use rackweave_nic::Nic;
use rackweave_programs::{Pipeline, PipelineConfig};
use rackweave_switch::Switch;
use rackweave_target::{Target, TargetError};
use rackweave_verbs::{Progress, Verbs};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::Thread;
use std::time::Duration as Time;

/// The work from which a node counts as busy in one burst: about so many KiB.
const MUCH: u32 = 64;

pub(crate) struct Shared {
    epoch: std::time::Instant,
    memory: Memory,
    pool: Pool,
    /// By switch.
    pipelines: Vec<PipelineConfig>,
    topology: Topology,
    nodes: Vec<LockedMachine<LinkedNode>>,
    addresses: Vec<(NodeId, NodeAddress)>,
    switches: LockedMachine<LinkedSwitches>,
    controller: Mutex<Controller>,
    /// The regions that the controller has made.
    pub regions: LocalRegions,
    /// Set when the switch has reports for the controller.
    news: AtomicBool,
    /// Set when a channel to the page directory requests a new connection.
    page_alarm: Arc<AtomicBool>,
    pub(super) stop: AtomicBool,
    credit: Credit,
    sleeping: AtomicUsize,
    sleepers: Mutex<Vec<Thread>>,
    pub(super) tasks: Tasks,
}

impl Shared {
    pub fn new(config: &RackConfig, mut parts: Parts) -> Result<Self, RackError> {
        let topology = parts.topology;
        let mut nodes = Vec::new();
        let mut links = Links::new(&topology);
        for (at, nic) in parts.nics.into_iter().enumerate() {
            let mut rng = |end: &str| parts.rng.fork(&format!("link {at} {end}"));
            let rngs = [rng("node"), rng("switch")];
            let faults = config.faults_of(NodeId(at as u16));
            let [link, far] = link(config, faults, rngs, &parts.memory)?;
            links.plug(build::place_of(&topology, NodeId(at as u16)), far);
            nodes.push(LockedMachine::new(LinkedNode {
                nic,
                link,
                target: None,
                dead: false,
            }));
        }
        for (at, cable) in topology.cables().enumerate() {
            let mut rng = |end: &str| parts.rng.fork(&format!("cable {at} {end}"));
            let rngs = [rng("upper"), rng("lower")];
            let [upper, lower] = link(config, config.faults, rngs, &parts.memory)?;
            links.plug(cable.upper, upper);
            links.plug(cable.lower, lower);
        }
        let egress_high = config.switch.egress_packets as usize / 2;
        let linked_switches = parts.switches.into_iter().zip(links.0).enumerate();
        let linked_switches = linked_switches.map(|(at, (switch, links))| LinkedSwitch {
            switch,
            stuck_since: vec![None; links.len()],
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
            addresses: build::addresses(&topology),
            topology,
            nodes,
            switches,
            controller: Mutex::new(parts.controller),
            news: AtomicBool::new(false),
            page_alarm: Arc::default(),
            stop: AtomicBool::new(false),
            credit: Credit::default(),
            sleeping: AtomicUsize::new(0),
            sleepers: Mutex::new(Vec::new()),
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
        let place = &self.nodes[node];
        Self::act_on(place, place.lock(), act)
    }

    /// The same, unless another thread has the NIC.
    pub fn try_with_nic<R>(&self, node: usize, act: impl FnOnce(&mut Nic) -> R) -> Option<R> {
        let place = &self.nodes[node];
        let linked = place.try_lock()?;
        Some(Self::act_on(place, linked, act))
    }

    fn act_on<R>(
        place: &LockedMachine<LinkedNode>,
        mut linked: MutexGuard<'_, LinkedNode>,
        act: impl FnOnce(&mut Nic) -> R,
    ) -> R {
        let result = act(&mut linked.nic);
        place.note_deadline(linked.deadline());
        result
    }

    fn act_on_node(&self, node: NodeId, act: &mut dyn FnMut(&mut dyn Verbs)) -> bool {
        let Some(place) = self.nodes.get(usize::from(node.0)) else {
            return false;
        };
        let mut linked = place.lock();
        if linked.dead {
            return false;
        }
        act(&mut linked.nic);
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
        self.switches.note_deadline(linked_switches.deadline());
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
        let mut linked = self.nodes[node].lock();
        if let Some(target) = linked.target.take() {
            target.destroy(&mut linked.nic);
        }
        let target = make(&mut linked.nic)?;
        linked.target = Some(target);
        Ok(())
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
        let links = links * 2 * config.link.packets as usize * size_of::<Packet>();
        let fixed = switches + links + self.pool.bytes_max();
        let (mut now, mut most) = (fixed, fixed);
        for at in 0..self.nodes.len() {
            now += self.with_nic(at, |nic| nic.bytes_overhead());
            most +=
                build::nic_config(config, NodeId(at as u16), Kind::Embedded).bytes_overhead_max();
        }
        (now, most)
    }

    /// Wakes sleeping driver threads.
    pub fn kick(&self) {
        if self.sleeping.load(Ordering::SeqCst) > 0 {
            for thread in self.sleepers.lock().expect("no holder panics").iter() {
                thread.unpark();
            }
        }
    }

    pub fn register_sleeper(&self, thread: Thread) {
        self.sleepers.lock().expect("no holder panics").push(thread);
    }

    /// The time until something is due, at most `limit`.
    fn idle_span(&self, limit: Time) -> Time {
        let next = self.nodes.iter().map(LockedMachine::deadline).min();
        let next = next.unwrap_or(NEVER).min(self.switches.deadline());
        span(next, self.time(), limit)
    }

    /// Called by a driver thread that has nothing to do. Only the first one watches the timers of
    /// an idle rack; it wakes the others when there is work for them.
    pub fn driver_rest(&self, index: u32) {
        if self.credit.stay_awake() {
            return;
        }
        self.sleeping.fetch_add(1, Ordering::SeqCst);
        // Work posted before the poster saw the count is found by this round.
        if !self.drive() && !self.stop.load(Ordering::SeqCst) {
            // A waiting task may have a timer of its own, which is unknown here.
            let limit = Time::from_millis(if self.tasks.wait() { 1 } else { 50 });
            let span = if index == 0 {
                self.idle_span(limit)
            } else {
                limit
            };
            std::thread::park_timeout(span);
        }
        self.sleeping.fetch_sub(1, Ordering::SeqCst);
    }

    pub fn page_alarm(&self) -> &Arc<AtomicBool> {
        &self.page_alarm
    }

    fn tell_controller(&self) {
        if let Some(mut controller) = try_lock(&self.controller) {
            self.news.store(false, Ordering::Relaxed);
            controller.handle_digests(&mut &*self);
            if self.page_alarm.swap(false, Ordering::AcqRel) {
                controller.page_pleas(&mut &*self);
            }
        }
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

/// The two ends of a link, with these faults where each sends.
fn link(
    config: &RackConfig,
    faults: FaultSection,
    rngs: [Rng; 2],
    memory: &Memory,
) -> Result<[Box<dyn Link>; 2], RackError> {
    let (near, far) = in_process::pair(config.link.packets as usize);
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

impl Shared {
    /// Drives the rack a little on behalf of a node: other nodes whose own threads move much are
    /// left to them. Returns true if anything happened.
    pub fn drive_from(&self, node: usize) -> bool {
        let now = self.time();
        self.nodes[node].attend(now);
        let moved = self.drive_those(now, |at, place| at == node || !place.is_attended(now));
        if (1..MUCH).contains(&moved) {
            // The switch's replies are received at once. If much is moving, later rounds do it
            // anyway.
            self.run_node(now, &self.nodes[node]);
        }
        moved > 0
    }

    /// Runs a node's NIC, unless another thread is driving it. Returns the work done.
    fn run_node(&self, now: Instant, place: &LockedMachine<LinkedNode>) -> u32 {
        let Some(mut linked) = place.try_lock() else {
            return 0;
        };
        let moved = linked.run(now);
        if moved >= MUCH {
            place.note_busy(now);
        }
        place.note_deadline(linked.deadline());
        moved
    }

    fn drive_those(
        &self,
        now: Instant,
        which: impl Fn(usize, &LockedMachine<LinkedNode>) -> bool,
    ) -> u32 {
        let mut moved = 0;
        for (at, place) in self.nodes.iter().enumerate() {
            if !which(at, place) {
                continue;
            }
            moved += self.run_node(now, place);
        }
        if let Some(mut linked_switches) = self.switches.try_lock() {
            moved += linked_switches.run(now);
            self.switches.note_deadline(linked_switches.deadline());
            // Only switch 0 has lanes, and so reports.
            if linked_switches.0[0].switch.has_digest() {
                self.news.store(true, Ordering::Relaxed);
            }
        }
        if self.news.load(Ordering::Relaxed) || self.page_alarm.load(Ordering::Relaxed) {
            self.tell_controller();
        }
        if moved > 0 {
            self.tasks.wake();
            if self.credit.earn(moved) {
                self.kick();
            }
        }
        moved
    }
}

impl Progress for Shared {
    fn drive(&self) -> bool {
        self.drive_those(self.time(), |_, _| true) > 0
    }

    fn relax(&self, idle_rounds: u32) {
        if let Some(nap) = self.credit.relax(idle_rounds) {
            std::thread::sleep(self.idle_span(nap));
        }
    }
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
        let place = self.nodes.get(usize::from(node.0))?;
        let mut linked = place.lock();
        let LinkedNode {
            nic, target, dead, ..
        } = &mut *linked;
        match target {
            Some(target) if !*dead => Some(request.answer(target, nic)),
            _ => None,
        }
    }
}
