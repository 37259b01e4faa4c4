//! The engine: its tables, and the passes of packets.

use super::patience::Patience;
use super::registers::Registers;
use super::{EngineConfig, EngineEvent, EngineTask, FailReason, Lane, LaneId, LaneKind, emit};
use crate::budget::Ledger;
use crate::counters::DropReason;
use crate::pass::Pass;
use crate::table::{Direct, Exact, TableError};
use rackweave_base::canary::{Canary, planted};
use rackweave_base::{Instant, Memory, Packet, PortId, Psn, Qpn, Rkey};
use rackweave_wire::icrc::{self, LaneCorrection};
use rackweave_wire::{Ecn, Extension, Headers, Opcode, Reth, View};

/// Moves bytes between lanes.
pub struct Engine {
    pub(super) config: EngineConfig,
    pub(super) memory: Memory,
    pub(super) registers: Registers,
    pub(super) header_checks: bool,
    /// Maps a queue pair number of the switch to a lane.
    lane_of: Exact<LaneId>,
    pub(super) lanes: Direct<Lane>,
    /// By target lane or member. They save time and decide nothing, so hardware has none.
    corrections: Box<[LaneCorrection]>,
}

/// What a packet addressed to the switch itself is.
#[derive(Clone, Copy, Debug)]
pub enum Sort {
    /// For [`Engine::fragment`]. Its ICRC is not checked.
    Fragment(Response),
    /// For [`Engine::packet`].
    Lane(LaneId),
    /// For the program, on a lane of kind [`LaneKind::Program`]. Its ICRC is not checked.
    Program(LaneId),
    /// To be dropped.
    Drop(DropReason),
}

