//! The client's end of one connection.

use super::config::Sizes;
use super::counters::ClientCounters;
use super::error::{Cause, RpcError};
use super::inbox::Inbox;
use super::names::{self, Connection, Event};
use super::outbox::Outbox;
use super::window::{Answer, Ticket, Window};
use super::{ClientConfig, Status};
use core::ops::Range;
use rackweave_base::{Instant, Memory, Qpn};
use rackweave_verbs::{
    Access, Completion, CompletionStatus, CqId, PdId, QpCapabilities, QpModify, QpState, Region,
    Verbs,
};
use rackweave_wire::fabric::rpc::{
    self, CALL_HEADER_LEN, CallId, Calls, GRANT_INITIAL, MESSAGE_HEADER_LEN, MessageHeader,
    MessageKind,
};
use std::collections::VecDeque;

/// A client's end has only one connection.
const CONNECTION: Connection = Connection::new(0, 0);

/// The end of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reply<'a> {
    /// Which request.
    pub ticket: Ticket,
    /// What came back, or why nothing did.
    pub result: Result<&'a [u8], RpcError>,
    /// The bytes of the answer, also of one that is not success.
    pub bytes: &'a [u8],
}

/// The end of a request that its owner has not taken yet.
#[derive(Debug)]
struct Ended {
    ticket: Ticket,
    result: Result<(), RpcError>,
    bytes: Range<usize>,
}

/// Whether the queue pair carries messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Nobody has connected it yet.
    Unconnected,
    /// The receive requests are posted; it does not send yet.
    Receives,
    /// It carries messages.
    Open,
    /// It does not any more.
    Broken(Cause),
}

/// Whether the server is to be asked whether it is alive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Question {
    None,
    /// It is to be asked.
    Wanted,
    /// It was asked, and has until then to send anything.
    Asked(Instant),
}

/// The client's end of one connection.
#[derive(Debug)]
pub struct Client {
    qpn: Qpn,
    cq: CqId,
    region: Region,
    config: ClientConfig,
    sizes: Sizes,
    state: State,
    window: Window,
    outbox: Outbox,
    inbox: Inbox,
    ended: VecDeque<Ended>,
    /// The messages that `ended` refers to.
    bytes: Vec<u8>,
    completions: Vec<Completion>,
    /// The incarnation spoken to; zero if that is not known yet.
    incarnation: u64,
    /// Messages that may have been sent by now, modulo 2^32.
    granted: u32,
    question: Question,
    counters: ClientCounters,
}

impl Client {
    /// Makes a queue pair with its buffers and completion queue. It is to be connected to one that
    /// [`super::Server::accept`] has made.
    ///
    /// # Errors
    /// If a size is out of range, or memory or a table of the NIC is full.
    pub fn new(
        verbs: &mut dyn Verbs,
        memory: &Memory,
        pd: PdId,
        config: ClientConfig,
    ) -> Result<Self, RpcError> {
        let sizes = config.sizes()?;
        let block = memory.allocate(sizes.bytes() as usize)?;
        let region = verbs.register(pd, block, Access::LOCAL_WRITE)?;
        let made = make_queues(verbs, pd, &sizes);
        let (cq, qpn) = made.inspect_err(|_| {
            verbs.deregister(&region);
        })?;
        Ok(Self {
            qpn,
            cq,
            state: State::Unconnected,
            window: Window::new(config.window, config.timeout),
            outbox: Outbox::new(&region, 0, &sizes, MessageKind::Request),
            inbox: Inbox::new(&region, 0, &sizes),
            region,
            ended: VecDeque::with_capacity(config.window.into()),
            bytes: Vec::new(),
            completions: Vec::with_capacity(config.completions_max.into()),
            incarnation: config.incarnation,
            granted: GRANT_INITIAL.into(),
            question: Question::None,
            counters: ClientCounters::default(),
            config,
            sizes,
        })
    }

    /// The queue pair, to be connected.
    pub fn qpn(&self) -> Qpn {
        self.qpn
    }

    /// The configuration.
    pub fn config(&self) -> &ClientConfig {
        &self.config
    }

    /// What was counted.
    pub fn counters(&self) -> &ClientCounters {
        &self.counters
    }

    /// The server's incarnation, once it is known.
    pub fn incarnation(&self) -> Option<u64> {
        (self.incarnation != 0).then_some(self.incarnation)
    }

    /// Requests that can be begun now.
    pub fn free(&self) -> usize {
        self.window.free()
    }

    /// Requests begun whose end was not taken yet, late answers included.
    pub fn under_way(&self) -> usize {
        usize::from(self.window.size()) - self.window.free()
    }

    /// Whether the connection is broken: then nothing can be begun any more.
    pub fn is_broken(&self) -> bool {
        self.cause().is_some()
    }

    /// Why it is broken.
    pub fn cause(&self) -> Option<Cause> {
        match self.state {
            State::Broken(cause) => Some(cause),
            _ => None,
        }
    }

