//! The messages that refuse or end a connection: REJ, DREQ and DREP.

use super::RejectReason;
use super::body::Body;
use rackweave_base::Qpn;

/// Bytes of private data in a REJ.
pub const REJ_PRIVATE: usize = 148;

/// Maximum bytes of additional information in a REJ.
pub const REJ_INFO_MAX: usize = 72;

/// There will be no connection (12.6.7).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rej {
    /// The sender's number of the connection, or zero.
    pub local_id: u32,
    /// The receiver's.
    pub remote_id: u32,
    /// Which message is answered: 0 is a REQ, 1 a REP, 2 none.
    pub message: u8,
    /// Valid bytes of `info`.
    pub info_len: u8,
    /// The reason.
    pub reason: RejectReason,
    /// What the reason adds, such as the value that would be acceptable.
    pub info: [u8; REJ_INFO_MAX],
    /// The sender's data.
    pub private: [u8; REJ_PRIVATE],
}

impl Rej {
    pub(super) fn parse(body: &Body) -> Self {
        Self {
            local_id: body.u32(0),
            remote_id: body.u32(4),
            message: body.bits(8, 6, 2),
            info_len: body.bits(9, 1, 7),
            reason: RejectReason(body.u16(10)),
            info: body.array(12),
            private: body.array(84),
        }
    }

    pub(super) fn emit(&self) -> Body {
        let mut body = Body::with_ids(self.local_id, self.remote_id);
        body.set_bits(8, 6, 2, self.message);
        body.set_bits(9, 1, 7, self.info_len);
        body.set(10, self.reason.0.to_be_bytes());
        body.set(12, self.info);
        body.set(84, self.private);
        body
    }
}

/// One side ends a connection (12.6.10). Its private data is not supported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dreq {
    /// The sender's number of the connection.
    pub local_id: u32,
    /// The receiver's.
    pub remote_id: u32,
    /// The receiver's queue pair.
    pub remote_qpn: Qpn,
}

impl Dreq {
    pub(super) fn parse(body: &Body) -> Self {
        Self {
            local_id: body.u32(0),
            remote_id: body.u32(4),
            remote_qpn: Qpn(body.u24(8)),
        }
    }

    pub(super) fn emit(&self) -> Body {
        let mut body = Body::with_ids(self.local_id, self.remote_id);
        body.set_u24(8, self.remote_qpn.0);
        body
    }
}

/// The other side has seen that (12.6.11). Its private data is not supported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Drep {
    /// The sender's number of the connection.
    pub local_id: u32,
    /// The receiver's.
    pub remote_id: u32,
}

impl Drep {
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
