//! The engine's passes: what each packet and task does with the registers.

use super::registers::{HEARD_AT, RETRIES, Registers};
use super::{
    EngineConfig, EngineEvent, EngineTask, FailReason, Lane, LaneId, LaneKind, Start, emit,
};
use crate::budget::Ledger;
use crate::counters::DropReason;
use crate::pass::Pass;
use crate::table::{Direct, Exact, TableError};
use rackweave_base::canary::{Canary, planted};
use rackweave_base::{Duration, Instant, Memory, Packet, PortId, Psn, Qpn, Rkey};
use rackweave_wire::{Extension, Headers, Opcode, Reth, icrc};

/// Moves bytes between lanes.
pub struct Engine {
    pub(super) config: EngineConfig,
    pub(super) memory: Memory,
    pub(super) registers: Registers,
    /// Queue pair number of the switch to lane.
    lane_of: Exact<LaneId>,
    pub(super) lanes: Direct<Lane>,
}

/// What became of a packet that the engine was offered.
#[derive(Debug)]
pub enum Outcome {
    /// It was for one of the engine's queue pairs.
    Taken,
    /// It is for a queue pair that the engine does not know.
    NotMine(Packet),
}

pub(super) fn clock(now: Instant) -> u32 {
    (now.as_nanos() >> 10) as u32
}

impl Engine {
    /// An engine without lanes. `memory` resolves payloads when a packet must be sealed.
    pub fn new(config: EngineConfig, memory: Memory) -> Self {
        let lanes = usize::from(config.lanes);
        Self {
            config,
            memory,
            registers: Registers::new(lanes),
            lane_of: Exact::new("transfer.lane_of", 0, 24, lanes),
            lanes: Direct::new("transfer.lanes", 8, lanes),
        }
    }

    /// Enters tables and registers.
    pub fn declare(&self, ledger: &mut Ledger) {
        self.registers.declare(ledger);
        ledger.exact(&self.lane_of);
        ledger.direct(&self.lanes);
    }

    /// Packet generator entries: one per lane, with the lane's number as key.
    pub fn generator_keys(&self) -> usize {
        usize::from(self.config.lanes)
    }

    /// Connects `lane`: packets to `qpn` belong to it, `psn` is the first that it sends with.
    ///
    /// # Errors
    /// If a table is full or a key too wide.
    pub fn connect(
        &mut self,
        id: LaneId,
        qpn: Qpn,
        psn: Psn,
        lane: Lane,
    ) -> Result<(), TableError> {
        self.lanes.set(id.index(), Some(lane))?;
        self.lane_of.insert(u64::from(qpn.0), id)?;
        let at = id.index();
        *self.registers.next.control(at) = psn.get();
        *self.registers.target_next.control(at) = psn.get();
        *self.registers.count.control(at) = 0;
        *self.registers.acked.control(at) = 0;
        *self.registers.retries.control(at) = 0;
        *self.registers.owner.control(at) = u32::MAX;
        *self.registers.confirmed.control(at) = psn.get();
        Ok(())
    }

    /// Enters a lane that has no queue pair of its own: a group. `psn` is the first that its
    /// members send with.
    ///
    /// # Errors
    /// If its number is beyond the table.
    pub fn set_group(&mut self, id: LaneId, psn: Psn, group: Lane) -> Result<(), TableError> {
        self.lanes.set(id.index(), Some(group))?;
        *self.registers.target_next.control(id.index()) = psn.get();
        *self.registers.owner.control(id.index()) = u32::MAX;
        Ok(())
    }

    /// Forgets a group.
    pub fn remove_group(&mut self, id: LaneId) {
        let known = self.lanes.set(id.index(), None);
        debug_assert!(known.is_ok());
    }

    /// The entry of a lane.
    pub fn lane(&self, id: LaneId) -> Option<&Lane> {
        self.lanes.lookup(id.index())
    }

    /// Changes the kind of a connected lane: a member's neighbour.
    pub fn set_kind(&mut self, id: LaneId, kind: LaneKind) {
        if let Some(&lane) = self.lanes.lookup(id.index()) {
            let known = self.lanes.set(id.index(), Some(Lane { kind, ..lane }));
            debug_assert!(known.is_ok());
        }
    }

