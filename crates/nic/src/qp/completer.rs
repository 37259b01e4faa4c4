//! Handles the answers to requests of this queue pair: acknowledgements, READ responses, NAKs
//! (InfiniBand specification 1.4, 9.7.5 to 9.7.7).
//!
//! SENDs and WRITEs are acknowledged cumulatively, and also by a response to any later request. A
//! READ or atomic is completed only by its own responses: if a later request is answered first,
//! they are lost, and all requests from the missing one on are resent (an implied NAK).

use super::cut_through::Route;
use super::queues::Kind;
use super::recovery::Cause;
use super::requester::Requester;
use super::segments::{self, SegmentError};
use super::{Qp, state};
use crate::DropReason;
use crate::received::Received;
use crate::shared::Core;
use rackweave_base::{Instant, Packet, Psn};
use rackweave_verbs::{Completion, CompletionOpcode, CompletionStatus, QpEvent, QpState};
use rackweave_wire::{Extension, NakCode, Syndrome};

impl Qp {
    /// Handles a response of the peer.
    pub(crate) fn handle_response(
        &mut self,
        core: &mut Core,
        headers: &Received,
        packet: &Packet,
        now: Instant,
    ) -> Result<(), DropReason> {
        if !state::sends(self.state) {
            return Err(DropReason::BadState);
        }
        let psn = headers.bth.psn;
        if psn.distance_from(self.requester.una) >= self.requester.outstanding() {
            return Err(DropReason::GhostResponse);
        }
        match headers.extension {
            Extension::None => self.handle_data_response(core, headers, packet, now),
            Extension::Aeth(aeth) if headers.bth.opcode.is_read_response() => match aeth.syndrome {
                Syndrome::Ack { .. } => self.handle_data_response(core, headers, packet, now),
                _ => Err(DropReason::BadResponse),
            },
            Extension::AtomicAck(aeth, before) => match aeth.syndrome {
                Syndrome::Ack { .. } => self.handle_atomic_response(core, psn, before, now),
                _ => Err(DropReason::BadResponse),
            },
            Extension::Aeth(aeth) => {
                self.handle_acknowledgement(core, psn, aeth.syndrome, now);
                Ok(())
            }
            _ => Err(DropReason::BadResponse),
        }
    }

    fn handle_acknowledgement(
        &mut self,
        core: &mut Core,
        psn: Psn,
        syndrome: Syndrome,
        now: Instant,
    ) {
        match syndrome {
            Syndrome::Ack { .. } => {
                if !self.acknowledge(core, psn.add(1), now) {
                    self.send_again(core, Cause::ImpliedNak, now);
                }
            }
            Syndrome::Nak(NakCode::SequenceError) => {
                core.counters.rcvd_seq_err += 1;
                self.acknowledge(core, psn, now);
                self.send_again(core, Cause::SequenceError, now);
            }
            Syndrome::ReceiverNotReady { timer } => {
                core.counters.rcvd_rnr_err += 1;
                if self.acknowledge(core, psn, now) {
                    self.wait_not_ready(core, timer, now);
                } else {
                    self.send_again(core, Cause::ImpliedNak, now);
                }
            }
            Syndrome::Nak(code) => {
                self.acknowledge(core, psn, now);
                self.refused(core, psn, code);
            }
        }
    }

    /// Handles a refusal of the request at `psn` by the peer.
    fn refused(&mut self, core: &mut Core, psn: Psn, code: NakCode) {
        let status = match code {
            NakCode::RemoteAccess => {
                core.counters.req_remote_access_errors += 1;
                CompletionStatus::RemoteAccess
            }
            NakCode::RemoteOperation => {
                core.counters.req_remote_operation_errors += 1;
                CompletionStatus::RemoteOperation
            }
            NakCode::InvalidRequest | NakCode::InvalidRdRequest | NakCode::SequenceError => {
                core.counters.req_remote_invalid_request += 1;
                CompletionStatus::RemoteInvalidRequest
            }
        };
        let queue = &self.requester.queue;
        let mut number = queue.head;
        while number != queue.started {
            let entry = queue.get(number);
            if psn.is_within(entry.first_psn, entry.packets) {
                break;
            }
            number = number.wrapping_add(1);
        }
        self.fail(core, number, status);
    }

