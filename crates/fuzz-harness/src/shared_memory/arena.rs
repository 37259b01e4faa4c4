//! An arena that a hostile process offers for reading, and the meaning of its bytes by its layout.

use super::segment::{bytes_of, file};
use crate::input::Input;
use rackweave_base::memory::BLOCKS_MAX;
use rustix::fs::SealFlags;
use std::os::fd::OwnedFd;

/// Offset of the first block.
const DATA_AT: u64 = 2 << 20;
const LEN: u64 = DATA_AT + 2 * BLOCK;
const BLOCK: u64 = 4096;
const TABLE_AT: u64 = 4096;
const ENTRY: u64 = 24;

/// A reference as it is transmitted, in byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference {
    pub offset: u64,
    pub generation: u32,
    pub len: u32,
    pub slot: u32,
    pub origin: u16,
}

impl Reference {
    /// Decodes 24 bytes.
    pub fn decode(bytes: &[u8]) -> Self {
        let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|byte| bytes[at + byte]));
        Self {
            offset: u64::from(word(0)) | u64::from(word(4)) << 32,
            generation: word(8),
            len: word(12),
            slot: word(16),
            origin: word(20) as u16,
        }
    }

    pub fn encode(&self) -> [u8; 24] {
        let mut bytes = [0; 24];
        bytes[..8].copy_from_slice(&self.offset.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.generation.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.len.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.slot.to_le_bytes());
        bytes[20..22].copy_from_slice(&self.origin.to_le_bytes());
        bytes
    }
}

pub struct Arena {
    pub fd: OwnedFd,
    len: u64,
}

impl Arena {
    /// A valid arena with a block in slot 0, of generation 1; its file is `shorter` bytes shorter.
    pub fn new(shorter: u64, seals: SealFlags) -> Self {
        let len = LEN - shorter;
        let fd = file(len, seals);
        let arena = Self { fd, len };
        arena.write(0, b"RWarena\n");
        arena.write(8, &1_u32.to_le_bytes());
        arena.write(12, &(BLOCKS_MAX as u32).to_le_bytes());
        arena.write(16, &len.to_le_bytes());
        arena.set_entry(0, DATA_AT, BLOCK, 1);
        let bytes: Vec<u8> = (0..2 * BLOCK).map(|at| (at / 7) as u8).collect();
        arena.write(DATA_AT, &bytes);
        arena
    }

    /// A second handle to the same file.
    pub fn again(&self) -> Self {
        Self {
            fd: self.fd.try_clone().expect("a descriptor is free"),
            len: self.len,
        }
    }

    /// Writes within the file.
    pub fn write(&self, at: u64, bytes: &[u8]) {
        let _sealed = rustix::io::pwrite(&self.fd, bytes, at);
    }

    pub fn set_entry(&self, slot: u64, offset: u64, capacity: u64, generation: u32) {
        let at = TABLE_AT + slot * ENTRY;
        self.write(at, &offset.to_le_bytes());
        self.write(at + 8, &capacity.to_le_bytes());
        self.write(at + 16, &generation.to_le_bytes());
    }

    /// Overwrites one of the first four entries, or a byte of the header, from the input.
    pub fn tamper(&self, value: u8, input: &mut Input<'_>) -> Option<()> {
        if value & 8 != 0 {
            let (at, byte) = (input.byte()?, input.byte()?);
            self.write(u64::from(at % 24), &[byte]);
            return Some(());
        }
        let offset = input.signed_half()?;
        let capacity = input.signed_half()?;
        // Near the start of the blocks, near the end of the segment, and near the maximum number.
        let base = [DATA_AT, self.len, 0, DATA_AT][usize::from(value & 3)];
        let generation = u32::from(input.byte()?);
        self.set_entry(
            u64::from(value & 3),
            base.wrapping_add_signed(offset),
            BLOCK.wrapping_add_signed(capacity),
            generation,
        );
        Some(())
    }

    /// Whether header, length and seals are those of an arena.
    pub fn is_sound(&self) -> bool {
        let header: [u8; 24] = bytes_of(&self.fd, 0);
        let seals = rustix::fs::fcntl_get_seals(&self.fd).expect("it is an anonymous file");
        seals.contains(SealFlags::SHRINK | SealFlags::GROW)
            && self.len >= DATA_AT
            && header.starts_with(b"RWarena\n")
            && header[8..12] == 1_u32.to_le_bytes()
            && header[12..16] == (BLOCKS_MAX as u32).to_le_bytes()
            && header[16..24] == self.len.to_le_bytes()
    }

    /// The bytes that `reference` names, if they are in the block that the table has for it.
    pub fn bytes(&self, reference: &Reference) -> Option<Vec<u8>> {
        if u64::from(reference.slot) >= BLOCKS_MAX as u64 || reference.generation.is_multiple_of(2)
        {
            return None;
        }
        let at = TABLE_AT + u64::from(reference.slot) * ENTRY;
        let offset = u64::from_le_bytes(bytes_of(&self.fd, at));
        let capacity = u64::from_le_bytes(bytes_of(&self.fd, at + 8));
        let generation = u32::from_le_bytes(bytes_of(&self.fd, at + 16));
        let (offset, start) = (u128::from(offset), u128::from(reference.offset));
        let end = start + u128::from(reference.len);
        let is_there = generation == reference.generation
            && end <= u128::from(capacity)
            && offset + start >= u128::from(DATA_AT)
            && offset + end <= u128::from(self.len);
        is_there.then(|| {
            let mut bytes = vec![0; reference.len as usize];
            let at = (offset + start) as u64;
            let _at_the_end = rustix::io::pread(&self.fd, &mut bytes[..], at);
            bytes
        })
    }
}
