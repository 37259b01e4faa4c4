//! Requests in flight: each is sent again until it is answered or given up.

use super::EndpointId;
use rackweave_base::{Duration, Instant, Timers};
use rackweave_wire::fabric::lookup::Once;
use std::net::Ipv4Addr;

/// The purpose of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum What {
    /// The operation in this slot.
    Operation(u32),
    /// A piece of the map.
    Map,
    /// A session.
    Open,
}

/// A request in flight.
#[derive(Debug)]
pub(super) struct Call {
    pub id: u64,
    pub what: What,
    /// The number of its operation on the wire.
    pub op: u8,
    pub endpoint: EndpointId,
    /// The address of its endpoint when it was first sent.
    pub to: (Ipv4Addr, u16),
    /// Its session and slot, if it is a write.
    pub once: Option<Once>,
    /// When it was first sent.
    pub begun: Instant,
    pub bytes: Vec<u8>,
    /// How often it was sent.
    sent: u32,
}

impl Call {
    /// A request that has not been sent yet.
    pub fn new(
        id: u64,
        (what, op): (What, u8),
        (endpoint, to): (EndpointId, (Ipv4Addr, u16)),
        once: Option<Once>,
        begun: Instant,
        bytes: Vec<u8>,
    ) -> Self {
        Self {
            id,
            what,
            op,
            endpoint,
            to,
            once,
            begun,
            bytes,
            sent: 0,
        }
    }
}

/// What to do with a request whose reply is overdue.
pub(super) enum Overdue {
    /// Send it again.
    Again(u32),
    /// Give it up: it was sent the maximum number of times.
    GivenUp(Call),
}

/// The limits of a client's repetitions.
#[derive(Clone, Copy)]
pub(super) struct Patience {
    pub timeout: Duration,
    pub timeout_max: Duration,
    pub tries_max: u32,
}

/// The requests of a client. The low bits of a request's number are its index.
#[derive(Debug)]
pub(super) struct Calls {
    calls: Vec<Option<Call>>,
    free: Vec<u32>,
    timers: Timers,
    /// Requests made so far: the high bits of a number, so that numbers ascend.
    made: u64,
    /// Memory of completed requests, for reuse.
    spare: Vec<Vec<u8>>,
}

/// Bits of a request's number that hold its index.
const PLACE_BITS: u32 = 16;

/// Maximum number of requests in flight.
pub(super) const CALLS_MAX: usize = 1 << PLACE_BITS;

impl Calls {
    pub fn new(count: usize) -> Self {
        let count = count.min(CALLS_MAX);
        Self {
            calls: (0..count).map(|_| None).collect(),
            free: (0..count as u32).rev().collect(),
            timers: Timers::new(count),
            made: 0,
            spare: Vec::new(),
        }
    }

    /// The index and the number of the next request, and memory for it. `None` if all indices are
    /// in use.
    pub fn make(&mut self) -> Option<(u32, u64, Vec<u8>)> {
        let place = self.free.pop()?;
        self.made += 1;
        let id = self.made << PLACE_BITS | u64::from(place);
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.clear();
        Some((place, id, bytes))
    }

    /// Stores a request at the index that was reserved for it.
    pub fn begin(&mut self, place: u32, call: Call) {
        self.calls[place as usize] = Some(call);
    }

    /// Records that a request is sent now. Returns its bytes and destination, and whether they were
    /// sent before.
    pub fn send(
        &mut self,
        now: Instant,
        place: u32,
        patience: Patience,
    ) -> Option<(&[u8], (Ipv4Addr, u16), bool)> {
        let call = self.calls[place as usize].as_mut()?;
        let again = call.sent > 0;
        let wait = patience.timeout * (1 << call.sent.min(16));
        let wait = wait.min(patience.timeout_max).max(Duration::from_nanos(1));
        call.sent += 1;
        self.timers.set(place, now + wait);
        Some((&call.bytes, call.to, again))
    }

    /// A request whose reply is overdue.
    pub fn overdue(&mut self, now: Instant, patience: Patience) -> Option<Overdue> {
        let place = self.timers.pop_expired(now)?;
        let sent = self.calls[place as usize].as_ref().map(|call| call.sent);
        if sent.is_some_and(|sent| sent < patience.tries_max) {
            return Some(Overdue::Again(place));
        }
        self.end(place).map(Overdue::GivenUp)
    }

    /// The request with this number, if it is in flight.
    pub fn get(&self, id: u64) -> Option<&Call> {
        let place = id as usize % CALLS_MAX;
        let call = self.calls.get(place)?.as_ref()?;
        (call.id == id).then_some(call)
    }

    /// Ends the request with this number.
    pub fn take(&mut self, id: u64) -> Option<Call> {
        self.get(id)?;
        self.end((id as usize % CALLS_MAX) as u32)
    }

    fn end(&mut self, place: u32) -> Option<Call> {
        let call = self.calls[place as usize].take()?;
        self.timers.cancel(place);
        self.free.push(place);
        Some(call)
    }

    /// Releases the memory of a request for reuse.
    pub fn recycle(&mut self, call: Call) {
        self.spare.push(call.bytes);
    }

    pub fn poll_timeout(&self) -> Option<Instant> {
        self.timers.next()
    }
}
