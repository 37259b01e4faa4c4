//! Sending and repetition of requests.

use super::calls::{Call, Overdue, What};
use super::{DatagramClient, EndpointId};
use crate::btree::Direction;
use crate::index::client::operations::Kind;
use crate::index::message::Request;
use rackweave_base::Instant;
use rackweave_verbs::Datagrams;
use rackweave_wire::fabric::lookup::{Ask, Once};

impl DatagramClient {
    /// Sends pending requests.
    pub(super) fn dispatch(&mut self, now: Instant, datagrams: &mut dyn Datagrams) {
        if let Some(endpoint) = self.operations.ask.filter(|_| !self.operations.asked) {
            self.map.begin();
            self.operations.asked = self.ask_for_map(now, endpoint, datagrams);
            if !self.operations.asked {
                self.operations.no_map();
            }
        }
        while let Some(slot) = self.operations.next_ready() {
            let endpoint = self.operations.route(slot);
            let is_write = self.operations.get(slot).kind.is_write();
            if self.ways[endpoint.index()].is_none() {
                self.operations.unreachable(slot, endpoint);
            } else if is_write {
                let way = self.ways[endpoint.index()].as_mut().expect("looked at");
                way.waiting.push_back(slot);
                self.write_on(now, endpoint, datagrams);
            } else {
                self.call(now, slot, endpoint, None, datagrams);
            }
        }
    }

    /// Begins the writes that wait for an endpoint, as far as there are free slots; opens a session
    /// if one is needed.
    pub(super) fn write_on(
        &mut self,
        now: Instant,
        endpoint: EndpointId,
        datagrams: &mut dyn Datagrams,
    ) {
        loop {
            let Some(way) = self.ways[endpoint.index()].as_mut() else {
                return;
            };
            let Some(&slot) = way.waiting.front() else {
                return;
            };
            if way.is_stale(now) {
                way.session = None;
            }
            let Some(session) = way.session else {
                return self.open(now, endpoint, datagrams);
            };
            let owner = self.operations.route(slot);
            if owner != endpoint {
                way.waiting.pop_front();
                self.operations.again(slot);
                continue;
            }
            let Some(place) = way.slots.pop() else {
                return;
            };
            way.waiting.pop_front();
            let once = Once {
                session: session.session,
                slot: place,
            };
            self.call(now, slot, endpoint, Some(once), datagrams);
        }
    }

    fn open(&mut self, now: Instant, endpoint: EndpointId, datagrams: &mut dyn Datagrams) {
        let way = self.ways[endpoint.index()].as_mut();
        if let Some(way) = way.filter(|way| !way.opening) {
            way.opening = true;
            self.send(now, What::Open, endpoint, &Ask::Open, None, datagrams);
        }
    }

    /// Requests the next piece of the map. False if there is no path to the endpoint.
    pub(super) fn ask_for_map(
        &mut self,
        now: Instant,
        endpoint: EndpointId,
        datagrams: &mut dyn Datagrams,
    ) -> bool {
        let from = self.map.len();
        self.send(
            now,
            What::Map,
            endpoint,
            &Ask::Map { from },
            None,
            datagrams,
        )
    }

    /// Sends the request of an operation.
    fn call(
        &mut self,
        now: Instant,
        slot: u32,
        endpoint: EndpointId,
        once: Option<Once>,
        datagrams: &mut dyn Datagrams,
    ) {
        let mut scratch = core::mem::take(&mut self.scratch);
        scratch.clear();
        let method = self.operations.encode(slot, &mut scratch).method;
        let backward = matches!(
            self.operations.get(slot).kind,
            Kind::Scan(Direction::Backward)
        );
        let request = Request::decode(method, &scratch).expect("it was just encoded");
        let ask = match (request, once) {
            (Request::Get { key }, _) => Ask::Get { key },
            (Request::Insert { key, value }, Some(once)) => Ask::Insert { key, once, value },
            (Request::Update { key, value }, Some(once)) => Ask::Update { key, once, value },
            (Request::Put { key, value }, Some(once)) => Ask::Put { key, once, value },
            (Request::Delete { key }, Some(once)) => Ask::Delete { key, once },
            (
                Request::Scan {
                    low, last, limit, ..
                },
                _,
            ) => {
                let (near, far) = if backward { (last, low) } else { (low, last) };
                Ask::Scan {
                    near,
                    far,
                    limit,
                    backward,
                }
            }
            (request, _) => unreachable!("operations make no {request:?}"),
        };
        self.operations.sent(slot);
        self.send(now, What::Operation(slot), endpoint, &ask, once, datagrams);
        self.scratch = scratch;
    }

    /// Begins a request. False if there is no path to the endpoint.
    fn send(
        &mut self,
        now: Instant,
        what: What,
        endpoint: EndpointId,
        ask: &Ask<'_>,
        once: Option<Once>,
        datagrams: &mut dyn Datagrams,
    ) -> bool {
        let Some(way) = self.ways[endpoint.index()].as_ref() else {
            return false;
        };
        let to = way.to;
        let made = self.calls.make();
        let (place, id, mut bytes) =
            made.expect("there is a place for each operation, the map, and each session");
        ask.emit(self.config.client, id, &mut bytes);
        let call = Call::new(id, (what, ask.op() as u8), (endpoint, to), once, now, bytes);
        self.calls.begin(place, call);
        self.transmit(now, place, datagrams);
        true
    }

    fn transmit(&mut self, now: Instant, place: u32, datagrams: &mut dyn Datagrams) {
        let patience = self.config.patience();
        let Some((bytes, to, again)) = self.calls.send(now, place, patience) else {
            return;
        };
        let sent = datagrams.send(self.port, to, bytes);
        self.statistics.sent += 1;
        self.statistics.repeated += u64::from(again);
        // A request that was not sent counts as lost: it is repeated later.
        self.statistics.unsent += u64::from(sent.is_err());
    }

    /// Repeats requests whose reply is overdue, or gives them up.
    pub(super) fn repeat(&mut self, now: Instant, datagrams: &mut dyn Datagrams) {
        while let Some(overdue) = self.calls.overdue(now, self.config.patience()) {
            match overdue {
                Overdue::Again(place) => self.transmit(now, place, datagrams),
                Overdue::GivenUp(call) => {
                    self.statistics.given_up += 1;
                    self.give_up(now, &call, datagrams);
                    self.calls.recycle(call);
                }
            }
        }
    }
}