    /// Whether the lanes that a task is about are connected.
    pub fn is_alive(&self, task: &EngineTask) -> bool {
        match *task {
            EngineTask::Start(start) => {
                self.lane(start.source).is_some() && self.lane(start.target).is_some()
            }
            EngineTask::ReadWord(lane)
            | EngineTask::WriteWords { lane, .. }
            | EngineTask::Gather { lane, .. }
            | EngineTask::Complete(lane)
            | EngineTask::Reissue { lane, .. }
            | EngineTask::Abandon { lane, .. } => self.lane(lane).is_some(),
        }
    }

    /// Forgets a lane and what it carries.
    pub fn disconnect(&mut self, id: LaneId, qpn: Qpn) {
        self.lane_of.remove(u64::from(qpn.0));
        let known = self.lanes.set(id.index(), None);
        debug_assert!(known.is_ok());
        *self.registers.acked.control(id.index()) = 0;
        *self.registers.count.control(id.index()) = 0;
    }

    /// The configuration.
    pub fn config(&self) -> &EngineConfig {
        &self.config
    }

    /// A packet for the switch itself.
    #[inline]
    pub fn packet<T, D>(
        &mut self,
        pass: &mut Pass<'_, T, D>,
        port: PortId,
        headers: &Headers,
        packet: Packet,
    ) -> Outcome
    where
        T: From<EngineTask> + From<EngineEvent>,
    {
        let Some(&id) = self.lane_of.lookup(u64::from(headers.bth.target_qp.0)) else {
            return Outcome::NotMine(packet);
        };
        let Some(&lane) = self.lanes.lookup(id.index()) else {
            return Outcome::NotMine(packet);
        };
        if lane.ipv4.target != headers.ipv4.source || lane.port != port {
            pass.drop(port, DropReason::Stranger, &packet);
            return Outcome::Taken;
        }
        let opcode = headers.bth.opcode;
        let is_fragment = matches!(
            opcode,
            Opcode::ReadResponseFirst
                | Opcode::ReadResponseMiddle
                | Opcode::ReadResponseLast
                | Opcode::ReadResponseOnly
        );
        if is_fragment && lane.kind == LaneKind::Source {
            self.fragment(pass, port, id, &lane, headers, packet);
            return Outcome::Taken;
        }
        // Whatever else arrives ends here, so nobody behind the switch would notice damage.
        if self.config.check && icrc::verify(&packet, &self.memory) != icrc::Verdict::Right {
            pass.drop(port, DropReason::BadCheck, &packet);
            return Outcome::Taken;
        }
        match (lane.kind, headers.extension) {
            (LaneKind::Word { .. }, Extension::Aeth(_)) if opcode == Opcode::ReadResponseOnly => {
                self.word_response(pass, port, id, headers.bth.psn, &packet);
            }
            (LaneKind::Target, Extension::Aeth(aeth)) if opcode == Opcode::Acknowledge => {
                self.target_acknowledge(pass, port, id, headers.bth.psn, aeth, &packet);
            }
            (LaneKind::Member { group, bit, .. }, Extension::Aeth(aeth))
                if opcode == Opcode::Acknowledge =>
            {
                let answer = (headers.bth.psn, aeth);
                self.member_acknowledge(pass, port, (id, group, bit), answer, &packet);
            }
            (LaneKind::Doorbell { first }, Extension::None) if opcode == Opcode::SendOnly => {
                self.doorbell(pass, port, (id, &lane, first), headers.bth.psn, &packet);
            }
            (LaneKind::Source | LaneKind::Word { .. }, Extension::Aeth(aeth))
                if opcode == Opcode::Acknowledge =>
            {
                self.initiator_acknowledge(pass, port, id, headers.bth.psn, aeth, &packet);
            }
            (LaneKind::Target, Extension::Cnp) => self.congestion(pass, port, id, &packet),
            (LaneKind::Member { group, .. }, Extension::Cnp) => {
                self.congestion(pass, port, group, &packet);
            }
            _ => pass.drop(port, DropReason::UnexpectedOpcode, &packet),
        }
        Outcome::Taken
    }

