//! Pending operations: what to send for them, and how they end.

use super::IndexClientConfig;
use super::parts::parts_of;
use crate::btree::Direction;
use crate::index::map::{EndpointId, PartitionMap};
use crate::index::message::Request;
use crate::index::op::{Access, Answer, BeginError, IndexError, Op, Reply, Ticket, Value};
use crate::index::reader::{Found, Query};
use crate::index::sampler::KeySampler;
use crate::index::statistics::ClientStatistics;
use rackweave_base::{Instant, Timers};
use std::collections::VecDeque;

/// The kind of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Get,
    Insert,
    Update,
    Put,
    Delete,
    Scan(Direction),
}

impl Kind {
    pub fn is_write(self) -> bool {
        !matches!(self, Self::Get | Self::Scan(_))
    }
}

/// The state of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// To be sent, or waiting for a free slot.
    Ready,
    /// A request is in flight.
    Called,
    /// READs at this endpoint are in flight.
    Reading(EndpointId),
    /// Waits for a newer map.
    WantsMap,
    /// Waits for a point in time.
    Paused,
}

/// A pending operation.
#[derive(Debug)]
pub(super) struct Pending {
    ticket: Ticket,
    pub kind: Kind,
    /// The key, or the least key that a scan still needs.
    pub key: u64,
    /// The greatest key that a scan still needs.
    pub last: u64,
    /// Number of entries that a scan still needs.
    pub limit: u32,
    value: Vec<u8>,
    pub entries: Vec<(u64, Value)>,
    /// The results of the parts of the current read, if there are several.
    pub parts: Vec<Option<Found>>,
    pub access: Access,
    pub state: State,
    endpoint: EndpointId,
    pub tries: u32,
}

impl Pending {
    /// The key by which the operation is routed next.
    fn next_key(&self) -> u64 {
        match self.kind {
            Kind::Scan(Direction::Backward) => self.last,
            _ => self.key,
        }
    }
}

/// A read.
pub(super) struct Reading {
    pub query: Query,
    /// Number of walks into which it is divided.
    pub parts: u16,
    /// The version of the map since which the endpoint owns the keys.
    pub since: u64,
    /// Whether the network may be queried.
    pub network: bool,
}

/// A request to send.
pub(super) struct Sendable {
    pub endpoint: EndpointId,
    pub method: u16,
}

#[derive(Debug)]
pub(super) struct Operations {
    pub(super) config: IndexClientConfig,
    pub(super) map: PartitionMap,
    value_max: u32,
    pub(super) pending: Vec<Option<Pending>>,
    free: Vec<u32>,
    ready: VecDeque<u32>,
    pub(super) paused: Timers,
    /// Operations that wait for a map.
    pub(super) mapless: Vec<u32>,
    /// The endpoint to fetch a map from, and whether it was asked.
    pub(super) ask: Option<EndpointId>,
    pub(super) asked: bool,
    replies: VecDeque<Reply>,
    tickets: u64,
    /// Memory of values of completed operations, for reuse.
    spare: Vec<Vec<u8>>,
    pub sampler: KeySampler,
    pub statistics: ClientStatistics,
}

impl Operations {
    pub fn new(map: PartitionMap, config: IndexClientConfig) -> Self {
        let count = usize::from(config.operations);
        Self {
            config,
            map,
            value_max: u32::MAX,
            pending: (0..count).map(|_| None).collect(),
            free: (0..count as u32).rev().collect(),
            ready: VecDeque::with_capacity(count),
            paused: Timers::new(count),
            mapless: Vec::new(),
            ask: None,
            asked: false,
            replies: VecDeque::with_capacity(count),
            tickets: 0,
            spare: Vec::new(),
            sampler: KeySampler::new(config.sample),
            statistics: ClientStatistics::default(),
        }
    }

    pub fn map(&self) -> &PartitionMap {
        &self.map
    }

