//! Packets that end in the switch: acknowledgements, responses to word READs, congestion
//! notifications.

use super::engine::{Engine, clock};
use super::{Cause, EngineEvent, EngineTask, FailReason, LaneId, emit};
use crate::counters::DropReason;
use crate::pass::{Cursor, Pass};
use rackweave_base::canary::{Canary, planted};
use rackweave_base::{Packet, PortId, Psn};
use rackweave_wire::{Aeth, NakCode, Syndrome};

/// An acknowledgement or a timeout that made no progress leaves the retry counts unchanged.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    Done,
    Some,
    None,
}

impl Engine {
    /// Handles an acknowledgement of a WRITE by its target.
    pub(super) fn target_acknowledge<T, D>(
        &mut self,
        pass: &mut Pass<'_, T, D>,
        port: PortId,
        id: LaneId,
        psn: Psn,
        aeth: Aeth,
        packet: &Packet,
    ) where
        T: From<EngineTask> + From<EngineEvent>,
    {
        let cursor = &mut pass.cursor;
        let Some(lane) = self.owner(cursor, id) else {
            return pass.drop(port, DropReason::StaleAcknowledge, packet);
        };
        let first = Psn::new(self.registers.target_first.read(cursor, id.index()));
        // An ACK confirms its PSN, a NAK everything before it.
        let confirmed = match aeth.syndrome {
            Syndrome::Ack { .. } => psn.add(1).distance_from(first),
            Syndrome::Nak(_) | Syndrome::ReceiverNotReady { .. } => psn.distance_from(first),
        };
        let progress = self.progress(pass, lane, confirmed);
        match (aeth.syndrome, progress) {
            (_, None) | (Syndrome::Ack { .. }, Some(Progress::None)) => {
                pass.drop(port, DropReason::StaleAcknowledge, packet);
            }
            (_, Some(Progress::Done)) => {
                let cookie = self.registers.cookie.read(&mut pass.cursor, lane.index());
                pass.disarm(u32::from(lane.0));
                pass.recirculate(EngineEvent::Done { lane, cookie });
            }
            (Syndrome::Ack { .. }, Some(Progress::Some)) => {}
            (Syndrome::ReceiverNotReady { .. }, Some(_)) => {} // the timer reissues
            (Syndrome::Nak(NakCode::SequenceError), Some(_)) => {
                pass.recirculate(EngineTask::Reissue {
                    lane,
                    from: confirmed,
                    slowest: None,
                    cause: Cause::Nak,
                });
            }
            (Syndrome::Nak(code), Some(_)) => {
                pass.recirculate(EngineTask::Abandon {
                    lane,
                    blame: id,
                    reason: reason(code),
                });
            }
        }
    }

    /// The source lane whose transfer writes on this target lane; none if that transfer is over and
    /// the source lane carries another one.
    fn owner(&mut self, cursor: &mut Cursor, target: LaneId) -> Option<LaneId> {
        let owner = self.registers.owner.read(cursor, target.index()) as usize;
        if owner >= usize::from(self.config.lanes) {
            return None;
        }
        let is_mutual = self.registers.target.read(cursor, owner) == u32::from(target.0);
        let counts = is_mutual || planted(Canary::TransferForeignAcknowledge);
        counts.then_some(LaneId(owner as u16))
    }

    /// Records that the first `confirmed` fragments of the lane's transfer have arrived. Returns
    /// `None` if this is impossible, because the transfer has fewer fragments or is over.
    fn progress<T, D>(
        &mut self,
        pass: &mut Pass<'_, T, D>,
        lane: LaneId,
        confirmed: u32,
    ) -> Option<Progress> {
        let (at, cursor) = (lane.index(), &mut pass.cursor);
        let count = self.registers.count.read(cursor, at);
        let is_stale = planted(Canary::TransferStaleAcknowledge) && confirmed > count;
        let confirmed = if is_stale { count } else { confirmed };
        let before = self.registers.acked.update(cursor, at, |acked| {
            let before = *acked;
            if confirmed <= count && confirmed > before {
                *acked = confirmed;
            }
            before
        });
        if confirmed > count || confirmed < before || before == count {
            return None;
        }
        let now = clock(pass.now);
        if confirmed == before {
            return Some(Progress::None);
        }
        self.registers.retries.write(cursor, at, 0);
        self.registers.activity.write(cursor, at, now);
        Some(if confirmed == count {
            Progress::Done
        } else {
            Progress::Some
        })
    }

