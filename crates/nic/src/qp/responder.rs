//! The receiving half: checks and executes the peer's requests (InfiniBand specification 1.4, 9.7.4
//! and 9.7.5).
//!
//! A request is executed if it carries the expected PSN. A request ahead of it causes a single NAK;
//! one behind it is a duplicate: SENDs and WRITEs are acknowledged again, READs are answered again,
//! atomics from stored results. Nothing is ever executed twice.

use super::held::{Held, HeldQueue};
use super::queues::ReceiveQueue;
use super::reads::ReadRing;
use super::{Qp, state};
use crate::received::Received;
use crate::shared::Core;
use crate::{CableId, DropReason};
use rackweave_base::canary::{Canary, planted};
use rackweave_base::{Duration, Instant, Packet, Payload, Psn, Rkey};
use rackweave_verbs::{Access, CompletionOpcode, CompletionStatus, QpEvent, ReceiveSide};
use rackweave_wire::{Extension, NakCode, Opcode, aeth};

/// The longest message (specification 1.4, 9.7.1).
pub(crate) const MESSAGE_MAX: u32 = 1 << 31;

/// The message that is being received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Incoming {
    /// None: a new one may begin.
    Nothing,
    /// A SEND, with the number of bytes that have arrived.
    Send { received: u32 },
    /// A WRITE: the address of the next bytes, and how many are still missing.
    Write {
        address: u64,
        rkey: Rkey,
        left: u32,
        length: u32,
    },
}

/// The pending response to the peer other than READ responses. It is sent after all of those.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    /// Nothing.
    None,
    /// An acknowledgement of all executed requests.
    Acknowledge,
    /// No receive request was posted for the expected message.
    NotReady,
    /// A request is refused: the one at this PSN, or else at the expected PSN.
    Refuse(NakCode, Option<Psn>),
}

/// Why a request was not executed.
pub(super) enum Refusal {
    /// The packet is dropped as if lost.
    Drop(DropReason),
    /// No receive request is posted.
    NotReady,
    /// The peer made an error.
    Nak(NakCode),
    /// The receive request at the head of the queue is invalid or too short.
    Receive(CompletionStatus, NakCode),
}

/// The responder's state.
pub(crate) struct Responder {
    pub(crate) expected: Psn,
    /// Messages executed, modulo 2^24.
    pub(crate) msn: u32,
    /// Whether the peer has been informed that the expected PSN is missing: later requests are then
    /// dropped silently.
    pub(crate) nak_sent: bool,
    /// Request packets executed since the last acknowledgement.
    pub(crate) unacknowledged: u32,
    pub(crate) answer: Answer,
    pub(super) incoming: Incoming,
    pub(crate) receives: ReceiveQueue,
    pub(crate) reads: ReadRing,
    pub(crate) held: HeldQueue,
    pub(crate) access: Access,
    pub(crate) not_ready_timer: u8,
    /// Whether READ responses refer to the region instead of copying from it.
    pub(crate) by_reference: bool,
    /// Whether a congestion notification is pending.
    pub(crate) notify: bool,
    notified_at: Option<Instant>,
    /// The cable on which the last request came.
    pub(crate) cable: CableId,
}

impl Responder {
    pub(crate) fn new(receives: ReceiveQueue) -> Self {
        Self {
            expected: Psn::new(0),
            msn: 0,
            nak_sent: false,
            unacknowledged: 0,
            answer: Answer::None,
            incoming: Incoming::Nothing,
            receives,
            reads: ReadRing::new(0),
            held: HeldQueue::default(),
            access: Access::empty(),
            not_ready_timer: 0,
            by_reference: false,
            notify: false,
            notified_at: None,
            cable: CableId::SWITCH,
        }
    }

    /// Starts receiving.
    pub(crate) fn begin(&mut self, side: &ReceiveSide) {
        self.expected = side.psn;
        self.reads = ReadRing::new(side.reads_in_flight_max);
        self.access = side.access;
        self.not_ready_timer = aeth::rnr_timer(side.rnr_wait);
    }

