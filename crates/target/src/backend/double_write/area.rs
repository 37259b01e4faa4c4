//! The area of double writes: its location, and the format of its headers.
//!
//! The area is the last blocks of a medium, in two halves. A half is a header of one block followed
//! by the data of one batch, command after command. Numbers in headers are little-endian:
//!
//! | at | bytes | content |
//! |---|---|---|
//! | 0 | 8 | `RWdblwr1` |
//! | 8 | 8 | checksum of everything after it in the block |
//! | 16 | 8 | sequence number of the batch; zero: none |
//! | 24 | 8 | blocks before the area |
//! | 32 | 4 | blocks of a half |
//! | 36 | 4 | bytes of a block |
//! | 40 | 4 | commands |
//! | 44 | 4 | zero |
//! | 48 | 24 each | command: first block, 8; blocks, 4; 1 for data, 0 for zeroes, 4; checksum, 8 |
//!
//! Checksums are those of [`rackweave_base::checksum`]: over the header as it is, and over a
//! command's data prefixed with the batch's sequence number.

use rackweave_base::checksum::checksum;

/// The first bytes of a header.
const MAGIC: &[u8; 8] = b"RWdblwr1";
/// Offset of the first command.
const COMMANDS_AT: usize = 48;
/// Bytes of a command.
const COMMAND_BYTES: usize = 24;
/// Bytes of a store's area.
const BYTES: u64 = 8 << 20;

/// The location of the area of double writes in a medium.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DoubleWriteArea {
    /// Bytes of a block.
    pub block_size: u32,
    /// Blocks before the area; these are visible to users of the device.
    pub home_blocks: u64,
    /// Blocks of each half, including its header; at least two.
    pub half_blocks: u32,
}

/// A batch's entry for one command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Entry {
    pub(super) home: u64,
    pub(super) blocks: u32,
    /// The checksum of its data; none for zeroes.
    pub(super) data: Option<u64>,
}

/// The content of a header.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Header {
    /// Zero if there has been no batch yet.
    pub(super) sequence: u64,
    pub(super) entries: Vec<Entry>,
}

impl DoubleWriteArea {
    /// Blocks of a store's area: 8 MiB.
    pub const fn usual_blocks(block_size: u32) -> u64 {
        BYTES / block_size as u64
    }

    /// The area in the last `area_blocks` of `blocks` blocks, an even number. `None` if no block is
    /// left before it, or a half has no space for data.
    pub fn at_end(block_size: u32, blocks: u64, area_blocks: u64) -> Option<Self> {
        let home_blocks = blocks.checked_sub(area_blocks)?;
        let half_blocks = u32::try_from(area_blocks / 2).ok()?;
        let sound = home_blocks > 0 && half_blocks >= 2 && area_blocks.is_multiple_of(2);
        sound.then_some(Self {
            block_size,
            home_blocks,
            half_blocks,
        })
    }

    /// The block with the header of half 0 or 1; its data follows.
    pub fn header_block(&self, half: usize) -> u64 {
        self.home_blocks + half as u64 * u64::from(self.half_blocks)
    }

    /// Whether the bytes of a block, at least 512, begin like an area's header. An area that has
    /// been in use has headers in both halves, regardless of power failures.
    pub fn is_header(bytes: &[u8]) -> bool {
        bytes.starts_with(MAGIC)
    }

    /// Maximum blocks of data of a batch, and so of a command.
    pub fn data_blocks(&self) -> u32 {
        self.half_blocks - 1
    }

    /// Maximum commands of a batch.
    pub(super) fn commands_max(&self) -> usize {
        (self.block_size as usize - COMMANDS_AT) / COMMAND_BYTES
    }

    pub(super) fn half_bytes(&self) -> usize {
        self.half_blocks as usize * self.block_size as usize
    }

    /// The bytes of a header block.
    pub(super) fn emit(&self, header: &Header) -> Vec<u8> {
        debug_assert!(header.entries.len() <= self.commands_max());
        let mut bytes = vec![0; self.block_size as usize];
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        put(0, MAGIC);
        put(16, &header.sequence.to_le_bytes());
        put(24, &self.home_blocks.to_le_bytes());
        put(32, &self.half_blocks.to_le_bytes());
        put(36, &self.block_size.to_le_bytes());
        put(40, &(header.entries.len() as u32).to_le_bytes());
        for (number, entry) in header.entries.iter().enumerate() {
            let at = COMMANDS_AT + number * COMMAND_BYTES;
            put(at, &entry.home.to_le_bytes());
            put(at + 8, &entry.blocks.to_le_bytes());
            put(at + 12, &u32::from(entry.data.is_some()).to_le_bytes());
            put(at + 16, &entry.data.unwrap_or(0).to_le_bytes());
        }
        let sum = checksum(0, &bytes[16..]);
        bytes[8..16].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// The header in the bytes of a block; `None` if it is not of this area, or was torn.
    pub(super) fn parse(&self, bytes: &[u8]) -> Option<Header> {
        let long = |at: usize| Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        let short = |at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        let sound = Self::is_header(bytes)
            && long(8)? == checksum(0, &bytes[16..])
            && long(24)? == self.home_blocks
            && short(32)? == self.half_blocks
            && short(36)? == self.block_size
            && short(40)? as usize <= self.commands_max();
        if !sound {
            return None;
        }
        let mut entries = Vec::new();
        let mut data_blocks = 0_u64;
        for number in 0..short(40)? as usize {
            let at = COMMANDS_AT + number * COMMAND_BYTES;
            let entry = Entry {
                home: long(at)?,
                blocks: short(at + 8)?,
                data: (short(at + 12)? != 0).then_some(long(at + 16)?),
            };
            let end = entry.home.checked_add(entry.blocks.into())?;
            data_blocks += entry.data.map_or(0, |_| u64::from(entry.blocks));
            if end > self.home_blocks || data_blocks > u64::from(self.data_blocks()) {
                return None;
            }
            entries.push(entry);
        }
        Some(Header {
            sequence: long(16)?,
            entries,
        })
    }
}
