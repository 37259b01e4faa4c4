//! I/O commands of the NVM command set: Flush, Write, Read, Write Zeroes (Base 7.1; NVM 3.2.3 to
//! 3.2.8).

use super::{NvmeError, Sqe};
use core::fmt;

/// Opcode of Flush.
pub const FLUSH: u8 = 0x00;
/// Opcode of Write.
pub const WRITE: u8 = 0x01;
/// Opcode of Read.
pub const READ: u8 = 0x02;
/// Opcode of Write Zeroes.
pub const WRITE_ZEROES: u8 = 0x08;

/// Maximum blocks of one command: the number has 16 bits and counts from zero.
pub const BLOCKS_MAX: u32 = 1 << 16;

/// Force unit access, bit 30 of dword 12.
const FORCE: u32 = 1 << 30;

/// The logical blocks of a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockRange {
    /// The first block.
    pub first: u64,
    /// Number of blocks, 1 to 65536.
    pub count: u32,
    /// Whether the blocks must be on the medium before the command completes (FUA).
    pub force: bool,
}

/// An I/O command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IoCommand {
    /// Moves everything written to the namespace to the medium.
    Flush,
    /// Writes data of the host to the blocks.
    Write(BlockRange),
    /// Reads data of the blocks into the host's memory.
    Read(BlockRange),
    /// Makes the blocks read as zeroes from now on.
    WriteZeroes(BlockRange),
}

impl BlockRange {
    /// `count` blocks from `first` on.
    ///
    /// # Panics
    /// If the count is not 1 to 65536.
    pub fn new(first: u64, count: u32) -> Self {
        assert!(
            (1..=BLOCKS_MAX).contains(&count),
            "a command is about 1 to 65536 blocks, not {count}"
        );
        Self {
            first,
            count,
            force: false,
        }
    }

    fn of(sqe: &Sqe) -> Self {
        let dword_12 = sqe.dword(12);
        Self {
            first: u64::from(sqe.dword(10)) | u64::from(sqe.dword(11)) << 32,
            count: (dword_12 & 0xffff) + 1,
            force: dword_12 & FORCE != 0,
        }
    }
}

impl IoCommand {
    /// Decodes the command of an entry. Hints (limited retry, dataset management, protection
    /// information) are ignored.
    ///
    /// # Errors
    /// If the opcode is not one of the four.
    pub fn parse(sqe: &Sqe) -> Result<Self, NvmeError> {
        Ok(match sqe.opcode {
            FLUSH => Self::Flush,
            WRITE => Self::Write(BlockRange::of(sqe)),
            READ => Self::Read(BlockRange::of(sqe)),
            WRITE_ZEROES => Self::WriteZeroes(BlockRange::of(sqe)),
            opcode => return Err(NvmeError::IoOpcode(opcode)),
        })
    }

    /// The entry for the command.
    ///
    /// # Panics
    /// If the number of blocks is not 1 to 65536.
    pub fn emit(&self, command_id: u16, nsid: u32) -> Sqe {
        let mut sqe = Sqe::new(self.opcode(), command_id, nsid);
        if let Some(range) = self.range() {
            let count = range.count.wrapping_sub(1);
            assert!(count < BLOCKS_MAX, "1 to 65536 blocks");
            sqe.dwords[0] = range.first as u32;
            sqe.dwords[1] = (range.first >> 32) as u32;
            sqe.dwords[2] = count | if range.force { FORCE } else { 0 };
        }
        sqe
    }

    /// Its opcode.
    pub fn opcode(&self) -> u8 {
        match self {
            Self::Flush => FLUSH,
            Self::Write(_) => WRITE,
            Self::Read(_) => READ,
            Self::WriteZeroes(_) => WRITE_ZEROES,
        }
    }

    /// The blocks of the command; `None` for Flush, which applies to all.
    pub fn range(&self) -> Option<BlockRange> {
        match *self {
            Self::Flush => None,
            Self::Write(range) | Self::Read(range) | Self::WriteZeroes(range) => Some(range),
        }
    }
}

impl fmt::Display for IoCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::Flush => "Flush",
            Self::Write(_) => "Write",
            Self::Read(_) => "Read",
            Self::WriteZeroes(_) => "Write Zeroes",
        };
        match self.range() {
            Some(range) => write!(f, "{name} {} blocks at {}", range.count, range.first),
            None => f.write_str(name),
        }
    }
}
