//! One thread's way into an index by UDP datagrams: the client–server mode of
//! [`rackweave_wire::fabric::lookup`].
//!
//! Operations are those of [`super::IndexClient`] and end as they do there; only the way to an
//! endpoint is another: no connection, each request a datagram of its own that is sent again until
//! it is answered (`calls`, `sending`). Reads may be done twice. Writes need a session with their
//! endpoint, in which each is done once at most: an attempt that was answered, whatever the answer,
//! is over, and what tries again is another. A session that the endpoint does not know any more
//! ends writes that are under way in it with an unknown outcome, as a broken connection does.

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

/// The size and the patience of a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DatagramClientConfig {
    /// A random number, which no other client of this index ever has.
    pub client: u64,
    /// Operations under way at a time, at most 32768.
    pub operations: u16,
    /// How long it waits for an answer before it sends a request again; twice as long each time, up
    /// to `timeout_max`.
    pub timeout: Duration,
    /// The longest of these waits.
    pub timeout_max: Duration,
    /// How often a request is sent at most, at least once.
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

/// What a client for datagrams has seen, beside its [`ClientStatistics`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DatagramClientStatistics {
    /// Requests sent, repeated ones included.
    pub sent: u64,
    /// Of those: sent again.
    pub repeated: u64,
    /// Of those: the NIC had no room; they count as lost.
    pub unsent: u64,
    /// Requests given up.
    pub given_up: u64,
    /// Datagrams that were no replies, or damaged ones.
    pub damaged: u64,
    /// Replies to no request under way: late, or doubled.
    pub strays: u64,
    /// Replies to gets of which the walk began below the root, by the level; 7 stands for more.
    pub begun: [u64; 8],
    /// Sessions opened.
    pub sessions: u64,
    /// Sessions that an endpoint did not know any more.
    pub sessions_lost: u64,
}

/// The way to one endpoint.
#[derive(Debug)]
struct Way {
    to: (Ipv4Addr, u16),
    session: Option<Opened>,
    opening: bool,
    /// When a request in the session was sent first that was answered since.
    fresh: Instant,
    /// Slots of the session in which no write is under way.
    slots: Vec<u16>,
    /// Operations that wait for a slot or for the session.
    waiting: VecDeque<u32>,
}

impl Way {
    /// Whether the endpoint may have forgotten the session, and nothing would be lost by another.
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
    /// A client that begins with this map. It takes a port, and has no way to any endpoint yet.
    ///
    /// # Errors
    /// If there is no port.
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
        // Of an entry in a page, the longest that a value needs around it.
        let around = HEADER_LEN + WRITE_LEN.max(32);
        let room = datagrams.datagram_max().saturating_sub(around);
        operations.limit_values(room as u32);
        Ok(Self {
            port,
            ways: (0..endpoints).map(|_| None).collect(),
            operations,
            // One for the map, and a session for each endpoint.
            calls: Calls::new(usize::from(config.operations) + 1 + endpoints),
            map: MapSoFar::default(),
            scratch: Vec::new(),
            received: Vec::new(),
            statistics: DatagramClientStatistics::default(),
            config,
        })
    }

    /// Says where an endpoint's server listens. A session with a former one is over.
    ///
    /// # Errors
    /// If there is no such endpoint.
    pub fn attach(&mut self, endpoint: EndpointId, to: (Ipv4Addr, u16)) -> Result<(), AttachError> {
        let endpoints = self.ways.len() as u16;
        let no_endpoint = AttachError::NoEndpoint {
            endpoint,
            endpoints,
        };
        let place = self.ways.get_mut(endpoint.index()).ok_or(no_endpoint)?;
        let before = place.take();
        // A question for a session that is under way to the same place will be answered.
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

    /// Gives the port back.
    pub fn close(self, datagrams: &mut dyn Datagrams) {
        datagrams.unbind(self.port);
    }

    /// Takes an operation.
    ///
    /// # Errors
    /// If too many are under way, or it makes no sense.
    pub fn begin(&mut self, op: &Op<'_>) -> Result<Ticket, BeginError> {
        self.operations.begin(op, Access::Rpc)
    }

    /// Gets on with what is under way; an operation that has ended, if there is one.
    pub fn poll(&mut self, now: Instant, datagrams: &mut dyn Datagrams) -> Option<Reply> {
        if let Some(reply) = self.operations.take_reply() {
            return Some(reply);
        }
        self.advance(now, datagrams);
        self.operations.take_reply()
    }

    /// Gets on with what is under way. True if anything came.
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
            // What has to be sent again goes now, and not when something comes next.
            self.dispatch(now, datagrams);
        }
        came
    }

    /// An operation that has ended, if one is known. Needs no NIC.
    pub fn take(&mut self) -> Option<Reply> {
        self.operations.take_reply()
    }

    /// When to call [`DatagramClient::poll`] even if nothing comes; [`Instant::ZERO`] if there is
    /// something to be sent.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let timeouts = [self.calls.poll_timeout(), self.operations.poll_timeout()];
        timeouts.into_iter().flatten().min()
    }

    /// Operations begun whose end has not been taken.
    pub fn under_way(&self) -> usize {
        self.operations.under_way()
    }

    /// Operations that may be begun now.
    pub fn free(&self) -> usize {
        self.operations.free()
    }

    /// The map that it routes by.
    pub fn map(&self) -> &PartitionMap {
        self.operations.map()
    }

    /// The UDP port that it took.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// What its operations have seen.
    pub fn statistics(&self) -> ClientStatistics {
        self.operations.statistics
    }

    /// What its requests have seen.
    pub fn datagram_statistics(&self) -> DatagramClientStatistics {
        self.statistics
    }
}
