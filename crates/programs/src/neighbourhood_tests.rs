//! Guard and ARP through the whole pipeline: which requests are answered, and which packets are
//! accepted or dropped.

use crate::arp::Arp;
use crate::flows::FlowConfig;
use crate::guard::{Guard, HostAddresses};
use crate::{Pipeline, PipelineConfig};
use rackweave_base::{Duration, Instant, MacAddr, Memory, Packet, Payload, PortId, Psn, Qpn, Rng};
use rackweave_switch::transfer::{EngineConfig, Lane, LaneId, LaneKind};
use rackweave_switch::{Budget, Switch, SwitchConfig};
use rackweave_wire::arp::{BROADCAST, Operation};
use rackweave_wire::{
    Aeth, ArpFrame, Bth, Ethernet, Extension, Headers, Ipv4, Opcode, Rewrite, Syndrome, Udp,
};
use std::net::Ipv4Addr;

const OWN: MacAddr = MacAddr([2, 0, 0, 0, 1, 0]);
const OWN_IP: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 254);
const LANE_QPN: Qpn = Qpn(20);
/// Hosts 0 to 2 are at ports 0 to 2; host 3 exists nowhere.
const HOSTS: u8 = 3;
const NOBODY: u8 = 3;

fn host(host: u8) -> HostAddresses {
    HostAddresses {
        mac: MacAddr([2, 0, 0, 0, 0, host + 1]),
        ip: Ipv4Addr::new(10, 0, 0, host + 1),
    }
}

struct Bench(Switch<Pipeline>);

impl Bench {
    /// A switch that forwards to three hosts, answers for them, and has a lane to host 1.
    fn new() -> Self {
        let config = PipelineConfig {
            ip: OWN_IP,
            engine: EngineConfig {
                lanes: 4,
                timeout: Duration::from_micros(100),
                retries: 3,
                acknowledge_every: 32,
                check: false,
                rewrite: Rewrite::Update,
                mac: OWN,
            },
            flows: FlowConfig {
                threads: 1,
                producers: 1,
            },
            pages: crate::pages::PagesConfig::NONE,
            sequencer: crate::sequencer::SequencerConfig::NONE,
            index: crate::index::IndexConfig::NONE,
            hosts: usize::from(HOSTS),
            routes: usize::from(HOSTS),
        };
        let mut pipeline = Pipeline::new(&config, Memory::new(1 << 16));
        for at in 0..HOSTS {
            let HostAddresses { mac, ip } = host(at);
            pipeline.forward.add_host(mac, PortId(at.into())).unwrap();
            pipeline.arp.add_host(ip, mac).unwrap();
        }
        let lane = Lane {
            kind: LaneKind::Target,
            port: PortId(1),
            ethernet: Ethernet::new(OWN, host(1).mac),
            ipv4: Ipv4::new(OWN_IP, host(1).ip),
            udp: Udp::new(0xc000),
            peer_qpn: Qpn(100),
            mtu: 1024,
        };
        pipeline
            .engine
            .connect(LaneId(0), LANE_QPN, Psn::new(7), lane)
            .unwrap();
        Self(Switch::load(pipeline, Budget::Tofino1, SwitchConfig::default()).unwrap())
    }

    fn guarded() -> Self {
        let mut bench = Self::new();
        for at in 0..HOSTS {
            let guard = &mut bench.0.program_mut().guard;
            guard.add_source(PortId(at.into()), host(at)).unwrap();
        }
        bench
    }

