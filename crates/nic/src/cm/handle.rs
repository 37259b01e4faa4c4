//! What a received message does.

use super::{
    Action, Connection, ConnectionEvent, ConnectionId, Machine, SERVICE_TIMEOUT, Sender, State,
    rejected, rejection, time,
};
use rackweave_base::Instant;
use rackweave_verbs::Mtu;
use rackweave_wire::cm::{
    Drep, Dreq, IpAddresses, Mad, Message, Mra, Rej, RejectReason, Rep, Req, Rtu, service_port,
};
use std::net::{IpAddr, SocketAddrV4};

/// Numbers for messages in a REJ or MRA.
pub(super) const OF_REQ: u8 = 0;
pub(super) const OF_REP: u8 = 1;

/// The longest time that an MRA gives a peer, as an exponent: 69 s. It may ask for hours.
const SERVICE_TIMEOUT_MAX: u8 = 24;

/// The transport service of reliable connections.
const RELIABLE_CONNECTION: u8 = 0;

impl Machine {
    /// Handles a message.
    pub(crate) fn handle(&mut self, now: Instant, from: Sender, mad: &Mad) -> Option<Action> {
        let transaction = mad.transaction;
        match &mad.message {
            Message::Req(request) => self.handle_request(now, from, request, transaction),
            Message::Mra(extension) => {
                self.handle_extension(now, from, extension);
                None
            }
            Message::Rej(refusal) => self.handle_refusal(from, refusal),
            Message::Rep(reply) => self.handle_reply(from, reply, transaction),
            Message::Rtu(ready) => {
                self.handle_ready(from, ready);
                None
            }
            Message::Dreq(request) => self.handle_disconnect(now, from, request, transaction),
            Message::Drep(reply) => {
                self.handle_disconnected(now, from, reply);
                None
            }
        }
    }

    /// The connection of a message that names both sides' numbers.
    fn find(&mut self, from: Sender, local_id: u32, remote_id: u32) -> Option<&mut Connection> {
        let connection = self.connections.get_mut(&local_id)?;
        let is_right = connection.peer.ip == from.ip && connection.remote_id == remote_id;
        is_right.then_some(connection)
    }

    fn handle_request(
        &mut self,
        now: Instant,
        from: Sender,
        request: &Req,
        transaction: u64,
    ) -> Option<Action> {
        if let Some(&id) = self.requested.get(&(from.ip, request.local_id)) {
            self.handle_repeated_request(from, id, transaction);
            return None;
        }
        let refuse = |machine: &mut Self, reason| {
            let ids = (0, request.local_id);
            machine.send(from.ip, transaction, rejection(ids, OF_REQ, reason, &[]));
        };
        if let Some(id) = self.stale(from, request) {
            refuse(self, RejectReason::STALE_CONNECTION);
            return match self.connections[&id].state {
                State::RepSent => self.abandon(id, RejectReason::STALE_CONNECTION, &[]),
                _ => self.end(now, id),
            };
        }
        match self.admit(from, request, transaction) {
            Ok(()) => {}
            Err(reason) => refuse(self, reason),
        }
        None
    }

    /// The answer was lost, or is not given yet.
    fn handle_repeated_request(&mut self, from: Sender, id: u32, transaction: u64) {
        let connection = &self.connections[&id];
        match connection.state {
            State::ReqReceived => {
                let wait = Message::Mra(Mra {
                    local_id: id,
                    remote_id: connection.remote_id,
                    message: OF_REQ,
                    service_timeout: SERVICE_TIMEOUT,
                });
                self.send(from.ip, transaction, wait);
            }
            State::RepSent | State::Refused => self.send_waiting(id),
            _ => {}
        }
    }

    /// The connection that the peer's queue pair has here, and has forgotten.
    fn stale(&self, from: Sender, request: &Req) -> Option<u32> {
        let mut all = self.connections.iter();
        let stale = all.find(|(_, connection)| {
            let is_up = matches!(connection.state, State::RepSent | State::Established);
            is_up && connection.peer.ip == from.ip && connection.remote_qpn == request.qpn
        });
        stale.map(|(&id, _)| id)
    }

    fn admit(&mut self, from: Sender, request: &Req, transaction: u64) -> Result<(), RejectReason> {
        if request.transport != RELIABLE_CONNECTION {
            return Err(RejectReason::INVALID_TRANSPORT);
        }
        let port = service_port(request.service_id).ok_or(RejectReason::INVALID_SERVICE)?;
        let backlog = *self
            .listeners
            .get(&port)
            .ok_or(RejectReason::INVALID_SERVICE)?;
        let mtu = Mtu::ALL.get(usize::from(request.mtu).wrapping_sub(1));
        let mtu = *mtu.ok_or(RejectReason::INVALID_MTU)?;
        let addresses = IpAddresses::parse(&request.private);
        let addresses = addresses.ok_or(RejectReason::UNSUPPORTED)?;
        let IpAddr::V4(source) = addresses.source else {
            return Err(RejectReason::UNSUPPORTED);
        };
        if addresses.target != IpAddr::V4(self.ip) || source != from.ip {
            return Err(RejectReason::UNSUPPORTED);
        }
        let mut all = self.connections.values();
        let waiting = |c: &&Connection| c.state == State::ReqReceived && c.port == port;
        if all.by_ref().filter(waiting).count() >= backlog || self.is_full() {
            return Err(RejectReason::NO_RESOURCES);
        }
        let id = self.new_id();
        let connection = Connection::asked(from, request, mtu, port, transaction);
        self.connections.insert(id, connection);
        self.requested.insert((from.ip, request.local_id), id);
        self.events.push_back(ConnectionEvent::Requested {
            id: ConnectionId(id),
            port,
            from: SocketAddrV4::new(source, addresses.source_port),
            reads: [request.initiator_depth, request.responder_resources],
            private: request.private[IpAddresses::LEN..].to_vec(),
        });
        Ok(())
    }

