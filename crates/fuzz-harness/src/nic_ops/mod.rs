//! Two connected NICs: operations of their owners, and faults of the channel between them.
//!
//! Every request has its own range in the memory of both sides. Whatever the faults, a request that
//! completes with success must have written its bytes there, and a failed one may have written
//! some.

mod judge;
mod side;

use crate::input::Input;
use crate::packets;
use rackweave_base::{Duration, Instant, Memory, Packet, Payload, Psn, Rkey};
use rackweave_verbs::{Operation, QpModify, ReceiveRequest, Verbs, WorkRequest};
use rackweave_wire::Headers;
use side::{Kind, PLACE, RECEIVED, REQUESTS_MAX, RESULTS, Request, Side, WORD, WRITTEN};
use std::collections::BTreeMap;

const LATENCY: Duration = Duration::from_micros(1);
/// Maximum rounds until everything posted must have ended, with success or not.
const ROUNDS_MAX: usize = 200_000;

struct World {
    memory: Memory,
    now: Instant,
    sides: [Side; 2],
    flight: BTreeMap<(Instant, u64), (usize, Packet)>,
    sent: u64,
}

/// Reads `data` as a list of operations and faults; then lets both sides finish, and checks.
///
/// # Panics
/// If a NIC is wrong.
pub fn nic_ops(data: &[u8]) {
    let mut input = Input::new(data);
    let Some(mut world) = World::new(&mut input) else {
        return;
    };
    while world.step(&mut input).is_some() {
        world.take_completions();
    }
    world.rest();
    world.judge();
}

impl World {
    fn new(input: &mut Input<'_>) -> Option<Self> {
        let setup = input.byte()?;
        let memory = Memory::new(8 << 20);
        let mut sides = [Side::new(&memory, 1, setup), Side::new(&memory, 2, setup)];
        let peers = [sides[1].peer(), sides[0].peer()];
        let psns = [Psn::SPACE - 5, 0x1234];
        sides[0].connect(peers[0], setup, (psns[0], psns[1]));
        sides[1].connect(peers[1], setup, (psns[1], psns[0]));
        Some(Self {
            memory,
            now: Instant::from_nanos(1_000),
            sides,
            flight: BTreeMap::new(),
            sent: 0,
        })
    }

    fn step(&mut self, input: &mut Input<'_>) -> Option<()> {
        let control = input.byte()?;
        let at = usize::from(control >> 7);
        match control & 15 {
            0..=4 => self.post(at, input)?,
            5 | 6 => self.post_receive(at),
            7 => self.post_wrongly(at, input)?,
            8..=10 => {
                self.move_time();
            }
            11..=14 => self.fault(input)?,
            _ => {
                if input.byte()? == 0xee {
                    self.break_off(at);
                }
            }
        }
        self.transmit();
        Some(())
    }

    fn post(&mut self, at: usize, input: &mut Input<'_>) -> Option<()> {
        let (kind, flags) = (input.byte()?, input.byte()?);
        let (offset, len) = (input.half()?, input.half()?);
        let [own, peer] = self.sides_of(at);
        if own.requests.len() == REQUESTS_MAX {
            return Some(());
        }
        let id = own.requests.len();
        let (offset, mut len) = (usize::from(offset) % PLACE, usize::from(len) % (PLACE + 1));
        let place = (id * PLACE) as u64;
        let from_source = own.source.segment(offset as u64, len as u32);
        let (kind, operation, segment) = match kind & 3 {
            0 => (Kind::Send, Operation::Send { immediate: None }, from_source),
            1 => {
                let address = peer.target.address + WRITTEN as u64 + place;
                let rkey = peer.target.rkey;
                let immediate = None;
                let operation = Operation::Write {
                    address,
                    rkey,
                    immediate,
                };
                (Kind::Write, operation, from_source)
            }
            2 => {
                let address = peer.source.address + offset as u64;
                let rkey = peer.source.rkey;
                let segment = own.target.segment(RESULTS as u64 + place, len as u32);
                (Kind::Read, Operation::Read { address, rkey }, segment)
            }
            _ => {
                len = 8;
                let address = peer.target.address + WORD as u64;
                let rkey = peer.target.rkey;
                let segment = own.target.segment(RESULTS as u64 + place, 8);
                let add = 1;
                (
                    Kind::Add,
                    Operation::FetchAdd { address, rkey, add },
                    segment,
                )
            }
        };
        let mut request = WorkRequest::new(id as u64, operation, &[segment]);
        request.fence = flags & 1 != 0;
        if own.nic.post_send(own.qpn, request).is_err() {
            return Some(());
        }
        own.adds_posted += u64::from(matches!(kind, Kind::Add));
        if matches!(kind, Kind::Send) {
            peer.messages.push((offset, len));
        }
        own.requests.push(Request { kind, offset, len });
        own.open.push_back(id);
        Some(())
    }

