//! A client of an index over UDP datagrams, for one thread: the client–server mode of
//! [`rackweave_wire::fabric::lookup`].
//!
//! Operations are those of [`super::IndexClient`] and end in the same ways; only the transport
//! differs. There is no connection: each request is a datagram that is sent again until it is
//! answered (`calls`, `sending`). Reads may be executed twice. Writes need a session with their
//! endpoint, in which each is executed at most once. An attempt that was answered, whatever the
//! answer, is over; a retry is a new attempt. When the endpoint no longer knows a session, the
//! writes in flight in it end with an unknown outcome, as when a connection breaks.

mod answers;
mod calls;
mod sending;
#[cfg(test)]
mod tests;

use super::operations::Operations;
use super::{AttachError, IndexClientConfig};
use crate::index::map::{EndpointId, PartitionMap};
use crate::index::op::{Access, BeginError, Op, Reply, Ticket};
use crate::index::statistics::ClientStatistics;
use answers::MapSoFar;
use calls::{CALLS_MAX, Calls, Patience};
use rackweave_base::{Duration, Instant};
use rackweave_verbs::{BindError, Datagrams};
use rackweave_wire::fabric::lookup::{HEADER_LEN, Opened, WRITE_LEN};
use std::collections::VecDeque;
use std::net::Ipv4Addr;

/// Configuration of a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DatagramClientConfig {
    /// A random number that no other client of this index ever has.
    pub client: u64,
    /// Maximum number of pending operations, at most 32768.
    pub operations: u16,
    /// Wait for a reply before the first repetition of a request. It doubles with each repetition,
    /// up to `timeout_max`.
    pub timeout: Duration,
    /// Maximum wait between repetitions.
    pub timeout_max: Duration,
    /// Maximum number of times that a request is sent, at least one.
    pub tries_max: u32,
    /// As [`IndexClientConfig::busy_wait`].
    pub busy_wait: Duration,
    /// As [`IndexClientConfig::busy_wait_max`].
    pub busy_wait_max: Duration,
    /// As [`IndexClientConfig::tries_max`].
    pub busy_tries_max: u32,
}

impl DatagramClientConfig {
    /// 64 operations; the first repetition after 200 µs, ten in about 50 ms.
    pub const fn new(client: u64) -> Self {
        Self {
            client,
            operations: 64,
            timeout: Duration::from_micros(200),
            timeout_max: Duration::from_millis(10),
            tries_max: 10,
            busy_wait: Duration::from_micros(5),
            busy_wait_max: Duration::from_millis(1),
            busy_tries_max: 1000,
        }
    }

    fn patience(&self) -> Patience {
        Patience {
            timeout: self.timeout,
            timeout_max: self.timeout_max,
            tries_max: self.tries_max.max(1),
        }
    }
}

/// Counters of a datagram client, in addition to its [`ClientStatistics`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DatagramClientStatistics {
    /// Requests sent, including repetitions.
    pub sent: u64,
    /// Repetitions of requests.
    pub repeated: u64,
    /// Requests for which the NIC had no free send buffer; they count as lost.
    pub unsent: u64,
    /// Requests given up.
    pub given_up: u64,
    /// Datagrams that were not replies, or were damaged.
    pub damaged: u64,
    /// Replies to no pending request: late or duplicate.
    pub strays: u64,
    /// Replies to gets whose walk began below the root, by level; 7 means 7 or more.
    pub begun: [u64; 8],
    /// Sessions opened.
    pub sessions: u64,
    /// Sessions that an endpoint no longer knew.
    pub sessions_lost: u64,
}

/// The path to one endpoint.
#[derive(Debug)]
struct Way {
    to: (Ipv4Addr, u16),
    session: Option<Opened>,
    opening: bool,
    /// When the latest answered request of the session was first sent.
    fresh: Instant,
    /// Slots of the session without a write in flight.
    slots: Vec<u16>,
    /// Operations that wait for a slot or for the session.
    waiting: VecDeque<u32>,
}

impl Way {
    /// Whether the endpoint may have forgotten the session, and replacing it loses nothing.
    fn is_stale(&self, now: Instant) -> bool {
        self.session.is_some_and(|session| {
            let keep = Duration::from_nanos(session.keep_ns / 2);
            let idle = self.slots.len() == usize::from(session.slots);
            idle && now > self.fresh + keep
        })
    }
}

/// A client of an index that sends datagrams.
#[derive(Debug)]
pub struct DatagramClient {
    config: DatagramClientConfig,
    port: u16,
    ways: Vec<Option<Way>>,
    operations: Operations,
    calls: Calls,
    map: MapSoFar,
    scratch: Vec<u8>,
    received: Vec<u8>,
    statistics: DatagramClientStatistics,
}

