//! Two switches in a row, with a client at the first and servers at the second, or one switch for
//! both; and the outcome of queries.

use super::*;
use crate::NodeAddress;
use rackweave_base::{MacAddr, Memory, NodeId, Packet, Payload, PortId, Psn, Rkey};
use rackweave_programs::flows::FlowConfig;
use rackweave_programs::index::entries::{IndexConfig, IndexCounters};
use rackweave_programs::{Pipeline, PipelineConfig};
use rackweave_switch::transfer::EngineConfig;
use rackweave_switch::{Budget, Switch, SwitchConfig};
use rackweave_verbs::Verbs;
use rackweave_wire::{
    Bth, Ecn, Ethernet, Extension, Headers, Ipv4, Opcode, Reth, Rewrite, Udp, icrc,
};

pub(super) const CLIENT: PortId = PortId(1);
/// The port of the cable between the two switches.
pub(super) const CABLE: PortId = PortId(9);
pub(super) const SERVERS: u16 = 3;
pub(super) const SHIFT: u8 = 10;

pub(super) const ALL: IndexConfig = IndexConfig {
    queries: 8,
    servers: SERVERS,
    fat_ranges: 64,
    first_layer: 1,
    layers: 2,
    nodes: 24,
    first_stage: 0,
};

pub(super) fn mac(host: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, host])
}

pub(super) fn ip(host: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, host)
}

pub(super) fn server_host(server: u16) -> u8 {
    20 + server as u8
}

pub(super) fn base(server: u16) -> u64 {
    (u64::from(server) + 1) << 40
}

pub(super) fn qpn(server: u16) -> Qpn {
    Qpn(70 + u32::from(server))
}

pub(super) struct Rack {
    pub configs: Vec<PipelineConfig>,
    pub switches: Vec<Switch<Pipeline>>,
    pub now: Instant,
}

impl Site for Rack {
    fn now(&self) -> Instant {
        self.now
    }
    fn nodes(&self) -> Vec<(NodeId, NodeAddress)> {
        Vec::new()
    }
    fn node(&mut self, _: NodeId, _: &mut dyn FnMut(&mut dyn Verbs)) -> bool {
        false
    }
    fn switches(&self) -> usize {
        self.switches.len()
    }
    fn switch_at(&mut self, at: usize, act: &mut dyn FnMut(Instant, &mut Switch<Pipeline>)) {
        if let Some(switch) = self.switches.get_mut(at) {
            act(self.now, switch);
        }
    }
    fn switch(&mut self, act: &mut dyn FnMut(Instant, &mut Switch<Pipeline>)) {
        self.switch_at(0, act);
    }
}

pub(super) fn pipeline(index: IndexConfig) -> PipelineConfig {
    PipelineConfig {
        ip: ip(254),
        engine: EngineConfig {
            lanes: 16,
            timeout: Duration::from_micros(100),
            retries: 3,
            acknowledge_every: 32,
            check: true,
            rewrite: Rewrite::Update,
            mac: mac(254),
        },
        flows: FlowConfig {
            threads: 0,
            producers: 0,
        },
        pages: rackweave_programs::pages::PagesConfig::NONE,
        sequencer: rackweave_programs::sequencer::SequencerConfig::NONE,
        index,
        hosts: 64,
        routes: 16,
    }
}

impl Rack {
    pub fn new(indexes: &[IndexConfig]) -> Self {
        let configs: Vec<_> = indexes.iter().map(|&index| pipeline(index)).collect();
        let switches = configs.iter().map(|config| {
            let program = Pipeline::new(config, Memory::new(1 << 20));
            let budget = Budget::Software { bytes: 1 << 28 };
            let config = SwitchConfig {
                ports: 32,
                ..SwitchConfig::default()
            };
            Switch::load(program, budget, config).unwrap()
        });
        let switches = switches.collect();
        let now = Instant::ZERO;
        let mut rack = Self {
            configs,
            switches,
            now,
        };
        for at in 0..indexes.len() {
            rack.add_hosts(at);
        }
        rack
    }

    fn is_last(&self, at: usize) -> bool {
        at + 1 == self.switches.len()
    }

    fn server_port(&self, at: usize, server: u16) -> PortId {
        if self.is_last(at) {
            PortId(10 + server)
        } else {
            CABLE
        }
    }