    /// The result of one packet: the port and the packet that leaves, or the one drop reason. No
    /// other counter may change.
    fn check(&mut self, port: u8, packet: Packet) -> Result<(u16, Packet), &'static str> {
        let before: Vec<_> = self.0.counters().iter().collect();
        self.0
            .handle_packet(Instant::ZERO, PortId(port.into()), packet);
        let out = (0..8).find_map(|at| Some((at, self.0.poll_transmit(PortId(at))?)));
        let mut moved: Vec<_> = before
            .iter()
            .zip(self.0.counters().iter())
            .filter(|((_, before), (_, after))| before != after)
            .map(|(_, (name, _))| name)
            .filter(|name| !["packets_in", "passes"].contains(name))
            .collect();
        let what = moved.pop().expect("no packet goes without a count");
        assert!(moved.is_empty(), "{what} and {moved:?}");
        match out {
            Some(out) if what == "packets_out" => Ok(out),
            Some(_) => panic!("{what}, and yet it leaves"),
            None => Err(what),
        }
    }

    /// The address in the answer when `from` requests `ip`; the answer must be valid and return to
    /// the requester.
    fn ask(&mut self, from: u8, ip: Ipv4Addr) -> Result<MacAddr, &'static str> {
        let HostAddresses { mac, ip: own } = host(from);
        let (port, packet) = self.check(from, ArpFrame::request(mac, own, ip).packet())?;
        let frame = ArpFrame::of(&packet).unwrap();
        assert_eq!(port, u16::from(from), "the answer goes to the asker alone");
        assert_eq!(frame.ethernet.target, mac);
        assert_eq!(frame.ethernet.source, frame.arp.sender_mac);
        assert_eq!(frame.arp.operation, Operation::Reply);
        assert_eq!((frame.arp.target_mac, frame.arp.target_ip), (mac, own));
        assert_eq!(frame.arp.sender_ip, ip);
        Ok(frame.arp.sender_mac)
    }
}

/// An acknowledgement from `source` to a queue pair.
fn acknowledge(source: HostAddresses, target: HostAddresses, qpn: Qpn) -> Packet {
    let aeth = Aeth {
        syndrome: Syndrome::Ack { credits: 31 },
        msn: 1,
    };
    let headers = Headers {
        ethernet: Ethernet::new(source.mac, target.mac),
        ipv4: Ipv4::new(source.ip, target.ip),
        udp: Udp::new(0xc000),
        bth: Bth::new(Opcode::Acknowledge, qpn, Psn::new(7)),
        extension: Extension::Aeth(aeth),
    };
    headers.packet(Payload::Empty)
}

fn switch_address() -> HostAddresses {
    HostAddresses {
        mac: OWN,
        ip: OWN_IP,
    }
}

#[test]
fn the_switch_answers_for_itself_and_for_every_host() {
    let mut bench = Bench::guarded();
    assert_eq!(bench.ask(0, OWN_IP), Ok(OWN));
    assert_eq!(bench.ask(0, host(2).ip), Ok(host(2).mac));
    // Packets then sent there are forwarded.
    let packet = acknowledge(host(0), host(2), Qpn(5));
    assert_eq!(bench.check(0, packet).unwrap().0, 2);
}

#[test]
fn a_question_to_one_host_alone_is_answered_too() {
    let mut question = ArpFrame::request(host(0).mac, host(0).ip, host(1).ip);
    question.ethernet.target = host(1).mac;
    let (port, packet) = Bench::new().check(0, question.packet()).unwrap();
    assert_eq!(port, 0);
    assert_eq!(ArpFrame::of(&packet).unwrap(), question.reply(host(1).mac));
}

#[test]
fn what_need_not_be_answered_is_dropped_and_counted() {
    let mut bench = Bench::new();
    assert_eq!(bench.ask(0, host(NOBODY).ip), Err("drop_arp_unknown"));
    assert_eq!(bench.ask(0, host(0).ip), Err("drop_arp_own"));
    let probe = ArpFrame::request(host(0).mac, Ipv4Addr::UNSPECIFIED, host(0).ip);
    assert_eq!(
        bench.check(0, probe.packet()).unwrap_err(),
        "drop_arp_own",
        "a host that tests its own address must not find it taken"
    );
    let answer = ArpFrame::request(host(1).mac, host(1).ip, host(0).ip).reply(host(0).mac);
    assert_eq!(
        bench.check(0, answer.packet()).unwrap_err(),
        "drop_arp_unasked"
    );
}

#[test]
fn hostile_frames_are_malformed() {
    let whole = ArpFrame::request(host(0).mac, host(0).ip, host(1).ip).packet();
    for mut bench in [Bench::new(), Bench::guarded()] {
        for len in 14..42 {
            let packet = Packet::new(&whole.header()[..len], Payload::Empty);
            assert_eq!(bench.check(0, packet).unwrap_err(), "drop_malformed");
        }
        let oversized = Packet::new(whole.header(), Payload::copied(&[0; 1500]));
        assert_eq!(bench.check(0, oversized).unwrap_err(), "drop_malformed");
        for at in [15, 17, 18, 19, 21] {
            let mut packet = whole.clone();
            packet.header_mut()[at] = 9;
            assert_eq!(bench.check(0, packet).unwrap_err(), "drop_malformed");
        }
    }
}

