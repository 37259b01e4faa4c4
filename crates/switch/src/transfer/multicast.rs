//! Multicast transfers: one READ, a WRITE to every member of a group, all acknowledgements counted
//! (zero-sided RDMA, section 6.1). Also doorbells, which end in the switch as well.

use super::acknowledge::reason;
use super::engine::{Engine, clock};
use super::{Cause, EngineEvent, EngineTask, Lane, LaneId, LaneKind, emit};
use crate::counters::DropReason;
use crate::pass::Pass;
use crate::table::TableError;
use rackweave_base::canary::{Canary, planted};
use rackweave_base::{Packet, PortId, Psn};
use rackweave_wire::{Aeth, NakCode, Syndrome};

impl Engine {
    /// Enters a lane without a queue pair: a group. `psn` is the PSN of the first request of its
    /// members.
    ///
    /// # Errors
    /// If its number is beyond the table.
    pub fn set_group(&mut self, id: LaneId, psn: Psn, group: Lane) -> Result<(), TableError> {
        self.lanes.set(id.index(), Some(group))?;
        *self.registers.target_next.control(id.index()) = psn.get();
        *self.registers.owner.control(id.index()) = u32::MAX;
        Ok(())
    }

    /// The PSN of the next request of the members of a group.
    pub fn group_psn(&self, id: LaneId) -> Psn {
        Psn::new(self.registers.target_next.peek(id.index()))
    }

    /// Removes a group.
    pub fn remove_group(&mut self, id: LaneId) {
        let known = self.lanes.set(id.index(), None);
        debug_assert!(known.is_ok());
    }

    /// Handles an acknowledgement of a WRITE by a member.
    pub(super) fn member_acknowledge<T, D>(
        &mut self,
        pass: &mut Pass<'_, T, D>,
        port: PortId,
        (id, group, bit): (LaneId, LaneId, u8),
        (psn, aeth): (Psn, Aeth),
        packet: &Packet,
    ) where
        T: From<EngineTask> + From<EngineEvent>,
    {
        let (registers, cursor) = (&mut self.registers, &mut pass.cursor);
        let source = registers.owner.read(cursor, group.index()) as usize;
        let end = Psn::new(registers.target_next.read(cursor, group.index()));
        let stale = DropReason::StaleAcknowledge;
        if source >= usize::from(self.config.lanes) {
            return pass.drop(port, stale, packet);
        }
        let first = Psn::new(registers.target_first.read(cursor, group.index()));
        let is_mine = registers.target.read(cursor, source) == u32::from(group.0);
        // An ACK confirms its PSN, a NAK everything before it.
        let confirmed = match aeth.syndrome {
            Syndrome::Ack { .. } => psn.add(1),
            Syndrome::Nak(_) | Syndrome::ReceiverNotReady { .. } => psn,
        };
        let all = end.distance_from(first);
        let ahead = confirmed.distance_from(first);
        if !is_mine || ahead > all {
            return pass.drop(port, stale, packet);
        }
        let before = registers.confirmed.update(cursor, id.index(), |cell| {
            let before = Psn::new(*cell).distance_from(first);
            if ahead > before {
                *cell = confirmed.get();
            }
            before
        });
        if ahead > before {
            registers.retries.write(cursor, source, 0);
            registers.activity.write(cursor, source, clock(pass.now));
            if ahead == all {
                let complete = registers.complete.update(cursor, source, |members| {
                    *members |= 1 << bit;
                    *members
                });
                let enough = planted(Canary::TransferFirstMember) || complete == u32::MAX;
                if enough {
                    pass.recirculate(EngineTask::Complete(LaneId(source as u16)));
                }
                return;
            }
        }
        let lane = LaneId(source as u16);
        match aeth.syndrome {
            Syndrome::Ack { .. } if ahead <= before => pass.drop(port, stale, packet),
            Syndrome::Ack { .. } | Syndrome::ReceiverNotReady { .. } => {}
            // The member has already confirmed this fragment, so the NAK is late.
            Syndrome::Nak(NakCode::SequenceError) if ahead < before || before == all => {
                pass.drop(port, stale, packet);
            }
            // Another member may lack more. A reissue must never begin before the previous one, or
            // Linux does not answer it.
            Syndrome::Nak(NakCode::SequenceError) => {
                let entry = self.lanes.lookup(group.index()).map(|lane| lane.kind);
                if let Some(LaneKind::Group { first, members }) = entry {
                    pass.recirculate(EngineTask::gather(lane, first, members, Cause::Nak));
                }
            }
            Syndrome::Nak(code) => pass.recirculate(EngineTask::Abandon {
                lane,
                blame: id,
                reason: reason(code),
            }),
        }
    }

