//! The packets that the responder sends: READ responses, results of atomics, acknowledgements,
//! NAKs, and congestion notifications.
//!
//! Responses leave in PSN order: READ responses and results oldest first, then the acknowledgement
//! or NAK. At most one of these is pending, since a later acknowledgement includes an earlier one.

use super::connection::{Connection, fields};
use super::reads::{Asked, Resource, Stream};
use super::responder::Answer;
use super::segments::{SegmentError, copy_inline};
use super::{Emission, Qp};
use crate::shared::Core;
use crate::{CableId, DropReason};
use rackweave_base::packet::INLINE_MAX;
use rackweave_base::{BlockRef, Packet, Payload, Psn};
use rackweave_verbs::Access;
use rackweave_wire::aeth::CREDITS_UNUSED;
use rackweave_wire::{Aeth, Extension, NakCode, Opcode, Syndrome};

const GOOD: Syndrome = Syndrome::Ack {
    credits: CREDITS_UNUSED,
};

impl Qp {
    /// The next congestion notification, acknowledgement or NAK.
    pub(super) fn emit_control(&mut self, core: &mut Core, out: &mut Option<Packet>) -> Emission {
        if self.take_notification() {
            core.counters.np_cnp_sent += 1;
            let (opcode, psn) = (Opcode::CongestionNotification, Psn::new(0));
            let fields = fields(opcode, psn, Extension::Cnp);
            core.emit(out, &self.connection.notification, fields, Payload::Empty);
            return Emission::Packet;
        }
        if self.responder.reads.is_pending() {
            return Emission::Idle;
        }
        self.emit_answer(core, out)
    }

    fn emit_answer(&mut self, core: &mut Core, out: &mut Option<Packet>) -> Emission {
        let responder = &mut self.responder;
        let expected = responder.expected;
        let (psn, syndrome) = match core::mem::replace(&mut responder.answer, Answer::None) {
            Answer::None => return Emission::Idle,
            Answer::Acknowledge => (expected.sub(1), GOOD),
            Answer::NotReady => {
                core.counters.send_rnr_err += 1;
                (
                    expected,
                    Syndrome::ReceiverNotReady {
                        timer: responder.not_ready_timer,
                    },
                )
            }
            Answer::Refuse(code, psn) => (psn.unwrap_or(expected), Syndrome::Nak(code)),
        };
        responder.unacknowledged = 0;
        let extension = Extension::Aeth(Aeth {
            syndrome,
            msn: responder.msn,
        });
        let fields = fields(Opcode::Acknowledge, psn, extension);
        core.emit(out, &self.connection.template, fields, Payload::Empty);
        Emission::Packet
    }

    /// The next READ response or result of an atomic.
    pub(super) fn emit_response(&mut self, core: &mut Core, out: &mut Option<Packet>) -> Emission {
        let Some(resource) = self.responder.reads.front() else {
            return Emission::Idle;
        };
        let resource = *resource;
        match resource.asked {
            Asked::Atomic { before } => {
                self.responder.reads.finish_front();
                let aeth = Aeth {
                    syndrome: GOOD,
                    msn: resource.msn,
                };
                let extension = Extension::AtomicAck(aeth, before);
                let (opcode, psn) = (Opcode::AtomicAcknowledge, resource.first_psn);
                let fields = fields(opcode, psn, extension);
                core.emit(out, &self.connection.template, fields, Payload::Empty);
                Emission::Packet
            }
            Asked::Read { .. } => match self.read_payload(core, &resource.stream) {
                Ok(payload) => {
                    self.respond(core, out, &resource, payload);
                    Emission::Packet
                }
                Err(SegmentError::NoBuffer) => {
                    core.counters.pool_stalls += 1;
                    // Held packets may occupy the buffers.
                    for _ in 0..self.responder.held.clear() {
                        core.counters.count_drop(DropReason::HoldAbandoned);
                    }
                    Emission::Stalled
                }
                Err(_) => {
                    // The region has been deregistered meanwhile.
                    self.responder.reads.finish_front();
                    let psn = resource.stream.psn;
                    self.responder.silence();
                    self.refuse(core, NakCode::RemoteAccess, Some(psn));
                    self.emit_answer(core, out)
                }
            },
        }
    }

    /// The payload of a READ's next response.
    fn read_payload(&self, core: &Core, stream: &Stream) -> Result<Payload, SegmentError> {
        let mtu = self.connection.mtu.bytes();
        let mut len = stream.left.min(mtu);
        let responder = &self.responder;
        // A peer at a direct cable sends nothing behind a READ that may change the bytes.
        let is_direct = responder.cable != CableId::SWITCH && responder.held.is_empty();
        let by_reference = responder.by_reference || is_direct;
        if by_reference && !stream.at_start {
            // The last fragment, which has another opcode, is not part of a train.
            let middles = stream.left.saturating_sub(1) / mtu;
            len = len.max(middles.min(core.config.train_max) * mtu);
        }
        if len == 0 {
            return Ok(Payload::Empty);
        }
        let access = Access::REMOTE_READ;
        let source = core
            .regions
            .remote(self.pd, stream.rkey, stream.address, len, access)
            .map_err(|_| SegmentError::Protection)?;
        if len as usize <= INLINE_MAX {
            copy_inline(core, source)
        } else if by_reference || core.reads_deferred && responder.held.is_empty() {
            Ok(Payload::Region(source))
        } else {
            copy_pooled(core, source)
        }
    }

    fn respond(
        &mut self,
        core: &mut Core,
        out: &mut Option<Packet>,
        resource: &Resource,
        payload: Payload,
    ) {
        let Stream {
            psn,
            at_start,
            left,
            ..
        } = resource.stream;
        let len = payload.len() as u32;
        let ends = len == left;
        if ends {
            self.responder.reads.finish_front();
        } else {
            let front = self.responder.reads.front().expect("it was there just now");
            let stream = &mut front.stream;
            stream.psn = psn.add(len.div_ceil(self.connection.mtu.bytes()));
            stream.address = stream.address.wrapping_add(u64::from(len));
            stream.left = left - len;
            stream.at_start = false;
        }
        let opcode = match (at_start, ends) {
            (true, true) => Opcode::ReadResponseOnly,
            (true, false) => Opcode::ReadResponseFirst,
            (false, false) => Opcode::ReadResponseMiddle,
            (false, true) => Opcode::ReadResponseLast,
        };
        let extension = match opcode {
            Opcode::ReadResponseMiddle => Extension::None,
            _ => Extension::Aeth(Aeth {
                syndrome: GOOD,
                msn: resource.msn,
            }),
        };
        let fields = fields(opcode, psn, extension);
        let Connection { template, mtu, .. } = &self.connection;
        core.emit_fragments(out, template, fields, payload, mtu.bytes());
        if ends {
            self.take_held(core);
        }
    }
}

fn copy_pooled(core: &Core, source: BlockRef) -> Result<Payload, SegmentError> {
    let mut found = true;
    let buffer = core.pool.take(source.len() as usize, |target| {
        found = core.memory.read(source, target);
        found
    });
    match buffer {
        Some(buffer) => Ok(Payload::Pooled(buffer)),
        None if found => Err(SegmentError::NoBuffer),
        None => Err(SegmentError::PayloadGone),
    }
}
