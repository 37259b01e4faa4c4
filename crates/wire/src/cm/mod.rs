//! Messages of the connection manager (InfiniBand specification 1.4, chapter 12), which queue pairs
//! are connected by where no controller does it.
//!
//! Each is a management datagram (MAD, chapter 13.4) of 256 bytes: a header of 24 bytes, which is
//! the same for all classes, and the message. It travels as an unreliable datagram between the
//! queue pairs 1 of two nodes. [`IpAddresses`] is what RDMA CM puts in front of a request's private
//! data, so that a service is known by an IP address and a port (annex A11).
//!
//! Messages for alternate paths (LAP, APR, SAP, SPR) and for datagram services (SIDR) are not
//! supported.

mod addresses;
mod body;
mod close;
mod connect;
mod reason;
#[cfg(test)]
mod tests;

pub use addresses::{IpAddresses, gid, gid_address, service_id, service_port};
pub use close::{Drep, Dreq, REJ_INFO_MAX, REJ_PRIVATE, Rej};
pub use connect::{Mra, Path, REP_PRIVATE, REQ_PRIVATE, Rep, Req, Rtu};
pub use reason::RejectReason;

use body::Body;
use zerocopy::byteorder::network_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of a management datagram.
pub const MAD_LEN: usize = 256;

/// Bytes of the header that all management datagrams have.
pub const HEADER_LEN: usize = 24;

const BASE_VERSION: u8 = 1;
const CLASS: u8 = 0x07;
const CLASS_VERSION: u8 = 2;
/// The method of all messages of the connection manager.
const METHOD_SEND: u8 = 0x03;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Header {
    base_version: u8,
    class: u8,
    class_version: u8,
    method: u8,
    status: U16,
    class_specific: U16,
    transaction: U64,
    attribute: U16,
    reserved: U16,
    modifier: U32,
}
const _: () = assert!(size_of::<Header>() == HEADER_LEN);

/// Why bytes are not a message of the connection manager.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CmError {
    /// A management datagram has exactly 256 bytes.
    #[error("a management datagram has {MAD_LEN} bytes, here are {0}")]
    Length(usize),
    /// The version of the header is unknown.
    #[error("base version {0} of a management datagram is unknown; this is version 1")]
    BaseVersion(u8),
    /// The datagram belongs to another management class.
    #[error("management class {0:#04x} is not that of the connection manager")]
    Class(u8),
    /// The version of the messages is unknown.
    #[error("version {0} of the connection manager's class is unknown; this is version 2")]
    ClassVersion(u8),
    /// The method is not Send.
    #[error("method {0:#04x} of the connection manager's class is unknown")]
    Method(u8),
    /// The message is unknown or not supported.
    #[error("message {0:#06x} of the connection manager is not supported")]
    Attribute(u16),
}

/// A message and the transaction that it belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mad {
    /// Chosen by the sender of a request, and returned in the answers.
    pub transaction: u64,
    /// The message.
    pub message: Message,
}

/// A message of the connection manager.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Message {
    /// The active side asks for a connection.
    Req(Req),
    /// A message has arrived, and its answer takes a while.
    Mra(Mra),
    /// There will be no connection.
    Rej(Rej),
    /// The passive side accepts.
    Rep(Rep),
    /// The active side has seen that.
    Rtu(Rtu),
    /// One side ends the connection.
    Dreq(Dreq),
    /// The other side has seen that.
    Drep(Drep),
}

const REQ: u16 = 0x10;
const MRA: u16 = 0x11;
const REJ: u16 = 0x12;
const REP: u16 = 0x13;
const RTU: u16 = 0x14;
const DREQ: u16 = 0x15;
const DREP: u16 = 0x16;

impl Mad {
    /// Parses the data of a datagram to queue pair 1.
    ///
    /// # Errors
    /// If it is not a message of the connection manager, or not a supported one.
    pub fn parse(bytes: &[u8]) -> Result<Self, CmError> {
        let bytes: &[u8; MAD_LEN] = bytes.try_into().map_err(|_| CmError::Length(bytes.len()))?;
        let (header, body) = Header::ref_from_prefix(bytes).expect("the length is checked");
        let checks = [
            (
                header.base_version,
                BASE_VERSION,
                CmError::BaseVersion as fn(u8) -> CmError,
            ),
            (header.class, CLASS, CmError::Class),
            (header.class_version, CLASS_VERSION, CmError::ClassVersion),
            (header.method, METHOD_SEND, CmError::Method),
        ];
        if let Some((found, _, error)) = checks.into_iter().find(|(found, known, _)| found != known)
        {
            return Err(error(found));
        }
        let body = Body(body.try_into().expect("the rest"));
        let message = match header.attribute.get() {
            REQ => Message::Req(Req::parse(&body)),
            MRA => Message::Mra(Mra::parse(&body)),
            REJ => Message::Rej(Rej::parse(&body)),
            REP => Message::Rep(Rep::parse(&body)),
            RTU => Message::Rtu(Rtu::parse(&body)),
            DREQ => Message::Dreq(Dreq::parse(&body)),
            DREP => Message::Drep(Drep::parse(&body)),
            other => return Err(CmError::Attribute(other)),
        };
        Ok(Self {
            transaction: header.transaction.get(),
            message,
        })
    }

    /// The datagram's data.
    pub fn emit(&self) -> [u8; MAD_LEN] {
        let (attribute, body) = match &self.message {
            Message::Req(message) => (REQ, message.emit()),
            Message::Mra(message) => (MRA, message.emit()),
            Message::Rej(message) => (REJ, message.emit()),
            Message::Rep(message) => (REP, message.emit()),
            Message::Rtu(message) => (RTU, message.emit()),
            Message::Dreq(message) => (DREQ, message.emit()),
            Message::Drep(message) => (DREP, message.emit()),
        };
        let header = Header {
            base_version: BASE_VERSION,
            class: CLASS,
            class_version: CLASS_VERSION,
            method: METHOD_SEND,
            status: U16::ZERO,
            class_specific: U16::ZERO,
            transaction: U64::new(self.transaction),
            attribute: U16::new(attribute),
            reserved: U16::ZERO,
            modifier: U32::ZERO,
        };
        let mut bytes = [0; MAD_LEN];
        bytes[..HEADER_LEN].copy_from_slice(header.as_bytes());
        bytes[HEADER_LEN..].copy_from_slice(&body.0);
        bytes
    }
}