    pub fn under_way(&self) -> usize {
        self.pending.len() - self.free.len() + self.replies.len()
    }

    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// Limits the length of values to the lowest limit of any endpoint.
    pub fn limit_values(&mut self, bytes: u32) {
        self.value_max = self.value_max.min(bytes);
    }

    pub fn begin(&mut self, op: &Op<'_>, access: Access) -> Result<Ticket, BeginError> {
        let (kind, key, last, limit) = match *op {
            Op::Get { key } => (Kind::Get, key, key, 1),
            Op::Insert { key, .. } => (Kind::Insert, key, key, 1),
            Op::Update { key, .. } => (Kind::Update, key, key, 1),
            Op::Put { key, .. } => (Kind::Put, key, key, 1),
            Op::Delete { key } => (Kind::Delete, key, key, 1),
            Op::Scan {
                low,
                last,
                direction,
                limit,
            } => (Kind::Scan(direction), low, last, limit),
        };
        if key > last {
            let low = key;
            return Err(BeginError::Backwards { low, last });
        }
        let len = op.value().len();
        if len > self.value_max as usize {
            let limit = self.value_max;
            return Err(BeginError::ValueTooLarge { len, limit });
        }
        let limit_reached = BeginError::Full {
            limit: self.config.operations.into(),
        };
        let slot = self.free.pop().ok_or(limit_reached)?;
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        let mut value = self.spare.pop().unwrap_or_default();
        value.clear();
        value.extend_from_slice(op.value());
        self.pending[slot as usize] = Some(Pending {
            ticket,
            kind,
            key,
            last,
            limit,
            value,
            entries: Vec::new(),
            parts: Vec::new(),
            access,
            state: State::Ready,
            endpoint: EndpointId(0),
            tries: 0,
        });
        self.ready.push_back(slot);
        Ok(ticket)
    }

    pub fn take_reply(&mut self) -> Option<Reply> {
        self.replies.pop_front()
    }

    pub fn is_ready(&self) -> bool {
        !self.ready.is_empty() || self.ask.is_some() && !self.asked
    }

    pub fn next_ready(&mut self) -> Option<u32> {
        self.ready.pop_front()
    }

    pub fn poll_timeout(&self) -> Option<Instant> {
        // A map request that found no free slot is sent when a reply has freed one.
        if !self.ready.is_empty() {
            return Some(Instant::ZERO);
        }
        self.paused.next()
    }

    /// Ends the pauses that have expired.
    pub fn wake(&mut self, now: Instant) {
        while let Some(slot) = self.paused.pop_expired(now) {
            self.again(slot);
        }
    }

    /// Marks an operation to be sent again.
    pub fn again(&mut self, slot: u32) {
        if let Some(pending) = self.pending[slot as usize].as_mut() {
            pending.state = State::Ready;
            self.ready.push_back(slot);
        }
    }

    pub(super) fn get(&mut self, slot: u32) -> &mut Pending {
        let pending = self.pending[slot as usize].as_mut();
        pending.expect("slots that are passed around are in use")
    }

    /// Sets and returns the endpoint of its next key.
    pub fn route(&mut self, slot: u32) -> EndpointId {
        let key = self.get(slot).next_key();
        let endpoint = self.map.owner(key);
        self.get(slot).endpoint = endpoint;
        endpoint
    }

    /// Whether the operation is done by READs.
    pub fn reads(&mut self, slot: u32) -> bool {
        let pending = self.get(slot);
        pending.access.is_by_read() && !pending.kind.is_write()
    }