impl DatagramClient {
    /// A client that begins with this map. It binds a port, and has no path to any endpoint yet.
    ///
    /// # Errors
    /// If no port is free.
    pub fn new(
        datagrams: &mut dyn Datagrams,
        map: PartitionMap,
        config: DatagramClientConfig,
    ) -> Result<Self, BindError> {
        let port = datagrams.bind(0)?;
        let endpoints = usize::from(map.endpoints());
        let config = DatagramClientConfig {
            operations: config.operations.min((CALLS_MAX / 2) as u16),
            ..config
        };
        let mut operations = Operations::new(
            map,
            IndexClientConfig {
                operations: config.operations,
                busy_wait: config.busy_wait,
                busy_wait_max: config.busy_wait_max,
                tries_max: config.busy_tries_max,
                ..IndexClientConfig::default()
            },
        );
        // The maximum overhead of a value: that of an entry in a page.
        let around = HEADER_LEN + WRITE_LEN.max(32);
        let room = datagrams.datagram_max().saturating_sub(around);
        operations.limit_values(room as u32);
        Ok(Self {
            port,
            ways: (0..endpoints).map(|_| None).collect(),
            operations,
            // One for the map, and one session for each endpoint.
            calls: Calls::new(usize::from(config.operations) + 1 + endpoints),
            map: MapSoFar::default(),
            scratch: Vec::new(),
            received: Vec::new(),
            statistics: DatagramClientStatistics::default(),
            config,
        })
    }

    /// Sets where an endpoint's server listens. A session with a former server is over.
    ///
    /// # Errors
    /// If the endpoint does not exist.
    pub fn attach(&mut self, endpoint: EndpointId, to: (Ipv4Addr, u16)) -> Result<(), AttachError> {
        let endpoints = self.ways.len() as u16;
        let no_endpoint = AttachError::NoEndpoint {
            endpoint,
            endpoints,
        };
        let place = self.ways.get_mut(endpoint.index()).ok_or(no_endpoint)?;
        let before = place.take();
        // A pending request for a session with the same server will be answered.
        let opening = before
            .as_ref()
            .is_some_and(|before| before.opening && before.to == to);
        *place = Some(Way {
            to,
            session: None,
            opening,
            fresh: Instant::ZERO,
            slots: Vec::new(),
            waiting: VecDeque::new(),
        });
        for slot in before.map(|way| way.waiting).into_iter().flatten() {
            self.operations.again(slot);
        }
        Ok(())
    }

    /// Releases the port.
    pub fn close(self, datagrams: &mut dyn Datagrams) {
        datagrams.unbind(self.port);
    }

    /// Begins an operation.
    ///
    /// # Errors
    /// If too many operations are pending, or the operation is invalid.
    pub fn begin(&mut self, op: &Op<'_>) -> Result<Ticket, BeginError> {
        self.operations.begin(op, Access::Rpc)
    }

    /// Advances all pending operations; returns a completed operation, if there is one.
    pub fn poll(&mut self, now: Instant, datagrams: &mut dyn Datagrams) -> Option<Reply> {
        if let Some(reply) = self.operations.take_reply() {
            return Some(reply);
        }
        self.advance(now, datagrams);
        self.operations.take_reply()
    }

    /// Advances all pending operations. True if anything was received.
    pub fn advance(&mut self, now: Instant, datagrams: &mut dyn Datagrams) -> bool {
        self.operations.wake(now);
        self.dispatch(now, datagrams);
        let mut came = false;
        let mut received = core::mem::take(&mut self.received);
        while let Some(from) = datagrams.receive(self.port, &mut received) {
            came = true;
            self.handle(now, from, &received, datagrams);
        }
        self.received = received;
        self.repeat(now, datagrams);
        if self.operations.is_ready() {
            // Retries are sent now, not when the next reply arrives.
            self.dispatch(now, datagrams);
        }
        came
    }

    /// Returns a completed operation, if one is known. Needs no NIC.
    pub fn take(&mut self) -> Option<Reply> {
        self.operations.take_reply()
    }

    /// When to call [`DatagramClient::poll`] even if nothing arrives; [`Instant::ZERO`] if there is
    /// something to send.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let timeouts = [self.calls.poll_timeout(), self.operations.poll_timeout()];
        timeouts.into_iter().flatten().min()
    }

    /// Operations begun whose result has not been taken.
    pub fn under_way(&self) -> usize {
        self.operations.under_way()
    }

    /// Number of operations that can begin now.
    pub fn free(&self) -> usize {
        self.operations.free()
    }

    /// The map that the client uses for routing.
    pub fn map(&self) -> &PartitionMap {
        self.operations.map()
    }

    /// The UDP port that the client has bound.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Counters of its operations.
    pub fn statistics(&self) -> ClientStatistics {
        self.operations.statistics
    }

    /// Counters of its requests.
    pub fn datagram_statistics(&self) -> DatagramClientStatistics {
        self.statistics
    }
}
