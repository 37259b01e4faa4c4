//! The completion queue entry: a response (Base 3.3.3.2; Fabrics 2.2).
//!
//! Fabrics reserves the submission queue's id and the phase tag: a response belongs to the queue
//! pair that it arrives on. Both are sent as zero and ignored on receipt.

use super::error::first;
use super::{NvmeError, Status};
use core::fmt;
use serde::{Deserialize, Serialize};
use zerocopy::byteorder::little_endian::{U16, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of the entry, and of a response capsule.
pub const LEN: usize = 16;

/// A completion queue entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Cqe {
    /// Dwords 0 and 1, depending on the command: a property's value, a controller's id.
    pub result: u64,
    /// The target's head in the submission queue: all entries before it are free again.
    pub sq_head: u16,
    /// The command that this answers.
    pub command_id: u16,
    /// The result of the command.
    pub status: Status,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Layout {
    result: U64,
    sq_head: U16,
    sq_id: U16,
    command_id: U16,
    // The phase tag is bit 0.
    status: U16,
}
const _: () = assert!(size_of::<Layout>() == LEN);

impl Cqe {
    /// Parses a response capsule.
    ///
    /// # Errors
    /// If there are fewer than 16 bytes.
    pub fn parse(bytes: &[u8]) -> Result<Self, NvmeError> {
        let layout: Layout = zerocopy::transmute!(first::<LEN>(bytes, "a response capsule")?);
        Ok(Self {
            result: layout.result.get(),
            sq_head: layout.sq_head.get(),
            command_id: layout.command_id.get(),
            status: Status(layout.status.get() >> 1),
        })
    }

    /// The entry's bytes.
    pub fn emit(&self) -> [u8; LEN] {
        zerocopy::transmute!(Layout {
            result: U64::new(self.result),
            sq_head: U16::new(self.sq_head),
            sq_id: U16::ZERO,
            command_id: U16::new(self.command_id),
            status: U16::new(self.status.0 << 1),
        })
    }
}

impl fmt::Display for Cqe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "command {}: {}", self.command_id, self.status)
    }
}
