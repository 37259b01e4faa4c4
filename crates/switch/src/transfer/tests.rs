//! The engine alone, with nodes simulated by the test: the packets that it sends, drops and counts.

use super::*;
use crate::pass::Pass;
use crate::{Budget, Counters, Ledger, Program, Switch, SwitchConfig};
use rackweave_base::{Instant, Memory, Packet, Payload, Psn};
use rackweave_wire::{
    Aeth, Bth, Extension, Headers, NakCode, Opcode, Rewrite, Syndrome, View, icrc,
};
use std::net::Ipv4Addr;

/// A program that consists of the engine only; it forwards the engine's events to the controller.
struct Alone(Engine);

#[derive(Clone, Copy)]
enum AloneTask {
    Engine(EngineTask),
    Event(EngineEvent),
}

impl From<EngineTask> for AloneTask {
    fn from(task: EngineTask) -> Self {
        Self::Engine(task)
    }
}

impl From<EngineEvent> for AloneTask {
    fn from(event: EngineEvent) -> Self {
        Self::Event(event)
    }
}

impl Program for Alone {
    type Task = AloneTask;
    type Digest = EngineEvent;

    fn declare(&self, ledger: &mut Ledger) {
        self.0.declare(ledger);
    }

    fn generator_keys(&self) -> usize {
        self.0.generator_keys()
    }

    fn packet(
        &mut self,
        pass: &mut Pass<'_, AloneTask, EngineEvent>,
        port: PortId,
        packet: Packet,
    ) {
        let view = View::of(&packet).expect("the tests send whole packets");
        match self.0.sort(port, &view) {
            Sort::Fragment(response) => self.0.fragment(pass, port, response, packet),
            Sort::Lane(lane) => {
                let headers = view.headers();
                self.0.packet(pass, (port, lane), &headers, &packet);
            }
            Sort::Program(_) => {}
            Sort::Drop(reason) => pass.drop(port, reason, &packet),
        }
    }

    fn task(&mut self, pass: &mut Pass<'_, AloneTask, EngineEvent>, task: AloneTask) {
        match task {
            AloneTask::Engine(task) => self.0.task(pass, task),
            AloneTask::Event(event) => pass.digest(event),
        }
    }

    fn generated(&mut self, pass: &mut Pass<'_, AloneTask, EngineEvent>, key: u32) {
        self.0.generated(pass, key);
    }
}

const SWITCH_IP: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 9);
const MTU: u32 = 1024;
const SOURCE: LaneId = LaneId(0);
const TARGET: LaneId = LaneId(1);
const WORD: LaneId = LaneId(2);
const TIMEOUT: Duration = Duration::from_micros(100);
/// PSNs of the two data lanes; the source's wraps within a transfer of four fragments.
const SOURCE_PSN: Psn = Psn::new(Psn::SPACE - 2);
const TARGET_PSN: Psn = Psn::new(700);

fn node_ip(port: u16) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, port as u8 + 1)
}

struct Bench {
    switch: Switch<Alone>,
    memory: Memory,
    now: Instant,
    before: Counters,
}

impl Bench {
    fn new() -> Self {
        let memory = Memory::new(1 << 20);
        let config = EngineConfig {
            lanes: 4,
            timeout: TIMEOUT,
            retries: 2,
            acknowledge_every: 2,
            check: true,
            rewrite: Rewrite::Update,
            mac: MacAddr([9; 6]),
        };
        let mut engine = Engine::new(config, memory.clone()).with_header_checks();
        let word = LaneKind::Word {
            address: 0x9000,
            rkey: Rkey(3),
        };
        let lanes = [
            (SOURCE, LaneKind::Source, SOURCE_PSN, 0),
            (TARGET, LaneKind::Target, TARGET_PSN, 1),
            (WORD, word, Psn::new(50), 0),
        ];
        for (id, kind, psn, port) in lanes {
            let lane = Lane {
                kind,
                port: PortId(port),
                ethernet: Ethernet::new(MacAddr([9; 6]), MacAddr([port as u8; 6])),
                ipv4: Ipv4::new(SWITCH_IP, node_ip(port)),
                udp: Udp::new(0xc000),
                peer_qpn: Qpn(100 + u32::from(id.0)),
                mtu: MTU,
            };
            engine
                .connect(id, Qpn(20 + u32::from(id.0)), psn, lane)
                .unwrap();
        }
        let switch = Switch::load(Alone(engine), Budget::Tofino1, SwitchConfig::default()).unwrap();
        let before = switch.counters().clone();
        Self {
            switch,
            memory,
            now: Instant::ZERO,
            before,
        }
    }