#[test]
fn the_guard_wants_the_addresses_of_the_port() {
    let (honest, other) = (host(0), host(2));
    let stolen_mac = HostAddresses {
        mac: other.mac,
        ..honest
    };
    let stolen_ip = HostAddresses {
        ip: other.ip,
        ..honest
    };
    let mut bench = Bench::guarded();
    let mut send = |source| {
        let out = bench.check(0, acknowledge(source, host(1), Qpn(5)));
        out.map(|(port, _)| port)
    };
    assert_eq!(send(honest), Ok(1));
    assert_eq!(send(other), Err("drop_foreign_source_mac"));
    assert_eq!(send(stolen_mac), Err("drop_foreign_source_mac"));
    assert_eq!(send(stolen_ip), Err("drop_foreign_source_ip"));
}

#[test]
fn the_guard_sees_through_a_vlan_tag() {
    let forged = HostAddresses {
        ip: host(2).ip,
        ..host(0)
    };
    for (source, expect) in [(host(0), None), (forged, Some("drop_foreign_source_ip"))] {
        let packet = acknowledge(source, host(1), Qpn(5));
        let mut bytes = packet.header().to_vec();
        bytes.splice(12..12, [0x81, 0x00, 0x00, 0x07]);
        let out = Bench::guarded().check(0, Packet::new(&bytes, Payload::Empty));
        assert_eq!(out.err(), expect);
    }
}

#[test]
fn without_the_guard_a_host_could_acknowledge_for_another() {
    let forged = HostAddresses {
        ip: host(2).ip,
        ..host(0)
    };
    let packet = || acknowledge(forged, host(1), Qpn(5));
    assert_eq!(Bench::new().check(0, packet()).unwrap().0, 1);
    assert_eq!(
        Bench::guarded().check(0, packet()).unwrap_err(),
        "drop_foreign_source_ip"
    );
}

#[test]
fn nobody_speaks_for_another_towards_a_lane() {
    let send = |mut bench: Bench, port, source| {
        let packet = acknowledge(source, switch_address(), LANE_QPN);
        bench.check(port, packet).unwrap_err()
    };
    let forged = HostAddresses {
        ip: host(1).ip,
        ..host(0)
    };
    // The lane has sent nothing, so its own host acknowledges nothing new: the packet has reached
    // the lane.
    assert_eq!(send(Bench::guarded(), 1, host(1)), "drop_stale_acknowledge");
    assert_eq!(
        send(Bench::guarded(), 0, host(1)),
        "drop_foreign_source_mac"
    );
    assert_eq!(send(Bench::guarded(), 0, forged), "drop_foreign_source_ip");
    // Each lane knows its port; that alone rejects a forger, too.
    assert_eq!(send(Bench::new(), 0, forged), "drop_stranger");
}

#[test]
fn nobody_speaks_for_another_in_arp() {
    let mut bench = Bench::guarded();
    let (thief, victim) = (host(0), host(1));
    let mut claim = |ethernet: MacAddr, mac, ip| {
        let mut frame = ArpFrame::request(mac, ip, host(2).ip);
        frame.ethernet.source = ethernet;
        bench.check(0, frame.packet()).map(|(port, _)| port)
    };
    assert_eq!(claim(thief.mac, thief.mac, thief.ip), Ok(0));
    let foreign_mac = Err("drop_foreign_source_mac");
    assert_eq!(claim(victim.mac, thief.mac, thief.ip), foreign_mac);
    assert_eq!(claim(thief.mac, victim.mac, thief.ip), foreign_mac);
    assert_eq!(
        claim(thief.mac, thief.mac, victim.ip),
        Err("drop_foreign_source_ip")
    );
    assert_eq!(
        claim(thief.mac, thief.mac, Ipv4Addr::UNSPECIFIED),
        Err("drop_foreign_source_ip")
    );
    // An unsolicited claim reaches no host, with or without guard: the switch forwards no ARP.
    let mut claim = ArpFrame::request(host(2).mac, host(2).ip, victim.ip).reply(thief.mac);
    for target in [BROADCAST, host(2).mac] {
        claim.ethernet.target = target;
        assert_eq!(
            Bench::new().check(0, claim.packet()).unwrap_err(),
            "drop_arp_unasked"
        );
    }
}

