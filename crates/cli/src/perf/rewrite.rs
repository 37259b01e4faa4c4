//! The test `rewrite`: READ responses go through the whole pipeline of a switch, without a rack,
//! and come out as WRITEs with a valid ICRC.

use super::test_run::TestRun;
use crate::measure::{per_second, ratio};
use crate::outcome::CliError;
use crate::switch_shape::{self, SWITCH_MAC};
use rackweave_base::{Block, Instant, MacAddr, Memory, Packet, Payload, PortId, Psn, Qpn, Rkey};
use rackweave_programs::{Pipeline, Task};
use rackweave_rack::{Address, RackConfig};
use rackweave_switch::transfer::{EngineTask, Lane, LaneId, LaneKind, Start};
use rackweave_switch::{Budget, Switch, SwitchConfig};
use rackweave_wire::{
    Aeth, Bth, Ethernet, Extension, Headers, Ipv4, Opcode, Reth, Syndrome, Udp, Verdict as Check,
    icrc,
};
use serde_json::{Value, json};
use std::hint::black_box;
use std::net::Ipv4Addr;

/// Fragments of the transfer, whose responses are rewritten repeatedly.
const FRAGMENTS: u32 = 64;

/// Packets between two readings of the clock.
const BATCH: u64 = 64 * FRAGMENTS as u64;

/// Measurements of each size, in turn; the best of each counts, because disturbances only slow
/// down.
const TURNS: u32 = 8;

const SWITCH_IP: Ipv4Addr = Address::SWITCH.ip;
const SWITCH_QPN: [Qpn; 2] = [Qpn(0x100), Qpn(0x101)];

/// A switch in the middle of a transfer, and the responses that it waits for.
struct Bench {
    switch: Switch<Pipeline>,
    memory: Memory,
    responses: Vec<Packet>,
    /// Memory that the responses refer to; they are void without it.
    source: Option<Block>,
}

fn node_mac(node: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, node + 1])
}

fn node_ip(node: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, 0, node + 1)
}

fn lane(node: u8, kind: LaneKind, mtu: u32) -> Lane {
    Lane {
        kind,
        port: PortId(u16::from(node)),
        ethernet: Ethernet::new(SWITCH_MAC, node_mac(node)),
        ipv4: Ipv4::new(SWITCH_IP, node_ip(node)),
        udp: Udp::new(0xc000),
        peer_qpn: Qpn(0x200 + u32::from(node)),
        mtu,
    }
}

/// The fragment `index` of the reply to `read`.
fn response(read: &Headers, index: u32, payload: Payload) -> Packet {
    let opcode = match index {
        0 => Opcode::ReadResponseFirst,
        index if index + 1 == FRAGMENTS => Opcode::ReadResponseLast,
        _ => Opcode::ReadResponseMiddle,
    };
    let aeth = Aeth {
        syndrome: Syndrome::Ack { credits: 31 },
        msn: 1,
    };
    let headers = Headers {
        ethernet: Ethernet::new(node_mac(0), SWITCH_MAC),
        ipv4: Ipv4::new(node_ip(0), SWITCH_IP),
        udp: Udp::new(0xc001),
        bth: Bth::new(opcode, SWITCH_QPN[0], read.bth.psn.add(index)),
        extension: match opcode {
            Opcode::ReadResponseMiddle => Extension::None,
            _ => Extension::Aeth(aeth),
        },
    };
    headers.packet(payload)
}

impl Bench {
    fn new(config: &RackConfig, mtu: u32) -> Result<Self, CliError> {
        let memory = Memory::new(64 << 20);
        let pipeline = switch_shape::pipeline_config(config);
        let program = Pipeline::new(&pipeline, memory.clone());
        let size = SwitchConfig {
            ports: 2,
            ..SwitchConfig::default()
        };
        let budget = Budget::Software { bytes: usize::MAX };
        let switch = Switch::load(program, budget, size)?;
        let mut bench = Self {
            switch,
            memory,
            responses: Vec::new(),
            source: None,
        };
        bench.start(mtu)?;
        Ok(bench)
    }