    /// A node sends a packet to the switch's end of a lane.
    fn receive(&mut self, port: u16, lane: LaneId, headers: (Opcode, Psn, Extension), len: usize) {
        let packet = self.packet(port, lane, headers, len);
        self.switch.handle_packet(self.now, PortId(port), packet);
    }

    fn packet(
        &self,
        port: u16,
        lane: LaneId,
        (opcode, psn, extension): (Opcode, Psn, Extension),
        len: usize,
    ) -> Packet {
        let headers = Headers {
            ethernet: Ethernet::new(MacAddr([port as u8; 6]), MacAddr([9; 6])),
            ipv4: Ipv4::new(node_ip(port), SWITCH_IP),
            udp: Udp::new(0xc001),
            bth: Bth::new(opcode, Qpn(20 + u32::from(lane.0)), psn),
            extension,
        };
        let mut packet = headers.packet(Payload::copied(&vec![7; len]));
        assert!(icrc::seal(&mut packet, &self.memory));
        packet
    }

    fn fragment(&mut self, index: u32, opcode: Opcode, len: usize) {
        let extension = match opcode {
            Opcode::ReadResponseMiddle => Extension::None,
            _ => acknowledge(Syndrome::Ack { credits: 31 }),
        };
        self.receive(0, SOURCE, (opcode, SOURCE_PSN.add(index), extension), len);
    }

    fn target_says(&mut self, index: u32, syndrome: Syndrome) {
        let headers = (
            Opcode::Acknowledge,
            TARGET_PSN.add(index),
            acknowledge(syndrome),
        );
        self.receive(1, TARGET, headers, 0);
    }

    fn start(&mut self, length: u32) {
        self.start_checked(length, None);
    }

    fn start_checked(&mut self, length: u32, header: Option<u64>) {
        let start = Start {
            source: SOURCE,
            target: TARGET,
            source_address: 0x1000,
            source_rkey: Rkey(1),
            target_address: 0x2000,
            target_rkey: Rkey(2),
            length,
            cookie: 77,
            header,
        };
        self.switch
            .inject(self.now, EngineTask::Start(start).into());
    }

    /// The packets sent by a port since the last call: header lines without addresses.
    fn sent(&mut self, port: u16) -> Vec<String> {
        let mut sent = Vec::new();
        while let Some(packet) = self.switch.poll_transmit(PortId(port)) {
            assert_eq!(icrc::verify(&packet, &self.memory), icrc::Verdict::Right);
            let headers = Headers::of(&packet).unwrap();
            let bth = headers.bth;
            let ack = if bth.ack_request { " ack" } else { "" };
            let reth = match headers.extension {
                Extension::Reth(r) => format!(" {:#x}+{} key {}", r.address, r.length, r.rkey.0),
                _ => String::new(),
            };
            let len = packet.payload.len();
            sent.push(format!(
                "{:?} {:06x} {len}{ack}{reth}",
                bth.opcode,
                bth.psn.get()
            ));
        }
        sent
    }

    /// All counters that have changed since the last call, so that silent side effects are
    /// detected.
    fn counted(&mut self) -> Vec<(&'static str, u64)> {
        let now = self.switch.counters().clone();
        let changed = now
            .iter()
            .zip(self.before.iter())
            .map(|((name, now), (_, before))| (name, now - before))
            .filter(|&(name, change)| change != 0 && name != "passes" && name != "recirculations")
            .collect();
        self.before = now;
        changed
    }

    fn wait(&mut self, time: Duration) {
        self.now += time;
        self.switch.handle_timeout(self.now);
    }
}

fn acknowledge(syndrome: Syndrome) -> Extension {
    Extension::Aeth(Aeth { syndrome, msn: 1 })
}

const ACK: Syndrome = Syndrome::Ack { credits: 31 };

/// The first word of all payloads here.
const SEVENS: u64 = 0x0707_0707_0707_0707;