    fn post_receive(&mut self, at: usize) {
        let side = &mut self.sides[at];
        let id = side.receives_posted;
        if id == REQUESTS_MAX {
            return;
        }
        let segment = side
            .target
            .segment((RECEIVED + id * PLACE) as u64, PLACE as u32);
        let request = ReceiveRequest::new(id as u64, &[segment]);
        side.receives_posted += usize::from(side.nic.post_receive(side.qpn, request).is_ok());
    }

    /// Posts a request that no NIC may execute. It ends the connection if it is posted at all.
    fn post_wrongly(&mut self, at: usize, input: &mut Input<'_>) -> Option<()> {
        let (kind, value) = (input.byte()?, input.word()?);
        if kind & 0x80 == 0 {
            // Most inputs keep the connection.
            return Some(());
        }
        let [own, peer] = self.sides_of(at);
        if own.requests.len() == REQUESTS_MAX {
            return Some(());
        }
        let id = own.requests.len();
        let offset = u64::from(value).max(1);
        let (address, rkey) = match kind & 3 {
            0 => (peer.target.address, Rkey(value | 1)),
            1 => (
                peer.source.address + 2 * PLACE as u64 - 1 + offset,
                peer.source.rkey,
            ),
            2 => (peer.source.address.wrapping_sub(offset), peer.source.rkey),
            // The source may be read, not written.
            _ => (peer.source.address, peer.source.rkey),
        };
        if rkey == peer.target.rkey {
            return Some(());
        }
        let segment = own.source.segment(0, 64);
        let operation = Operation::Write {
            address,
            rkey,
            immediate: None,
        };
        let request = WorkRequest::new(id as u64, operation, &[segment]);
        if own.nic.post_send(own.qpn, request).is_ok() {
            own.requests.push(Request {
                kind: Kind::Write,
                offset: usize::MAX,
                len: 64,
            });
            own.open.push_back(id);
        }
        Some(())
    }

    fn break_off(&mut self, at: usize) {
        let side = &mut self.sides[at];
        let _ = side.nic.modify_qp(side.qpn, QpModify::Error);
    }

    /// Applies a fault to the packet that would arrive next.
    fn fault(&mut self, input: &mut Input<'_>) -> Option<()> {
        let (kind, value) = (input.byte()?, input.half()?);
        let nth = usize::from(kind >> 4) % self.flight.len().max(1);
        let Some(&key) = self.flight.keys().nth(nth) else {
            return Some(());
        };
        let (to, packet) = self.flight.remove(&key).expect("it is there");
        let later = self.now + Duration::from_nanos(u64::from(value) * 8);
        match kind & 3 {
            0 => {}
            1 => {
                self.send(to, packet.clone(), later);
                self.flight.insert(key, (to, packet));
            }
            2 => self.send(to, packet, later),
            _ => {
                let packet = packets::damaged(&packet, &self.memory, value);
                self.flight.insert(key, (to, packet));
            }
        }
        Some(())
    }

    fn transmit(&mut self) {
        for at in 0..2 {
            while let Some(packet) = self.sides[at].nic.poll_transmit(self.now) {
                assert!(Headers::of(&packet).is_ok(), "what is sent is well-formed");
                let arrival = self.now + LATENCY;
                self.send(1 - at, packet, arrival);
            }
        }
    }

    fn send(&mut self, to: usize, mut packet: Packet, arrival: Instant) {
        // A link that leaves the process serialises: a packet that is sent again later is
        // unchanged.
        if let Payload::Region(_) = packet.payload {
            packet = packets::copied(&packet, &self.memory);
            if packet.check.is_none() {
                packets::seal(&mut packet, &self.memory);
            }
        }
        self.sent += 1;
        self.flight.insert((arrival, self.sent), (to, packet));
    }

    /// Advances to the next event. False if there is none.
    fn move_time(&mut self) -> bool {
        let arrival = self.flight.keys().next().map(|key| key.0);
        let timers = self.sides.iter().map(|side| side.nic.poll_timeout());
        let Some(next) = timers.flatten().chain(arrival).min() else {
            return false;
        };
        self.now = self.now.max(next);
        while let Some(entry) = self.flight.first_entry()
            && entry.key().0 <= self.now
        {
            let (to, packet) = entry.remove();
            self.sides[to].nic.handle_packet(self.now, packet);
        }
        for side in &mut self.sides {
            side.nic.handle_timeout(self.now);
        }
        true
    }

    fn rest(&mut self) {
        for _ in 0..ROUNDS_MAX {
            self.transmit();
            let moved = self.move_time();
            self.take_completions();
            if !moved {
                return;
            }
        }
        panic!("the two do not come to rest");
    }

    /// The side at `at` first, then its peer.
    fn sides_of(&mut self, at: usize) -> [&mut Side; 2] {
        let [a, b] = &mut self.sides;
        if at == 0 { [a, b] } else { [b, a] }
    }
}
