//! A switch that leads queries through a B+tree, and packets from arbitrary senders.
//!
//! Host 0 is the attacker, host 1 has queue pairs with the servers, which are hosts 2 and 3. Behind
//! port 5 is another switch, and host 4 behind that. The switch must treat every packet as `model`
//! says, which walks the `tree` in plain loops: so a packet of an unconnected sender changes no
//! table and no other sender's packet.

mod model;
mod tree;

use crate::fixture::{self, Seeds};
use crate::input::Input;
use crate::packets;
use crate::rack::{self, host};
use model::Fate;
use rackweave_base::{Instant, Memory, Packet, Payload, PortId, Psn, Rkey};
use rackweave_programs::flows::FlowConfig;
use rackweave_programs::index::{IndexConfig, IndexCounters, NO_SLOT};
use rackweave_programs::{Pipeline, PipelineConfig};
use rackweave_switch::{Budget, DropReason, Switch, SwitchConfig};
use rackweave_wire::fabric::lookup::{self, Ask};
use rackweave_wire::fabric::query::{self, Kind, Progress};
use rackweave_wire::icrc;
use rackweave_wire::{
    Bth, Datagram, Ethernet, Extension, Headers, Ipv4, Opcode, Reth, Rewrite, Udp,
};
use tree::{QPN, RKEY, ROOT, SHIFT, base, set_up};

const ATTACKER: usize = 0;
const CLIENT: usize = 1;
/// The first of two.
const SERVER: usize = 2;
const HOSTS: usize = 5;
/// The port to the other switch.
const TRUNK: u16 = 5;
/// Steps, each a byte with its kind in bits 0 to 2.
///
/// # Panics
/// If the switch treats a packet other than the model says.
pub fn index(data: &[u8]) {
    let mut input = Input::new(data);
    let mut fuzzed = Fuzzed::new();
    while fuzzed.step(&mut input).is_some() {}
    fuzzed.activate(true);
    for server in [SERVER, SERVER + 1] {
        for key in [0, 99, 100, 999, 1000, u64::MAX] {
            fuzzed.honest(0, server, key);
        }
    }
}

struct Fuzzed {
    switch: Switch<Pipeline>,
    memory: Memory,
    is_active: bool,
}

impl Fuzzed {
    fn new() -> Self {
        let memory = Memory::new(1 << 12);
        let config = PipelineConfig {
            flows: FlowConfig {
                threads: 0,
                producers: 0,
            },
            index: IndexConfig {
                queries: 8,
                servers: 4,
                fat_ranges: 8,
                first_layer: 1,
                layers: 1,
                nodes: 8,
                first_stage: 0,
            },
            ..rack::pipeline_config(Rewrite::Update)
        };
        let program = Pipeline::new(&config, memory.clone());
        let size = SwitchConfig {
            ports: 8,
            ..SwitchConfig::default()
        };
        let switch = Switch::load(program, Budget::Tofino2, size).expect("it fits");
        let mut fuzzed = Self {
            switch,
            memory,
            is_active: false,
        };
        for number in 0..HOSTS {
            let port = if number == 4 { TRUNK } else { number as u16 };
            let forward = &mut fuzzed.switch.program_mut().forward;
            let added = forward.add_host(host(number).mac, PortId(port));
            added.expect("capacity");
        }
        set_up(&mut fuzzed.switch.program_mut().index);
        fuzzed.activate(true);
        fuzzed
    }

    fn activate(&mut self, is_active: bool) {
        let bank = is_active.then_some(0);
        let index = &mut self.switch.program_mut().index;
        index.set_active(bank).expect("there are two banks");
        self.is_active = is_active;
    }

    fn step(&mut self, input: &mut Input<'_>) -> Option<()> {
        let control = input.byte()?;
        let value = control >> 3;
        let server = SERVER + usize::from(value & 1);
        match control & 7 {
            0 => self.honest(value >> 1, server, key(input)?),
            1 => self.activate(value & 1 != 0),
            // The attacker, and a host behind the other switch.
            2 | 3 => {
                let base = self.packet(value >> 1, (ATTACKER, server), key(input)?);
                let packet = self.altered(base, input)?;
                self.check(ATTACKER as u16, packet);
            }
            4 => {
                let packet = self.packet(value >> 1, (4, server), key(input)?);
                let packet = match value >> 3 {
                    0 | 1 => self.altered(packet, input)?,
                    _ => self.carried(packet, input)?,
                };
                self.check(TRUNK, packet);
            }
            5 => {
                let base = self.packet(value >> 1, (CLIENT, server), key(input)?);
                let packet = self.altered(base, input)?;
                self.check(CLIENT as u16, packet);
            }
            // To a host that is no server.
            6 => {
                let target = input.below(HOSTS)?;
                let packet = self.packet(value >> 1, (ATTACKER, target), key(input)?);
                self.check(ATTACKER as u16, packet);
            }
            _ => {
                let len = usize::from(input.half()?);
                let packet = packets::raw(input.bytes(len));
                self.check(ATTACKER as u16, packet);
            }
        }
        Some(())
    }