/// A fragment of a READ response on a source lane: what the engine needs of its headers.
#[derive(Clone, Copy, Debug)]
pub struct Response {
    lane: LaneId,
    /// The path MTU of the lane in bytes.
    mtu: u32,
    psn: Psn,
    ecn: Ecn,
    identification: u16,
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
            registers: Registers::new(lanes, 0),
            header_checks: false,
            lane_of: Exact::new("transfer.lane_of", 0, 24, lanes),
            lanes: Direct::new("transfer.lanes", 5, lanes),
            corrections: vec![LaneCorrection::default(); lanes].into(),
        }
    }

    /// The same engine, able to check the first bytes of transfers, at the cost of one more
    /// register array.
    pub fn with_header_checks(mut self) -> Self {
        let lanes = usize::from(self.config.lanes);
        self.registers = Registers::new(lanes, lanes);
        self.header_checks = true;
        self
    }

    /// Enters tables and registers in the ledger.
    pub fn declare(&self, ledger: &mut Ledger) {
        self.registers.declare(ledger);
        ledger.exact(&self.lane_of);
        ledger.direct(&self.lanes);
    }

    /// Packet generator entries: one per lane, with the lane's number as key.
    pub fn generator_keys(&self) -> usize {
        usize::from(self.config.lanes)
    }

    /// Connects `lane`: packets to `qpn` belong to it, `psn` is the PSN of its first request.
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
        *self.registers.cookie.control(at) = u32::MAX;
        *self.registers.owner.control(at) = u32::MAX;
        *self.registers.confirmed.control(at) = psn.get();
        Ok(())
    }

    /// The entry of a lane.
    pub fn lane(&self, id: LaneId) -> Option<&Lane> {
        self.lanes.lookup(id.index())
    }

    /// The cookie of the transfer in flight on a source lane, if there is one.
    pub fn cargo(&self, id: LaneId) -> Option<u32> {
        let at = id.index();
        let registers = &self.registers;
        let is_under_way = registers.count.peek(at) != registers.acked.peek(at);
        is_under_way.then(|| registers.cookie.peek(at))
    }

    /// The cookie of the last transfer on a source lane: all ones until the first transfer after
    /// the lane was connected.
    pub fn cookie(&self, id: LaneId) -> u32 {
        self.registers.cookie.peek(id.index())
    }

    /// Changes the kind of a connected lane: a member gets another successor.
    pub fn set_kind(&mut self, id: LaneId, kind: LaneKind) {
        if let Some(&lane) = self.lanes.lookup(id.index()) {
            let known = self.lanes.set(id.index(), Some(Lane { kind, ..lane }));
            debug_assert!(known.is_ok());
        }
    }

    /// Whether the lanes that a task refers to are connected.
    pub fn is_alive(&self, task: &EngineTask) -> bool {
        match *task {
            EngineTask::Start(start) => {
                self.lane(start.source).is_some() && self.lane(start.target).is_some()
            }
            EngineTask::ReadWord(lane)
            | EngineTask::WriteWords { lane, .. }
            | EngineTask::WriteWordAt { lane, .. }
            | EngineTask::Gather { lane, .. }
            | EngineTask::Complete(lane)
            | EngineTask::Reissue { lane, .. }
            | EngineTask::Refuse { lane, .. }
            | EngineTask::Abandon { lane, .. } => self.lane(lane).is_some(),
        }
    }

    /// Removes a lane and the operation on it.
    pub fn disconnect(&mut self, id: LaneId, qpn: Qpn) {
        self.lane_of.remove(u64::from(qpn.0));
        let known = self.lanes.set(id.index(), None);
        debug_assert!(known.is_ok());
        *self.registers.acked.control(id.index()) = 0;
        *self.registers.count.control(id.index()) = 0;
    }

    /// The arena that resolves payloads.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// The configuration.
    pub fn config(&self) -> &EngineConfig {
        &self.config
    }

    /// What a packet with these headers is, which arrived on `port` and is addressed to the switch.
    #[inline]
    pub fn sort(&self, port: PortId, view: &View<'_>) -> Sort {
        let id = self.lane_of.lookup(u64::from(view.target_qp().0));
        let Some((id, lane)) = id.and_then(|&id| Some((id, self.lane(id)?))) else {
            return Sort::Drop(DropReason::UnknownQp);
        };
        if lane.ipv4.target != view.source() || lane.port != port {
            return Sort::Drop(DropReason::Stranger);
        }
        match lane.kind {
            LaneKind::Program => Sort::Program(id),
            LaneKind::Source if view.opcode().is_read_response() => Sort::Fragment(Response {
                lane: id,
                mtu: lane.mtu,
                psn: view.psn(),
                ecn: view.ecn(),
                identification: view.identification(),
            }),
            _ => Sort::Lane(id),
        }
    }

    /// Handles a packet on a lane.
    pub fn packet<T, D>(
        &mut self,
        pass: &mut Pass<'_, T, D>,
        (port, id): (PortId, LaneId),
        headers: &Headers,
        packet: &Packet,
    ) where
        T: From<EngineTask> + From<EngineEvent>,
    {
        let Some(&lane) = self.lanes.lookup(id.index()) else {
            return pass.drop(port, DropReason::UnknownQp, packet);
        };
        // Such packets end here, so no node behind the switch would detect corruption.
        if self.config.check && icrc::verify(packet, &self.memory) != icrc::Verdict::Right {
            return pass.drop(port, DropReason::BadCheck, packet);
        }
        let opcode = headers.bth.opcode;
        match (lane.kind, headers.extension) {
            (LaneKind::Word { .. }, Extension::Aeth(_)) if opcode == Opcode::ReadResponseOnly => {
                self.word_response(pass, port, id, headers.bth.psn, packet);
            }
            (LaneKind::Target, Extension::Aeth(aeth)) if opcode == Opcode::Acknowledge => {
                self.target_acknowledge(pass, port, id, headers.bth.psn, aeth, packet);
            }
            (LaneKind::Member { group, bit, .. }, Extension::Aeth(aeth))
                if opcode == Opcode::Acknowledge =>
            {
                let answer = (headers.bth.psn, aeth);
                self.member_acknowledge(pass, port, (id, group, bit), answer, packet);
            }
            (LaneKind::Doorbell { first }, Extension::None) if opcode == Opcode::SendOnly => {
                self.doorbell(pass, port, (id, &lane, first), headers.bth.psn, packet);
            }
            (LaneKind::Source | LaneKind::Word { .. }, Extension::Aeth(aeth))
                if opcode == Opcode::Acknowledge =>
            {
                self.initiator_acknowledge(pass, port, id, headers.bth.psn, aeth, packet);
            }
            (LaneKind::Target, Extension::Cnp) => self.congestion(pass, port, id, packet),
            (LaneKind::Member { group, .. }, Extension::Cnp) => {
                self.congestion(pass, port, group, packet);
            }
            _ => pass.drop(port, DropReason::UnexpectedOpcode, packet),
        }
    }

    /// Turns a fragment of a READ response into a fragment of a WRITE.
    #[inline]
    pub fn fragment<T, D>(
        &mut self,
        pass: &mut Pass<'_, T, D>,
        port: PortId,
        response: Response,
        packet: Packet,
    ) where
        T: From<EngineTask> + From<EngineEvent>,
    {
        let Response { lane: id, mtu, .. } = response;
        let (at, cursor) = (id.index(), &mut pass.cursor);
        let registers = &mut self.registers;
        let first = Psn::new(registers.first.read(cursor, at));
        let target = registers.target.read(cursor, at);
        let index = response.psn.distance_from(first);
        let count = registers.count.read(cursor, at);
        let header = if self.header_checks {
            registers.header.read(cursor, at)
        } else {
            0
        };
        let is_wrong = header != 0
            && index == 0
            && packet.payload.first_word(&self.memory) != Some(header.wrapping_sub(1))
            && !planted(Canary::PagesNoHeaderCheck);
        let acked = registers.acked.update(cursor, at, |acked| {
            let before = *acked;
            if is_wrong && before == 0 {
                *acked = count;
            }
            before
        });
        // A train counts for as many fragments as it has; it never contains the first or the last
        // one.
        let fragments = packet.fragments();
        if index < acked || index >= count || fragments > count - index {
            return pass.drop(port, DropReason::StaleFragment, &packet);
        }
        // The source is alive, whatever the length.
        registers.retries.update(cursor, at, |retries| {
            *retries = Patience::of(*retries).heard().cell();
        });
        registers.activity.write(cursor, at, clock(pass.now));
        let length = registers.length.read(cursor, at);
        let end = index + fragments;
        let rest = u64::from(length).saturating_sub(u64::from(index) * u64::from(mtu));
        let is_whole = packet.fragment_len() as u64 == rest.min(u64::from(mtu));
        let is_malformed = !is_whole || (fragments > 1 && (index == 0 || end == count));
        // With a wrong header the transfer is over already, and that must be reported.
        if is_malformed && !is_wrong {
            return pass.drop(port, DropReason::Malformed, &packet);
        }
        let offset = registers.offset.read(cursor, at);
        let cookie = registers.cookie.read(cursor, at);
        let reth = Reth {
            address: registers.target_address.read(cursor, at),
            rkey: Rkey(registers.target_rkey.read(cursor, at)),
            length,
        };
        let psn = response.psn.add(offset);
        if header != 0 {
            // The first fragment decides; if it arrives again, it decides again.
            let seen = registers.complete.update(cursor, at, |seen| {
                core::mem::replace(seen, *seen | u32::from(index == 0))
            });
            if is_wrong {
                let target = LaneId(target as u16);
                return refuse(pass, id, seen != 0, target, psn, cookie);
            }
            if seen != 1 && index != 0 {
                return pass.drop(port, DropReason::StaleFragment, &packet);
            }
        }
        let every = self.config.acknowledge_every;
        let fragment = emit::Fragment {
            ecn: response.ecn,
            identification: response.identification,
            index,
            count,
            psn,
            ack_request: end == count || end / every > index / every,
            reth,
        };
        self.rewrite(pass, port, target as u16, packet, &fragment);
    }

    /// Forwards a fragment to its target, or to each member of a group of targets.
    #[inline]
    fn rewrite<T, D>(
        &mut self,
        pass: &mut Pass<'_, T, D>,
        port: PortId,
        to: u16,
        mut packet: Packet,
        fragment: &emit::Fragment,
    ) {
        let (config, lanes) = (&self.config, &self.lanes);
        let corrections = &mut self.corrections;
        let Some(target) = lanes.lookup(usize::from(to)) else {
            return pass.drop(port, DropReason::StaleFragment, &packet);
        };
        if !matches!(target.kind, LaneKind::Group { .. }) {
            let correction = &mut corrections[usize::from(to)];
            emit::rewrite(config, target, correction, fragment, &mut packet);
            return pass.forward(target.port, packet);
        }
        pass.multicast(to, packet, |member, copy| {
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
            let fragment = emit::Fragment { reth, ..*fragment };
            let correction = &mut corrections[usize::from(member)];
            emit::rewrite(config, target, correction, &fragment, copy);
        });
    }
}

/// Ends a transfer whose first fragment has the wrong header.
fn refuse<T, D>(
    pass: &mut Pass<'_, T, D>,
    lane: LaneId,
    is_under_way: bool,
    target: LaneId,
    psn: Psn,
    cookie: u32,
) where
    T: From<EngineTask> + From<EngineEvent>,
{
    if !is_under_way {
        return pass.recirculate(EngineTask::Refuse { lane, target, psn });
    }
    // Fragments are in flight already: the lane cannot be reused as if nothing had been sent.
    pass.disarm(u32::from(lane.0));
    pass.recirculate(EngineEvent::Failed {
        lane,
        cookie,
        blame: lane,
        reason: FailReason::InvalidRequest,
    });
}