    /// Begins a request of at most `length_max` bytes: `fill` writes it, into as many bytes, all
    /// zero, and says how many they are. It leaves with the next [`Client::poll`].
    ///
    /// # Errors
    /// If it is too long ([`RpcError::TooLarge`]), the window is full ([`RpcError::WindowFull`]) or
    /// the connection broken ([`RpcError::Disconnected`]). `fill` was not called then.
    ///
    /// # Panics
    /// If `fill` says more than it was given.
    #[inline]
    pub fn begin(
        &mut self,
        method: u16,
        length_max: usize,
        fill: impl FnOnce(&mut [u8]) -> usize,
    ) -> Result<Ticket, RpcError> {
        if let State::Broken(cause) = self.state {
            return Err(RpcError::Disconnected(cause));
        }
        let max = self.sizes.payload_max;
        if length_max > max as usize {
            return Err(RpcError::TooLarge {
                length: length_max,
                max,
            });
        }
        let window = self.window.size();
        let ticket = self.window.begin();
        let ticket = ticket.ok_or(RpcError::WindowFull { window })?;
        let bytes = self.outbox.begin_call(length_max);
        let start = bytes.len();
        bytes.resize(start + length_max, 0);
        let length = fill(&mut bytes[start..]);
        assert!(
            length <= length_max,
            "{length} bytes written into {length_max}"
        );
        bytes.truncate(start + length);
        self.outbox.end_call(start, ticket.id(), method);
        self.counters.requests += 1;
        Ok(ticket)
    }

    /// Begins a request of these bytes: see [`Client::begin`].
    ///
    /// # Errors
    /// As for [`Client::begin`].
    pub fn begin_with(&mut self, method: u16, request: &[u8]) -> Result<Ticket, RpcError> {
        self.begin(method, request.len(), |bytes| {
            bytes.copy_from_slice(request);
            request.len()
        })
    }

    /// The end of a request, if one is known. When all known ones were taken, first gets on with
    /// what is under way, as [`Client::advance`] does.
    pub fn poll(&mut self, now: Instant, verbs: &mut dyn Verbs) -> Option<Reply<'_>> {
        if self.ended.is_empty() {
            self.advance(now, verbs);
        }
        self.take()
    }

    /// Sends what was begun, with one doorbell, and takes what came, unless ends are still to be
    /// taken. True if anything happened.
    pub fn advance(&mut self, now: Instant, verbs: &mut dyn Verbs) -> bool {
        if self.is_broken() {
            return false;
        }
        let before = (self.counters, self.state);
        if let Err(cause) = self.try_advance(now, verbs) {
            self.break_off(verbs, cause);
        }
        before != (self.counters, self.state)
    }

    /// The end of a request, if one is known. Needs no verbs, so that ends can be dealt with while
    /// the NIC is free for others.
    #[inline]
    pub fn take(&mut self) -> Option<Reply<'_>> {
        let Ended {
            ticket,
            result,
            bytes,
        } = self.ended.pop_front()?;
        self.window.taken(ticket);
        let bytes = &self.bytes[bytes];
        Some(Reply {
            ticket,
            result: result.map(|()| bytes),
            bytes,
        })
    }

    /// When to call [`Client::poll`] even if no completion comes.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let deadline = self.window.deadline();
        match self.question {
            Question::Asked(until) if !self.is_broken() => {
                Some(deadline.map_or(until, |deadline| deadline.min(until)))
            }
            _ => deadline,
        }
    }

    /// Gives the queue pair, its completion queue and its buffers back. What was under way is
    /// forgotten.
    pub fn close(self, verbs: &mut dyn Verbs) {
        // What the NIC no longer knows needs no giving back.
        let _ = verbs.destroy_qp(self.qpn);
        let _ = verbs.destroy_cq(self.cq);
        verbs.deregister(&self.region);
    }

    fn try_advance(&mut self, now: Instant, verbs: &mut dyn Verbs) -> Result<(), Cause> {
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

    /// Looks whether somebody has connected the queue pair.
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
            self.cq,
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

    /// Takes a message that begins at `start` of the bytes kept.
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
        // A grant that lies behind is an old one.
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

    /// Takes replies, the first of which has its header at `at` of the bytes kept.
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

    /// No answer came in time. A server that has died after it took the request leaves no trace
    /// until something is sent to it.
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
        // A question goes beyond the grant: the server has a receive request more for it.
        let beyond = self.granted.wrapping_sub(self.outbox.sent());
        let mut allowed = if beyond < 1 << 31 { beyond } else { 0 };
        if self.question == Question::Wanted && self.outbox.has_buffer() {
            self.question = Question::Asked(now + self.config.timeout);
            self.counters.probes += 1;
            self.outbox.stage_empty_first();
            allowed += u32::from(allowed == 0);
        }
        self.counters.grant_waits += u64::from(allowed == 0);
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

    /// The connection is of no use any more.
    fn break_off(&mut self, verbs: &mut dyn Verbs, cause: Cause) {
        self.state = State::Broken(cause);
        self.outbox.clear();
        for ticket in self.window.end_all() {
            self.counters.disconnected += 1;
            self.end(ticket, RpcError::Disconnected(cause));
        }
        // It may be gone already.
        let _ = verbs.modify_qp(self.qpn, QpModify::Error);
    }
}

fn make_queues(verbs: &mut dyn Verbs, pd: PdId, sizes: &Sizes) -> Result<(CqId, Qpn), RpcError> {
    let capabilities = QpCapabilities {
        send_max: sizes.send_buffers.into(),
        receive_max: sizes.receives.into(),
        segments_max: 1,
    };
    let cq = verbs.create_cq(capabilities.send_max + capabilities.receive_max)?;
    match verbs.create_qp(pd, cq, cq, capabilities) {
        Ok(qpn) => Ok((cq, qpn)),
        Err(error) => {
            let _ = verbs.destroy_cq(cq);
            Err(error.into())
        }
    }
}
