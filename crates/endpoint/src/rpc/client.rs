//! The client's end of one connection: its interface to the owner. Its internals are in
//! [`advance`].

mod advance;

use super::ClientConfig;
use super::config::Sizes;
use super::counters::ClientCounters;
use super::error::{Cause, RpcError};
use super::inbox::Inbox;
use super::names::Connection;
use super::outbox::Outbox;
use super::window::{Ticket, Window};
use crate::resources::Resources;
use core::ops::Range;
use rackweave_base::{Instant, Memory, Qpn};
use rackweave_verbs::{Completion, PdId, QpCapabilities, Verbs};
use rackweave_wire::fabric::rpc::{GRANT_INITIAL, MessageKind};
use std::collections::VecDeque;

/// A client has only one connection.
const CONNECTION: Connection = Connection::new(0, 0);

/// The result of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reply<'a> {
    /// The request.
    pub ticket: Ticket,
    /// The reply, or the reason why there is none.
    pub result: Result<&'a [u8], RpcError>,
    /// The bytes of the reply, also of one whose status is not success.
    pub bytes: &'a [u8],
}

/// The result of a request that the owner has not taken yet.
#[derive(Debug)]
struct Ended {
    ticket: Ticket,
    result: Result<(), RpcError>,
    bytes: Range<usize>,
}

/// Whether the queue pair carries messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// The queue pair is not connected yet.
    Unconnected,
    /// The receive requests are posted; the queue pair does not send yet.
    Receives,
    /// The queue pair carries messages.
    Open,
    /// The connection is broken.
    Broken(Cause),
}

/// Whether to ask the server if it is alive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Question {
    None,
    /// A probe is to be sent.
    Wanted,
    /// A probe was sent; the server has until this time to send anything.
    Asked(Instant),
}

/// The client's end of one connection.
#[derive(Debug)]
pub struct Client {
    qpn: Qpn,
    nic: Resources,
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
    /// The server incarnation that the client communicates with; zero if not known yet.
    incarnation: u64,
    /// Number of messages that the server has allowed so far, modulo 2^32.
    granted: u32,
    question: Question,
    /// Whether messages wait for a grant.
    waits: bool,
    counters: ClientCounters,
}

impl Client {
    /// Creates a queue pair with its buffers and completion queue. It must be connected to a queue
    /// pair made by [`super::Server::accept`].
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
        let capabilities = QpCapabilities {
            send_max: sizes.send_buffers.into(),
            receive_max: sizes.receives.into(),
            segments_max: 1,
        };
        let entries = capabilities.send_max + capabilities.receive_max;
        let bytes = sizes.bytes() as usize;
        let (nic, qpn) = Resources::with_qp(verbs, memory, pd, bytes, entries, capabilities)?;
        Ok(Self {
            qpn,
            state: State::Unconnected,
            window: Window::new(config.window, config.timeout),
            outbox: Outbox::new(&nic.region, 0, &sizes, MessageKind::Request),
            inbox: Inbox::new(&nic.region, 0, &sizes),
            nic,
            ended: VecDeque::with_capacity(config.window.into()),
            bytes: Vec::new(),
            completions: Vec::with_capacity(config.completions_max.into()),
            incarnation: config.incarnation,
            granted: GRANT_INITIAL.into(),
            question: Question::None,
            waits: false,
            counters: ClientCounters::default(),
            config,
            sizes,
        })
    }

    /// The queue pair to connect.
    pub fn qpn(&self) -> Qpn {
        self.qpn
    }

    /// The configuration.
    pub fn config(&self) -> &ClientConfig {
        &self.config
    }

    /// The counters.
    pub fn counters(&self) -> &ClientCounters {
        &self.counters
    }

    /// The server's incarnation, once it is known.
    pub fn incarnation(&self) -> Option<u64> {
        (self.incarnation != 0).then_some(self.incarnation)
    }

    /// Number of requests that can begin now.
    pub fn free(&self) -> usize {
        self.window.free()
    }

    /// Requests begun whose result has not been taken yet, including those whose reply is late.
    pub fn under_way(&self) -> usize {
        usize::from(self.window.size()) - self.window.free()
    }

    /// Whether the connection is broken: then no request can begin any more.
    pub fn is_broken(&self) -> bool {
        self.cause().is_some()
    }

    /// Why the connection is broken.
    pub fn cause(&self) -> Option<Cause> {
        match self.state {
            State::Broken(cause) => Some(cause),
            _ => None,
        }
    }

    /// Begins a request of at most `length_max` bytes. `fill` gets a buffer of that length, all
    /// zero, writes the request into it and returns the request's length. The request is sent by
    /// the next [`Client::poll`].
    ///
    /// # Errors
    /// If the request is too long ([`RpcError::TooLarge`]), the window is full
    /// ([`RpcError::WindowFull`]) or the connection is broken ([`RpcError::Disconnected`]). Then
    /// `fill` is not called.
    ///
    /// # Panics
    /// If `fill` returns more than the length of its buffer.
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

    /// Begins a request with these bytes: see [`Client::begin`].
    ///
    /// # Errors
    /// As for [`Client::begin`].
    pub fn begin_with(&mut self, method: u16, request: &[u8]) -> Result<Ticket, RpcError> {
        self.begin(method, request.len(), |bytes| {
            bytes.copy_from_slice(request);
            request.len()
        })
    }

    /// Returns a result, if one is known. If no result is left to take, first advances all pending
    /// requests, as [`Client::advance`] does.
    pub fn poll(&mut self, now: Instant, verbs: &mut dyn Verbs) -> Option<Reply<'_>> {
        if self.ended.is_empty() {
            self.advance(now, verbs);
        }
        self.take()
    }

    /// Sends the requests that were begun, with one doorbell, and handles received messages, unless
    /// results are still to be taken. True if anything happened.
    pub fn advance(&mut self, now: Instant, verbs: &mut dyn Verbs) -> bool {
        if self.is_broken() {
            return false;
        }
        let before = self.progress();
        if let Err(cause) = self.try_advance(now, verbs) {
            self.break_off(verbs, cause);
        }
        before != self.progress()
    }

    /// A summary that changes whenever anything happens.
    fn progress(&self) -> (u64, u64, usize, State) {
        let ClientCounters {
            messages_sent,
            messages_received,
            ..
        } = self.counters;
        (
            messages_sent,
            messages_received,
            self.ended.len(),
            self.state,
        )
    }

    /// Returns a result, if one is known. Needs no verbs, so results can be handled while other
    /// users have the NIC.
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

    /// When to call [`Client::poll`] even if no completion arrives.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let deadline = self.window.deadline();
        match self.question {
            Question::Asked(until) if !self.is_broken() => {
                Some(deadline.map_or(until, |deadline| deadline.min(until)))
            }
            _ => deadline,
        }
    }

    /// Releases the queue pair, its completion queue and its buffers. Pending requests are
    /// forgotten.
    pub fn close(self, verbs: &mut dyn Verbs) {
        // Resources that the NIC no longer knows need no release.
        let _ = verbs.destroy_qp(self.qpn);
        self.nic.destroy(verbs);
    }
}
