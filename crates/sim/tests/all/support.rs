//! A small rack for tests and benchmarks: software NICs around a switch that only forwards.

// The benchmark uses a part of this.
#![allow(dead_code)]

use rackweave_base::packet::Pool;
use rackweave_base::{
    Duration, Instant, KeyRng, MacAddr, Memory, NodeId, Packet, PortId, Psn, Qpn, Rng,
};
use rackweave_nic::{Dcqcn, Nic, NicConfig};
use rackweave_sim::{Actor, Context, Step, Stop, SwitchModel, World, WorldConfig};
use rackweave_switch::{Budget, DropReason, Ledger, Pass, Program, Switch};
use rackweave_verbs::{
    Access, Completion, CqId, Mtu, Operation, Peer, QpCapabilities, QpModify, ReceiveSide, Region,
    SendSide, Verbs, WorkRequest,
};
use std::cell::RefCell;
use std::net::Ipv4Addr;
use std::rc::Rc;

/// Forwards to the port that is the last byte of the IPv4 target address, counted from one.
pub struct Forward {
    pub ports: u16,
    /// A digest is sent every this many packets.
    pub digest_every: u64,
    /// Tasks, each with its number of further passes.
    pub tasks: Vec<u32>,
    pub packets: u64,
}

/// Passes left.
#[derive(Clone, Copy)]
pub struct Loop(pub u32);

impl Program for Forward {
    type Task = Loop;
    type Digest = u64;

    fn declare(&self, _ledger: &mut Ledger) {}

    fn generator_keys(&self) -> usize {
        1
    }

    fn packet(&mut self, pass: &mut Pass<'_, Loop, u64>, port: PortId, packet: Packet) {
        self.packets += 1;
        if self.digest_every > 0 && self.packets.is_multiple_of(self.digest_every) {
            pass.digest(self.packets);
        }
        match packet.header().get(33).map(|&byte| u16::from(byte)) {
            Some(node) if node >= 1 && node <= self.ports => pass.forward(PortId(node - 1), packet),
            _ => pass.drop(port, DropReason::NoRoute, &packet),
        }
    }

    fn task(&mut self, pass: &mut Pass<'_, Loop, u64>, task: Loop) {
        if task.0 == 0 {
            pass.digest(self.packets);
        } else {
            pass.recirculate(Loop(task.0 - 1));
        }
    }

    fn generated(&mut self, pass: &mut Pass<'_, Loop, u64>, _key: u32) {
        pass.digest(self.packets);
    }
}

pub struct Rack {
    pub world: World<Forward>,
    pub memory: Memory,
    pub regions: Vec<Region>,
}

/// Options of the NICs.
#[derive(Clone, Copy)]
pub struct NicSettings {
    pub check: bool,
    pub congestion: bool,
    pub window_packets: u32,
}

impl Default for NicSettings {
    fn default() -> Self {
        Self {
            check: true,
            congestion: false,
            window_packets: 128,
        }
    }
}

pub const REGION_BYTES: usize = 4 << 20;

fn ip(node: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, node as u8 + 1)
}

fn mac(node: usize) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, node as u8 + 1])
}

pub fn nic(node: usize, seed: u64, settings: NicSettings, memory: &Memory) -> Nic {
    let config = NicConfig {
        qps_max: 64,
        cqs_max: 64,
        regions_max: 64,
        check: settings.check,
        congestion: settings.congestion.then(|| Dcqcn::new(100_000_000_000)),
        window_packets: settings.window_packets,
        ..NicConfig::new(ip(node), mac(node))
    };
    let rng = Rng::new(seed).fork(&format!("nic{node}"));
    Nic::new(config, memory.clone(), Pool::new(4096), KeyRng::seeded(rng))
}

/// A rack with `config`, with one region on every node.
pub fn rack(config: WorldConfig, settings: NicSettings) -> Rack {
    let memory = Memory::new(1 << 30);
    let count = config.nodes.len();
    let nics = (0..count)
        .map(|node| nic(node, config.seed, settings, &memory))
        .collect();
    let ports = count as u16;
    let program = Forward {
        ports,
        digest_every: 0,
        tasks: Vec::new(),
        packets: 0,
    };
    let budget = Budget::Software { bytes: 1 << 20 };
    let switch = Switch::load(program, budget, config.switch.switch_config(ports)).unwrap();
    let mut world = World::new(config, memory.clone(), nics, switch).unwrap();
    let regions = (0..count)
        .map(|node| register(&mut world, node, &memory))
        .collect();
    Rack {
        world,
        memory,
        regions,
    }
}

fn register(world: &mut World<Forward>, node: usize, memory: &Memory) -> Region {
    let nic = world.nic_mut(NodeId(node as u16)).unwrap();
    let pd = nic.create_pd();
    let block = memory.allocate(REGION_BYTES).unwrap();
    let access =
        Access::LOCAL_WRITE | Access::REMOTE_READ | Access::REMOTE_WRITE | Access::REMOTE_ATOMIC;
    nic.register(pd, block, access).unwrap()
}

/// One end of a connection.
#[derive(Clone, Copy)]
pub struct End {
    pub node: NodeId,
    pub qpn: Qpn,
    pub cq: CqId,
}

