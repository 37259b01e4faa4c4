//! The connection manager (specification 1.4, chapter 12) as a sans-IO machine: which connections
//! there are, and what their peers and this side have said.
//!
//! It knows no queue pairs: an [`Action`] tells the NIC what to do with one, and `connections` does
//! it. REQ, REP and DREQ are repeated until they are answered; an MRA gives the peer more time. A
//! REQ from a queue pair that has a connection here ends that connection, because the peer has
//! forgotten it (12.9.8.3.1).
//!
//! A message that a peer could not have sent in this state is dropped: datagrams are lost,
//! duplicated and late.

mod connection;
mod handle;

pub(crate) use connection::{Connection, State};
use handle::{OF_REP, OF_REQ};

use rackweave_base::{Duration, Instant, MacAddr, Qpn};
use rackweave_verbs::{ConnectAttributes, ConnectionEvent, ConnectionId};
use rackweave_wire::cm::{
    Dreq, Mad, Message, REJ_INFO_MAX, REJ_PRIVATE, Rej, RejectReason, Rep, Req,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::Ipv4Addr;

/// Connections of one NIC, those that are ending included.
pub(crate) const CONNECTIONS_MAX: usize = 4096;

/// Messages that wait to be sent. Further ones are dropped, as if they were lost.
const OUTGOING_MAX: usize = 512;

/// The time within which a message is answered, as an exponent: 4.096 µs times 2^16, 268 ms.
pub(crate) const RESPONSE_TIMEOUT: u8 = 16;

/// The time that an MRA asks for: 4.096 µs times 2^20, 4.3 s.
const SERVICE_TIMEOUT: u8 = 20;

/// How often a message is repeated: the field has 4 bits.
pub(crate) const REPEATS: u8 = 15;

/// How long a connection that has ended is remembered, so that late packets of it reach no other:
/// twice the life of a packet and the time of an acknowledgement (12.9.8.4), of which a rack needs
/// far less.
const TIME_WAIT: Duration = Duration::from_millis(100);

/// The time of an exponent, as messages give it.
pub(crate) const fn time(exponent: u8) -> Duration {
    Duration::from_nanos(4096 << exponent)
}

/// What the NIC does with a queue pair.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Action {
    /// The peer has accepted: make the queue pair ready, then call [`Machine::ready`] or
    /// [`Machine::refuse`].
    Ready(ConnectionId),
    /// The connection is gone: the queue pair enters the Error state.
    Fail(Qpn),
}

/// The connections of one NIC.
pub(crate) struct Machine {
    ip: Ipv4Addr,
    connections: BTreeMap<u32, Connection>,
    /// The connections of peers' requests, by the peer's address and number.
    requested: BTreeMap<(Ipv4Addr, u32), u32>,
    deadlines: BTreeSet<(Instant, u32)>,
    /// Ports, and how many requests may wait there.
    listeners: BTreeMap<u16, usize>,
    outgoing: VecDeque<Outgoing>,
    events: VecDeque<ConnectionEvent>,
    next_id: u32,
}

/// A message on its way out.
pub(crate) struct Outgoing {
    pub(crate) to: Ipv4Addr,
    pub(crate) mad: Mad,
    /// The connection whose answer is waited for from when this is sent.
    waits: Option<u32>,
}

/// Where a message came from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sender {
    pub(crate) ip: Ipv4Addr,
    pub(crate) mac: MacAddr,
}

impl Machine {
    /// Without connections. `first_id` should be random: a peer may remember earlier connections.
    pub(crate) fn new(ip: Ipv4Addr, first_id: u32) -> Self {
        Self {
            ip,
            connections: BTreeMap::new(),
            requested: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            listeners: BTreeMap::new(),
            outgoing: VecDeque::new(),
            events: VecDeque::new(),
            next_id: first_id,
        }
    }

    /// Listens at a port. Returns false if somebody does.
    pub(crate) fn listen(&mut self, port: u16, backlog: usize) -> bool {
        let is_free = !self.listeners.contains_key(&port);
        self.listeners.entry(port).or_insert(backlog);
        is_free
    }

    /// Stops listening. Returns false if nobody did.
    pub(crate) fn unlisten(&mut self, port: u16) -> bool {
        self.listeners.remove(&port).is_some()
    }

    /// Whether another connection can begin.
    pub(crate) fn is_full(&self) -> bool {
        self.connections.len() >= CONNECTIONS_MAX
    }

    /// A connection in one of the given states.
    pub(crate) fn get(&self, id: ConnectionId, states: &[State]) -> Option<&Connection> {
        let connection = self.connections.get(&id.0)?;
        states.contains(&connection.state).then_some(connection)
    }

