//! One connection.

use super::Sender;
use rackweave_base::{Instant, MacAddr, Psn, Qpn};
use rackweave_verbs::{ConnectAttributes, Mtu, Peer, ReceiveSide, SendSide};
use rackweave_wire::cm::{Message, Rep, Req, Rtu};
use std::net::Ipv4Addr;

/// The longest time between two repeats of a peer that counts, as an exponent: 4.3 s, as Linux has
/// it.
const REPEAT_EXPONENT_MAX: u8 = 20;

/// The state of a connection (12.9.5); those of path migration are not supported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// A REQ was sent.
    ReqSent,
    /// A REQ has come; the program has not answered yet.
    ReqReceived,
    /// The REQ was accepted, and no RTU has come.
    RepSent,
    /// Both sides know of the connection.
    Established,
    /// A DREQ was sent.
    DreqSent,
    /// It has ended, and is remembered for a while.
    TimeWait,
    /// The REQ was rejected; if it comes again, so is it again.
    Refused,
}

/// What the peer has said of its side, in a REQ or a REP.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Accepted {
    /// The PSN of this side's first request.
    pub(crate) psn: Psn,
    pub(crate) mtu: Mtu,
    /// Maximum READs in flight from the peer, and towards it.
    pub(crate) reads_in: u8,
    pub(crate) reads_out: u8,
    pub(crate) retries: u8,
    pub(crate) rnr_retries: u8,
}

/// A connection.
pub(crate) struct Connection {
    pub(crate) state: State,
    pub(crate) peer: Sender,
    pub(crate) remote_id: u32,
    pub(crate) remote_qpn: Qpn,
    /// The queue pair of this side, once there is one.
    pub(crate) qpn: Option<Qpn>,
    /// What this side asked for, if it is the active one.
    pub(crate) attributes: ConnectAttributes,
    /// The PSN that the peer's first request has, if this side is the active one.
    pub(crate) psn: Psn,
    /// What the peer has said, if it has.
    pub(crate) accepted: Option<Accepted>,
    /// Time after which the peer repeats its REQ, as an exponent.
    pub(super) repeat_exponent: u8,
    /// The port that the peer asked for.
    pub(crate) port: u16,
    pub(crate) transaction: u64,
    /// Private data for the event that will report the connection.
    pub(super) private: Vec<u8>,
    /// The message that is repeated until it is answered.
    pub(super) message: Option<Box<Message>>,
    pub(super) repeats: u8,
    pub(super) deadline: Option<Instant>,
}

impl Connection {
    /// Of this side's request.
    pub(super) fn asking(to: Ipv4Addr, attributes: &ConnectAttributes, request: &Req) -> Self {
        Self {
            state: State::ReqSent,
            peer: Sender {
                ip: to,
                mac: MacAddr([0; 6]),
            },
            remote_id: 0,
            remote_qpn: Qpn(0),
            qpn: Some(request.qpn),
            attributes: *attributes,
            psn: request.psn,
            accepted: None,
            repeat_exponent: 0,
            port: 0,
            transaction: u64::from(request.local_id) << 32 | u64::from(request.qpn.0),
            private: Vec::new(),
            message: None,
            repeats: 0,
            deadline: None,
        }
    }

    /// Of a peer's request.
    pub(super) fn asked(
        from: Sender,
        request: &Req,
        mtu: Mtu,
        port: u16,
        transaction: u64,
    ) -> Self {
        Self {
            state: State::ReqReceived,
            peer: from,
            remote_id: request.local_id,
            remote_qpn: request.qpn,
            qpn: None,
            attributes: ConnectAttributes::default(),
            psn: Psn::new(0),
            accepted: Some(Accepted {
                psn: request.psn,
                mtu,
                reads_in: request.initiator_depth,
                reads_out: request.responder_resources,
                retries: request.retries,
                rnr_retries: request.rnr_retries,
            }),
            repeat_exponent: request.remote_response_timeout.min(REPEAT_EXPONENT_MAX),
            port,
            transaction,
            private: Vec::new(),
            message: None,
            repeats: 0,
            deadline: None,
        }
    }

    /// Takes what the peer's acceptance says.
    pub(super) fn take_reply(&mut self, from: Sender, reply: &Rep) {
        self.peer = from;
        self.remote_id = reply.local_id;
        self.remote_qpn = reply.qpn;
        self.accepted = Some(Accepted {
            psn: reply.psn,
            mtu: self.attributes.mtu,
            reads_in: reply.initiator_depth,
            reads_out: reply.responder_resources,
            retries: self.attributes.retries,
            rnr_retries: reply.rnr_retries,
        });
        self.private = reply.private.to_vec();
    }

    /// The attributes for receiving, with what this side allows; `psn` is that of the peer's first
    /// request, which this side chooses (12.6.5).
    pub(crate) fn receive_side(
        &self,
        attributes: &ConnectAttributes,
        psn: Psn,
    ) -> Option<ReceiveSide> {
        let accepted = self.accepted.as_ref()?;
        Some(ReceiveSide {
            peer: Peer {
                mac: self.peer.mac,
                ip: self.peer.ip,
                qpn: self.remote_qpn,
            },
            psn,
            mtu: accepted.mtu,
            access: attributes.access,
            // A queue pair has place for one at least; without the access right it is not used.
            reads_in_flight_max: accepted.reads_in.min(attributes.reads_in_max).max(1),
            rnr_wait: attributes.rnr_wait,
        })
    }

    /// The attributes for sending.
    pub(crate) fn send_side(&self, attributes: &ConnectAttributes) -> Option<SendSide> {
        let accepted = self.accepted.as_ref()?;
        Some(SendSide {
            psn: accepted.psn,
            timeout: attributes.timeout,
            retries: accepted.retries,
            rnr_retries: accepted.rnr_retries,
            reads_in_flight_max: accepted.reads_out.min(attributes.reads_out_max).max(1),
        })
    }

    /// The message that this side is ready.
    pub(super) fn ready_to_use(&self, id: u32) -> Message {
        Message::Rtu(Rtu {
            local_id: id,
            remote_id: self.remote_id,
        })
    }
}