    /// A fragment of a READ response becomes a fragment of a WRITE.
    #[inline]
    fn fragment<T, D>(
        &mut self,
        pass: &mut Pass<'_, T, D>,
        port: PortId,
        id: LaneId,
        lane: &Lane,
        headers: &Headers,
        mut packet: Packet,
    ) {
        let (at, cursor) = (id.index(), &mut pass.cursor);
        let registers = &mut self.registers;
        let first = Psn::new(registers.first.read(cursor, at));
        let target = registers.target.read(cursor, at);
        let index = headers.bth.psn.distance_from(first);
        let count = registers.count.read(cursor, at);
        let acked = registers.acked.read(cursor, at);
        // A train counts for as many fragments as it has; it never has the first or the last.
        let fragments = packet.fragments();
        if index < acked || index >= count || fragments > count - index {
            return pass.drop(port, DropReason::StaleFragment, &packet);
        }
        // A sign of life, whatever its length.
        registers.retries.update(cursor, at, |retries| {
            let count = *retries & RETRIES;
            *retries = count << HEARD_AT | count;
        });
        registers.activity.write(cursor, at, clock(pass.now));
        let length = registers.length.read(cursor, at);
        let end = index + fragments;
        let rest = u64::from(length).saturating_sub(u64::from(index) * u64::from(lane.mtu));
        let is_whole = packet.fragment_len() as u64 == rest.min(u64::from(lane.mtu));
        if !is_whole || (fragments > 1 && (index == 0 || end == count)) {
            return pass.drop(port, DropReason::Malformed, &packet);
        }
        let offset = registers.offset.read(cursor, at);
        let address = registers.target_address.read(cursor, at);
        let rkey = Rkey(registers.target_rkey.read(cursor, at));
        let group = target as u16;
        let Some(target) = self.lanes.lookup(target as usize) else {
            return pass.drop(port, DropReason::StaleFragment, &packet);
        };
        let every = self.config.acknowledge_every;
        let ack_request = end == count || end / every > index / every;
        let fragment = emit::Fragment {
            index,
            count,
            psn: headers.bth.psn.add(offset),
            ack_request,
            reth: Reth {
                address,
                rkey,
                length,
            },
        };
        if !matches!(target.kind, LaneKind::Group { .. }) {
            emit::rewrite(&self.config, target, headers, &fragment, &mut packet);
            return pass.forward(target.port, packet);
        }
        let (config, lanes) = (&self.config, &self.lanes);
        pass.multicast(group, packet, |member, copy| {
            let Some(target) = lanes.lookup(usize::from(member)) else {
                return;
            };
            let LaneKind::Member { address, rkey, .. } = target.kind else {
                return;
            };
            let reth = Reth {
                address: address + fragment.reth.address,
                rkey,
                ..fragment.reth
            };
            emit::rewrite(
                config,
                target,
                headers,
                &emit::Fragment { reth, ..fragment },
                copy,
            );
        });
    }

