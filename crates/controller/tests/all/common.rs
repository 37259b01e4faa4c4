//! A rack of soft NICs around one switch in one thread, with control over every packet.

use rackweave_base::packet::Pool;
use rackweave_base::{
    Block, Duration, Instant, KeyRng, MacAddr, Memory, NodeId, Packet, PortId, Rkey, Rng,
};
use rackweave_controller::{
    Controller, FlowRings, LocalRegions, NodeAddress, Ring, Site, SwitchAddress,
};
use rackweave_endpoint::flow::{Consumer, Producer, RingLayout, Taken};
use rackweave_nic::{Nic, NicConfig};
use rackweave_programs::flows::FlowConfig;
use rackweave_programs::{Pipeline, PipelineConfig};
use rackweave_switch::transfer::EngineConfig;
use rackweave_switch::{Budget, Switch, SwitchConfig};
use rackweave_verbs::Verbs;
use rackweave_wire::Rewrite;
use std::collections::{BTreeSet, VecDeque};
use std::net::Ipv4Addr;

pub const SWITCH: SwitchAddress = SwitchAddress {
    mac: MacAddr([2, 0, 0, 0, 1, 0]),
    ip: Ipv4Addr::new(10, 0, 0, 254),
};

pub fn pipeline_config() -> PipelineConfig {
    PipelineConfig {
        ip: SWITCH.ip,
        engine: EngineConfig {
            lanes: 256,
            timeout: Duration::from_micros(200),
            retries: 12,
            acknowledge_every: 32,
            check: true,
            rewrite: Rewrite::Update,
            mac: SWITCH.mac,
        },
        flows: FlowConfig {
            threads: 16,
            producers: 64,
        },
        pages: rackweave_programs::pages::PagesConfig::NONE,
        sequencer: rackweave_programs::sequencer::SequencerConfig::NONE,
        index: rackweave_programs::index::IndexConfig::NONE,
        hosts: 16,
        routes: 16,
    }
}

/// What happens to a packet on its way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    Deliver,
    Lose,
    Duplicate,
    /// Arrives after the next packets.
    Delay,
}

/// Decides the fate of the packet with a number.
pub type Decide = Box<dyn FnMut(u64, &Packet) -> Fate>;

pub struct TestRack {
    pub memory: Memory,
    pub regions: LocalRegions,
    pub nics: Vec<Nic>,
    pub dead: Vec<bool>,
    pub switch: Switch<Pipeline>,
    pub config: PipelineConfig,
    pub now: Instant,
    /// Packets that crossed a link, both ways.
    pub packets: u64,
    pub fate: Decide,
    /// Nodes that were asked for anything, or had a word written, by the controller.
    pub touched: BTreeSet<NodeId>,
    delayed: VecDeque<(u64, Option<usize>, Packet)>,
}

fn address(node: usize) -> NodeAddress {
    let at = node as u8;
    NodeAddress {
        mac: MacAddr([2, 0, 0, 0, 0, at + 1]),
        ip: Ipv4Addr::new(10, 0, 0, at + 1),
        port: PortId(node as u16),
    }
}

impl TestRack {
    pub fn new(nodes: usize, seed: u64) -> (Self, Controller) {
        Self::with_trains(nodes, seed, 1)
    }

    /// A rack whose packets stand for up to `train_max` fragments; such links need no ICRC.
    pub fn with_trains(nodes: usize, seed: u64, train_max: u32) -> (Self, Controller) {
        let mut config = pipeline_config();
        config.engine.check = train_max == 1;
        Self::with_config(nodes, seed, train_max, config)
    }