    /// Starts the transfer and builds the replies to the resulting READ.
    fn start(&mut self, mtu: u32) -> Result<(), CliError> {
        let block = self.memory.allocate((mtu * FRAGMENTS) as usize)?;
        block.write(
            0,
            &(0..mtu * FRAGMENTS)
                .map(|at| (at % 251) as u8)
                .collect::<Vec<_>>(),
        );
        let engine = &mut self.switch.program_mut().engine;
        let (source, target) = (LaneId(0), LaneId(1));
        for (id, kind) in [(source, LaneKind::Source), (target, LaneKind::Target)] {
            let at = usize::from(id.0);
            let lane = lane(id.0 as u8, kind, mtu);
            engine.connect(id, SWITCH_QPN[at], Psn::new(7), lane)?;
        }
        let start = Start {
            source,
            target,
            source_address: 0x1000,
            source_rkey: Rkey(1),
            target_address: 0x2000,
            target_rkey: Rkey(2),
            length: mtu * FRAGMENTS,
            cookie: 0,
            header: None,
        };
        self.switch
            .inject(Instant::ZERO, Task::Engine(EngineTask::Start(start)));
        let read = self.switch.poll_transmit(PortId(0));
        let read = read.ok_or_else(|| CliError::run("the switch sends no READ"))?;
        let read = Headers::of(&read)?;
        for index in 0..FRAGMENTS {
            let payload = block.reference(u64::from(index * mtu), mtu);
            let payload = Payload::Region(payload.expect("the block is as long as the transfer"));
            let mut packet = response(&read, index, payload);
            assert!(
                icrc::seal(&mut packet, &self.memory),
                "the payload is at hand"
            );
            self.responses.push(packet);
        }
        self.source = Some(block);
        Ok(())
    }

    /// Passes one packet through the switch. Nothing is ever acknowledged, so the transfer
    /// continues.
    fn pass(&mut self, at: u64) -> Option<Packet> {
        let packet = self.responses[(at % u64::from(FRAGMENTS)) as usize].clone();
        self.switch
            .handle_packet(Instant::from_nanos(at), PortId(0), packet);
        self.switch.poll_transmit(PortId(1))
    }

    /// Whether every response comes out as the expected WRITE, with the right ICRC.
    fn verify(&mut self) -> bool {
        (0..u64::from(FRAGMENTS)).all(|at| {
            let Some(packet) = self.pass(at) else {
                return false;
            };
            let Ok(headers) = Headers::of(&packet) else {
                return false;
            };
            let is_write = match at {
                0 => matches!(
                    headers.extension,
                    Extension::Reth(Reth {
                        address: 0x2000,
                        ..
                    })
                ),
                _ => matches!(headers.bth.opcode, Opcode::WriteMiddle | Opcode::WriteLast),
            };
            is_write && icrc::verify(&packet, &self.memory) == Check::Right
        })
    }

    /// Nanoseconds per packet over `span`.
    fn measure(&mut self, span: std::time::Duration) -> f64 {
        let start = std::time::Instant::now();
        let mut packets = 0;
        while start.elapsed() < span {
            for at in 0..BATCH {
                black_box(self.pass(at));
            }
            packets += BATCH;
        }
        start.elapsed().as_nanos() as f64 / packets as f64
    }
}

/// Runs the test.
///
/// # Errors
/// If the configuration is invalid.
pub fn measure(test: &mut TestRun<'_>) -> Result<Value, CliError> {
    test.steps = TURNS;
    let span = test.part(2.0, 2 * TURNS);
    let sizes = [256, 4096];
    let mut benches = sizes
        .map(|mtu| Bench::new(&test.config, mtu))
        .into_iter()
        .collect::<Result<Vec<_>, _>>()?;
    test.verified = benches.iter_mut().all(Bench::verify);
    let mut best = [f64::INFINITY; 2];
    for _ in 0..TURNS {
        for (bench, best) in benches.iter_mut().zip(&mut best) {
            *best = best.min(bench.measure(span));
        }
        test.step(true);
        if test.is_interrupted() {
            break;
        }
    }
    let cost = |(payload_bytes, &ns_per_packet): (&u32, &f64)| {
        json!({
            "payload_bytes": payload_bytes,
            "packets_per_s": per_second(1_000_000, (ns_per_packet * 1e6) as u64),
            "ns_per_packet": ns_per_packet,
        })
    };
    let costs: Vec<_> = sizes.iter().zip(&best).map(cost).collect();
    let method = switch_shape::icrc_method(&test.config);
    Ok(json!({
        "method": method,
        "sizes": costs,
        "ratio": ratio(best[1], best[0]),
    }))
}
