//! READ responses whose bytes are read from memory line by line, in any order.
//!
//! A NIC reads the bytes of a READ response over PCIe, in transactions that may be answered in any
//! order; only a cache line is guaranteed to be read whole. Here each line of 64 bytes is read at a
//! time of its own, drawn uniformly from the duration of the NIC's read
//! ([`NicModel::memory_read_latency`](crate::NicModel::memory_read_latency)), and it contains the
//! changes that the node's cores and its NIC made to memory before that time. So a reader gets
//! every mix of old and new lines that hardware could give it, and has to detect it.
//!
//! Nothing is copied before it has to be: lines whose time has come are read when memory is about
//! to change. A later request of the same peer that may change memory is ordered after its READ
//! (InfiniBand specification 1.4, 9.7.4), so the lines of that READ are read before it.

use crate::wire_link;
use core::ops::RangeInclusive;
use rackweave_base::{BlockRef, Duration, Instant, Memory, Packet, Payload, Rng};
use rackweave_wire::icrc;
use std::collections::VecDeque;

/// How NICs read the bytes of READ responses.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum ReadLines {
    /// All at the time at which the response is made.
    #[default]
    AtOnce,
    /// Each cache line at a time of its own; see the documentation of `world::lines`.
    AnyOrder,
}

/// Bytes that are read atomically.
const LINE_BYTES: u32 = 64;

/// Opcodes of requests that carry bytes or change a word: SEND, WRITE, atomics (InfiniBand
/// specification 1.4, table 38).
const CARRYING: [RangeInclusive<u8>; 3] = [0x00..=0x0b, 0x13..=0x14, 0x16..=0x17];

/// Packets leaving a NIC whose bytes are still being read, and those behind them.
#[derive(Default)]
pub(super) struct Outgoing {
    packets: VecDeque<Leaving>,
}

struct Leaving {
    /// When it enters the link.
    enters: Instant,
    packet: Packet,
    lines: Option<Lines>,
}

struct Lines {
    source: BlockRef,
    bytes: Vec<u8>,
    /// Lines not read yet, the last first: time and range of the source.
    due: Vec<(Instant, u32, u32)>,
    /// The source has been deregistered.
    gone: bool,
}

impl Lines {
    /// The lines of `source`, each to be read at a time between `now` and `now + within`.
    fn new(source: BlockRef, now: Instant, within: Duration, rng: &mut Rng) -> Self {
        let (mut due, mut at) = (Vec::new(), 0);
        while at < source.len() {
            let into_line = ((source.offset() + u64::from(at)) % u64::from(LINE_BYTES)) as u32;
            let len = (LINE_BYTES - into_line).min(source.len() - at);
            let moment = now + Duration::from_nanos(rng.between(0, within.as_nanos()));
            due.push((moment, at, len));
            at += len;
        }
        due.sort_unstable_by(|a, b| b.cmp(a));
        Self {
            source,
            bytes: vec![0; source.len() as usize],
            due,
            gone: false,
        }
    }

    /// Reads the lines that are due by `until`.
    fn read(&mut self, memory: &Memory, until: Instant) {
        while let Some(&(moment, at, len)) = self.due.last()
            && moment <= until
        {
            self.due.pop();
            let target = &mut self.bytes[at as usize..][..len as usize];
            self.gone |= !memory.read(self.source.part(at, len), target);
        }
    }
}

impl Leaving {
    /// The packet with the bytes that were read; `None` if they are gone.
    fn finish(mut self, memory: &Memory) -> Option<Packet> {
        let Some(mut lines) = self.lines else {
            return Some(self.packet);
        };
        lines.read(memory, Instant::FAR_FUTURE);
        if lines.gone {
            return None;
        }
        self.packet.payload = Payload::copied(&lines.bytes);
        if self.packet.check.is_some() {
            let sealed = icrc::seal(&mut self.packet, memory);
            debug_assert!(sealed, "the payload is at hand");
        }
        Some(self.packet)
    }
}

impl Outgoing {
    /// Takes a packet that enters the link at `enters`, if its lines are to be read or others are
    /// before it; otherwise returns it.
    pub(super) fn take(
        &mut self,
        now: Instant,
        within: Duration,
        enters: Instant,
        packet: Packet,
        rng: &mut Rng,
    ) -> Option<Packet> {
        let lines = match packet.payload {
            Payload::Region(source) if packet.fragments() == 1 => {
                Some(Lines::new(source, now, within, rng))
            }
            _ => None,
        };
        if lines.is_none() && self.packets.is_empty() {
            return Some(packet);
        }
        self.packets.push_back(Leaving {
            enters,
            packet,
            lines,
        });
        None
    }

    /// Called before memory changes.
    #[inline]
    pub(super) fn before_change(&mut self, memory: &Memory, now: Instant) {
        for leaving in &mut self.packets {
            if let Some(lines) = &mut leaving.lines {
                lines.read(memory, now);
            }
        }
    }

    /// Called before the NIC handles a packet.
    #[inline]
    pub(super) fn before_packet(&mut self, memory: &Memory, now: Instant, packet: &Packet) {
        if self.packets.is_empty() {
            return;
        }
        self.before_change(memory, now);
        let opcode = wire_link::opcode(packet.header());
        let carries = |opcode| CARRYING.iter().any(|range| range.contains(&opcode));
        if !opcode.is_some_and(carries) {
            return;
        }
        let peer = wire_link::addresses(packet.header()).map(|[source, _]| source);
        for leaving in &mut self.packets {
            let target = wire_link::addresses(leaving.packet.header()).map(|[_, target]| target);
            if let Some(lines) = &mut leaving.lines
                && target == peer
            {
                lines.read(memory, Instant::FAR_FUTURE);
            }
        }
    }

    /// When the next packet enters the link.
    pub(super) fn next_at(&self) -> Option<Instant> {
        self.packets.front().map(|leaving| leaving.enters)
    }

    /// The next packet that enters the link by `now`, and when.
    pub(super) fn leave(&mut self, memory: &Memory, now: Instant) -> Option<(Instant, Packet)> {
        loop {
            if self.next_at()? > now {
                return None;
            }
            let leaving = self.packets.pop_front()?;
            let enters = leaving.enters;
            // Treated as lost: its sender deregistered the source.
            if let Some(packet) = leaving.finish(memory) {
                return Some((enters, packet));
            }
        }
    }

    /// Drops everything.
    pub(super) fn clear(&mut self) {
        self.packets.clear();
    }
}
