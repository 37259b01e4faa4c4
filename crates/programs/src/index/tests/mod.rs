//! The index without nodes: the result for each packet. `single` has a single switch, `hops`
//! several in a row, `lookups` requests over plain UDP, `trees` random trees and their loading,
//! `sizes` the budget.

mod hops;
mod lookups;
mod single;
mod sizes;
mod trees;

use super::*;
use crate::flows::FlowConfig;
use crate::pages::PagesConfig;
use crate::sequencer::SequencerConfig;
use crate::{Pipeline, PipelineConfig};
use rackweave_base::{Duration, Instant, MacAddr, Memory, Payload, Psn};
use rackweave_switch::transfer::EngineConfig;
use rackweave_switch::{Budget, Switch, SwitchConfig};
use rackweave_wire::icrc::{self, Verdict};
use rackweave_wire::{Bth, Ethernet, Ipv4, Opcode, Reth, Udp};

const CLIENT: u8 = 1;
const SERVER: u8 = 2;
const OTHER_SERVER: u8 = 3;
const QPN: Qpn = Qpn(0x77);
const KEY: Rkey = Rkey(0x1234_5678);
const SHIFT: u8 = 10;
const BASE: u64 = 0x7f00_0000_0000;

/// Sizes for small tests, with all on one switch.
const SMALL: IndexConfig = IndexConfig {
    queries: 8,
    servers: 4,
    fat_ranges: 64,
    first_layer: 1,
    layers: 1,
    nodes: 64,
    first_stage: 0,
};

fn ip(host: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, host)
}

fn mac(host: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, host])
}

fn pipeline(index: IndexConfig, rewrite: Rewrite) -> PipelineConfig {
    PipelineConfig {
        ip: ip(254),
        engine: EngineConfig {
            lanes: 2048,
            timeout: Duration::from_micros(100),
            retries: 3,
            acknowledge_every: 32,
            check: true,
            rewrite,
            mac: mac(254),
        },
        flows: FlowConfig {
            threads: 0,
            producers: 0,
        },
        pages: PagesConfig::NONE,
        sequencer: SequencerConfig::NONE,
        index,
        hosts: 64,
        routes: 16,
    }
}

/// A switch. Host `n` is at port `n` unless set otherwise.
struct Rig {
    switch: Switch<Pipeline>,
    config: PipelineConfig,
}

impl Rig {
    fn new(index: IndexConfig) -> Self {
        Self::with(index, Rewrite::Update)
    }

    fn with(index: IndexConfig, rewrite: Rewrite) -> Self {
        let config = pipeline(index, rewrite);
        let program = Pipeline::new(&config, Memory::new(1 << 20));
        let budget = Budget::Tofino2;
        let ports = SwitchConfig {
            ports: 16,
            ..SwitchConfig::default()
        };
        let switch = Switch::load(program, budget, ports).unwrap();
        let mut rig = Self { switch, config };
        for host in 1..8 {
            rig.host(host, u16::from(host));
        }
        rig
    }

    fn host(&mut self, host: u8, port: u16) {
        let forward = &mut self.switch.program_mut().forward;
        forward.add_host(mac(host), PortId(port)).unwrap();
    }

    fn index(&mut self) -> &mut Index {
        &mut self.switch.program_mut().index
    }

    fn counters(&self) -> IndexCounters {
        self.switch.program().index.counters()
    }

    fn drops(&self, reason: DropReason) -> u64 {
        self.switch.counters().drops(reason)
    }

    /// Enters servers and queue pairs, loads the first bank and activates it.
    fn lead(&mut self) {
        self.register();
        self.load(0);
        self.index().set_active(Some(0)).unwrap();
    }

    /// Enters two servers and the queue pair that the client has with each.
    fn register(&mut self) {
        for (server, host) in [(0, SERVER), (1, OTHER_SERVER)] {
            let index = self.index();
            let entry = ServerEntry {
                ip: ip(host),
                address: BASE + (u64::from(server) << 40),
                node_shift: SHIFT,
            };
            index.set_server(server, Some(entry)).unwrap();
            let entry = QueryEntry { server, rkey: KEY };
            index.set_query(ip(host), QPN, Some(entry)).unwrap();
        }
    }