    /// An unharmed packet of the client reaches its server.
    fn honest(&mut self, kind: u8, server: usize, key: u64) {
        let port = if kind % 4 == 2 { TRUNK } else { CLIENT as u16 };
        let packet = self.packet(kind, (CLIENT, server), key);
        let (out, _) = self.check(port, packet).expect("it goes on");
        assert_eq!(out, server as u16);
    }

    /// By kind: a query by READ, one over UDP, a query that another switch sent on, a READ.
    fn packet(&self, kind: u8, (from, to): (usize, usize), key: u64) -> Packet {
        let (from, to) = (host(from), host(to));
        let ethernet = Ethernet::new(from.mac, to.mac);
        if kind % 4 == 1 {
            let mut asked = Vec::new();
            Ask::Get { key }.emit(5, 6, &mut asked);
            let datagram = Datagram {
                ethernet,
                ipv4: Ipv4::new(from.ip, to.ip),
                source_port: 49152,
                target_port: lookup::PORT,
                checksum: 0,
                carried: asked.len(),
            };
            let packet = datagram.packet(&asked, |rest| Some(Payload::copied(rest)));
            return packet.expect("the payload is kept");
        }
        let headers = Headers {
            ethernet,
            ipv4: Ipv4::new(from.ip, to.ip),
            udp: Udp::new(0xc0de),
            bth: Bth::new(Opcode::ReadRequest, QPN, Psn::new(4711)),
            extension: Extension::Reth(Reth {
                address: key,
                rkey: if kind % 4 == 3 { RKEY } else { Rkey(0) },
                length: 1 << SHIFT,
            }),
        };
        let mut packet = headers.packet(Payload::Empty);
        packets::seal(&mut packet, &self.memory);
        if kind % 4 == 2 {
            let server = u16::from(to.ip == host(SERVER + 1).ip);
            let attached = query::attach(&mut packet, &self.start(server, false));
            attached.expect("there is space");
        }
        packet
    }

    /// Changes up to three bytes; bit 2 of the first byte has the checksums corrected.
    fn altered(&self, mut packet: Packet, input: &mut Input<'_>) -> Option<Packet> {
        let changes = input.byte()?;
        packets::alter(&mut packet, usize::from(changes & 3), input)?;
        if changes & 4 != 0 {
            packets::restore(&mut packet, &self.memory);
        }
        if changes & 8 != 0 {
            packet.check = None;
        }
        Some(packet)
    }

    /// A query with the progress that the input says.
    fn carried(&self, mut packet: Packet, input: &mut Input<'_>) -> Option<Packet> {
        let (flags, level, slot) = (input.byte()?, input.byte()?, input.byte()?);
        let progress = Progress {
            is_lookup: query::sort(packet.header()) == Some(Kind::Lookup),
            fat_root_met: flags & 1 != 0,
            bank: flags >> 1 & 1,
            hops: flags >> 2 & query::HOPS_MAX,
            layer: level % query::LEVELS_END,
            depth: level >> 4,
            slot: if slot < 8 { slot.into() } else { NO_SLOT },
            server: u16::from(flags >> 5 & 3),
            node: input.byte()?.into(),
        };
        // A second header damages a progress that is already attached.
        let _carried = query::attach(&mut packet, &progress);
        Some(packet)
    }

    /// The start of a query at this switch.
    fn start(&self, server: u16, is_lookup: bool) -> Progress {
        Progress {
            is_lookup,
            fat_root_met: !self.is_active,
            bank: 0,
            hops: 0,
            layer: 0,
            depth: 0,
            slot: NO_SLOT,
            server,
            node: ROOT,
        }
    }