    /// Checks one member: a pass can access only one cell of each array.
    pub(super) fn gather<T, D>(
        &mut self,
        pass: &mut Pass<'_, T, D>,
        lane: LaneId,
        (at, left): (LaneId, u16),
        (from, slowest): (u32, LaneId),
        cause: Cause,
    ) where
        T: From<EngineTask> + From<EngineEvent>,
    {
        let member = self.lanes.lookup(at.index()).map(|lane| lane.kind);
        let Some(LaneKind::Member { group, next, .. }) = member else {
            // The group has changed meanwhile: reissue from the first fragment that a member may
            // lack.
            return pass.recirculate(EngineTask::Reissue {
                lane,
                from: 0,
                slowest: None,
                cause,
            });
        };
        let (registers, cursor) = (&mut self.registers, &mut pass.cursor);
        let first = Psn::new(registers.target_first.read(cursor, group.index()));
        let confirmed = registers.confirmed.read(cursor, at.index());
        let has = Psn::new(confirmed).distance_from(first);
        let (from, slowest) = if has < from {
            (has, at)
        } else {
            (from, slowest)
        };
        pass.recirculate(if left > 1 {
            EngineTask::Gather {
                lane,
                at: next,
                left: left - 1,
                from,
                slowest,
                cause,
            }
        } else {
            EngineTask::Reissue {
                lane,
                from,
                slowest: Some(slowest),
                cause,
            }
        });
    }

    /// Every member has every fragment: ends the transfer.
    pub(super) fn complete<T, D>(&mut self, pass: &mut Pass<'_, T, D>, lane: LaneId)
    where
        T: From<EngineTask> + From<EngineEvent>,
    {
        let (at, cursor) = (lane.index(), &mut pass.cursor);
        let count = self.registers.count.read(cursor, at);
        if self.registers.acked.write(cursor, at, count) != count {
            let cookie = self.registers.cookie.read(cursor, at);
            pass.disarm(u32::from(lane.0));
            pass.recirculate(EngineEvent::Done { lane, cookie });
        }
    }

    /// Handles a doorbell: a node reports the word of its ring. It is acknowledged whatever the gap
    /// before it: only the newest word counts, so lost and overtaken doorbells need not be resent.
    pub(super) fn doorbell<T, D>(
        &mut self,
        pass: &mut Pass<'_, T, D>,
        port: PortId,
        (id, lane, first): (LaneId, &Lane, Psn),
        psn: Psn,
        packet: &Packet,
    ) where
        T: From<EngineTask> + From<EngineEvent>,
    {
        let mut bytes = [0; 8];
        if packet.payload.len() != 8 || !packet.payload.copy_to(&self.memory, &mut bytes) {
            return pass.drop(port, DropReason::BadWord, packet);
        }
        let is_newer = self
            .registers
            .next
            .update(&mut pass.cursor, id.index(), |next| {
                let is_newer = psn.distance_from(Psn::new(*next)) < 1 << 23;
                if is_newer {
                    *next = psn.add(1).get();
                }
                is_newer
            });
        let messages = psn.add(1).distance_from(first);
        let answer = emit::acknowledge(&self.config, &self.memory, lane, psn, messages);
        if is_newer {
            pass.mirror(EngineEvent::Word { lane: id, bytes });
        }
        pass.forward(lane.port, answer);
    }
}