#[test]
fn a_checked_transfer_waits_for_its_first_fragment() {
    let mut bench = Bench::new();
    bench.start_checked(3 * MTU, Some(SEVENS));
    bench.sent(0);
    bench.fragment(1, Opcode::ReadResponseMiddle, 1024);
    assert!(bench.sent(1).is_empty(), "nobody knows yet what this is");
    bench.fragment(0, Opcode::ReadResponseFirst, 1024);
    bench.fragment(1, Opcode::ReadResponseMiddle, 1024);
    bench.fragment(2, Opcode::ReadResponseLast, 1024);
    assert_eq!(
        bench.sent(1),
        [
            "WriteFirst 0002bc 1024 0x2000+3072 key 2",
            "WriteMiddle 0002bd 1024 ack",
            "WriteLast 0002be 1024 ack",
        ]
    );
    bench.target_says(2, ACK);
    let done = EngineEvent::Done {
        lane: SOURCE,
        cookie: 77,
    };
    assert_eq!(bench.switch.poll_digest(), Some(done));
}

#[test]
fn wrong_first_bytes_refuse_a_transfer_without_a_trace() {
    let mut bench = Bench::new();
    bench.start_checked(3 * MTU, Some(SEVENS + 1));
    bench.sent(0);
    for (index, opcode) in [
        (0, Opcode::ReadResponseFirst),
        (1, Opcode::ReadResponseMiddle),
        (2, Opcode::ReadResponseLast),
    ] {
        bench.fragment(index, opcode, 1024);
    }
    assert!(bench.sent(1).is_empty());
    let refused = EngineEvent::Refused {
        lane: SOURCE,
        cookie: 77,
    };
    assert_eq!(bench.switch.poll_digest(), Some(refused));
    // The target's lane has not advanced: the next transfer begins with the same PSN.
    bench.start(100);
    assert_eq!(bench.sent(0), ["ReadRequest 000001 0 ack 0x1000+100 key 1"]);
    bench.fragment(3, Opcode::ReadResponseOnly, 100);
    assert_eq!(bench.sent(1), ["WriteOnly 0002bc 100 ack 0x2000+100 key 2"]);
    bench.wait(TIMEOUT);
    assert_eq!(bench.switch.poll_digest(), None, "it was refused once");
}

#[test]
fn a_read_becomes_a_write_fragment_by_fragment() {
    let mut bench = Bench::new();
    bench.start(3 * MTU + 100);
    assert_eq!(
        bench.sent(0),
        ["ReadRequest fffffe 0 ack 0x1000+3172 key 1"]
    );
    // The third overtakes the second; each still becomes the right fragment.
    bench.fragment(0, Opcode::ReadResponseFirst, 1024);
    bench.fragment(2, Opcode::ReadResponseMiddle, 1024);
    bench.fragment(1, Opcode::ReadResponseMiddle, 1024);
    bench.fragment(3, Opcode::ReadResponseLast, 100);
    assert_eq!(
        bench.sent(1),
        [
            "WriteFirst 0002bc 1024 0x2000+3172 key 2",
            "WriteMiddle 0002be 1024",
            "WriteMiddle 0002bd 1024 ack",
            "WriteLast 0002bf 100 ack",
        ]
    );
    bench.target_says(1, ACK);
    assert_eq!(
        bench.switch.poll_digest(),
        None,
        "half of it is no transfer"
    );
    bench.target_says(3, ACK);
    assert_eq!(
        bench.switch.poll_digest(),
        Some(EngineEvent::Done {
            lane: SOURCE,
            cookie: 77
        })
    );
    assert_eq!(bench.counted(), [("packets_in", 6), ("packets_out", 5)]);
    assert_eq!(bench.switch.poll_timeout(), None, "no timer is left");
}

#[test]
fn a_nak_asks_again_from_the_first_fragment_missing() {
    let mut bench = Bench::new();
    bench.start(4 * MTU);
    bench.sent(0);
    bench.target_says(2, Syndrome::Nak(NakCode::SequenceError));
    assert_eq!(
        bench.sent(0),
        ["ReadRequest 000000 0 ack 0x1800+2048 key 1"]
    );
    // The answer begins with First again, but it is the middle of the WRITE.
    bench.fragment(2, Opcode::ReadResponseFirst, 1024);
    bench.fragment(3, Opcode::ReadResponseLast, 1024);
    assert_eq!(
        bench.sent(1),
        ["WriteMiddle 0002be 1024", "WriteLast 0002bf 1024 ack"]
    );
    bench.fragment(1, Opcode::ReadResponseMiddle, 1024);
    assert_eq!(
        bench.counted(),
        [
            ("packets_in", 4),
            ("packets_out", 4),
            ("drop_stale_fragment", 1)
        ],
        "what the target has is not sent again"
    );
}

