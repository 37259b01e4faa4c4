//! Four soft NICs around a switch, in one thread, with control over every packet.

use crate::fixture::{self, Host};
use crate::input::Input;
use crate::packets::{self, RequestTarget, Way};
use rackweave_base::{
    Duration, Instant, KeyRng, MacAddr, Memory, NodeId, Packet, PortId, Psn, Qpn, Rng,
};
use rackweave_controller::{
    Controller, LocalRegions, NodeAddress, Site, SwitchAddress, TargetReply, TargetRequest,
};
use rackweave_nic::{Nic, NicConfig};
use rackweave_programs::flows::FlowConfig;
use rackweave_programs::{Pipeline, PipelineConfig};
use rackweave_switch::transfer::EngineConfig;
use rackweave_switch::{Budget, Switch, SwitchConfig};
use rackweave_target::{Target, TargetError};
use rackweave_verbs::{Access, Region, Service, Verbs};
use rackweave_wire::{Headers, Rewrite};
use std::collections::VecDeque;
use std::net::Ipv4Addr;

pub const NODES: usize = 4;
pub const SWITCH: Host = Host {
    mac: MacAddr([2, 0, 0, 0, 1, 0]),
    ip: Ipv4Addr::new(10, 0, 0, 254),
};
/// Maximum packets that the switch may send for one event.
const EGRESS_MAX: u64 = 256;
/// Packets kept for a much later replay.
const REMEMBERED: usize = 64;
/// Number of faults that the retries of switch and NICs outlast.
pub const FAULTS_HARMLESS: u32 = 7;
const GUARD_BYTES: usize = 4096;

/// The direction of a packet on a node's link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum To {
    Switch(usize),
    Node(usize),
}

/// What happens to a packet in flight.
#[derive(Clone, Copy, Debug)]
pub enum Fate {
    Lose,
    Duplicate,
    /// Arrives after this many more packets.
    Delay(u8),
    /// A bit flips: its index among those of payload and check value.
    Damage(u16),
}

pub struct Rack {
    pub memory: Memory,
    pub regions: LocalRegions,
    pub nics: Vec<Nic>,
    pub switch: Switch<Pipeline>,
    /// An NVMe-oF target and its node.
    pub target: Option<(usize, Target)>,
    pub now: Instant,
    config: PipelineConfig,
    /// Fates of the next packets, and how many packets pass unharmed before each.
    pub fates: VecDeque<(u8, Fate)>,
    delayed: Vec<(u8, To, Packet)>,
    pub remembered: VecDeque<(To, Packet)>,
}

pub fn host(node: usize) -> Host {
    fixture::host(node as u8 + 1)
}

pub fn pipeline_config(rewrite: Rewrite) -> PipelineConfig {
    PipelineConfig {
        ip: SWITCH.ip,
        engine: EngineConfig {
            lanes: 128,
            timeout: Duration::from_micros(200),
            retries: 12,
            acknowledge_every: 4,
            check: true,
            rewrite,
            mac: SWITCH.mac,
        },
        flows: FlowConfig {
            threads: 4,
            producers: 8,
        },
        pages: rackweave_programs::pages::PagesConfig::NONE,
        sequencer: rackweave_programs::sequencer::SequencerConfig::NONE,
        index: rackweave_programs::index::IndexConfig::NONE,
        hosts: 8,
        routes: 8,
    }
}

/// Whether nothing has been written to a [`Rack::guard`].
pub fn is_untouched(guard: &Region) -> bool {
    guard.block.bytes(0, GUARD_BYTES).is_all(0)
}

impl Rack {
    pub fn new(config: PipelineConfig, budget: Budget) -> (Self, Controller) {
        let mut rng = Rng::new(1);
        let memory = Memory::new(4 << 20);
        let nics = (0..NODES).map(|node| {
            let Host { mac, ip } = host(node);
            let config = NicConfig {
                qps_max: 64,
                cqs_max: 64,
                regions_max: 16,
                ..NicConfig::new(ip, mac)
            };
            let rng = rng.fork(&format!("nic {node}"));
            fixture::nic(config, &memory, 256, rng)
        });
        let nics = nics.collect();
        let size = SwitchConfig {
            ports: NODES as u16,
            egress_packets: 256,
            recirculation_tasks: 4096,
            digests: 64,
            ..SwitchConfig::default()
        };
        let pipeline = Pipeline::new(&config, memory.clone());
        let switch = Switch::load(pipeline, budget, size).expect("it fits");
        let mut rack = Self {
            regions: LocalRegions::new(memory.clone()),
            memory,
            nics,
            switch,
            target: None,
            now: Instant::ZERO,
            config,
            fates: VecDeque::new(),
            delayed: Vec::new(),
            remembered: VecDeque::new(),
        };
        let address = SwitchAddress {
            mac: SWITCH.mac,
            ip: SWITCH.ip,
        };
        let (lanes, flows) = (config.engine.lanes, config.flows);
        let rng = rng.fork("controller");
        let keys = KeyRng::seeded(rng);
        let controller = Controller::new(address, lanes, flows.threads, flows.producers, keys);
        controller.install_hosts(&mut rack).expect("capacity");
        (rack, controller)
    }

