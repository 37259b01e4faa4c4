//! The messages that make a connection: REQ, MRA, REP and RTU.

use super::body::Body;
use rackweave_base::{Psn, Qpn};

/// Bytes of private data in a REQ.
pub const REQ_PRIVATE: usize = 92;

/// Bytes of private data in a REP.
pub const REP_PRIVATE: usize = 196;

/// A request for a connection (12.6.5). Times are exponents: 4.096 µs times a power of two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Req {
    /// The sender's number of the connection.
    pub local_id: u32,
    /// The service that is asked for.
    pub service_id: u64,
    /// The sender's NIC.
    pub ca_guid: u64,
    /// The sender's Q_Key, for datagram services.
    pub qkey: u32,
    /// The sender's queue pair.
    pub qpn: Qpn,
    /// Maximum READs and atomics in flight towards the sender.
    pub responder_resources: u8,
    /// Maximum READs and atomics in flight from the sender.
    pub initiator_depth: u8,
    /// Time within which the receiver is expected to answer.
    pub remote_response_timeout: u8,
    /// The service: 0 is the reliable connection.
    pub transport: u8,
    /// Whether the sender supports end-to-end flow control.
    pub flow_control: bool,
    /// The PSN that the receiver's first request shall have.
    pub psn: Psn,
    /// Time within which the sender answers.
    pub local_response_timeout: u8,
    /// How often the receiver resends after timeouts.
    pub retries: u8,
    /// Partition key.
    pub pkey: u16,
    /// The path MTU: 1 is 256 bytes, 5 is 4096.
    pub mtu: u8,
    /// How often the receiver resends after a receiver-not-ready NAK; 7 means for ever.
    pub rnr_retries: u8,
    /// How often messages of the connection manager are repeated.
    pub cm_retries: u8,
    /// Whether the queue pair shares its receive queue.
    pub srq: bool,
    /// The path. Alternate paths are not supported.
    pub path: Path,
    /// The sender's data.
    pub private: [u8; REQ_PRIVATE],
}

/// A path between two nodes, as in a [`Req`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Path {
    /// The sender's LID; RoCE has none, and the permissive LID (0xffff) stands for that.
    pub local_lid: u16,
    /// The receiver's LID.
    pub remote_lid: u16,
    /// The sender's GID.
    pub local_gid: [u8; 16],
    /// The receiver's GID.
    pub remote_gid: [u8; 16],
    /// 20 bits.
    pub flow_label: u32,
    /// The rate, as the specification encodes static rates.
    pub rate: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Service level.
    pub service_level: u8,
    /// Whether sender and receiver are on one subnet.
    pub subnet_local: bool,
    /// Time after which a request is resent that has not been acknowledged.
    pub ack_timeout: u8,
}

impl Req {
    pub(super) fn parse(body: &Body) -> Self {
        Self {
            local_id: body.u32(0),
            service_id: body.u64(8),
            ca_guid: body.u64(16),
            qkey: body.u32(28),
            qpn: Qpn(body.u24(32)),
            responder_resources: body.0[35],
            initiator_depth: body.0[39],
            remote_response_timeout: body.bits(43, 3, 5),
            transport: body.bits(43, 1, 2),
            flow_control: body.bits(43, 0, 1) == 1,
            psn: Psn::new(body.u24(44)),
            local_response_timeout: body.bits(47, 3, 5),
            retries: body.bits(47, 0, 3),
            pkey: body.u16(48),
            mtu: body.bits(50, 4, 4),
            rnr_retries: body.bits(50, 0, 3),
            cm_retries: body.bits(51, 4, 4),
            srq: body.bits(51, 3, 1) == 1,
            path: Path {
                local_lid: body.u16(52),
                remote_lid: body.u16(54),
                local_gid: body.array(56),
                remote_gid: body.array(72),
                flow_label: body.u24(88) >> 4,
                rate: body.bits(91, 0, 6),
                traffic_class: body.0[92],
                hop_limit: body.0[93],
                service_level: body.bits(94, 4, 4),
                subnet_local: body.bits(94, 3, 1) == 1,
                ack_timeout: body.bits(95, 3, 5),
            },
            private: body.array(140),
        }
    }