#[test]
fn what_the_guard_cannot_judge_is_dropped_at_guarded_ports_only() {
    let mut frame = [0; 60];
    frame[..6].copy_from_slice(&host(1).mac.0);
    frame[6..12].copy_from_slice(&host(0).mac.0);
    frame[16..18].copy_from_slice(&[0x81, 0x00]);
    let mut check = |ethertype: u16, len: usize| {
        frame[12..14].copy_from_slice(&ethertype.to_be_bytes());
        let packet = || Packet::new(&frame[..len], Payload::Empty);
        (
            Bench::new().check(0, packet()).map(|out| out.0),
            Bench::guarded().check(0, packet()).map(|out| out.0),
        )
    };
    let two_tags = check(0x8100, 60);
    assert_eq!(two_tags, (Ok(1), Err("drop_foreign_protocol")));
    assert_eq!(check(0x86dd, 60), (Ok(1), Err("drop_foreign_protocol")));
    // The IPv4 header ends before its source address does.
    assert_eq!(check(0x0800, 29), (Ok(1), Err("drop_malformed")));
    assert_eq!(check(0x0800, 13).1, Err("drop_malformed"));
    assert_eq!(check(0x0800, 30).1, Err("drop_foreign_source_ip"));
}

#[test]
fn a_port_is_guarded_for_one_host_until_that_is_removed() {
    let mut guard = Guard::new(2);
    guard.add_source(PortId(1), host(0)).unwrap();
    guard.add_source(PortId(1), host(0)).unwrap();
    assert_eq!(
        guard
            .add_source(PortId(1), host(1))
            .unwrap_err()
            .to_string(),
        "table guard.sources: key 0x1 is taken; remove its entry first"
    );
    assert!(!guard.remove_source(PortId(1), host(1)), "not its guard");
    assert!(guard.remove_source(PortId(1), host(0)));
    assert!(!guard.remove_source(PortId(1), host(0)));
    guard.add_source(PortId(1), host(1)).unwrap();
    assert_eq!(
        guard
            .add_source(PortId(2), host(0))
            .unwrap_err()
            .to_string(),
        "table guard.sources is full: it holds 2 entries"
    );
    assert!(!guard.remove_source(PortId(9), host(0)));
}

#[test]
fn answers_are_replaced_and_removed_but_the_switch_stays_itself() {
    let mut bench = Bench::new();
    let arp: &mut Arp = &mut bench.0.program_mut().arp;
    arp.add_host(host(1).ip, host(NOBODY).mac).unwrap();
    assert!(
        arp.add_host(OWN_IP, host(1).mac).is_err(),
        "the table is full"
    );
    assert!(arp.remove_host(host(2).ip) && !arp.remove_host(host(2).ip));
    arp.add_host(OWN_IP, host(1).mac).unwrap();
    assert_eq!(bench.ask(0, host(1).ip), Ok(host(NOBODY).mac));
    assert_eq!(bench.ask(0, host(2).ip), Err("drop_arp_unknown"));
    assert_eq!(bench.ask(0, OWN_IP), Ok(OWN));
}

#[test]
fn whatever_bytes_come_by_a_guarded_port_only_its_host_is_heard() {
    let seed = 826;
    let mut rng = Rng::new(seed);
    let mut bench = Bench::guarded();
    let honest = [
        ArpFrame::request(host(0).mac, host(0).ip, host(1).ip).packet(),
        acknowledge(host(0), host(1), Qpn(5)),
    ];
    let mut left = 0;
    for _ in 0..20_000 {
        let mut packet = honest[rng.below(2) as usize].clone();
        let len = packet.header().len() as u64;
        for _ in 0..rng.below(4) {
            packet.header_mut()[rng.below(len) as usize] ^= 1 << rng.below(8);
        }
        let sent = packet.header().to_vec();
        if bench.check(0, packet).is_ok() {
            left += 1;
            assert_eq!(sent[6..12], host(0).mac.0, "seed {seed}");
            let ip_at = if sent[13] == 6 { 28 } else { 26 };
            assert_eq!(sent[ip_at..ip_at + 4], host(0).ip.octets(), "seed {seed}");
        }
    }
    assert!(left > 1000, "seed {seed}: {left}");
}