    /// The switch loses its state, and packets in flight are lost.
    pub fn restart_switch(&mut self) {
        let pipeline = Pipeline::new(&self.config, self.memory.clone());
        self.switch.restart(pipeline).expect("it did fit");
        self.delayed.clear();
        self.remembered.clear();
    }

    /// Handles everything that is due, then advances time to the next event.
    pub fn step(&mut self) {
        while self.move_packets() || self.poll_target() {}
        let timeouts = self.nics.iter().map(Nic::poll_timeout);
        let next = timeouts.chain([self.switch.poll_timeout()]).flatten().min();
        let soon = self.now + Duration::from_micros(1);
        self.now = next.map_or(soon, |next| next.max(soon));
        for nic in &mut self.nics {
            nic.handle_timeout(self.now);
        }
        let now = self.now;
        self.watched(|switch| switch.handle_timeout(now));
    }

    fn poll_target(&mut self) -> bool {
        let now = self.now;
        let target = self.target.as_mut();
        target.is_some_and(|(node, target)| target.poll(now, &mut self.nics[*node]))
    }

    fn move_packets(&mut self) -> bool {
        let mut moved = false;
        for node in 0..NODES {
            while let Some(packet) = self.nics[node].poll_transmit(self.now) {
                moved = true;
                self.cross(To::Switch(node), packet);
            }
            while let Some(packet) = self.switch.poll_transmit(PortId(node as u16)) {
                moved = true;
                self.cross(To::Node(node), packet);
            }
        }
        moved
    }

    fn cross(&mut self, to: To, packet: Packet) {
        if self.remembered.len() == REMEMBERED {
            self.remembered.pop_front();
        }
        let copy = packets::copied(&packet, &self.memory);
        self.remembered.push_back((to, copy));
        match self.next_fate() {
            None => self.arrive(to, packet),
            Some(Fate::Lose) => {}
            Some(Fate::Duplicate) => {
                let copy = packets::copied(&packet, &self.memory);
                self.arrive(to, packet);
                self.arrive(to, copy);
            }
            Some(Fate::Delay(packets)) => {
                let copy = packets::copied(&packet, &self.memory);
                self.delayed.push((packets, to, copy));
            }
            Some(Fate::Damage(place)) => {
                let damaged = packets::damaged(&packet, &self.memory, place);
                self.arrive(to, damaged);
            }
        }
        self.deliver_delayed();
    }

    fn next_fate(&mut self) -> Option<Fate> {
        let (before, fate) = self.fates.front_mut()?;
        if *before > 0 {
            *before -= 1;
            return None;
        }
        let fate = *fate;
        self.fates.pop_front();
        Some(fate)
    }

    fn deliver_delayed(&mut self) {
        for (left, ..) in &mut self.delayed {
            *left = left.saturating_sub(1);
        }
        while let Some(at) = self.delayed.iter().position(|(left, ..)| *left == 0) {
            let (_, to, packet) = self.delayed.remove(at);
            self.arrive(to, packet);
        }
    }

    pub fn arrive(&mut self, to: To, packet: Packet) {
        let now = self.now;
        match to {
            To::Switch(node) => {
                self.watched(|switch| switch.handle_packet(now, PortId(node as u16), packet));
            }
            To::Node(node) => self.nics[node].handle_packet(now, packet),
        }
    }

    /// Runs `act` and checks that the switch sends a bounded number of packets for it.
    fn watched(&mut self, act: impl FnOnce(&mut Switch<Pipeline>)) {
        let before = self.switch.counters().packets_out;
        act(&mut self.switch);
        let sent = self.switch.counters().packets_out - before;
        assert!(
            sent <= EGRESS_MAX,
            "one event made the switch send {sent} packets"
        );
    }