    /// Acknowledges all requests before `end`. Returns false if a READ or atomic before it is not
    /// answered: then only the requests before that one count as acknowledged.
    pub(super) fn acknowledge(&mut self, core: &mut Core, end: Psn, now: Instant) -> bool {
        let mut complete = true;
        let before = self.requester.una;
        while self.requester.una != end {
            let requester = &mut self.requester;
            let entry = requester
                .queue
                .oldest()
                .expect("a valid PSN belongs to a begun entry");
            if entry.kind != Kind::Data {
                complete = false;
                break;
            }
            let una = requester.una;
            let entry_end = entry.end_psn();
            let count = entry_end.distance_from(una).min(end.distance_from(una));
            requester.una = una.add(count);
            requester.in_flight = requester.in_flight.saturating_sub(count);
            if requester.una == entry_end {
                self.retire(core, CompletionStatus::Success);
            }
        }
        if self.requester.una != before {
            self.progressed(core, now);
        }
        complete
    }

    /// Handles a READ response, or a train of them.
    fn handle_data_response(
        &mut self,
        core: &mut Core,
        headers: &Received,
        packet: &Packet,
        now: Instant,
    ) -> Result<(), DropReason> {
        let psn = headers.bth.psn;
        self.check_answered(core, psn, Kind::Read, now)?;
        let entry = self.requester.queue.get(self.requester.queue.head);
        let index = psn.distance_from(entry.first_psn);
        let mtu = self.connection.mtu.bytes();
        let offset = index * mtu;
        let (count, len) = (packet.fragments(), packet.payload.len() as u32);
        let last = psn.add(count - 1);
        let ends = Requester::ends_span(entry, index + count);
        let expected = match count {
            1 => mtu.min(entry.length - offset),
            // A train has no fragment that is not full, and was requested as a whole.
            _ => count * mtu,
        };
        if len != expected
            || len > entry.length - offset
            || last.distance_from(self.requester.una) >= self.requester.outstanding()
            || headers.bth.opcode.ends_message() != ends
        {
            return Err(DropReason::BadResponse);
        }
        let segments = entry.request.segments();
        match segments::scatter(core, self.pd, segments, offset, &packet.payload) {
            Ok(()) => {}
            Err(SegmentError::PayloadGone | SegmentError::NoBuffer) => {
                return Err(DropReason::PayloadGone);
            }
            Err(SegmentError::Protection | SegmentError::TooShort) => {
                self.fail(
                    core,
                    self.requester.queue.head,
                    CompletionStatus::LocalProtection,
                );
                return Ok(());
            }
        }
        self.answered(core, last, ends, now);
        Ok(())
    }

    fn handle_atomic_response(
        &mut self,
        core: &mut Core,
        psn: Psn,
        before: u64,
        now: Instant,
    ) -> Result<(), DropReason> {
        self.check_answered(core, psn, Kind::Atomic, now)?;
        let entry = self.requester.queue.get(self.requester.queue.head);
        let payload = rackweave_base::Payload::inline(&before.to_ne_bytes());
        match segments::scatter(core, self.pd, entry.request.segments(), 0, &payload) {
            Ok(()) => self.answered(core, psn, true, now),
            Err(_) => self.fail(
                core,
                self.requester.queue.head,
                CompletionStatus::LocalProtection,
            ),
        }
        Ok(())
    }

    /// Whether a response at `psn` answers the oldest entry. This acknowledges everything before
    /// it.
    fn check_answered(
        &mut self,
        core: &mut Core,
        psn: Psn,
        kind: Kind,
        now: Instant,
    ) -> Result<(), DropReason> {
        if self.requester.una != psn && !self.acknowledge(core, psn, now) {
            self.send_again(core, Cause::ImpliedNak, now);
            return Err(DropReason::ResponseGap);
        }
        match self.requester.queue.oldest() {
            Some(entry) if entry.kind == kind => Ok(()),
            _ => Err(DropReason::BadResponse),
        }
    }

