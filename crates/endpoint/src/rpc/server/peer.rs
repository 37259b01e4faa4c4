//! The server's end of one connection.

use super::super::config::Sizes;
use super::super::counters::ServerCounters;
use super::super::error::RpcError;
use super::super::inbox::Inbox;
use super::super::names::Connection;
use super::super::outbox::Outbox;
use super::super::{ServerConfig, Service, Status, Writer};
use rackweave_base::{Instant, Qpn};
use rackweave_verbs::{PostError, QpState, Region, Verbs};
use rackweave_wire::fabric::rpc::{
    self, CALL_HEADER_LEN, Call, CallError, CallId, MessageError, MessageHeader, MessageKind,
};
use std::collections::VecDeque;

/// One client.
#[derive(Debug)]
pub(super) struct Peer {
    pub qpn: Qpn,
    pub connection: Connection,
    pub outbox: Outbox,
    /// Whether the peer is in the server's list of busy peers.
    pub is_busy: bool,
    inbox: Inbox,
    is_open: bool,
    /// Received messages that have not been read yet: buffer and length.
    unread: VecDeque<(u32, u32)>,
    /// Buffers that have been read and are to be reposted.
    read: Vec<u32>,
    /// Messages that the client may have sent, modulo 2^16.
    grant: u16,
    message: Vec<u8>,
    /// Requests whose reply was deferred, in the order in which they were.
    deferred: VecDeque<Deferred>,
    /// Bytes of these requests, and the number of bytes from which on no more messages are read:
    /// those of all receive buffers.
    deferred_bytes: u64,
    deferred_bytes_max: u64,
}

/// A request whose reply was deferred.
#[derive(Clone, Copy, Debug)]
struct Deferred {
    id: CallId,
    /// The service's number of it.
    number: u64,
    /// Bytes of the request.
    bytes: u32,
}

impl Peer {
    pub fn new(
        qpn: Qpn,
        connection: Connection,
        region: &Region,
        base: u64,
        sizes: &Sizes,
    ) -> Self {
        Self {
            qpn,
            connection,
            outbox: Outbox::new(region, base, sizes, MessageKind::Reply),
            is_busy: false,
            inbox: Inbox::new(region, base, sizes),
            is_open: false,
            unread: VecDeque::with_capacity(sizes.receives.into()),
            read: Vec::with_capacity(sizes.receives.into()),
            // One receive request is reserved for the probe of whether the server is alive.
            grant: sizes.receives - 1,
            message: Vec::new(),
            deferred: VecDeque::new(),
            deferred_bytes: 0,
            deferred_bytes_max: u64::from(sizes.receives) * u64::from(sizes.message_max),
        }
    }

    /// Whether the queue pair is destroyed or in the error state.
    pub fn is_gone(&self, verbs: &dyn Verbs) -> bool {
        matches!(verbs.qp_state(self.qpn), None | Some(QpState::Error))
    }

    /// Posts the receive requests, once.
    pub fn open(&mut self, verbs: &mut dyn Verbs) -> Result<(), RpcError> {
        if !self.is_open {
            self.inbox.open(verbs, self.qpn, self.connection)?;
            self.is_open = true;
        }
        Ok(())
    }

    /// Handles the arrival of a message.
    pub fn receive(&mut self, buffer: u32, length: u32) {
        self.unread.push_back((buffer, length));
    }

    /// Whether there are messages to read or to send, or deferred requests.
    pub fn has_work(&self) -> bool {
        !self.unread.is_empty() || self.outbox.has_waiting() || !self.deferred.is_empty()
    }

    /// Reads received messages, unless too many replies wait to be sent or are deferred. True if
    /// anything was read.
    pub fn resume(
        &mut self,
        now: Instant,
        config: &ServerConfig,
        service: &mut dyn Service,
        counters: &mut ServerCounters,
    ) -> bool {
        let mut happened = false;
        while let Some(&(buffer, length)) = self.unread.front() {
            if self.outbox.is_congested() || self.deferred_bytes >= self.deferred_bytes_max {
                counters.messages_held += 1;
                break;
            }
            happened = true;
            self.unread.pop_front();
            self.read.push(buffer);
            self.grant = self.grant.wrapping_add(1);
            let mut message = core::mem::take(&mut self.message);
            message.clear();
            self.inbox.read(buffer, length, &mut message);
            self.handle_message(now, &message, config, service, counters);
            self.message = message;
        }
        happened
    }

