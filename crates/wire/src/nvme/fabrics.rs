//! Fabrics commands: Connect, Property Get, Property Set, Disconnect (Fabrics 3; Base 6).
//!
//! They share one opcode; byte 4, where other commands have the namespace, is the command type.
//! Connect is the first command of every queue and carries 1024 bytes of data.

use super::error::first;
use super::{NvmeError, Sqe};
use core::fmt;
use zerocopy::byteorder::little_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The opcode of all Fabrics commands (Fabrics 3).
pub const OPCODE: u8 = 0x7f;
/// Bytes of Connect's data (Fabrics 3.3).
pub const CONNECT_DATA_LEN: usize = 1024;
/// The controller id by which a host requests any controller (dynamic model; Fabrics 3.3).
pub const CONTROLLER_ANY: u16 = 0xffff;
/// Bytes of an NVMe qualified name, including its terminating zero (Base 4.5).
pub const NQN_LEN: usize = 256;

/// Command types (Fabrics 3).
const PROPERTY_SET: u8 = 0x00;
const CONNECT: u8 = 0x01;
const PROPERTY_GET: u8 = 0x04;
const DISCONNECT: u8 = 0x08;

/// A Fabrics command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FabricsCommand {
    /// Writes a property of the controller (3.6).
    PropertySet {
        /// Whether the property has eight bytes; four otherwise.
        wide: bool,
        /// Its offset.
        offset: u32,
        /// The new value.
        value: u64,
    },
    /// Creates a queue (3.3).
    Connect(Connect),
    /// Reads a property of the controller (3.5). The value is the response's result.
    PropertyGet {
        /// Whether the property has eight bytes; four otherwise.
        wide: bool,
        /// Its offset.
        offset: u32,
    },
    /// Deletes the I/O queue that it arrives on (3.4).
    Disconnect,
}

/// The parameters of Connect in the submission queue entry (Fabrics 3.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Connect {
    /// The queue: 0 is the admin queue.
    pub queue_id: u16,
    /// Entries of the submission queue, counted from zero: 31 means 32 entries.
    pub queue_size: u16,
    /// Attributes: priority class in bits 1:0, flow control off in bit 2.
    pub attributes: u8,
    /// Keep alive timeout in milliseconds, zero if there is none.
    pub keep_alive_ms: u32,
}

/// Locations of the invalid parameter in the result of a failed Connect (Fabrics 3.3).
pub mod invalid {
    /// Bit 16: the offset refers to the data, not to the entry.
    const IN_DATA: u64 = 1 << 16;
    /// The queue id, in the entry.
    pub const QUEUE_ID: u64 = 42;
    /// The queue size, in the entry.
    pub const QUEUE_SIZE: u64 = 44;
    /// The controller id, in the data.
    pub const CONTROLLER_ID: u64 = IN_DATA | 16;
    /// The subsystem's name, in the data.
    pub const SUBSYSTEM: u64 = IN_DATA | 256;
    /// The host's name, in the data.
    pub const HOST: u64 = IN_DATA | 512;
}

impl FabricsCommand {
    /// Decodes the command of an entry.
    ///
    /// # Errors
    /// If it is not a Fabrics command, its type or format is unknown, or its size is reserved.
    pub fn parse(sqe: &Sqe) -> Result<Self, NvmeError> {
        if sqe.opcode != OPCODE {
            return Err(NvmeError::NotFabrics(sqe.opcode));
        }
        match sqe.nsid as u8 {
            PROPERTY_SET => Ok(Self::PropertySet {
                wide: wide(sqe)?,
                offset: sqe.dword(11),
                value: u64::from(sqe.dword(12)) | u64::from(sqe.dword(13)) << 32,
            }),
            CONNECT => {
                let format = sqe.dword(10) as u16;
                if format != 0 {
                    return Err(NvmeError::RecordFormat(format));
                }
                Ok(Self::Connect(Connect {
                    queue_id: (sqe.dword(10) >> 16) as u16,
                    queue_size: sqe.dword(11) as u16,
                    attributes: (sqe.dword(11) >> 16) as u8,
                    keep_alive_ms: sqe.dword(12),
                }))
            }
            PROPERTY_GET => Ok(Self::PropertyGet {
                wide: wide(sqe)?,
                offset: sqe.dword(11),
            }),
            DISCONNECT => match sqe.dword(10) as u16 {
                0 => Ok(Self::Disconnect),
                format => Err(NvmeError::RecordFormat(format)),
            },
            kind => Err(NvmeError::FabricsType(kind)),
        }
    }