    /// Records the response at `psn`, which was the oldest outstanding PSN. `ends` says whether it
    /// was the last for its request packet.
    fn answered(&mut self, core: &mut Core, psn: Psn, ends: bool, now: Instant) {
        let requester = &mut self.requester;
        requester.una = psn.add(1);
        // The request counts as in flight only if it was sent since the last rewind.
        if ends && !requester.next.is_before(requester.una) {
            requester.in_flight = requester.in_flight.saturating_sub(1);
            requester.reads_in_flight = requester.reads_in_flight.saturating_sub(1);
        }
        if requester.una == requester.queue.get(requester.queue.head).end_psn() {
            self.retire(core, CompletionStatus::Success);
        }
        self.progressed(core, now);
    }

    /// Records progress: the oldest outstanding PSN has advanced.
    fn progressed(&mut self, core: &mut Core, now: Instant) {
        let requester = &mut self.requester;
        requester.retries_left = requester.side.retries;
        requester.not_ready_left = requester.side.rnr_retries;
        requester.backoff = 0;
        requester.recovering = 0;
        if requester.next.is_before(requester.una) {
            self.cursor_to_una();
        }
        let requester = &mut self.requester;
        if requester.una == requester.end {
            requester.deadline = Instant::FAR_FUTURE;
            requester.route = Route::Any;
        } else {
            requester.restart_deadline(now);
        }
        self.fail_if_broken(core);
        self.report_if_drained(core);
    }

    /// Restarts sending at the oldest PSN that is not acknowledged; nothing is in flight.
    pub(super) fn cursor_to_una(&mut self) {
        let requester = &mut self.requester;
        requester.next = requester.una;
        requester.in_flight = 0;
        requester.reads_in_flight = 0;
        requester.broken = None;
        requester.queue.cursor = requester.queue.head;
        requester.cursor_packet = match requester.queue.oldest() {
            Some(entry) => requester.una.distance_from(entry.first_psn),
            None => 0,
        };
    }

    /// Completes the oldest entry.
    pub(super) fn retire(&mut self, core: &mut Core, status: CompletionStatus) {
        let queue = &mut self.requester.queue;
        let number = queue.head;
        queue.head = number.wrapping_add(1);
        let entry = queue.get(number);
        let opcode = entry.opcode();
        if status == CompletionStatus::Success {
            core.counters.rdma_sends += u64::from(opcode == CompletionOpcode::Send);
            if !entry.request.signaled {
                return;
            }
        }
        let length = match (status, entry.kind) {
            (CompletionStatus::Success, Kind::Read | Kind::Atomic) => entry.length,
            _ => 0,
        };
        let (id, qpn) = (entry.request.id, self.qpn);
        let completion = Completion {
            id,
            qpn,
            status,
            opcode,
            length,
            immediate: None,
        };
        core.complete_send(self.send_cq, completion);
    }

    /// Fails the entry `number`: flushes the entries before it, completes it with `status`, and
    /// moves the queue pair to the Error state.
    pub(super) fn fail(&mut self, core: &mut Core, number: u32, status: CompletionStatus) {
        while self.requester.queue.head != self.requester.queue.tail {
            let failed = self.requester.queue.head == number;
            self.retire(
                core,
                if failed {
                    status
                } else {
                    CompletionStatus::Flushed
                },
            );
            if failed {
                break;
            }
        }
        self.enter_error(core);
    }

    /// Fails the entry that cannot be sent, once all entries before it are complete.
    pub(super) fn fail_if_broken(&mut self, core: &mut Core) {
        if let Some((number, status)) = self.requester.broken
            && number == self.requester.queue.head
        {
            self.fail(core, number, status);
        }
    }

    /// After `Drain`: reports an event once all started requests are complete.
    pub(super) fn report_if_drained(&mut self, core: &mut Core) {
        let requester = &mut self.requester;
        let drained = requester.queue.head == requester.queue.started;
        if self.state == QpState::SendQueueDrain && drained && requester.draining {
            requester.draining = false;
            core.report(QpEvent::Drained(self.qpn));
        }
    }
}