    /// Whether a queue pair has a connection that has not ended.
    pub(crate) fn uses(&self, qpn: Qpn) -> bool {
        let mut all = self.connections.values();
        all.any(|connection| connection.qpn == Some(qpn) && connection.state != State::TimeWait)
    }

    /// Asks a peer for a connection. The request gets the connection's number.
    pub(crate) fn connect(
        &mut self,
        to: Ipv4Addr,
        attributes: &ConnectAttributes,
        mut request: Req,
    ) -> ConnectionId {
        let id = self.new_id();
        request.local_id = id;
        let connection = Connection::asking(to, attributes, &request);
        self.connections.insert(id, connection);
        self.begin(id, State::ReqSent, Message::Req(request));
        ConnectionId(id)
    }

    /// Accepts a request that waits. The acceptance gets the numbers of the connection.
    pub(crate) fn accept(&mut self, id: ConnectionId, qpn: Qpn, mut reply: Rep) {
        let Some(connection) = self.connections.get_mut(&id.0) else {
            return;
        };
        connection.qpn = Some(qpn);
        (reply.local_id, reply.remote_id) = (id.0, connection.remote_id);
        self.begin(id.0, State::RepSent, Message::Rep(reply));
    }

    /// Rejects a request that waits, or an acceptance that this side could not take.
    pub(crate) fn refuse(&mut self, id: ConnectionId, reason: RejectReason, private: &[u8]) {
        let Some(connection) = self.connections.get(&id.0) else {
            return;
        };
        let is_own = connection.state == State::ReqSent;
        let (to, transaction) = (connection.peer.ip, connection.transaction);
        let ids = (id.0, connection.remote_id);
        let of = if is_own { OF_REP } else { OF_REQ };
        let rejection = rejection(ids, of, reason, private);
        if !is_own {
            return self.begin(id.0, State::Refused, rejection);
        }
        self.remove(id.0);
        self.send(to, transaction, rejection);
        self.events.push_back(rejected(id, reason, private));
    }

    /// The queue pair of an accepted connection is ready.
    pub(crate) fn ready(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(&id.0) else {
            return;
        };
        let (to, transaction) = (connection.peer.ip, connection.transaction);
        let ready = connection.ready_to_use(id.0);
        let private = core::mem::take(&mut connection.private);
        self.settle(id.0, State::Established);
        self.send(to, transaction, ready);
        self.events
            .push_back(ConnectionEvent::Established { id, private });
    }

    /// Ends an established connection.
    pub(crate) fn disconnect(&mut self, id: ConnectionId) -> Option<Action> {
        let connection = self.connections.get_mut(&id.0)?;
        let request = Dreq {
            local_id: id.0,
            remote_id: connection.remote_id,
            remote_qpn: connection.remote_qpn,
        };
        let qpn = connection.qpn?;
        self.begin(id.0, State::DreqSent, Message::Dreq(request));
        self.events.push_back(ConnectionEvent::Disconnected { id });
        Some(Action::Fail(qpn))
    }

    /// The next event.
    pub(crate) fn poll_event(&mut self) -> Option<ConnectionEvent> {
        self.events.pop_front()
    }

    /// The next message to send. Its answer is waited for from now on.
    pub(crate) fn poll_transmit(&mut self, now: Instant) -> Option<Outgoing> {
        let outgoing = self.outgoing.pop_front()?;
        if let Some(id) = outgoing.waits {
            let wait = match &self.connections[&id] {
                // Until the peer has repeated its request a few times, if it has not seen this.
                refused if refused.state == State::Refused => {
                    Duration::from_nanos(4 * time(refused.repeat_exponent).as_nanos())
                }
                _ => time(RESPONSE_TIMEOUT),
            };
            self.set_deadline(id, Some(now + wait));
        }
        Some(outgoing)
    }

    /// The time to call [`Self::handle_timeout`].
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// Repeats a message whose answer is overdue, gives up, or forgets an ended connection, one at
    /// a time. Returns false if no deadline has passed.
    pub(crate) fn handle_timeout(&mut self, now: Instant) -> (bool, Option<Action>) {
        let Some(&(at, id)) = self.deadlines.first().filter(|(at, _)| *at <= now) else {
            return (false, None);
        };
        self.deadlines.remove(&(at, id));
        let connection = self.connections.get_mut(&id).expect("it has a deadline");
        connection.deadline = None;
        if connection.state == State::Refused {
            self.remove(id);
            return (true, None);
        }
        if connection.state == State::TimeWait {
            self.remove(id);
            let id = ConnectionId(id);
            self.events.push_back(ConnectionEvent::Closed { id });
            return (true, None);
        }
        if connection.repeats < REPEATS {
            connection.repeats += 1;
            self.send_waiting(id);
            return (true, None);
        }
        (true, self.give_up(now, id))
    }