    fn add_hosts(&mut self, at: usize) {
        let ports = (0..SERVERS).map(|server| self.server_port(at, server));
        let ports: Vec<PortId> = ports.collect();
        let forward = &mut self.switches[at].program_mut().forward;
        for (server, port) in (0u16..).zip(ports) {
            forward.add_host(mac(server_host(server)), port).unwrap();
        }
    }

    /// Clears the whole state of a switch.
    pub fn restart(&mut self, at: usize) {
        let program = Pipeline::new(&self.configs[at], Memory::new(1 << 20));
        self.switches[at].restart(program).unwrap();
        self.add_hosts(at);
        self.trust(at);
    }

    /// Enters the cable, with the other switch, if there is one, behind it.
    pub fn trust(&mut self, at: usize) {
        if self.switches.len() == 2 {
            let index = &mut self.switches[at].program_mut().index;
            index.set_trusted(CABLE, true).unwrap();
        }
    }

    /// A query leaves its client for a server; returns it as rewritten by its first switch.
    pub fn send(&mut self, server: u16, key: u64) -> Option<Packet> {
        let headers = Headers {
            ethernet: Ethernet {
                target: mac(server_host(server)),
                source: mac(1),
                vlan: None,
            },
            ipv4: Ipv4 {
                dscp: 0,
                ecn: Ecn::Capable0,
                identification: 0,
                dont_fragment: true,
                ttl: 64,
                source: ip(1),
                target: ip(server_host(server)),
            },
            udp: Udp {
                source_port: 0xc000,
                checksum: 0,
            },
            bth: Bth {
                opcode: Opcode::ReadRequest,
                solicited: false,
                migrated: true,
                pkey: 0xffff,
                fecn: false,
                becn: false,
                target_qp: qpn(server),
                ack_request: true,
                psn: Psn::new(7),
            },
            extension: Extension::Reth(Reth {
                address: key,
                rkey: Rkey(0),
                length: 1 << SHIFT,
            }),
        };
        let mut packet = headers.packet(Payload::Empty);
        assert!(icrc::seal(&mut packet, &Memory::new(1 << 12)));
        let out = self.server_port(0, server);
        self.switches[0].handle_packet(self.now, CLIENT, packet);
        self.switches[0].poll_transmit(out)
    }

    /// The rest of the path; returns the server's tree node in the final query.
    pub fn arrive(&mut self, server: u16, packet: Option<Packet>) -> Option<u32> {
        let mut packet = packet?;
        if self.switches.len() == 2 {
            let out = self.server_port(1, server);
            self.switches[1].handle_packet(self.now, CABLE, packet);
            packet = self.switches[1].poll_transmit(out)?;
        }
        let Extension::Reth(reth) = Headers::of(&packet).unwrap().extension else {
            panic!("it was a READ");
        };
        assert_eq!(reth.rkey, rkey(server));
        let offset = reth.address - base(server);
        assert_eq!(offset % (1 << SHIFT), 0);
        Some((offset >> SHIFT) as u32)
    }

    pub fn ask(&mut self, server: u16, key: u64) -> Option<u32> {
        let packet = self.send(server, key);
        self.arrive(server, packet)
    }

    pub fn counters(&self, at: usize) -> IndexCounters {
        self.switches[at].program().index.counters()
    }
}

pub(super) fn rkey(server: u16) -> Rkey {
    Rkey(0x5000 + u32::from(server))
}

/// Enters servers, queue pairs and the cable.
pub(super) fn enter(rack: &mut Rack, registry: &mut IndexRegistry) {
    for server in 0..SERVERS {
        let entry = ServerEntry {
            ip: ip(server_host(server)),
            address: base(server),
            node_shift: SHIFT,
        };
        registry.set_server(rack, server, Some(entry)).unwrap();
        let pair = (ip(server_host(server)), qpn(server));
        let entry = QueryEntry {
            server,
            rkey: rkey(server),
        };
        registry.set_query(rack, pair, Some(entry)).unwrap();
    }
    for at in 0..rack.switches.len() {
        rack.trust(at);
    }
}

/// One switch, or the fat root and a layer in the first and a layer in the second.
pub(super) fn racks() -> [Vec<IndexConfig>; 2] {
    let first = IndexConfig { layers: 1, ..ALL };
    let second = IndexConfig {
        fat_ranges: 0,
        first_layer: 2,
        ..first
    };
    [vec![ALL], vec![first, second]]
}