    /// A task of the engine's takes its pass.
    pub fn task<T, D>(&mut self, pass: &mut Pass<'_, T, D>, task: EngineTask)
    where
        T: From<EngineTask> + From<EngineEvent>,
    {
        match task {
            EngineTask::Start(start) => self.start(pass, &start),
            EngineTask::ReadWord(lane) => self.word(pass, lane, 0, ([0; 8], [0; 8]), 0),
            EngineTask::WriteWords {
                lane,
                first,
                second,
                cookie,
            } => {
                let length = if second.is_some() { 16 } else { 8 };
                let bytes = (first, second.unwrap_or_default());
                self.word(pass, lane, length, bytes, cookie);
            }
            EngineTask::Gather {
                lane,
                at,
                left,
                from,
                slowest,
            } => self.gather(pass, lane, (at, left), (from, slowest)),
            EngineTask::Complete(lane) => self.complete(pass, lane),
            EngineTask::Reissue {
                lane,
                from,
                slowest,
            } => self.reissue(pass, lane, from, slowest),
            EngineTask::Abandon {
                lane,
                blame,
                reason,
            } => {
                let (at, cursor) = (lane.index(), &mut pass.cursor);
                let count = self.registers.count.read(cursor, at);
                if self.registers.acked.write(cursor, at, count) != count {
                    pass.disarm(u32::from(lane.0));
                    pass.recirculate(EngineEvent::Failed {
                        lane,
                        blame,
                        reason,
                    });
                }
            }
        }
    }

    fn start<T, D>(&mut self, pass: &mut Pass<'_, T, D>, start: &Start) {
        let (at, to) = (start.source.index(), start.target.index());
        let Some(lane) = self.lanes.lookup(at) else {
            return;
        };
        let count = start.length.div_ceil(lane.mtu);
        debug_assert!(count > 0, "a transfer has at least one byte");
        let members = match self.lanes.lookup(to).map(|lane| lane.kind) {
            Some(LaneKind::Group { members, .. }) => members,
            _ => 0,
        };
        let (registers, cursor) = (&mut self.registers, &mut pass.cursor);
        let advance = |next: &mut u32| {
            let first = Psn::new(*next);
            *next = first.add(count).get();
            first
        };
        registers.owner.write(cursor, to, at as u32);
        let first = registers.next.update(cursor, at, advance);
        let target_first = registers.target_next.update(cursor, to, advance);
        registers.first.write(cursor, at, first.get());
        registers.target_first.write(cursor, to, target_first.get());
        registers.target.write(cursor, at, to as u32);
        let before = registers.count.write(cursor, at, count);
        let acked = registers.acked.write(cursor, at, 0);
        debug_assert_eq!(before, acked, "lane {at} is busy");
        registers.retries.write(cursor, at, 0);
        registers.activity.write(cursor, at, clock(pass.now));
        registers.length.write(cursor, at, start.length);
        if !planted(Canary::TransferStaleOffset) || before == 0 {
            registers
                .offset
                .write(cursor, at, target_first.distance_from(first));
        }
        registers.cookie.write(cursor, at, start.cookie);
        registers
            .source_address
            .write(cursor, at, start.source_address);
        registers
            .target_address
            .write(cursor, at, start.target_address);
        registers.source_rkey.write(cursor, at, start.source_rkey.0);
        registers.target_rkey.write(cursor, at, start.target_rkey.0);
        registers.complete.write(cursor, at, !members);
        let place = (start.source_address, start.source_rkey, start.length);
        let read = emit::read(&self.config, &self.memory, lane, first, place);
        pass.arm(at as u32, self.config.timeout);
        pass.forward(lane.port, read);
    }

    /// A word READ (`length` zero) or WRITE.
    fn word<T, D>(
        &mut self,
        pass: &mut Pass<'_, T, D>,
        id: LaneId,
        length: u32,
        (low, high): ([u8; 8], [u8; 8]),
        cookie: u32,
    ) {
        let (at, registers, cursor) = (id.index(), &mut self.registers, &mut pass.cursor);
        let Some(lane) = self.lanes.lookup(at) else {
            return;
        };
        let psn = registers.next.update(cursor, at, |next| {
            let psn = Psn::new(*next);
            *next = psn.add(1).get();
            psn
        });
        registers.first.write(cursor, at, psn.get());
        let before = registers.count.write(cursor, at, 1);
        let acked = registers.acked.write(cursor, at, 0);
        debug_assert_eq!(before, acked, "word lane {at} is busy");
        registers.retries.write(cursor, at, 0);
        registers.activity.write(cursor, at, clock(pass.now));
        registers.length.write(cursor, at, length);
        registers.cookie.write(cursor, at, cookie);
        registers
            .source_address
            .write(cursor, at, u64::from_le_bytes(low));
        registers
            .target_address
            .write(cursor, at, u64::from_le_bytes(high));
        let packet = Self::word_packet(&self.config, &self.memory, lane, psn, length, (low, high));
        pass.arm(at as u32, self.config.timeout);
        if let Some(packet) = packet {
            pass.forward(lane.port, packet);
        }
    }

    fn word_packet(
        config: &EngineConfig,
        memory: &Memory,
        lane: &Lane,
        psn: Psn,
        length: u32,
        (low, high): ([u8; 8], [u8; 8]),
    ) -> Option<Packet> {
        let LaneKind::Word { address, rkey } = lane.kind else {
            return None;
        };
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&low);
        bytes[8..].copy_from_slice(&high);
        Some(match length {
            0 => emit::read(config, memory, lane, psn, (address, rkey, 8)),
            _ => emit::write(
                config,
                memory,
                lane,
                psn,
                (address, rkey),
                &bytes[..length as usize],
            ),
        })
    }

