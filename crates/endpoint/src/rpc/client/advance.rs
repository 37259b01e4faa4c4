//! The internals of a client: sending and receiving messages, and ending requests.

use super::super::Status;
use super::super::error::{Cause, RpcError};
use super::super::names::{self, Event};
use super::super::window::{Answer, Ticket};
use super::{CONNECTION, Client, Ended, Question, State};
use core::ops::Range;
use rackweave_base::Instant;
use rackweave_verbs::{Completion, CompletionStatus, QpModify, QpState, Verbs};
use rackweave_wire::fabric::rpc::{
    self, CALL_HEADER_LEN, CallId, Calls, MESSAGE_HEADER_LEN, MessageHeader, MessageKind,
};

impl Client {
    pub(super) fn try_advance(&mut self, now: Instant, verbs: &mut dyn Verbs) -> Result<(), Cause> {
        if self.state != State::Open {
            self.connect(verbs)?;
        }
        if self.ended.is_empty() {
            self.bytes.clear();
            self.complete(verbs)?;
        }
        self.window.start(now);
        while let Some(ticket) = self.window.expired(now) {
            self.give_up(ticket);
        }
        let wanted = match self.question {
            Question::Asked(until) if until <= now => return Err(Cause::NoAnswer),
            Question::Wanted => true,
            Question::None | Question::Asked(_) => self.outbox.has_waiting(),
        };
        match self.state {
            State::Open if wanted => self.flush(now, verbs),
            _ => Ok(()),
        }
    }

    /// Checks whether the queue pair has been connected.
    fn connect(&mut self, verbs: &mut dyn Verbs) -> Result<(), Cause> {
        let state = verbs.qp_state(self.qpn).ok_or(Cause::QueuePair)?;
        if state == QpState::Error {
            return Err(Cause::QueuePair);
        }
        if self.state == State::Unconnected && state != QpState::Reset {
            let opened = self.inbox.open(verbs, self.qpn, CONNECTION);
            opened.map_err(|_| Cause::QueuePair)?;
            self.state = State::Receives;
        }
        if self.state == State::Receives && state == QpState::ReadyToSend {
            self.state = State::Open;
        }
        Ok(())
    }

    fn complete(&mut self, verbs: &mut dyn Verbs) -> Result<(), Cause> {
        let mut completions = core::mem::take(&mut self.completions);
        completions.clear();
        verbs.poll_cq(
            self.nic.cq,
            self.config.completions_max.into(),
            &mut completions,
        );
        let mut taken = completions.iter();
        let result = taken.try_for_each(|completion| self.handle_completion(verbs, completion));
        self.completions = completions;
        result
    }

    fn handle_completion(
        &mut self,
        verbs: &mut dyn Verbs,
        completion: &Completion,
    ) -> Result<(), Cause> {
        if completion.status != CompletionStatus::Success {
            return Err(Cause::Completion(completion.status));
        }
        match names::of(completion.id) {
            (_, Event::Sent(number)) => {
                self.outbox.arrived(number);
                Ok(())
            }
            (_, Event::Received(buffer)) => {
                let start = self.bytes.len();
                let mut bytes = core::mem::take(&mut self.bytes);
                self.inbox.read(buffer, completion.length, &mut bytes);
                let posted = self.inbox.post(verbs, self.qpn, CONNECTION, buffer);
                let result = self.handle_message(&bytes[start..], start);
                self.bytes = bytes;
                posted.map_err(|_| Cause::QueuePair).and(result)
            }
        }
    }

    /// Handles a message that begins at `start` of the stored bytes.
    fn handle_message(&mut self, message: &[u8], start: usize) -> Result<(), Cause> {
        self.counters.messages_received += 1;
        let (header, calls) = rpc::parse(message).map_err(|error| {
            self.counters.malformed_messages += 1;
            Cause::NoMessage(error)
        })?;
        if header.kind == MessageKind::Refusal {
            let status = calls.flatten().next().map(|call| Status(call.code));
            return Err(Cause::Refused(status.unwrap_or(Status::MALFORMED)));
        }
        if header.kind != MessageKind::Reply {
            self.counters.malformed_messages += 1;
            return Err(Cause::NoReply);
        }
        self.check_incarnation(&header)?;
        self.question = Question::None;
        // A grant below the current one is old.
        let more = header.grant.wrapping_sub(self.granted as u16);
        if more < 1 << 15 {
            self.granted = self.granted.wrapping_add(more.into());
        }
        self.handle_replies(calls, start + MESSAGE_HEADER_LEN)
    }