#[test]
fn silence_is_asked_again_and_then_given_up() {
    let mut bench = Bench::new();
    bench.start(MTU);
    for _ in 0..2 {
        bench.wait(TIMEOUT);
    }
    assert_eq!(bench.sent(0).len(), 3, "once, and again twice");
    bench.wait(TIMEOUT);
    let reason = FailReason::Unreachable;
    assert_eq!(
        bench.switch.poll_digest(),
        Some(EngineEvent::Failed {
            lane: SOURCE,
            cookie: 77,
            blame: SOURCE,
            reason
        })
    );
    bench.fragment(0, Opcode::ReadResponseOnly, 1024);
    assert_eq!(
        bench.counted(),
        [
            ("packets_in", 1),
            ("packets_out", 3),
            ("drop_stale_fragment", 1)
        ]
    );
}

/// The last event of the engine for a transfer that it abandons.
fn given_up(blame: LaneId) -> Option<EngineEvent> {
    Some(EngineEvent::Failed {
        lane: SOURCE,
        cookie: 77,
        blame,
        reason: FailReason::Unreachable,
    })
}

/// `chaos --system flows`, seeds 7004946 and 7019958: the source had been cut off until its last
/// retry, its answer was lost on the path to the target, and the target was given up at once.
#[test]
fn a_source_that_was_silent_for_long_leaves_the_target_its_time() {
    let mut bench = Bench::new();
    bench.start(MTU);
    bench.wait(TIMEOUT);
    bench.wait(TIMEOUT);
    for _ in 0..2 {
        bench.fragment(0, Opcode::ReadResponseOnly, 1024);
        bench.wait(TIMEOUT);
        assert_eq!(bench.switch.poll_digest(), None);
    }
    bench.fragment(0, Opcode::ReadResponseOnly, 1024);
    bench.wait(TIMEOUT);
    assert_eq!(bench.switch.poll_digest(), given_up(TARGET));
}

/// NAKs of the same loss arrived faster than anything could be reissued, and each used a retry.
#[test]
fn a_target_that_says_what_it_misses_is_not_silent() {
    let mut bench = Bench::new();
    bench.start(4 * MTU);
    for _ in 0..10 {
        bench.target_says(0, Syndrome::Nak(NakCode::SequenceError));
        assert_eq!(bench.switch.poll_digest(), None);
    }
    assert_eq!(bench.sent(0).len(), 11);
    for _ in 0..3 {
        assert_eq!(bench.switch.poll_digest(), None);
        bench.wait(TIMEOUT);
    }
    assert_eq!(bench.switch.poll_digest(), given_up(SOURCE));
}

#[test]
fn a_refusal_ends_the_transfer() {
    for (code, reason) in [
        (NakCode::RemoteAccess, FailReason::RemoteAccess),
        (NakCode::RemoteOperation, FailReason::RemoteOperation),
        (NakCode::InvalidRequest, FailReason::InvalidRequest),
    ] {
        let mut bench = Bench::new();
        bench.start(MTU);
        bench.target_says(0, Syndrome::Nak(code));
        let failed = EngineEvent::Failed {
            lane: SOURCE,
            cookie: 77,
            blame: TARGET,
            reason,
        };
        assert_eq!(bench.switch.poll_digest(), Some(failed));
    }
}

