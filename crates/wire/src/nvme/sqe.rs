//! The submission queue entry: a command (Base 3.3.3.1; Fabrics 2.1.1).

use super::error::first;
use super::{NvmeError, Sgl};
use core::fmt;
use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of the entry.
pub const LEN: usize = 64;

/// The only way that Fabrics commands describe their data: an SGL, and a metadata pointer to one
/// contiguous buffer (PSDT 01b; Base 3.3.3.1, Fabrics 2.1.1).
pub const PSDT_SGL: u8 = 0b01;

/// Opcodes of admin commands (Base 5).
pub mod admin {
    /// Get Log Page.
    pub const GET_LOG_PAGE: u8 = 0x02;
    /// Identify.
    pub const IDENTIFY: u8 = 0x06;
    /// Abort.
    pub const ABORT: u8 = 0x08;
    /// Set Features.
    pub const SET_FEATURES: u8 = 0x09;
    /// Get Features.
    pub const GET_FEATURES: u8 = 0x0a;
    /// Asynchronous Event Request.
    pub const ASYNC_EVENT_REQUEST: u8 = 0x0c;
    /// Keep Alive.
    pub const KEEP_ALIVE: u8 = 0x18;
}

/// A submission queue entry. Any 64 bytes are valid; the meaning of the parts depends on the
/// opcode.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sqe {
    /// The operation.
    pub opcode: u8,
    /// Fused operation, two bits; zero means a separate command.
    pub fuse: u8,
    /// The format of the data pointer, two bits: see [`PSDT_SGL`].
    pub psdt: u8,
    /// The host's identifier of the command, unique among those in flight on its queue.
    pub command_id: u16,
    /// The namespace. The low byte is the command type in Fabrics commands.
    pub nsid: u32,
    /// Dwords 2 and 3.
    pub dwords_2_3: [u32; 2],
    /// The address of metadata; there is none here.
    pub metadata: u64,
    /// The data pointer, one SGL descriptor: [`Sgl::parse`].
    pub data: [u8; 16],
    /// Dwords 10 to 15, by command.
    pub dwords: [u32; 6],
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Layout {
    opcode: u8,
    // Fuse in bits 1:0, PSDT in bits 7:6.
    flags: u8,
    command_id: U16,
    nsid: U32,
    dwords_2_3: [U32; 2],
    metadata: U64,
    data: [u8; 16],
    dwords: [U32; 6],
}
const _: () = assert!(size_of::<Layout>() == LEN);

impl Sqe {
    /// A command whose data, if it has any, is described as required by Fabrics.
    pub fn new(opcode: u8, command_id: u16, nsid: u32) -> Self {
        Self {
            opcode,
            psdt: PSDT_SGL,
            command_id,
            nsid,
            ..Self::default()
        }
    }

    /// The same command with this data.
    #[must_use]
    pub fn with_data(mut self, sgl: Sgl) -> Self {
        self.data = sgl.emit();
        self
    }

    /// Parses a command capsule; also returns the in-capsule data after the entry.
    ///
    /// # Errors
    /// If there are fewer than 64 bytes.
    pub fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), NvmeError> {
        let layout: Layout = zerocopy::transmute!(first::<LEN>(bytes, "a command capsule")?);
        let sqe = Self {
            opcode: layout.opcode,
            fuse: layout.flags & 0b11,
            psdt: layout.flags >> 6,
            command_id: layout.command_id.get(),
            nsid: layout.nsid.get(),
            dwords_2_3: layout.dwords_2_3.map(U32::get),
            metadata: layout.metadata.get(),
            data: layout.data,
            dwords: layout.dwords.map(U32::get),
        };
        Ok((sqe, &bytes[LEN..]))
    }

    /// The entry's bytes.
    pub fn emit(&self) -> [u8; LEN] {
        zerocopy::transmute!(Layout {
            opcode: self.opcode,
            flags: self.fuse & 0b11 | self.psdt << 6,
            command_id: U16::new(self.command_id),
            nsid: U32::new(self.nsid),
            dwords_2_3: self.dwords_2_3.map(U32::new),
            metadata: U64::new(self.metadata),
            data: self.data,
            dwords: self.dwords.map(U32::new),
        })
    }

    /// The descriptor of the command's data.
    ///
    /// # Errors
    /// If its type is not valid for RDMA.
    pub fn sgl(&self) -> Result<Sgl, NvmeError> {
        Sgl::parse(&self.data)
    }

    /// Dwords 10 to 15, by their number in the specification.
    ///
    /// # Panics
    /// If `number` is not 10 to 15.
    pub fn dword(&self, number: usize) -> u32 {
        self.dwords[number - 10]
    }
}

impl fmt::Display for Sqe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "opcode {:#04x} command {} namespace {}",
            self.opcode, self.command_id, self.nsid
        )
    }
}