    /// Asks again for what is missing, or gives up.
    fn reissue<T, D>(
        &mut self,
        pass: &mut Pass<'_, T, D>,
        id: LaneId,
        from: u32,
        slowest: Option<LaneId>,
    ) where
        T: From<EngineTask> + From<EngineEvent>,
    {
        let at = id.index();
        let Some(&lane) = self.lanes.lookup(at) else {
            return;
        };
        let (registers, cursor) = (&mut self.registers, &mut pass.cursor);
        let first = Psn::new(registers.first.read(cursor, at));
        let target = LaneId(registers.target.read(cursor, at) as u16);
        let count = registers.count.read(cursor, at);
        let from = registers.acked.read(cursor, at).max(from);
        let retries = registers.retries.update(cursor, at, |retries| {
            *retries += 1;
            *retries
        });
        if from >= count {
            return;
        }
        let (tries, heard_at) = (retries & RETRIES, retries >> HEARD_AT);
        if tries > self.config.retries {
            // Whoever was heard of to the end is not the one that fails. Some of its answers may
            // have been lost on the way; those from before it fell silent prove nothing.
            let is_heard = tries - heard_at <= tries / 2;
            let heard = lane.kind == LaneKind::Source && is_heard;
            return pass.recirculate(EngineTask::Abandon {
                lane: id,
                blame: if heard { slowest.unwrap_or(target) } else { id },
                reason: FailReason::Unreachable,
            });
        }
        registers.activity.write(cursor, at, clock(pass.now));
        let length = registers.length.read(cursor, at);
        let source = registers.source_address.read(cursor, at);
        let high = registers.target_address.read(cursor, at);
        let rkey = Rkey(registers.source_rkey.read(cursor, at));
        let packet = if lane.kind == LaneKind::Source {
            let skipped = if planted(Canary::TransferReissueFromStart) {
                0
            } else {
                from * lane.mtu
            };
            let place = (source + u64::from(skipped), rkey, length - from * lane.mtu);
            Some(emit::read(
                &self.config,
                &self.memory,
                &lane,
                first.add(from),
                place,
            ))
        } else {
            let values = (source.to_le_bytes(), high.to_le_bytes());
            Self::word_packet(&self.config, &self.memory, &lane, first, length, values)
        };
        pass.arm(at as u32, self.config.timeout);
        if let Some(packet) = packet {
            pass.forward(lane.port, packet);
        }
    }

    /// The packet generator fired for lane `key`: was there a sign of life?
    pub fn generated<T, D>(&mut self, pass: &mut Pass<'_, T, D>, key: u32)
    where
        T: From<EngineTask> + From<EngineEvent>,
    {
        let (at, cursor) = (key as usize, &mut pass.cursor);
        let lane = LaneId(key as u16);
        let target = LaneId(self.registers.target.read(cursor, at) as u16);
        let count = self.registers.count.read(cursor, at);
        if self.registers.acked.read(cursor, at) == count {
            return;
        }
        let since = clock(pass.now).wrapping_sub(self.registers.activity.read(cursor, at));
        let waited = Duration::from_nanos(u64::from(since) << 10);
        // The clock of `activity` ticks every 1024 ns; a tick early is a tick late next time.
        if waited + Duration::from_nanos(1024) < self.config.timeout {
            pass.arm(
                key,
                Duration::from_nanos(self.config.timeout.as_nanos() - waited.as_nanos()),
            );
            return;
        }
        let is_source = |lane: &&Lane| lane.kind == LaneKind::Source;
        let source = self.lanes.lookup(at).filter(is_source);
        let group = source.and_then(|_| self.lanes.lookup(target.index()));
        pass.recirculate(match group.map(|lane| lane.kind) {
            Some(LaneKind::Group { first, members }) => EngineTask::Gather {
                lane,
                at: first,
                left: members.count_ones() as u16,
                from: u32::MAX,
                slowest: first,
            },
            _ => EngineTask::Reissue {
                lane,
                from: 0,
                slowest: None,
            },
        });
    }
}