#[test]
fn what_belongs_to_nothing_is_dropped_and_counted() {
    let mut bench = Bench::new();
    let fragment = (Opcode::ReadResponseOnly, SOURCE_PSN, acknowledge(ACK));
    let check = |bench: &mut Bench, expect: &'static str| {
        assert_eq!(bench.counted(), [("packets_in", 1), (expect, 1)]);
        assert!(bench.sent(0).is_empty() && bench.sent(1).is_empty());
    };
    bench.receive(0, SOURCE, fragment, 1024);
    check(&mut bench, "drop_stale_fragment");
    bench.target_says(0, ACK);
    check(&mut bench, "drop_stale_acknowledge");
    bench.receive(0, LaneId(3), fragment, 1024);
    check(&mut bench, "drop_unknown_qp");
    bench.receive(1, SOURCE, fragment, 1024);
    check(&mut bench, "drop_stranger");
    bench.receive(
        0,
        WORD,
        (Opcode::ReadResponseOnly, Psn::new(50), acknowledge(ACK)),
        8,
    );
    check(&mut bench, "drop_stale_word");
    bench.receive(
        0,
        WORD,
        (Opcode::ReadResponseOnly, Psn::new(50), acknowledge(ACK)),
        12,
    );
    check(&mut bench, "drop_bad_word");
    bench.receive(1, TARGET, fragment, 16);
    check(&mut bench, "drop_unexpected_opcode");
    bench.start(MTU);
    bench.sent(0);
    bench.counted();
    bench.receive(0, SOURCE, fragment, 1000);
    check(&mut bench, "drop_malformed");
    let mut damaged = bench.packet(
        1,
        TARGET,
        (Opcode::Acknowledge, TARGET_PSN, acknowledge(ACK)),
        0,
    );
    damaged.check = Some([0; 4]);
    bench.switch.handle_packet(bench.now, PortId(1), damaged);
    check(&mut bench, "drop_bad_check");
    assert_eq!(bench.switch.poll_digest(), None, "nobody was told anything");
}

#[test]
fn damage_before_the_switch_stays_damage_behind_it() {
    let mut bench = Bench::new();
    bench.start(MTU);
    bench.sent(0);
    let mut packet = bench.packet(
        0,
        SOURCE,
        (Opcode::ReadResponseOnly, SOURCE_PSN, acknowledge(ACK)),
        1024,
    );
    let mut bytes = packet.payload.to_vec(&bench.memory).unwrap();
    bytes[500] ^= 4;
    packet.payload = Payload::copied(&bytes);
    bench.switch.handle_packet(bench.now, PortId(0), packet);
    let write = bench.switch.poll_transmit(PortId(1)).unwrap();
    assert_eq!(icrc::verify(&write, &bench.memory), icrc::Verdict::Wrong);
}

#[test]
fn words_are_read_and_written_once_each() {
    let mut bench = Bench::new();
    bench
        .switch
        .inject(bench.now, EngineTask::ReadWord(WORD).into());
    assert_eq!(bench.sent(0), ["ReadRequest 000032 0 ack 0x9000+8 key 3"]);
    let answer = (Opcode::ReadResponseOnly, Psn::new(50), acknowledge(ACK));
    bench.receive(0, WORD, answer, 8);
    bench.receive(0, WORD, answer, 8);
    let word = EngineEvent::Word {
        lane: WORD,
        bytes: [7; 8],
    };
    assert_eq!(bench.switch.poll_digest(), Some(word));
    assert_eq!(
        bench.switch.poll_digest(),
        None,
        "the second was a duplicate"
    );
    let write = EngineTask::WriteWords {
        lane: WORD,
        first: [1; 8],
        second: Some([2; 8]),
        cookie: 5,
    };
    bench.switch.inject(bench.now, write.into());
    bench.wait(TIMEOUT);
    let expect = "WriteOnly 000033 16 ack 0x9000+16 key 3";
    assert_eq!(
        bench.sent(0),
        [expect, expect],
        "asked again with the same PSN"
    );
    bench.receive(
        0,
        WORD,
        (Opcode::Acknowledge, Psn::new(51), acknowledge(ACK)),
        0,
    );
    assert_eq!(
        bench.switch.poll_digest(),
        Some(EngineEvent::Written {
            lane: WORD,
            cookie: 5
        })
    );
}

#[test]
fn a_congestion_notification_goes_on_to_who_sends_the_data() {
    let mut bench = Bench::new();
    bench.start(MTU);
    bench.sent(0);
    let cnp = (Opcode::CongestionNotification, Psn::new(0), Extension::Cnp);
    bench.receive(1, TARGET, cnp, 0);
    assert_eq!(bench.sent(0), ["CongestionNotification 000000 0"]);
}