    /// A complete small tree in bank `bank`: keys below 1000 are in the range of server 0, whose
    /// tree node 10 is in slot 5 and has children 100, 101, 102 (keys up to 99, 199, 999); keys
    /// from 1000 on belong to server 1.
    fn load(&mut self, bank: usize) {
        let index = self.index();
        index.load_fat_root(bank, &small_fat_root(5)).unwrap();
        index.load_nodes(bank, 1, 5, &[small_node(100)]).unwrap();
    }

    fn send(&mut self, port: u16, packet: Packet) -> Option<(u16, Packet)> {
        self.switch
            .handle_packet(Instant::ZERO, PortId(port), packet);
        let ports = self.switch.ports();
        let mut out =
            (0..ports).filter_map(|at| Some((at, self.switch.poll_transmit(PortId(at))?)));
        let first = out.next();
        assert!(out.next().is_none(), "one packet leaves");
        first
    }

    /// Sends a query and returns the server's tree node that the switch wrote into it.
    fn ask(&mut self, host: u8, key: u64) -> Option<u64> {
        let (port, packet) = self.send(CLIENT.into(), query_to(host, key))?;
        assert_eq!(port, u16::from(host));
        Some(node_of(&packet, host, key))
    }
}

fn child(node: u32, slot: u16) -> Child {
    Child { node, slot }
}

fn small_fat_root(slot: u16) -> FatRoot {
    trees::fat_root(&[
        (
            0,
            999,
            FatRange {
                server: 0,
                child: child(10, slot),
            },
        ),
        (
            1000,
            u64::MAX,
            FatRange {
                server: 1,
                child: child(20, NO_SLOT),
            },
        ),
    ])
}

fn small_node(first: u32) -> RegularNode {
    let mut node = RegularNode {
        pivots: [u64::MAX; BRANCHES],
        children: [Child::NONE; BRANCHES],
    };
    for (at, last) in [99, 199, 999].into_iter().enumerate() {
        node.pivots[at] = last;
        node.children[at] = child(first + at as u32, NO_SLOT);
    }
    node
}

fn headers_to(host: u8, key: u64, rkey: Rkey) -> Headers {
    let mut bth = Bth::new(Opcode::ReadRequest, QPN, Psn::new(4711));
    bth.ack_request = true;
    Headers {
        ethernet: Ethernet::new(mac(CLIENT), mac(host)),
        ipv4: Ipv4::new(ip(CLIENT), ip(host)),
        udp: Udp::new(0xc0de),
        bth,
        extension: Extension::Reth(Reth {
            address: key,
            rkey,
            length: 1 << SHIFT,
        }),
    }
}

fn sealed(headers: &Headers) -> Packet {
    let mut packet = headers.packet(Payload::Empty);
    assert!(icrc::seal(&mut packet, &Memory::new(1 << 12)));
    packet
}

fn query_to(host: u8, key: u64) -> Packet {
    sealed(&headers_to(host, key, Rkey(0)))
}

/// The tree node written into a query. Everything else must be unchanged, and the ICRC right.
fn node_of(packet: &Packet, host: u8, key: u64) -> u64 {
    assert_eq!(icrc::verify(packet, &Memory::new(1 << 12)), Verdict::Right);
    let got = Headers::of(packet).unwrap();
    let Extension::Reth(reth) = got.extension else {
        panic!("{got}");
    };
    let mut expect = headers_to(host, key, KEY);
    expect.extension = got.extension;
    // Balancing the ICRC may choose this field freely.
    expect.ipv4.identification = got.ipv4.identification;
    expect.udp.source_port = got.udp.source_port;
    assert_eq!(got, expect);
    assert_eq!((reth.rkey, reth.length), (KEY, 1 << SHIFT));
    let server = u64::from(host - SERVER);
    let offset = reth.address - BASE - (server << 40);
    assert_eq!(offset % (1 << SHIFT), 0);
    offset >> SHIFT
}

fn bytes(packet: &Packet) -> Vec<u8> {
    let mut bytes = Vec::new();
    assert!(packet.serialise(&Memory::new(1 << 12), &mut bytes));
    bytes
}