    /// Passes a packet to the switch, and checks the result against the model.
    fn check(&mut self, port: u16, packet: Packet) -> Option<(u16, Packet)> {
        let expected = self.expect(port, &packet);
        let (counters, drops) = (self.counters(), self.drops());
        let now = Instant::ZERO;
        self.switch.handle_packet(now, PortId(port), packet.clone());
        let out: Vec<_> = (0..self.switch.ports())
            .filter_map(|at| Some((at, self.switch.poll_transmit(PortId(at))?)))
            .collect();
        let dropped = drops.into_iter().zip(self.drops());
        let dropped = dropped.filter(|(before, after)| before != after);
        let dropped: Vec<_> = dropped.map(|((reason, _), _)| reason).collect();
        assert!(out.len() + dropped.len() <= 1, "{dropped:?}");
        let mut now = self.counters();
        match expected {
            Fate::Own => {}
            Fate::Forwarded => {
                if let [(_, out)] = &out[..] {
                    assert_eq!(self.bytes(out), self.bytes(&packet));
                }
                // A query to a host that is no server.
                now.unknown_server = counters.unknown_server;
                assert_eq!(now, counters, "a packet that is no query is counted");
            }
            Fate::Dropped(reason) => {
                assert_eq!(dropped, [reason]);
                match reason {
                    DropReason::IndexForged => now.forged -= 1,
                    DropReason::IndexUnknownPair if port != TRUNK => now.unknown_pair -= 1,
                    // The walk has been counted before.
                    _ => now = counters,
                }
                assert_eq!(now, counters, "{reason:?} counts something else");
            }
            Fate::Sent(at, bytes) => {
                let [(found, out)] = &out[..] else {
                    panic!("{dropped:?}");
                };
                assert_eq!((*found, self.bytes(out)), (at, bytes));
            }
            Fate::Led(at, progress) => {
                let [(found, out)] = &out[..] else {
                    panic!("{dropped:?}");
                };
                assert_eq!(*found, at);
                self.check_led(at, (&packet, out.clone()), &progress);
            }
        }
        out.into_iter().next()
    }

    /// A READ names the tree node and is otherwise unchanged; the same for the other switch.
    fn check_led(&self, port: u16, (asked, mut led): (&Packet, Packet), progress: &Progress) {
        let mut asked = asked.clone();
        if query::sort(asked.header()) == Some(Kind::Carried) {
            query::detach(&mut asked).expect("it was led");
        }
        if port == TRUNK {
            let found = query::detach(&mut led).expect("it says how far it has come");
            assert_eq!((found.node, found.server), (progress.node, progress.server));
            assert_eq!((found.hops, found.fat_root_met), (progress.hops + 1, true));
        }
        let mut expected = Headers::of(&asked).expect("it was led");
        expected.udp.checksum = 0;
        if port != TRUNK
            && let Extension::Reth(reth) = &mut expected.extension
        {
            let offset = u64::from(progress.node) << SHIFT;
            reth.address = base(progress.server).wrapping_add(offset);
            reth.rkey = RKEY;
        }
        assert_eq!(Headers::of(&led), Ok(expected));
        assert_eq!(led.pad(), asked.pad());
        let payload = |packet: &Packet| packet.payload.to_vec(&self.memory);
        assert_eq!(payload(&led), payload(&asked));
        let verdict = |packet: &Packet| icrc::verify(packet, &self.memory);
        assert_eq!(verdict(&led), verdict(&asked), "the check value");
    }

    fn counters(&self) -> IndexCounters {
        self.switch.program().index.counters()
    }

    fn drops(&self) -> Vec<(DropReason, u64)> {
        fixture::drops(self.switch.counters())
    }

    fn bytes(&self, packet: &Packet) -> Vec<u8> {
        let mut bytes = Vec::new();
        assert!(packet.serialise(&self.memory, &mut bytes));
        bytes
    }
}

/// A key near the ends of tree nodes, or any: two bytes, and in the second case eight.
fn key(input: &mut Input<'_>) -> Option<u64> {
    let near = input.half()?;
    match near >> 12 {
        0..=13 => Some(u64::from(near % 1200)),
        14 => Some(u64::MAX - u64::from(near & 0xfff)),
        _ => Some(u64::from(input.word()?) << 32 | u64::from(input.word()?)),
    }
}

/// The initial inputs of the corpus.
pub fn seeds() -> Seeds {
    let mut seeds = Vec::new();
    for (name, sender) in [("honest", 0), ("altered", 2), ("trunk", 4), ("stranger", 6)] {
        let mut story = Vec::new();
        for (kind, key) in [
            (0, 50),
            (1, 150),
            (2, 1100),
            (3, 50),
            (0, 1100),
            (1, 50_u16),
        ] {
            story.push(kind << 4 | sender);
            if sender == 6 {
                story.push(4);
            }
            story.extend(key.to_le_bytes());
            if sender == 2 || sender == 4 {
                story.extend([5, 41, 1]);
            }
        }
        seeds.push((name.to_owned(), story));
    }
    for (name, kind) in [("carried-read", 0x80), ("carried-lookup", 0x90)] {
        // At layer 1, at the last hop, for the other server, and before the fat root.
        let flags = [1, 29, 33, 0];
        let queries = flags.map(|flags| [kind | 4, 50, 0, flags, 0x11, 5, 10]);
        seeds.push((name.to_owned(), queries.concat()));
    }
    seeds.push(("inactive".to_owned(), vec![1, 0, 50, 0, 9, 0, 50, 0]));
    seeds
}