    fn check_incarnation(&mut self, header: &MessageHeader) -> Result<(), Cause> {
        if self.incarnation == 0 {
            self.incarnation = header.incarnation;
        }
        if self.incarnation != header.incarnation {
            self.counters.foreign_replies += u64::from(header.count);
            return Err(Cause::OtherIncarnation {
                expected: self.incarnation,
                found: header.incarnation,
            });
        }
        Ok(())
    }

    /// Handles replies. The header of the first is at `at` of the stored bytes.
    fn handle_replies(&mut self, calls: Calls<'_>, mut at: usize) -> Result<(), Cause> {
        for call in calls {
            let Ok(call) = call else {
                self.counters.malformed_messages += 1;
                return Err(Cause::NoReply);
            };
            let start = at + CALL_HEADER_LEN;
            at = start + call.payload.len();
            self.handle_reply(call.id, Status(call.code), start..at);
        }
        Ok(())
    }

    #[inline]
    fn handle_reply(&mut self, id: CallId, status: Status, bytes: Range<usize>) {
        let ticket = match self.window.answer(id) {
            Answer::Expected(ticket) => ticket,
            Answer::Late => {
                self.counters.late_replies += 1;
                return;
            }
            Answer::Unknown => {
                self.counters.unknown_replies += 1;
                return;
            }
        };
        let result = match status.is_ok() {
            true => {
                self.counters.answered += 1;
                Ok(())
            }
            false => {
                self.counters.refused += 1;
                Err(RpcError::Refused(status))
            }
        };
        self.ended.push_back(Ended {
            ticket,
            result,
            bytes,
        });
    }

    /// No reply arrived in time. If a server dies after it received the request, the client can
    /// detect that only by sending to it.
    fn give_up(&mut self, ticket: Ticket) {
        self.counters.timed_out += 1;
        let error = RpcError::TimedOut(self.config.timeout);
        self.end(ticket, error);
        if self.question == Question::None {
            self.question = Question::Wanted;
        }
    }

    fn end(&mut self, ticket: Ticket, error: RpcError) {
        self.ended.push_back(Ended {
            ticket,
            result: Err(error),
            bytes: 0..0,
        });
    }

    fn flush(&mut self, now: Instant, verbs: &mut dyn Verbs) -> Result<(), Cause> {
        // A probe may exceed the grant: the server posts one extra receive request for it.
        let beyond = self.granted.wrapping_sub(self.outbox.sent());
        let mut allowed = if beyond < 1 << 31 { beyond } else { 0 };
        if self.question == Question::Wanted && self.outbox.has_buffer() {
            self.question = Question::Asked(now + self.config.timeout);
            self.counters.probes += 1;
            self.outbox.stage_empty_first();
            allowed += u32::from(allowed == 0);
        }
        let waits = allowed == 0;
        self.counters.grant_waits += u64::from(waits && !self.waits);
        self.waits = waits;
        let header = (0, self.incarnation);
        let flushed = self
            .outbox
            .flush(verbs, self.qpn, CONNECTION, header, allowed)
            .map_err(|_| Cause::QueuePair)?;
        self.counters.messages_sent += flushed.messages;
        self.counters.messages_inline += flushed.inline;
        self.counters.doorbells += flushed.doorbells;
        Ok(())
    }

    /// The connection is no longer usable.
    pub(super) fn break_off(&mut self, verbs: &mut dyn Verbs, cause: Cause) {
        self.state = State::Broken(cause);
        self.outbox.clear();
        for ticket in self.window.end_all() {
            self.counters.disconnected += 1;
            self.end(ticket, RpcError::Disconnected(cause));
        }
        // The queue pair may no longer exist.
        let _ = verbs.modify_qp(self.qpn, QpModify::Error);
    }
}