    pub(super) fn emit(&self) -> Body {
        let mut body = Body::new();
        body.set(0, self.local_id.to_be_bytes());
        body.set(8, self.service_id.to_be_bytes());
        body.set(16, self.ca_guid.to_be_bytes());
        body.set(28, self.qkey.to_be_bytes());
        body.set_u24(32, self.qpn.0);
        body.set(35, [self.responder_resources]);
        body.set(39, [self.initiator_depth]);
        body.set_bits(43, 3, 5, self.remote_response_timeout);
        body.set_bits(43, 1, 2, self.transport);
        body.set_bits(43, 0, 1, self.flow_control.into());
        body.set_u24(44, self.psn.get());
        body.set_bits(47, 3, 5, self.local_response_timeout);
        body.set_bits(47, 0, 3, self.retries);
        body.set(48, self.pkey.to_be_bytes());
        body.set_bits(50, 4, 4, self.mtu);
        body.set_bits(50, 0, 3, self.rnr_retries);
        body.set_bits(51, 4, 4, self.cm_retries);
        body.set_bits(51, 3, 1, self.srq.into());
        body.set(52, self.path.local_lid.to_be_bytes());
        body.set(54, self.path.remote_lid.to_be_bytes());
        body.set(56, self.path.local_gid);
        body.set(72, self.path.remote_gid);
        body.set_u24(88, self.path.flow_label << 4);
        body.set_bits(91, 0, 6, self.path.rate);
        body.set(92, [self.path.traffic_class, self.path.hop_limit]);
        body.set_bits(94, 4, 4, self.path.service_level);
        body.set_bits(94, 3, 1, self.path.subnet_local.into());
        body.set_bits(95, 3, 5, self.path.ack_timeout);
        body.set(140, self.private);
        body
    }
}

/// A message has arrived, and its answer takes longer than expected (12.6.6). Its private data is
/// not supported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mra {
    /// The sender's number of the connection.
    pub local_id: u32,
    /// The receiver's.
    pub remote_id: u32,
    /// Which message: 0 is a REQ, 1 a REP, 2 a LAP.
    pub message: u8,
    /// Time within which the answer comes; an exponent, as in [`Req`].
    pub service_timeout: u8,
}

impl Mra {
    pub(super) fn parse(body: &Body) -> Self {
        Self {
            local_id: body.u32(0),
            remote_id: body.u32(4),
            message: body.bits(8, 6, 2),
            service_timeout: body.bits(9, 3, 5),
        }
    }

    pub(super) fn emit(&self) -> Body {
        let mut body = Body::with_ids(self.local_id, self.remote_id);
        body.set_bits(8, 6, 2, self.message);
        body.set_bits(9, 3, 5, self.service_timeout);
        body
    }
}

/// The passive side accepts a connection (12.6.8).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rep {
    /// The sender's number of the connection.
    pub local_id: u32,
    /// The receiver's.
    pub remote_id: u32,
    /// The sender's Q_Key, for datagram services.
    pub qkey: u32,
    /// The sender's queue pair.
    pub qpn: Qpn,
    /// The PSN that the receiver's first request shall have.
    pub psn: Psn,
    /// Maximum READs and atomics in flight towards the sender.
    pub responder_resources: u8,
    /// Maximum READs and atomics in flight from the sender.
    pub initiator_depth: u8,
    /// Time that the sender takes to acknowledge; an exponent, as in [`Req`].
    pub ack_delay: u8,
    /// Whether an alternate path was accepted: 1 says that it is not supported.
    pub failover: u8,
    /// Whether the sender supports end-to-end flow control.
    pub flow_control: bool,
    /// How often the receiver resends after a receiver-not-ready NAK; 7 means for ever.
    pub rnr_retries: u8,
    /// Whether the queue pair shares its receive queue.
    pub srq: bool,
    /// The sender's NIC.
    pub ca_guid: u64,
    /// The sender's data.
    pub private: [u8; REP_PRIVATE],
}

impl Rep {
    pub(super) fn parse(body: &Body) -> Self {
        Self {
            local_id: body.u32(0),
            remote_id: body.u32(4),
            qkey: body.u32(8),
            qpn: Qpn(body.u24(12)),
            psn: Psn::new(body.u24(20)),
            responder_resources: body.0[24],
            initiator_depth: body.0[25],
            ack_delay: body.bits(26, 3, 5),
            failover: body.bits(26, 1, 2),
            flow_control: body.bits(26, 0, 1) == 1,
            rnr_retries: body.bits(27, 5, 3),
            srq: body.bits(27, 4, 1) == 1,
            ca_guid: body.u64(28),
            private: body.array(36),
        }
    }

    pub(super) fn emit(&self) -> Body {
        let mut body = Body::with_ids(self.local_id, self.remote_id);
        body.set(8, self.qkey.to_be_bytes());
        body.set_u24(12, self.qpn.0);
        body.set_u24(20, self.psn.get());
        body.set(24, [self.responder_resources, self.initiator_depth]);
        body.set_bits(26, 3, 5, self.ack_delay);
        body.set_bits(26, 1, 2, self.failover);
        body.set_bits(26, 0, 1, self.flow_control.into());
        body.set_bits(27, 5, 3, self.rnr_retries);
        body.set_bits(27, 4, 1, self.srq.into());
        body.set(28, self.ca_guid.to_be_bytes());
        body.set(36, self.private);
        body
    }
}

/// The active side has seen the acceptance and is ready (12.6.9). Its private data is not
/// supported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rtu {
    /// The sender's number of the connection.
    pub local_id: u32,
    /// The receiver's.
    pub remote_id: u32,
}

impl Rtu {
    pub(super) fn parse(body: &Body) -> Self {
        Self {
            local_id: body.u32(0),
            remote_id: body.u32(4),
        }
    }

    pub(super) fn emit(&self) -> Body {
        Body::with_ids(self.local_id, self.remote_id)
    }
}