    /// Continues deferred requests, unless too many replies wait to be sent. True if any has got
    /// its reply.
    pub fn resume_deferred(
        &mut self,
        now: Instant,
        config: &ServerConfig,
        service: &mut dyn Service,
        counters: &mut ServerCounters,
    ) -> bool {
        let before = self.deferred.len();
        if self.outbox.is_congested() {
            return false;
        }
        for _ in 0..before {
            let Some(Deferred { id, number, bytes }) = self.deferred.pop_front() else {
                break;
            };
            self.deferred_bytes -= u64::from(bytes);
            let client = self.connection.index.into();
            self.reply(id, bytes, config, counters, |writer| {
                service.resume(now, client, number, writer)
            });
        }
        self.deferred.len() < before
    }

    fn handle_message(
        &mut self,
        now: Instant,
        message: &[u8],
        config: &ServerConfig,
        service: &mut dyn Service,
        counters: &mut ServerCounters,
    ) {
        counters.messages_received += 1;
        let calls = match rpc::parse(message) {
            Ok((header, calls)) => match check(&header, config) {
                Status::OK if header.count > 0 => calls,
                Status::OK => {
                    counters.probes += 1;
                    return self.outbox.stage_empty();
                }
                status => return self.refuse(status, counters),
            },
            Err(MessageError::Version { .. }) => {
                return self.refuse(Status::OTHER_VERSION, counters);
            }
            Err(_) => return self.refuse(Status::MALFORMED, counters),
        };
        for call in calls {
            match call {
                Ok(call) => self.serve(now, &call, config, service, counters),
                Err(CallError::Truncated { id, .. }) => {
                    counters.malformed_requests += 1;
                    self.answer_error(id, Status::MALFORMED);
                }
                Err(_) => self.refuse(Status::MALFORMED, counters),
            }
        }
    }

    #[inline]
    fn serve(
        &mut self,
        now: Instant,
        call: &Call<'_>,
        config: &ServerConfig,
        service: &mut dyn Service,
        counters: &mut ServerCounters,
    ) {
        counters.requests += 1;
        let client = self.connection.index.into();
        let length = (CALL_HEADER_LEN + call.payload.len()) as u32;
        let deferred = self.reply(call.id, length, config, counters, |writer| {
            service.serve(now, client, call.code, call.payload, writer)
        });
        counters.deferred += u64::from(deferred);
    }

    /// Writes what `execute` replies to a request of `length` bytes into the newest waiting
    /// message. True if the reply is deferred.
    #[inline]
    fn reply(
        &mut self,
        id: CallId,
        length: u32,
        config: &ServerConfig,
        counters: &mut ServerCounters,
        execute: impl FnOnce(&mut Writer<'_>) -> Status,
    ) -> bool {
        let bytes = self.outbox.begin_call(0);
        let start = bytes.len();
        let mut writer = Writer::new(bytes, config.payload_max as usize);
        let mut status = execute(&mut writer);
        if let Some(number) = writer.deferred() {
            self.outbox.abandon_call(start);
            self.deferred_bytes += u64::from(length);
            let bytes = length;
            self.deferred.push_back(Deferred { id, number, bytes });
            return true;
        }
        if writer.has_overflowed() {
            writer.clear();
            status = Status::REPLY_TOO_LARGE;
            counters.replies_too_large += 1;
        }
        counters.unknown_methods += u64::from(status == Status::UNKNOWN_METHOD);
        self.outbox.end_call(start, id, status.0);
        false
    }

    fn answer_error(&mut self, id: CallId, status: Status) {
        let start = self.outbox.begin_call(0).len();
        self.outbox.end_call(start, id, status.0);
    }

    /// Refuses a message as a whole, or the rest of it.
    fn refuse(&mut self, status: Status, counters: &mut ServerCounters) {
        *match status {
            Status::OTHER_INCARNATION => &mut counters.other_incarnations,
            Status::OTHER_VERSION => &mut counters.other_versions,
            _ => &mut counters.malformed_messages,
        } += 1;
        self.outbox.stage_refusal(status);
    }

    /// Reposts receive requests, then sends waiting messages.
    pub fn flush(
        &mut self,
        verbs: &mut dyn Verbs,
        incarnation: u64,
        counters: &mut ServerCounters,
    ) -> Result<(), PostError> {
        for buffer in self.read.drain(..) {
            self.inbox.post(verbs, self.qpn, self.connection, buffer)?;
        }
        let header = (self.grant, incarnation);
        let flushed = self
            .outbox
            .flush(verbs, self.qpn, self.connection, header, u32::MAX)?;
        counters.messages_sent += flushed.messages;
        counters.messages_inline += flushed.inline;
        counters.doorbells += flushed.doorbells;
        Ok(())
    }
}

/// Checks whether a message is a request for this server.
fn check(header: &MessageHeader, config: &ServerConfig) -> Status {
    if header.kind != MessageKind::Request {
        Status::MALFORMED
    } else if ![0, config.incarnation].contains(&header.incarnation) {
        Status::OTHER_INCARNATION
    } else {
        Status::OK
    }
}