    /// The peer needs more time.
    fn handle_extension(&mut self, now: Instant, from: Sender, extension: &Mra) {
        let Some(connection) = self.connections.get(&extension.remote_id) else {
            return;
        };
        let expected = match extension.message {
            OF_REQ => State::ReqSent,
            OF_REP => State::RepSent,
            _ => return,
        };
        if connection.peer.ip == from.ip && connection.state == expected {
            let until = now + time(extension.service_timeout.min(SERVICE_TIMEOUT_MAX));
            self.set_deadline(extension.remote_id, Some(until));
        }
    }

    fn handle_refusal(&mut self, from: Sender, refusal: &Rej) -> Option<Action> {
        let connection = self.connections.get(&refusal.remote_id)?;
        let is_waiting = matches!(connection.state, State::ReqSent | State::RepSent);
        if connection.peer.ip != from.ip || !is_waiting {
            return None;
        }
        // A peer that knows no connection names none.
        let names = [0, connection.remote_id];
        if connection.state == State::RepSent && !names.contains(&refusal.local_id) {
            return None;
        }
        self.abandon(refusal.remote_id, refusal.reason, &refusal.private)
    }

    /// There is no connection: the peer has refused it, or has forgotten its request.
    fn abandon(&mut self, id: u32, reason: RejectReason, private: &[u8]) -> Option<Action> {
        let connection = self.remove(id)?;
        let id = ConnectionId(id);
        self.events.push_back(rejected(id, reason, private));
        let is_ready = connection.state == State::RepSent;
        connection.qpn.filter(|_| is_ready).map(Action::Fail)
    }

    fn handle_reply(&mut self, from: Sender, reply: &Rep, transaction: u64) -> Option<Action> {
        let id = reply.remote_id;
        let connection = self.connections.get_mut(&id);
        let Some(connection) = connection.filter(|connection| connection.peer.ip == from.ip) else {
            let ids = (0, reply.local_id);
            let unknown = rejection(ids, OF_REP, RejectReason::INVALID_ID, &[]);
            self.send(from.ip, transaction, unknown);
            return None;
        };
        match connection.state {
            State::ReqSent => {
                connection.take_reply(from, reply);
                Some(Action::Ready(ConnectionId(id)))
            }
            // The RTU was lost.
            State::Established if connection.remote_id == reply.local_id => {
                let ready = connection.ready_to_use(id);
                self.send(from.ip, transaction, ready);
                None
            }
            _ => None,
        }
    }

    fn handle_ready(&mut self, from: Sender, ready: &Rtu) {
        let connection = self.find(from, ready.remote_id, ready.local_id);
        if connection.is_some_and(|connection| connection.state == State::RepSent) {
            self.establish(ready.remote_id);
        }
    }

    fn establish(&mut self, id: u32) {
        self.settle(id, State::Established);
        self.events.push_back(ConnectionEvent::Established {
            id: ConnectionId(id),
            private: Vec::new(),
        });
    }

    fn handle_disconnect(
        &mut self,
        now: Instant,
        from: Sender,
        request: &Dreq,
        transaction: u64,
    ) -> Option<Action> {
        let id = request.remote_id;
        let connection = self.find(from, id, request.local_id);
        let state = connection.map(|connection| connection.state);
        // Of an unknown connection, too: the peer stops repeating.
        let reply = Message::Drep(Drep {
            local_id: id,
            remote_id: request.local_id,
        });
        self.send(from.ip, transaction, reply);
        match state? {
            // The RTU was lost, or is behind.
            State::RepSent => {
                self.establish(id);
                self.end(now, id)
            }
            State::Established => self.end(now, id),
            // Both sides ended it at once.
            State::DreqSent => {
                self.wait_out(now, id);
                None
            }
            State::ReqSent | State::ReqReceived | State::TimeWait | State::Refused => None,
        }
    }

    /// The peer has ended the connection, or has forgotten it.
    fn end(&mut self, now: Instant, id: u32) -> Option<Action> {
        let qpn = self.connections[&id].qpn;
        self.wait_out(now, id);
        let id = ConnectionId(id);
        self.events.push_back(ConnectionEvent::Disconnected { id });
        qpn.map(Action::Fail)
    }

    fn handle_disconnected(&mut self, now: Instant, from: Sender, reply: &Drep) {
        let connection = self.find(from, reply.remote_id, reply.local_id);
        if connection.is_some_and(|connection| connection.state == State::DreqSent) {
            self.wait_out(now, reply.remote_id);
        }
    }
}