    /// Handles an ACK or NAK on a lane where the switch sent a READ or a word WRITE.
    pub(super) fn initiator_acknowledge<T, D>(
        &mut self,
        pass: &mut Pass<'_, T, D>,
        port: PortId,
        lane: LaneId,
        psn: Psn,
        aeth: Aeth,
        packet: &Packet,
    ) where
        T: From<EngineTask> + From<EngineEvent>,
    {
        let first = Psn::new(self.registers.first.read(&mut pass.cursor, lane.index()));
        match aeth.syndrome {
            Syndrome::Ack { .. } => {
                // Only a word WRITE is acknowledged; a READ is answered by its data.
                let confirmed = psn.add(1).distance_from(first);
                let is_write = |length: u32| length != 0;
                let done = self.progress(pass, lane, confirmed) == Some(Progress::Done);
                let length = self.registers.length.read(&mut pass.cursor, lane.index());
                let cookie = self.registers.cookie.read(&mut pass.cursor, lane.index());
                if done && is_write(length) {
                    pass.disarm(u32::from(lane.0));
                    pass.recirculate(EngineEvent::Written { lane, cookie });
                } else {
                    pass.drop(port, DropReason::StaleAcknowledge, packet);
                }
            }
            Syndrome::ReceiverNotReady { .. } => {}
            Syndrome::Nak(code) => {
                let count = self.registers.count.read(&mut pass.cursor, lane.index());
                let acked = self.registers.acked.read(&mut pass.cursor, lane.index());
                if acked == count || psn.distance_from(first) > count {
                    return pass.drop(port, DropReason::StaleAcknowledge, packet);
                }
                pass.recirculate(match code {
                    NakCode::SequenceError => EngineTask::Reissue {
                        lane,
                        from: 0,
                        slowest: Some(lane),
                        cause: Cause::Nak,
                    },
                    _ => EngineTask::Abandon {
                        lane,
                        blame: lane,
                        reason: reason(code),
                    },
                });
            }
        }
    }

    /// Handles the response to a word READ.
    pub(super) fn word_response<T, D>(
        &mut self,
        pass: &mut Pass<'_, T, D>,
        port: PortId,
        lane: LaneId,
        psn: Psn,
        packet: &Packet,
    ) where
        T: From<EngineTask> + From<EngineEvent>,
    {
        let mut bytes = [0; 8];
        if packet.payload.len() != 8 || !packet.payload.copy_to(&self.memory, &mut bytes) {
            return pass.drop(port, DropReason::BadWord, packet);
        }
        let first = Psn::new(self.registers.first.read(&mut pass.cursor, lane.index()));
        let progress = self.progress(pass, lane, psn.add(1).distance_from(first));
        let length = self.registers.length.read(&mut pass.cursor, lane.index());
        if progress != Some(Progress::Done) || length != 0 {
            return pass.drop(port, DropReason::StaleWord, packet);
        }
        pass.disarm(u32::from(lane.0));
        pass.recirculate(EngineEvent::Word { lane, bytes });
    }

    /// The target's NIC saw congestion marks: notifies the source to slow down.
    pub(super) fn congestion<T, D>(
        &mut self,
        pass: &mut Pass<'_, T, D>,
        port: PortId,
        id: LaneId,
        packet: &Packet,
    ) {
        let owner = self.owner(&mut pass.cursor, id);
        let Some(source) = owner.and_then(|lane| self.lanes.lookup(lane.index())) else {
            return pass.drop(port, DropReason::StaleAcknowledge, packet);
        };
        let notification = emit::congestion(&self.config, &self.memory, source);
        pass.forward(source.port, notification);
    }
}

pub(super) fn reason(code: NakCode) -> FailReason {
    match code {
        NakCode::RemoteAccess => FailReason::RemoteAccess,
        NakCode::RemoteOperation => FailReason::RemoteOperation,
        NakCode::SequenceError | NakCode::InvalidRequest | NakCode::InvalidRdRequest => {
            FailReason::InvalidRequest
        }
    }
}