    /// The peer does not answer.
    fn give_up(&mut self, now: Instant, id: u32) -> Option<Action> {
        let connection = &self.connections[&id];
        if connection.state == State::DreqSent {
            self.wait_out(now, id);
            return None;
        }
        let connection = self.remove(id)?;
        let is_accepted = connection.state == State::RepSent;
        let of = if is_accepted { OF_REP } else { OF_REQ };
        let ids = (id, connection.remote_id);
        let rejection = rejection(ids, of, RejectReason::TIMEOUT, &[]);
        self.send(connection.peer.ip, connection.transaction, rejection);
        let id = ConnectionId(id);
        self.events.push_back(ConnectionEvent::Unreachable { id });
        // Only an acceptance has made the queue pair ready.
        connection.qpn.filter(|_| is_accepted).map(Action::Fail)
    }

    fn new_id(&mut self) -> u32 {
        loop {
            let id = self.next_id;
            self.next_id = self.next_id.wrapping_add(1);
            // Zero stands for no connection.
            if id != 0 && !self.connections.contains_key(&id) {
                return id;
            }
        }
    }

    /// Enters a state in which `message` is repeated until it is answered, and sends it.
    fn begin(&mut self, id: u32, state: State, message: Message) {
        self.settle(id, state);
        let connection = self.connections.get_mut(&id).expect("it exists");
        connection.message = Some(Box::new(message));
        self.send_waiting(id);
    }

    /// Enters a state in which no answer is waited for.
    fn settle(&mut self, id: u32, state: State) {
        self.set_deadline(id, None);
        // What is still in the queue belongs to the state before.
        self.outgoing.retain(|outgoing| outgoing.waits != Some(id));
        let connection = self.connections.get_mut(&id).expect("it exists");
        connection.state = state;
        connection.repeats = 0;
        connection.message = None;
    }

    /// Remembers an ended connection for a while.
    fn wait_out(&mut self, now: Instant, id: u32) {
        self.settle(id, State::TimeWait);
        self.set_deadline(id, Some(now + TIME_WAIT));
    }

    fn set_deadline(&mut self, id: u32, deadline: Option<Instant>) {
        let connection = self.connections.get_mut(&id).expect("it exists");
        if let Some(before) = core::mem::replace(&mut connection.deadline, deadline) {
            self.deadlines.remove(&(before, id));
        }
        self.deadlines.extend(deadline.map(|at| (at, id)));
    }

    /// Sends the message of a connection that is repeated until it is answered.
    fn send_waiting(&mut self, id: u32) {
        if self.outgoing.iter().any(|out| out.waits == Some(id)) {
            return;
        }
        let connection = &self.connections[&id];
        let Some(message) = connection.message.as_deref().copied() else {
            return;
        };
        self.outgoing.push_back(Outgoing {
            to: connection.peer.ip,
            mad: Mad {
                transaction: connection.transaction,
                message,
            },
            waits: Some(id),
        });
    }

    /// Sends a message once.
    fn send(&mut self, to: Ipv4Addr, transaction: u64, message: Message) {
        if self.outgoing.len() < OUTGOING_MAX {
            self.outgoing.push_back(Outgoing {
                to,
                mad: Mad {
                    transaction,
                    message,
                },
                waits: None,
            });
        }
    }

    fn remove(&mut self, id: u32) -> Option<Connection> {
        let connection = self.connections.remove(&id)?;
        if let Some(deadline) = connection.deadline {
            self.deadlines.remove(&(deadline, id));
        }
        self.outgoing.retain(|outgoing| outgoing.waits != Some(id));
        let key = (connection.peer.ip, connection.remote_id);
        if self.requested.get(&key) == Some(&id) {
            self.requested.remove(&key);
        }
        Some(connection)
    }
}

/// A REJ about one of the messages.
fn rejection(
    (local_id, remote_id): (u32, u32),
    message: u8,
    reason: RejectReason,
    private: &[u8],
) -> Message {
    let mut data = [0; REJ_PRIVATE];
    data[..private.len()].copy_from_slice(private);
    Message::Rej(Rej {
        local_id,
        remote_id,
        message,
        info_len: 0,
        reason,
        info: [0; REJ_INFO_MAX],
        private: data,
    })
}

fn rejected(id: ConnectionId, reason: RejectReason, private: &[u8]) -> ConnectionEvent {
    ConnectionEvent::Rejected {
        id,
        reason: reason.0,
        text: reason.to_string(),
        private: private.to_vec(),
    }
}
