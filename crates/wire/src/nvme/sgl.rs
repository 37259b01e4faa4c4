//! The SGL descriptors of the RDMA transport (Base 4.1.2; RDMA 2.1).
//!
//! A command carries one descriptor in its data pointer. It refers to memory of the host by address
//! and key, or to bytes of the capsule by their offset after the submission queue entry. Descriptor
//! type and subtype are the last byte; all other descriptors are refused.

use super::NvmeError;
use core::fmt;
use rackweave_base::Rkey;
use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of a descriptor.
pub const LEN: usize = 16;
/// Maximum bytes of a keyed descriptor: its length has 24 bits.
pub const KEYED_LENGTH_MAX: u32 = (1 << 24) - 1;

/// SGL data block (type 0h) with an offset in the capsule (subtype 1h).
const OFFSET: u8 = 0x01;
/// Keyed SGL data block (type 4h) with an address (subtype 0h).
const KEYED: u8 = 0x40;
/// The same, with a key that the response must invalidate (subtype Fh; RDMA 2.1).
const KEYED_INVALIDATE: u8 = 0x4f;

/// The location of a command's data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sgl {
    /// Memory of the host.
    Keyed {
        /// The address of the first byte.
        address: u64,
        /// Bytes, 24 bits.
        length: u32,
        /// The key of the memory.
        key: Rkey,
        /// Whether the host requests that the key be invalidated when the command is done.
        invalidate: bool,
    },
    /// Bytes of the command capsule.
    InCapsule {
        /// Their offset from the end of the submission queue entry.
        offset: u64,
        /// Bytes.
        length: u32,
    },
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct KeyedLayout {
    address: U64,
    length: [u8; 3],
    key: U32,
    id: u8,
}
const _: () = assert!(size_of::<KeyedLayout>() == LEN);

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct OffsetLayout {
    offset: U64,
    length: U32,
    reserved: [u8; 3],
    id: u8,
}
const _: () = assert!(size_of::<OffsetLayout>() == LEN);

impl Sgl {
    /// `length` bytes of the host's memory.
    ///
    /// # Panics
    /// If the length does not fit 24 bits.
    pub fn keyed(address: u64, length: u32, key: Rkey) -> Self {
        assert!(
            length <= KEYED_LENGTH_MAX,
            "a keyed descriptor names at most 2^24 - 1 bytes, not {length}"
        );
        Self::Keyed {
            address,
            length,
            key,
            invalidate: false,
        }
    }

    /// Parses a descriptor.
    ///
    /// # Errors
    /// If it is of another type.
    pub fn parse(bytes: &[u8; LEN]) -> Result<Self, NvmeError> {
        let id = bytes[LEN - 1];
        match id {
            KEYED | KEYED_INVALIDATE => {
                let layout: KeyedLayout = zerocopy::transmute!(*bytes);
                let [low, middle, high] = layout.length;
                Ok(Self::Keyed {
                    address: layout.address.get(),
                    length: u32::from_le_bytes([low, middle, high, 0]),
                    key: Rkey(layout.key.get()),
                    invalidate: id == KEYED_INVALIDATE,
                })
            }
            OFFSET => {
                let layout: OffsetLayout = zerocopy::transmute!(*bytes);
                Ok(Self::InCapsule {
                    offset: layout.offset.get(),
                    length: layout.length.get(),
                })
            }
            _ => Err(NvmeError::SglType(id)),
        }
    }

    /// The descriptor's bytes.
    ///
    /// # Panics
    /// If a keyed descriptor's length does not fit 24 bits.
    pub fn emit(&self) -> [u8; LEN] {
        match *self {
            Self::Keyed {
                address,
                length,
                key,
                invalidate,
            } => {
                assert!(length <= KEYED_LENGTH_MAX, "24 bits of length");
                let [low, middle, high, _] = length.to_le_bytes();
                zerocopy::transmute!(KeyedLayout {
                    address: U64::new(address),
                    length: [low, middle, high],
                    key: U32::new(key.0),
                    id: if invalidate { KEYED_INVALIDATE } else { KEYED },
                })
            }
            Self::InCapsule { offset, length } => zerocopy::transmute!(OffsetLayout {
                offset: U64::new(offset),
                length: U32::new(length),
                reserved: [0; 3],
                id: OFFSET,
            }),
        }
    }

    /// The number of bytes described.
    pub fn length(&self) -> u32 {
        match *self {
            Self::Keyed { length, .. } | Self::InCapsule { length, .. } => length,
        }
    }
}

impl fmt::Display for Sgl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Keyed {
                address,
                length,
                key,
                invalidate,
            } => {
                let invalidate = if invalidate {
                    ", to be invalidated"
                } else {
                    ""
                };
                write!(f, "{length} at {address:#x} {key:?}{invalidate}")
            }
            Self::InCapsule { offset, length } => write!(f, "{length} in the capsule at {offset}"),
        }
    }
}