    /// Whether READ responses or results of atomics are to be sent.
    #[inline]
    pub(crate) fn reads_pending(&self) -> bool {
        self.reads.is_pending()
    }

    /// Whether an acknowledgement or NAK is to be sent.
    #[inline]
    pub(crate) fn has_answer(&self) -> bool {
        self.answer != Answer::None
    }

    /// Discards pending responses and held requests.
    pub(crate) fn silence(&mut self) {
        self.answer = Answer::None;
        self.reads = ReadRing::new(0);
        self.held.clear();
        self.notify = false;
    }
}

impl Qp {
    /// Handles a request of the peer.
    pub(crate) fn handle_request(
        &mut self,
        core: &mut Core,
        headers: &Received,
        packet: &mut Packet,
    ) -> Result<(), DropReason> {
        let psn = headers.bth.psn;
        let behind = self.responder.expected.distance_from(psn);
        if behind != 0 && behind <= Psn::SPACE / 2 {
            return self.handle_duplicate(core, headers, packet);
        }
        if self.must_hold(headers.bth.opcode) {
            core.counters.held_requests += 1;
            let packet = core::mem::replace(packet, Packet::with_payload(Payload::Empty));
            return match self.responder.held.push(*headers, packet) {
                true => Ok(()),
                false => Err(DropReason::HoldFull),
            };
        }
        self.take_request(core, headers, packet)
    }

    /// Handles a packet marked "congestion experienced": schedules a notification to its sender, at
    /// a limited rate.
    pub(crate) fn note_mark(&mut self, core: &mut Core, now: Instant) {
        core.counters.np_ecn_marked_roce_packets += 1;
        let Some(dcqcn) = core.dcqcn() else { return };
        let due = self
            .responder
            .notified_at
            .is_none_or(|at| now >= at + dcqcn.notify_interval);
        if due {
            self.responder.notified_at = Some(now);
            self.responder.notify = true;
        }
    }

    /// Whether the request must wait until READs before it are answered; see `held`.
    #[inline]
    fn must_hold(&self, opcode: Opcode) -> bool {
        let responder = &self.responder;
        !responder.held.is_empty()
            || (responder.reads.is_streaming()
                && !responder.by_reference
                && opcode != Opcode::ReadRequest)
    }

    /// Handles the held requests, up to the next one that must wait.
    pub(super) fn take_held(&mut self, core: &mut Core) {
        while state::receives(self.state) && !self.responder.reads.is_streaming() {
            let Some(Held { headers, packet }) = self.responder.held.pop() else {
                return;
            };
            if let Err(reason) = self.take_request(core, &headers, &packet) {
                core.counters.count_drop(reason);
            }
        }
    }

    /// Handles a request that is expected or ahead of the expected PSN.
    fn take_request(
        &mut self,
        core: &mut Core,
        headers: &Received,
        packet: &Packet,
    ) -> Result<(), DropReason> {
        if headers.bth.psn != self.responder.expected {
            core.counters.out_of_seq_request += 1;
            if !self.responder.nak_sent {
                self.responder.nak_sent = true;
                self.responder.answer = Answer::Refuse(NakCode::SequenceError, None);
            }
            return Err(DropReason::OutOfSequence);
        }
        let result = match headers.bth.opcode {
            opcode if opcode.is_write() => self.execute_write(core, headers, packet),
            opcode if opcode.is_send() => self.execute_send(core, headers, &packet.payload),
            Opcode::ReadRequest => self.execute_read(core, headers),
            _ => self.execute_atomic(core, headers),
        };
        match result {
            Ok(packets) => {
                self.executed(core, headers, packets);
                Ok(())
            }
            Err(Refusal::Drop(reason)) => Err(reason),
            Err(Refusal::NotReady) => {
                core.counters.out_of_buffer += 1;
                self.responder.nak_sent = true;
                self.responder.answer = Answer::NotReady;
                Ok(())
            }
            Err(Refusal::Nak(code)) => {
                self.refuse(core, code, None);
                Ok(())
            }
            Err(Refusal::Receive(status, code)) => {
                core.counters.resp_local_length_error +=
                    u64::from(status == CompletionStatus::LocalLength);
                self.complete_receive(core, status, CompletionOpcode::Receive, 0, None);
                self.refuse(core, code, None);
                Ok(())
            }
        }
    }