    /// A rack with these programs.
    pub fn with_config(
        nodes: usize,
        seed: u64,
        train_max: u32,
        config: PipelineConfig,
    ) -> (Self, Controller) {
        let check = config.engine.check;
        let mut rng = Rng::new(seed);
        let memory = Memory::new(256 << 20);
        let pool = Pool::new(1024);
        let nics = (0..nodes)
            .map(|node| {
                let at = address(node);
                let nic = NicConfig {
                    check,
                    train_max,
                    ..NicConfig::new(at.ip, at.mac)
                };
                Nic::new(
                    nic,
                    memory.clone(),
                    pool.clone(),
                    KeyRng::seeded(rng.fork(&format!("nic {node}"))),
                )
            })
            .collect();
        let switch = Switch::load(
            Pipeline::new(&config, memory.clone()),
            Budget::Tofino1,
            switch_config(),
        )
        .unwrap();
        let mut rack = Self {
            regions: LocalRegions::new(memory.clone()),
            memory,
            nics,
            dead: vec![false; nodes],
            switch,
            config,
            now: Instant::ZERO,
            packets: 0,
            fate: Box::new(|_, _| Fate::Deliver),
            touched: BTreeSet::new(),
            delayed: VecDeque::new(),
        };
        let sizes = (
            config.engine.lanes,
            config.flows.threads,
            config.flows.producers,
        );
        let controller = Controller::new(
            SWITCH,
            sizes.0,
            sizes.1,
            sizes.2,
            KeyRng::seeded(rng.fork("controller")),
        );
        controller.install_hosts(&mut rack).unwrap();
        (rack, controller)
    }

    /// Clears the whole state of the switch.
    pub fn restart_switch(&mut self) {
        self.switch
            .restart(Pipeline::new(&self.config, self.memory.clone()))
            .unwrap();
        self.delayed.clear();
    }

    /// Processes everything that is due now, then advances time to the next event.
    pub fn step(&mut self) {
        while self.move_packets() {}
        let timeouts = self
            .nics
            .iter()
            .map(Nic::poll_timeout)
            .chain([self.switch.poll_timeout()]);
        let next = timeouts.flatten().min();
        let soon = self.now + Duration::from_micros(1);
        self.pass_time(next.map_or(soon, |next| next.max(soon)));
    }

    /// Processes everything that is due now, then advances time by a microsecond.
    pub fn tick(&mut self) {
        while self.move_packets() {}
        self.pass_time(self.now + Duration::from_micros(1));
    }

    fn pass_time(&mut self, now: Instant) {
        self.now = now;
        for (at, nic) in self.nics.iter_mut().enumerate() {
            if !self.dead[at] {
                nic.handle_timeout(self.now);
            }
        }
        self.switch.handle_timeout(self.now);
    }

    fn move_packets(&mut self) -> bool {
        let mut moved = false;
        for node in 0..self.nics.len() {
            while let Some(packet) = self.nics[node].poll_transmit(self.now) {
                moved = true;
                self.carry(Some(node), packet);
            }
            while let Some(packet) = self.switch.poll_transmit(PortId(node as u16)) {
                moved = true;
                self.carry_to(node, packet);
            }
        }
        moved
    }

    fn carry(&mut self, from: Option<usize>, packet: Packet) {
        self.cross(from, from.unwrap_or(0), packet);
    }

    fn carry_to(&mut self, node: usize, packet: Packet) {
        self.cross(None, node, packet);
    }

    fn cross(&mut self, from: Option<usize>, node: usize, packet: Packet) {
        let number = self.packets;
        self.packets += 1;
        match (self.fate)(number, &packet) {
            Fate::Lose => {}
            Fate::Deliver => self.arrive(from, node, packet),
            Fate::Duplicate => {
                self.arrive(from, node, packet.clone());
                self.arrive(from, node, packet);
            }
            Fate::Delay => {
                let key = from.map(|_| node);
                self.delayed
                    .push_back((number + 5, key.or(Some(node | DOWN)), packet));
            }
        }
        while self
            .delayed
            .front()
            .is_some_and(|&(due, ..)| due <= self.packets)
        {
            let (_, key, packet) = self.delayed.pop_front().unwrap();
            let key = key.unwrap();
            let from = (key & DOWN == 0).then_some(key);
            self.arrive(from, key & !DOWN, packet);
        }
    }

    fn arrive(&mut self, from: Option<usize>, node: usize, packet: Packet) {
        if self.dead[node] {
            return;
        }
        match from {
            Some(_) => self
                .switch
                .handle_packet(self.now, PortId(node as u16), packet),
            None => self.nics[node].handle_packet(self.now, packet),
        }
    }
}

const DOWN: usize = 1 << 20;

pub fn switch_config() -> SwitchConfig {
    SwitchConfig {
        ports: 16,
        ..SwitchConfig::default()
    }
}

impl Site for TestRack {
    fn now(&self) -> Instant {
        self.now
    }