impl Rack {
    /// Another world, whose NICs resolve the same memory, with a region on every node.
    pub fn with_world(mut self, world: World<Forward>) -> Self {
        self.world = world;
        let nodes = 0..self.regions.len();
        self.regions = nodes
            .map(|node| register(&mut self.world, node, &self.memory))
            .collect();
        self
    }

    /// A connected pair of queue pairs.
    pub fn connect(&mut self, a: usize, b: usize, mtu: Mtu) -> (End, End) {
        let [one, two] = [a, b].map(|node| {
            let pd = self.regions[node].pd;
            let nic = self.world.nic_mut(NodeId(node as u16)).unwrap();
            let cq = nic.create_cq(4096).unwrap();
            let capabilities = QpCapabilities {
                send_max: 1024,
                ..QpCapabilities::default()
            };
            let qpn = nic.create_qp(pd, cq, cq, capabilities).unwrap();
            End {
                node: NodeId(node as u16),
                qpn,
                cq,
            }
        });
        for (end, peer) in [(one, two), (two, one)] {
            let at = usize::from(peer.node.0);
            let receive = ReceiveSide {
                peer: Peer {
                    mac: mac(at),
                    ip: ip(at),
                    qpn: peer.qpn,
                },
                psn: Psn::new(1000),
                mtu,
                access: Access::REMOTE_READ | Access::REMOTE_WRITE | Access::REMOTE_ATOMIC,
                reads_in_flight_max: 16,
                rnr_wait: Duration::from_micros(10),
            };
            let send = SendSide {
                psn: Psn::new(1000),
                timeout: Duration::from_micros(500),
                retries: 7,
                rnr_retries: 7,
                reads_in_flight_max: 16,
            };
            let nic = self.world.nic_mut(end.node).unwrap();
            nic.modify_qp(end.qpn, QpModify::Init).unwrap();
            nic.modify_qp(end.qpn, QpModify::ReadyToReceive(receive))
                .unwrap();
            nic.modify_qp(end.qpn, QpModify::ReadyToSend(send)).unwrap();
        }
        (one, two)
    }

    /// Spawns an actor on `from.node` that keeps `depth` requests of one kind in flight to `to`'s
    /// region until `count` are complete; returns its measurements.
    pub fn stream(&mut self, from: End, to: End, what: What) -> Rc<RefCell<Measured>> {
        let measured = Rc::new(RefCell::new(Measured::default()));
        let actor = Streamer {
            end: from,
            what,
            local: self.regions[usize::from(from.node.0)].clone(),
            remote: self.regions[usize::from(to.node.0)].clone(),
            posted: Vec::new(),
            completions: Vec::with_capacity(64),
            measured: measured.clone(),
        };
        self.world.spawn(from.node, Box::new(actor));
        measured
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Read,
    Write,
    FetchAdd,
}

#[derive(Clone, Copy, Debug)]
pub struct What {
    pub kind: Kind,
    pub len: u32,
    pub depth: usize,
    pub count: usize,
}

#[derive(Default, Debug)]
pub struct Measured {
    pub latencies: Vec<Duration>,
    pub failed: usize,
    pub finished: Option<Instant>,
}

impl Measured {
    pub fn median(&self) -> Duration {
        let mut sorted = self.latencies.clone();
        sorted.sort();
        sorted[sorted.len() / 2]
    }
}

struct Streamer {
    end: End,
    what: What,
    local: Region,
    remote: Region,
    posted: Vec<Instant>,
    completions: Vec<Completion>,
    measured: Rc<RefCell<Measured>>,
}

impl Actor for Streamer {
    fn step(&mut self, context: &mut Context<'_>) -> Step {
        self.completions.clear();
        context.poll_cq(self.end.cq, 64, &mut self.completions);
        let mut measured = self.measured.borrow_mut();
        for completion in &self.completions {
            if completion.status == rackweave_verbs::CompletionStatus::Success {
                let posted = self.posted[completion.id as usize];
                measured.latencies.push(context.now().since(posted));
            } else {
                measured.failed += 1;
            }
        }
        let complete = measured.latencies.len() + measured.failed;
        if complete == self.what.count || measured.failed > 0 {
            measured.finished = Some(context.now());
            return Step::Done;
        }
        while self.posted.len() < self.what.count && self.posted.len() - complete < self.what.depth
        {
            let (address, rkey) = (self.remote.address, self.remote.rkey);
            let operation = match self.what.kind {
                Kind::Read => Operation::Read { address, rkey },
                Kind::Write => Operation::Write {
                    address,
                    rkey,
                    immediate: None,
                },
                Kind::FetchAdd => Operation::FetchAdd {
                    address,
                    rkey,
                    add: 1,
                },
            };
            let segment = self.local.segment(0, self.what.len);
            let request = WorkRequest::new(self.posted.len() as u64, operation, &[segment]);
            self.posted.push(context.now());
            context.post_send(self.end.qpn, request).unwrap();
        }
        Step::WaitForPacket
    }
}

/// The default world of `nodes` nodes.
pub fn config(seed: u64, nodes: usize) -> WorldConfig {
    WorldConfig {
        switch: SwitchModel::default(),
        ..WorldConfig::new(seed, nodes)
    }
}

pub const LONG: Instant = Instant::from_nanos(10_000_000_000);

/// Runs until the last actor is done.
#[track_caller]
pub fn run_to_end(world: &mut World<Forward>) {
    assert_eq!(world.run(LONG), Stop::Done, "at {:?}", world.now());
}