    /// Records that the expected request was executed and used `packets` PSNs.
    #[inline]
    fn executed(&mut self, core: &mut Core, headers: &Received, packets: u32) {
        let responder = &mut self.responder;
        responder.expected = headers.bth.psn.add(packets);
        // A pending NAK remains: requests ahead of the expected one have been dropped.
        responder.nak_sent &= matches!(responder.answer, Answer::Refuse(..));
        if responder.answer == Answer::NotReady {
            responder.answer = Answer::None;
        }
        if responder.reads.is_pending() && !headers.bth.opcode.carries_payload() {
            // Its response acknowledges all requests before it.
            responder.unacknowledged = 0;
            if responder.answer == Answer::Acknowledge {
                responder.answer = Answer::None;
                core.counters.ack_deferred += 1;
            }
            return;
        }
        responder.unacknowledged += packets;
        if headers.bth.ack_request || responder.unacknowledged >= core.config.ack_every {
            match responder.answer {
                Answer::None => responder.answer = Answer::Acknowledge,
                _ => core.counters.ack_deferred += 1,
            }
        }
    }

    /// Refuses a request of the peer: the queue pair enters the Error state once the NAK is sent.
    pub(super) fn refuse(&mut self, core: &mut Core, code: NakCode, psn: Option<Psn>) {
        match code {
            NakCode::RemoteAccess => core.counters.resp_remote_access_errors += 1,
            _ => core.counters.resp_remote_invalid_request += 1,
        }
        self.responder.answer = Answer::Refuse(code, psn);
        self.enter_error_answering(core);
        core.report(QpEvent::Fatal(self.qpn));
    }

    /// Handles a request that was executed before.
    fn handle_duplicate(
        &mut self,
        core: &mut Core,
        headers: &Received,
        packet: &Packet,
    ) -> Result<(), DropReason> {
        core.counters.duplicate_request += 1;
        let psn = headers.bth.psn;
        match (headers.bth.opcode, headers.extension) {
            (Opcode::ReadRequest, Extension::Reth(reth)) => {
                let allowed = self.range(core, &reth, Access::REMOTE_READ).is_ok();
                let mtu = self.connection.mtu;
                if !allowed || !self.responder.reads.replay_read(psn, &reth, mtu) {
                    return Err(DropReason::UnmatchedDuplicate);
                }
                Ok(())
            }
            (Opcode::CompareSwap | Opcode::FetchAdd, _) => {
                match self.responder.reads.replay_atomic(psn) {
                    true => Ok(()),
                    false => Err(DropReason::UnmatchedDuplicate),
                }
            }
            (_, extension) => {
                if planted(Canary::NicExecutesDuplicates)
                    && let Extension::Reth(reth) | Extension::RethImmediate(reth, _) = extension
                {
                    let _ = self.store_write(core, reth.address, reth.rkey, &packet.payload);
                }
                if self.responder.answer == Answer::None {
                    self.responder.answer = Answer::Acknowledge;
                }
                Ok(())
            }
        }
    }

    /// Takes the pending congestion notification, if any.
    pub(super) fn take_notification(&mut self) -> bool {
        core::mem::take(&mut self.responder.notify)
    }
}

/// The longest wait that a receiver-not-ready NAK can request.
pub(super) fn not_ready_wait_max() -> Duration {
    aeth::rnr_wait(0)
}