    /// The entry for the command, without data pointer.
    pub fn emit(&self, command_id: u16) -> Sqe {
        let (kind, dwords) = match *self {
            Self::PropertySet {
                wide,
                offset,
                value,
            } => {
                let value = [value as u32, (value >> 32) as u32];
                (PROPERTY_SET, [wide.into(), offset, value[0], value[1]])
            }
            Self::Connect(connect) => {
                let queue = u32::from(connect.queue_id) << 16;
                let size = u32::from(connect.attributes) << 16 | u32::from(connect.queue_size);
                (CONNECT, [queue, size, connect.keep_alive_ms, 0])
            }
            Self::PropertyGet { wide, offset } => (PROPERTY_GET, [wide.into(), offset, 0, 0]),
            Self::Disconnect => (DISCONNECT, [0; 4]),
        };
        let mut sqe = Sqe::new(OPCODE, command_id, kind.into());
        sqe.dwords[..4].copy_from_slice(&dwords);
        sqe
    }
}

/// The size in a property command's attributes, bits 2:0 of byte 40.
fn wide(sqe: &Sqe) -> Result<bool, NvmeError> {
    match sqe.dword(10) as u8 & 0b111 {
        0 => Ok(false),
        1 => Ok(true),
        reserved => Err(NvmeError::PropertySize(reserved)),
    }
}

/// The data of Connect.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConnectData {
    /// The identifier of the host, the same for all of its queues.
    pub host_id: [u8; 16],
    /// The controller; [`CONTROLLER_ANY`] on admin queues in the dynamic model.
    pub controller_id: u16,
    /// The qualified name of the subsystem.
    pub subsystem: String,
    /// The qualified name of the host.
    pub host: String,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct DataLayout {
    host_id: [u8; 16],
    controller_id: U16,
    reserved_18: [u8; 238],
    subsystem: [u8; NQN_LEN],
    host: [u8; NQN_LEN],
    reserved_768: [u8; 256],
}
const _: () = assert!(size_of::<DataLayout>() == CONNECT_DATA_LEN);

/// A zero-terminated name.
fn name(bytes: &[u8; NQN_LEN], what: &'static str) -> Result<String, NvmeError> {
    let end = bytes.iter().position(|byte| *byte == 0);
    let name = end.map(|end| bytes[..end].to_vec());
    let name = name.and_then(|name| String::from_utf8(name).ok());
    name.ok_or(NvmeError::Name(what))
}

/// A name padded with zeroes.
fn padded(name: &str) -> [u8; NQN_LEN] {
    assert!(
        name.len() < NQN_LEN,
        "a qualified name has at most 223 bytes"
    );
    let mut bytes = [0; NQN_LEN];
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    bytes
}

impl ConnectData {
    /// Parses the data of Connect.
    ///
    /// # Errors
    /// If there are fewer than 1024 bytes, or a name is invalid.
    pub fn parse(bytes: &[u8]) -> Result<Self, NvmeError> {
        let bytes = first::<CONNECT_DATA_LEN>(bytes, "the data of Connect")?;
        let layout: DataLayout = zerocopy::transmute!(bytes);
        Ok(Self {
            host_id: layout.host_id,
            controller_id: layout.controller_id.get(),
            subsystem: name(&layout.subsystem, "the subsystem's name")?,
            host: name(&layout.host, "the host's name")?,
        })
    }

    /// The data's bytes.
    ///
    /// # Panics
    /// If a name has more than 255 bytes.
    pub fn emit(&self) -> [u8; CONNECT_DATA_LEN] {
        zerocopy::transmute!(DataLayout {
            host_id: self.host_id,
            controller_id: U16::new(self.controller_id),
            reserved_18: [0; 238],
            subsystem: padded(&self.subsystem),
            host: padded(&self.host),
            reserved_768: [0; 256],
        })
    }
}

impl fmt::Display for FabricsCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PropertySet { offset, value, .. } => {
                write!(f, "Property Set {offset:#x} to {value:#x}")
            }
            Self::Connect(connect) => write!(f, "Connect queue {}", connect.queue_id),
            Self::PropertyGet { offset, .. } => write!(f, "Property Get {offset:#x}"),
            Self::Disconnect => f.write_str("Disconnect"),
        }
    }
}
