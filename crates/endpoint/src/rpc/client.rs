//! The client's end of one connection: what its owner sees. What goes on inside is in [`advance`].

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
    /// The incarnation spoken to; zero if that is not known yet.
    incarnation: u64,
    /// Messages that may have been sent by now, modulo 2^32.
    granted: u32,
    question: Question,
    /// Whether messages wait for a grant.
    waits: bool,
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
        let before = self.progress();
        if let Err(cause) = self.try_advance(now, verbs) {
            self.break_off(verbs, cause);
        }
        before != self.progress()
    }

    /// What changes when anything happens.
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
        self.nic.destroy(verbs);
    }
}
