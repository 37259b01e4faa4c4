//! The sequencers without nodes: the answer to each packet. With software NICs at the other end
//! they are tested in `controller/tests`.

use super::*;
use crate::flows::FlowConfig;
use crate::pages::PagesConfig;
use crate::{Digest, Pipeline, PipelineConfig};
use rackweave_base::{Duration, Instant, MacAddr, Memory, Payload, Qpn, Rkey};
use rackweave_switch::transfer::{EngineConfig, LaneKind};
use rackweave_switch::{Budget, Switch, SwitchConfig};
use rackweave_wire::fabric::sequencer::address_of;
use rackweave_wire::{Bth, Ecn, Ethernet, Ipv4, Reth, Rewrite, Syndrome, Udp};
use std::net::Ipv4Addr;

const SWITCH_IP: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 9);
const NODE_IP: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const SWITCH_MAC: MacAddr = MacAddr([9; 6]);
const NODE_MAC: MacAddr = MacAddr([1; 6]);
const PORT: PortId = PortId(3);
const KEY: Rkey = Rkey(0x1234_5678);

fn config(sequencer: SequencerConfig, flows: FlowConfig) -> PipelineConfig {
    PipelineConfig {
        ip: SWITCH_IP,
        engine: EngineConfig {
            lanes: 2048,
            timeout: Duration::from_micros(100),
            retries: 3,
            acknowledge_every: 32,
            check: false,
            rewrite: Rewrite::Update,
            mac: SWITCH_MAC,
        },
        flows,
        pages: PagesConfig::NONE,
        sequencer,
        index: crate::index::IndexConfig::NONE,
        hosts: 256,
        routes: 256,
    }
}

const NO_FLOWS: FlowConfig = FlowConfig {
    threads: 0,
    producers: 0,
};

const SIZES: SequencerConfig = SequencerConfig {
    sequencers: 4,
    clients: 2,
    first_stage: STAGE_BESIDE_ENGINE,
};

/// The answer to a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Got {
    Number(u64),
    Refused(NakCode),
    Nothing,
}

struct Bench {
    switch: Switch<Pipeline>,
    first: Psn,
}

impl Bench {
    /// A switch with one client and two sequencers, whose numbers begin with 100 and end at 200.
    fn new(first: Psn) -> Self {
        let program = Pipeline::new(&config(SIZES, NO_FLOWS), Memory::new(1 << 20));
        let mut switch = Switch::load(program, Budget::Tofino1, SwitchConfig::default()).unwrap();
        let lane = Lane {
            kind: LaneKind::Program,
            port: PORT,
            ethernet: Ethernet {
                target: NODE_MAC,
                source: SWITCH_MAC,
                vlan: None,
            },
            ipv4: ipv4(SWITCH_IP, NODE_IP),
            udp: udp(),
            peer_qpn: Qpn(77),
            mtu: 4096,
        };
        let program = switch.program_mut();
        let engine = &mut program.engine;
        engine.connect(LaneId(5), Qpn(55), first, lane).unwrap();
        let channel = SequencerChannel { number: 1, first };
        let sequencers = &mut program.sequencers;
        sequencers.set_channel(LaneId(5), Some(channel)).unwrap();
        let entry = SequencerEntry {
            rkey: KEY,
            reserve: 32,
        };
        for index in [0, 2] {
            sequencers.set_sequencer(index, entry, 100, 200).unwrap();
        }
        Self { switch, first }
    }