    /// Registers memory at a node whose key no peer gets, and which must not change.
    pub fn guard(&mut self, node: usize) -> Region {
        let nic = &mut self.nics[node];
        let pd = nic.create_pd();
        fixture::region(nic, &self.memory, pd, GUARD_BYTES, Access::all())
    }

    /// Adds a fault chosen by the input, after `before` packets that pass unharmed.
    pub fn disturb(&mut self, before: u8, input: &mut Input<'_>) -> Option<()> {
        let fate = match input.below(4)? {
            0 => Fate::Lose,
            1 => Fate::Duplicate,
            2 => Fate::Delay(input.byte()? & 31),
            _ => Fate::Damage(input.half()?),
        };
        self.fates.push_back((before, fate));
        Some(())
    }

    /// An earlier packet arrives once more.
    pub fn replay(&mut self, which: u8) {
        let count = self.remembered.len().max(1);
        let packet = self.remembered.get(usize::from(which) % count).cloned();
        if let Some((to, packet)) = packet {
            self.arrive(to, packet);
        }
    }

    /// An earlier packet to the switch with a few bytes changed, and its sender.
    pub fn mutated(&self, input: &mut Input<'_>) -> Option<(usize, Packet)> {
        let (which, changes) = (input.byte()?, input.below(4)?);
        let to_switch = self.remembered.iter().filter_map(|(to, packet)| match to {
            To::Switch(node) => Some((*node, packet)),
            To::Node(_) => None,
        });
        let to_switch: Vec<_> = to_switch.collect();
        let (node, packet) = to_switch.get(usize::from(which) % to_switch.len().max(1))?;
        let (node, mut packet) = (*node, (*packet).clone());
        packets::alter(&mut packet, changes, input)?;
        packets::restore(&mut packet, &self.memory);
        Some((node, packet))
    }

    /// A packet built from the input, from `node` to a queue pair of the switch or to one that an
    /// earlier packet was for.
    pub fn forged(
        &self,
        node: usize,
        places: &[RequestTarget],
        input: &mut Input<'_>,
    ) -> Option<Packet> {
        let to_node = input.byte()?;
        let (target, target_qp) = match to_node {
            0..=199 => (SWITCH, Qpn(u32::from(input.half()?))),
            _ => (host(usize::from(to_node) % NODES), self.some_qp(input)?),
        };
        let way = Way {
            source: host(node),
            target,
            target_qp,
        };
        let base = self.remembered.back();
        let base = base.and_then(|(_, packet)| Headers::parse(packet.header()).ok());
        let base = base.map_or(Psn::new(0), |(headers, _)| headers.bth.psn);
        let near = |_, near: i8| match near {
            0.. => base.add(near.unsigned_abs().into()),
            _ => base.sub(near.unsigned_abs().into()),
        };
        let mut packet = way.build(input, places, near)?;
        packets::seal(&mut packet, &self.memory);
        Some(packet)
    }

    /// The queue pair that an earlier packet was for.
    fn some_qp(&self, input: &mut Input<'_>) -> Option<Qpn> {
        let which = input.byte()?;
        let count = self.remembered.len().max(1);
        let (_, packet) = self.remembered.get(usize::from(which) % count)?;
        let (headers, _) = Headers::parse(packet.header()).ok()?;
        Some(headers.bth.target_qp)
    }
}

impl Site for Rack {
    fn now(&self) -> Instant {
        self.now
    }

    fn nodes(&self) -> Vec<(NodeId, NodeAddress)> {
        let address = |node: usize| {
            let Host { mac, ip } = host(node);
            let port = PortId(node as u16);
            (NodeId(node as u16), NodeAddress { mac, ip, port })
        };
        (0..NODES).map(address).collect()
    }

    fn regions(&self) -> Option<&LocalRegions> {
        Some(&self.regions)
    }

    fn node(&mut self, node: NodeId, act: &mut dyn FnMut(&mut dyn Verbs)) -> bool {
        match self.nics.get_mut(usize::from(node.0)) {
            Some(nic) => act(nic),
            None => return false,
        }
        true
    }

    fn target(
        &mut self,
        node: NodeId,
        request: TargetRequest,
    ) -> Option<Result<TargetReply, TargetError>> {
        match &mut self.target {
            Some((at, target)) if *at == usize::from(node.0) => {
                Some(request.answer(target, &mut self.nics[*at]))
            }
            _ => None,
        }
    }

    fn switch(&mut self, act: &mut dyn FnMut(Instant, &mut Switch<Pipeline>)) {
        act(self.now, &mut self.switch);
    }
}