    fn nodes(&self) -> Vec<(NodeId, NodeAddress)> {
        (0..self.nics.len())
            .map(|at| (NodeId(at as u16), address(at)))
            .collect()
    }

    fn regions(&self) -> Option<&LocalRegions> {
        Some(&self.regions)
    }

    fn node(&mut self, node: NodeId, act: &mut dyn FnMut(&mut dyn Verbs)) -> bool {
        let at = usize::from(node.0);
        self.touched.insert(node);
        if at >= self.nics.len() || self.dead[at] {
            return false;
        }
        act(&mut self.nics[at]);
        true
    }

    fn store_word(&mut self, node: NodeId, rkey: Rkey, offset: u64, bytes: [u8; 8]) {
        self.touched.insert(node);
        self.regions.store(node, rkey, offset, bytes);
    }

    fn switch(&mut self, act: &mut dyn FnMut(Instant, &mut Switch<Pipeline>)) {
        act(self.now, &mut self.switch);
    }
}

pub fn layout(ring: &Ring) -> RingLayout {
    RingLayout {
        item_size: ring.item_size,
        slots: ring.slots,
        order: ring.order,
    }
}

/// Both ends of a flow, with items that name their producer.
pub struct Ends {
    /// By consumer, then producer.
    pub producers: Vec<Vec<Producer>>,
    pub consumers: Vec<Consumer>,
    pub pushed: Vec<Vec<u64>>,
    pub popped: Vec<Vec<u64>>,
    pub ended: Vec<Option<bool>>,
}

impl Ends {
    pub fn new(rack: &TestRack, rings: &FlowRings) -> Self {
        let block = |ring: &Ring| -> Block {
            let block = rack.regions.block(ring.node, ring.region.rkey);
            block.expect("the ring is there")
        };
        let producers: Vec<Vec<Producer>> = rings
            .producers
            .iter()
            .map(|rings| {
                rings
                    .iter()
                    .map(|r| Producer::new(&block(r), layout(r)).unwrap())
                    .collect()
            })
            .collect();
        let consumers: Vec<Consumer> = rings
            .consumers
            .iter()
            .map(|r| Consumer::new(&block(r), layout(r)).unwrap())
            .collect();
        let counts = || producers.iter().map(|p| vec![0; p.len()]).collect();
        Self {
            pushed: counts(),
            popped: counts(),
            ended: vec![None; consumers.len()],
            producers,
            consumers,
        }
    }

    /// Every producer pushes what it can up to `total` items, every consumer takes the available
    /// ones and checks order and content.
    pub fn work(&mut self, total: u64) {
        for (c, producers) in self.producers.iter_mut().enumerate() {
            for (p, producer) in producers.iter_mut().enumerate() {
                let size = producer.item_size() as usize;
                while self.pushed[c][p] < total
                    && producer.push(&item(p, self.pushed[c][p], size)).is_ok()
                {
                    self.pushed[c][p] += 1;
                    if self.pushed[c][p] == total {
                        producer.finish();
                    }
                }
            }
        }
        for (c, consumer) in self.consumers.iter_mut().enumerate() {
            let size = consumer.item_size() as usize;
            loop {
                match consumer.peek(1) {
                    Taken::Items(bytes) => {
                        let p = bytes.u64_le(0) as usize;
                        assert_eq!(
                            bytes.to_vec(),
                            item(p, self.popped[c][p], size),
                            "consumer {c}, producer {p}"
                        );
                        self.popped[c][p] += 1;
                        consumer.release(1);
                    }
                    Taken::Empty => break,
                    Taken::Ended => {
                        self.ended[c] = Some(true);
                        break;
                    }
                    Taken::Aborted => {
                        self.ended[c] = Some(false);
                        break;
                    }
                }
            }
        }
    }

    pub fn all_ended(&self) -> bool {
        self.ended.iter().all(|ended| *ended == Some(true))
    }
}

/// Item number `number` of producer `producer`.
pub fn item(producer: usize, number: u64, size: usize) -> Vec<u8> {
    let mut bytes = vec![0; size];
    bytes[..8].copy_from_slice(&(producer as u64).to_le_bytes());
    for (at, byte) in bytes[8..].iter_mut().enumerate() {
        *byte = (number.wrapping_mul(31) + at as u64) as u8;
    }
    bytes[8..16].copy_from_slice(&number.to_le_bytes());
    bytes
}