    /// What to read at its endpoint, with at most `room` walks.
    pub fn query(&mut self, slot: u32, room: usize) -> Reading {
        let pending = self.pending[slot as usize].as_mut();
        let pending = pending.expect("slots that are passed around are in use");
        let endpoint = pending.endpoint;
        pending.state = State::Reading(endpoint);
        // An operation is always routed again before it is sent.
        let part = self.map.part_of(endpoint);
        let within = |low: u64, last: u64| match part {
            Some(part) => (low.max(part.low), last.min(part.last)),
            None => (low, last),
        };
        let query = match pending.kind {
            Kind::Scan(direction) => {
                let (low, last) = match direction {
                    Direction::Forward => (pending.key, within(pending.key, pending.last).1),
                    Direction::Backward => (within(pending.key, pending.last).0, pending.last),
                };
                Query::Scan {
                    low,
                    last,
                    direction,
                    limit: pending.limit,
                }
            }
            _ => Query::Get { key: pending.key },
        };
        // A scan without a far bound is ended by its limit, not by its range.
        let bounded = match (query, pending.kind) {
            (Query::Scan { .. }, Kind::Scan(Direction::Forward)) => pending.last < u64::MAX,
            (Query::Scan { .. }, Kind::Scan(Direction::Backward)) => pending.key > 0,
            _ => false,
        };
        let wanted = if bounded { self.config.scan_parts } else { 1 };
        let parts = parts_of(query, wanted, room);
        pending.parts.clear();
        pending.parts.resize(usize::from(parts), None);
        let network = pending.access == Access::InNetwork;
        self.sampler.note(pending.next_key());
        Reading {
            query,
            parts,
            since: self.map.since(endpoint),
            network,
        }
    }

    /// Encodes the operation's request.
    pub fn encode(&mut self, slot: u32, bytes: &mut Vec<u8>) -> Sendable {
        let pending = self.get(slot);
        let (key, value) = (pending.key, &pending.value[..]);
        let request = match pending.kind {
            Kind::Get => Request::Get { key },
            Kind::Insert => Request::Insert { key, value },
            Kind::Update => Request::Update { key, value },
            Kind::Put => Request::Put { key, value },
            Kind::Delete => Request::Delete { key },
            Kind::Scan(direction) => Request::Scan {
                low: key,
                last: pending.last,
                direction,
                limit: pending.limit,
            },
        };
        request.encode(bytes);
        Sendable {
            endpoint: pending.endpoint,
            method: request.method() as u16,
        }
    }

    pub fn sent(&mut self, slot: u32) {
        self.statistics.calls += 1;
        self.get(slot).state = State::Called;
    }

    pub(super) fn end(&mut self, slot: u32, result: Result<Answer, IndexError>) {
        let Some(pending) = self.pending[slot as usize].take() else {
            return;
        };
        self.paused.cancel(slot);
        self.free.push(slot);
        self.spare.push(pending.value);
        match result {
            Ok(_) => self.statistics.done += 1,
            Err(_) => self.statistics.failed += 1,
        }
        self.replies.push_back(Reply {
            ticket: pending.ticket,
            result,
        });
    }

    /// The endpoint cannot be reached; the operation was not sent.
    pub fn unreachable(&mut self, slot: u32, endpoint: EndpointId) {
        self.end(slot, Err(IndexError::Gone(endpoint)));
    }

    /// The request is too large for the endpoint; the operation was not sent.
    pub fn too_large(&mut self, slot: u32, endpoint: EndpointId) {
        self.end(slot, Err(IndexError::ValueTooLarge(endpoint)));
    }

    /// The request was sent, and no reply will arrive.
    pub fn lost(&mut self, slot: u32, endpoint: EndpointId) {
        let error = match self.get(slot).kind.is_write() {
            true => IndexError::OutcomeUnknown(endpoint),
            false => IndexError::Gone(endpoint),
        };
        self.end(slot, Err(error));
    }

    /// READs at this endpoint will not complete.
    pub fn lost_reads(&mut self, endpoint: EndpointId) {
        for slot in 0..self.pending.len() as u32 {
            let pending = self.pending[slot as usize].as_ref();
            if pending.is_some_and(|pending| pending.state == State::Reading(endpoint)) {
                self.end(slot, Err(IndexError::Gone(endpoint)));
            }
        }
    }
}