    /// Sends a packet `at` PSNs after the first.
    fn send(&mut self, at: u32, opcode: Opcode, extension: Extension) -> Got {
        let psn = self.first.add(at);
        let headers = Headers {
            ethernet: Ethernet {
                target: SWITCH_MAC,
                source: NODE_MAC,
                vlan: None,
            },
            ipv4: ipv4(NODE_IP, SWITCH_IP),
            udp: udp(),
            bth: Bth {
                opcode,
                solicited: false,
                migrated: true,
                pkey: 0xffff,
                fecn: false,
                becn: false,
                target_qp: Qpn(55),
                ack_request: true,
                psn,
            },
            extension,
        };
        let packet = headers.packet(Payload::Empty);
        self.switch.handle_packet(Instant::ZERO, PORT, packet);
        let Some(answer) = self.switch.poll_transmit(PORT) else {
            return Got::Nothing;
        };
        assert!(self.switch.poll_transmit(PORT).is_none(), "one answer");
        let answer = Headers::of(&answer).unwrap();
        assert_eq!(answer.bth.target_qp, Qpn(77));
        match answer.extension {
            Extension::AtomicAck(aeth, before) => {
                assert_eq!(answer.bth.psn, psn);
                assert_eq!(aeth.msn, (at + 1) % Psn::SPACE);
                Got::Number(before)
            }
            Extension::Aeth(aeth) => match aeth.syndrome {
                Syndrome::Nak(code) => Got::Refused(code),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }

    fn ask(&mut self, at: u32, index: u16, count: u64) -> Got {
        let atomic = atomic(address_of(index), KEY, count);
        self.send(at, Opcode::FetchAdd, atomic)
    }

    fn next(&self, index: u16) -> u64 {
        self.switch.program().sequencers.numbers(index).unwrap().0
    }

    fn digests(&mut self) -> usize {
        let mut count = 0;
        while let Some(digest) = self.switch.poll_digest() {
            assert_eq!(digest, Digest::Sequencer(SequencerDigest::Low(2)));
            count += 1;
        }
        count
    }
}

fn ipv4(source: Ipv4Addr, target: Ipv4Addr) -> Ipv4 {
    Ipv4 {
        dscp: 0,
        ecn: Ecn::Capable0,
        identification: 0,
        dont_fragment: true,
        ttl: 64,
        source,
        target,
    }
}

fn udp() -> Udp {
    Udp {
        source_port: 0xc000,
        checksum: 0,
    }
}

fn atomic(address: u64, rkey: Rkey, count: u64) -> Extension {
    Extension::AtomicEth(AtomicEth {
        address,
        rkey,
        swap_or_add: count,
        compare: 0,
    })
}

#[test]
fn ranges_follow_one_another_wherever_the_psn_wraps() {
    let mut bench = Bench::new(Psn::new(Psn::SPACE - 2));
    assert_eq!(bench.ask(0, 2, 3), Got::Number(100));
    assert_eq!(bench.ask(1, 2, 1), Got::Number(103));
    assert_eq!(bench.ask(2, 0, 7), Got::Number(100), "another sequencer");
    assert_eq!(bench.ask(3, 2, 1), Got::Number(104));
    assert_eq!((bench.next(0), bench.next(2)), (107, 105));
}

#[test]
fn a_request_that_comes_again_is_given_the_same_number() {
    let mut bench = Bench::new(Psn::new(Psn::SPACE - 9));
    assert_eq!(bench.ask(0, 2, 5), Got::Number(100));
    for at in 1..=16 {
        assert_eq!(bench.ask(at, 2, 1), Got::Number(104 + u64::from(at)));
    }
    for at in (1..=16).rev() {
        assert_eq!(bench.ask(at, 2, 1), Got::Number(104 + u64::from(at)));
    }
    // A client that respects sixteen requests in flight does not repeat this one.
    assert_eq!(bench.ask(0, 2, 5), Got::Nothing);
    assert_eq!(bench.next(2), 121, "nothing was handed out twice");
    // From before the connection.
    let mut bench = Bench::new(Psn::new(40));
    assert_eq!(bench.ask(Psn::SPACE - 1, 2, 1), Got::Nothing);
}

#[test]
fn a_gap_draws_one_complaint() {
    let mut bench = Bench::new(Psn::new(7));
    assert_eq!(bench.ask(0, 2, 1), Got::Number(100));
    let missing = Got::Refused(NakCode::SequenceError);
    assert_eq!(bench.ask(2, 2, 1), missing);
    assert_eq!(bench.ask(3, 2, 1), Got::Nothing);
    assert_eq!(bench.ask(1, 2, 1), Got::Number(101));
    assert_eq!(bench.ask(3, 2, 1), missing, "a new gap");
    assert_eq!(bench.ask(2, 2, 1), Got::Number(102));
}

#[test]
fn what_makes_no_sense_is_refused_and_changes_nothing() {
    let add = Opcode::FetchAdd;
    let read = Extension::Reth(Reth {
        address: address_of(2),
        rkey: KEY,
        length: 8,
    });
    let (invalid, access) = (NakCode::InvalidRequest, NakCode::RemoteAccess);
    let swap = atomic(address_of(2), KEY, 1);
    for (opcode, extension, code) in [
        (add, atomic(address_of(2), Rkey(1), 1), access),
        (add, atomic(address_of(1), KEY, 1), access),
        (add, atomic(address_of(9), KEY, 1), access),
        (add, atomic(u64::MAX - 7, KEY, 1), access),
        (add, atomic(address_of(2) + 4, KEY, 1), invalid),
        (add, atomic(address_of(2), KEY, 0), invalid),
        (add, atomic(address_of(2), KEY, RANGE_MAX + 1), invalid),
        (add, atomic(address_of(2), KEY, u64::MAX), invalid),
        (Opcode::CompareSwap, swap, invalid),
        (Opcode::ReadRequest, read, invalid),
    ] {
        let mut bench = Bench::new(Psn::new(0));
        assert_eq!(bench.ask(0, 2, 1), Got::Number(100));
        assert_eq!(bench.send(1, opcode, extension), Got::Refused(code));
        assert_eq!(bench.next(2), 101);
        // Requests behind it are not carried out; earlier ones are still answered.
        let missing = Got::Refused(NakCode::SequenceError);
        assert_eq!(bench.ask(2, 2, 1), missing);
        assert_eq!(bench.ask(0, 2, 1), Got::Number(100));
        assert_eq!(bench.next(2), 101);
    }
}

#[test]
fn numbers_end_at_the_limit_until_it_is_raised() {
    let mut bench = Bench::new(Psn::new(0));
    assert_eq!(bench.ask(0, 2, 60), Got::Number(100));
    assert_eq!(bench.digests(), 0);
    assert_eq!(bench.ask(1, 2, 20), Got::Number(160));
    assert_eq!(bench.digests(), 1, "20 are left, 32 are the reserve");
    assert_eq!(bench.ask(2, 2, 1), Got::Number(180));
    assert_eq!(
        bench.digests(),
        1,
        "reported at every eighth of the reserve"
    );
    assert_eq!(bench.ask(3, 2, 1), Got::Number(181));
    assert_eq!(bench.digests(), 0);
    assert_eq!(
        bench.ask(4, 2, 19),
        Got::Refused(NakCode::RemoteOperation),
        "one too many"
    );
    assert_eq!(bench.digests(), 1);
    assert_eq!(bench.next(2), 182);
    let sequencers = &mut bench.switch.program_mut().sequencers;
    sequencers.raise_limit(2, 300);
    sequencers.raise_limit(2, 250);
    assert_eq!(sequencers.numbers(2), Some((182, 300)), "never lowered");
    assert_eq!(bench.ask(5, 2, 19), Got::Number(182));
    assert_eq!(bench.digests(), 0);
    bench.switch.program_mut().sequencers.remove_sequencer(2);
    assert_eq!(bench.ask(6, 2, 1), Got::Refused(NakCode::RemoteAccess));
}

#[test]
fn a_channel_beyond_the_registers_is_refused() {
    let mut sequencers = Sequencers::new(SIZES, 16);
    let channel = |number| SequencerChannel {
        number,
        first: Psn::new(0),
    };
    assert!(sequencers.set_channel(LaneId(3), Some(channel(1))).is_ok());
    assert!(sequencers.set_channel(LaneId(3), Some(channel(2))).is_err());
    assert!(
        sequencers
            .set_channel(LaneId(16), Some(channel(0)))
            .is_err()
    );
    assert_eq!(sequencers.channel(LaneId(3)), Some(channel(1)));
}

fn load(config: &PipelineConfig, budget: Budget) -> Result<Ledger, String> {
    let pipeline = Pipeline::new(config, Memory::new(1 << 20));
    let switch = Switch::load(pipeline, budget, SwitchConfig::default());
    switch
        .map(|switch| switch.ledger())
        .map_err(|error| error.to_string())
}

#[test]
fn they_fit_the_first_tofino_beside_the_engine_but_not_beside_flows() {
    let sizes = SequencerConfig {
        sequencers: 1024,
        clients: 1024,
        ..SIZES
    };
    let with = load(&config(sizes, NO_FLOWS), Budget::Tofino1).unwrap();
    let without = load(&config(SequencerConfig::NONE, NO_FLOWS), Budget::Tofino1).unwrap();
    let units = |ledger: &Ledger| -> usize {
        let stages = ledger.stages().iter();
        stages.map(|stage| stage.registers).sum()
    };
    assert_eq!(units(&with) - units(&without), 5);
    assert_eq!(with.bytes_registers() - without.bytes_registers(), 217_088);
    let flows = FlowConfig {
        threads: 64,
        producers: 128,
    };
    let refused = load(&config(sizes, flows), Budget::Tofino1).unwrap_err();
    assert!(refused.contains("register units"), "{refused}");
    let behind = SequencerConfig {
        first_stage: STAGE_BEHIND_ALL,
        ..sizes
    };
    let both = load(&config(behind, flows), Budget::Tofino2).unwrap();
    assert_eq!(both.stages().len(), 16);
}
