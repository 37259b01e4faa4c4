//! Identify: the existing namespaces and their properties (Base 5.17; NVM 4.1.5).
//!
//! All data structures have 4096 bytes. That of the controller is in a separate file.

use super::error::first;
use super::{NvmeError, Sqe, sqe};

/// Bytes of every data structure of Identify.
pub const LEN: usize = 4096;

/// Namespace ids in one list.
pub const LIST_IDS_MAX: usize = LEN / 4;

/// The kinds of Identify: values of CNS, bits 7:0 of dword 10 (Base 5.17.1).
pub mod cns {
    /// A namespace.
    pub const NAMESPACE: u8 = 0x00;
    /// The controller.
    pub const CONTROLLER: u8 = 0x01;
    /// The active namespaces whose ids are greater than the one given.
    pub const ACTIVE_NAMESPACES: u8 = 0x02;
    /// Further identifiers of a namespace.
    pub const NAMESPACE_DESCRIPTORS: u8 = 0x03;
}

/// The entry that requests `cns`, without data pointer.
pub fn command(command_id: u16, nsid: u32, cns: u8) -> Sqe {
    let mut sqe = Sqe::new(sqe::admin::IDENTIFY, command_id, nsid);
    sqe.dwords[0] = cns.into();
    sqe
}

/// A namespace (NVM 4.1.5.1). Fields that are not here are zero: one LBA format, no metadata, no
/// protection information, not shared, deallocated blocks not reported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IdentifyNamespace {
    /// Its size in blocks (NSZE, bytes 7:0).
    pub blocks: u64,
    /// Number of blocks that may be allocated (NCAP, bytes 15:8).
    pub capacity: u64,
    /// Number of allocated blocks (NUSE, bytes 23:16).
    pub used: u64,
    /// Several controllers may be attached (NMIC, byte 30 bit 0).
    pub shared: bool,
    /// What deallocated blocks read as (DLFEAT, byte 33 bits 2:0): 1 is zeroes.
    pub deallocated: u8,
    /// Maximum blocks of a write that no command reads half done, and that is complete or absent
    /// after a power failure: NAWUN and NAWUPF, bytes 35:34 and 37:36, one less each, up to 65536.
    /// Zero if not reported (NSFEAT, byte 24 bit 1).
    pub atomic_blocks: u32,
    /// Globally unique id, big-endian (NGUID, bytes 119:104); zeroes if there is none.
    pub guid: [u8; 16],
    /// The size of a block as a power of two (LBADS of LBA format 0, byte 130).
    pub block_shift: u8,
}

/// The bit of NSFEAT for valid atomic sizes of the namespace itself.
const ATOMIC_FIELDS: u8 = 1 << 1;

impl IdentifyNamespace {
    /// The structure's bytes.
    pub fn emit(&self) -> Box<[u8; LEN]> {
        let mut bytes = Box::new([0; LEN]);
        bytes[0..8].copy_from_slice(&self.blocks.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.capacity.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.used.to_le_bytes());
        bytes[30] = self.shared.into();
        bytes[33] = self.deallocated & 0b111;
        if let Some(last) = self.atomic_blocks.checked_sub(1) {
            let last = u16::try_from(last).unwrap_or(u16::MAX).to_le_bytes();
            bytes[24] = ATOMIC_FIELDS;
            bytes[34..36].copy_from_slice(&last);
            bytes[36..38].copy_from_slice(&last);
        }
        bytes[104..120].copy_from_slice(&self.guid);
        bytes[130] = self.block_shift;
        bytes
    }

    /// Decodes the structure, with LBA format 0.
    ///
    /// # Errors
    /// If there are fewer than 4096.
    pub fn parse(bytes: &[u8]) -> Result<Self, NvmeError> {
        let bytes = first::<LEN>(bytes, "Identify Namespace")?;
        Ok(Self {
            blocks: u64_at(&bytes, 0),
            capacity: u64_at(&bytes, 8),
            used: u64_at(&bytes, 16),
            shared: bytes[30] & 1 != 0,
            deallocated: bytes[33] & 0b111,
            atomic_blocks: match bytes[24] & ATOMIC_FIELDS {
                0 => 0,
                _ => u32::from(u16::from_le_bytes([bytes[36], bytes[37]])) + 1,
            },
            guid: *bytes[104..].first_chunk().expect("within the structure"),
            block_shift: bytes[130],
        })
    }
}

fn u64_at(bytes: &[u8; LEN], at: usize) -> u64 {
    u64::from_le_bytes(*bytes[at..].first_chunk().expect("within the structure"))
}

/// A list of namespace ids, ascending, followed by zeroes (Base 4.4.3).
///
/// # Panics
/// With more than [`LIST_IDS_MAX`] ids.
pub fn emit_list(ids: &[u32]) -> Box<[u8; LEN]> {
    assert!(ids.len() <= LIST_IDS_MAX, "at most 1024 ids in a list");
    let mut bytes = Box::new([0; LEN]);
    for (place, id) in bytes.chunks_exact_mut(4).zip(ids) {
        place.copy_from_slice(&id.to_le_bytes());
    }
    bytes
}

/// The ids of a list.
///
/// # Errors
/// If there are fewer than 4096 bytes.
pub fn parse_list(bytes: &[u8]) -> Result<Vec<u32>, NvmeError> {
    let bytes = first::<LEN>(bytes, "a namespace list")?;
    let ids = bytes.chunks_exact(4).map(|id| {
        let id = id.first_chunk().expect("chunks of four");
        u32::from_le_bytes(*id)
    });
    Ok(ids.take_while(|id| *id != 0).collect())
}

/// A further identifier of a namespace (Base 5.17.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NamespaceDescriptor {
    /// IEEE extended unique identifier (type 1h).
    Eui64([u8; 8]),
    /// Namespace globally unique identifier (type 2h).
    Guid([u8; 16]),
    /// UUID (type 3h).
    Uuid([u8; 16]),
    /// Command set: 0 is NVM (type 4h).
    CommandSet(u8),
}

/// A list of descriptors: type, length, two reserved bytes, value; followed by zeroes.
///
/// # Panics
/// If they do not fit.
pub fn emit_descriptors(descriptors: &[NamespaceDescriptor]) -> Box<[u8; LEN]> {
    let mut bytes = Box::new([0; LEN]);
    let mut at = 0;
    for descriptor in descriptors {
        let (kind, value): (u8, &[u8]) = match descriptor {
            NamespaceDescriptor::Eui64(id) => (1, id),
            NamespaceDescriptor::Guid(id) => (2, id),
            NamespaceDescriptor::Uuid(id) => (3, id),
            NamespaceDescriptor::CommandSet(set) => (4, core::slice::from_ref(set)),
        };
        bytes[at] = kind;
        bytes[at + 1] = value.len() as u8;
        bytes[at + 4..at + 4 + value.len()].copy_from_slice(value);
        at += 4 + value.len();
    }
    bytes
}

/// The descriptors of a list; unknown types are left out.
///
/// # Errors
/// If there are fewer than 4096 bytes, or a length is not that of its type or exceeds the list.
pub fn parse_descriptors(bytes: &[u8]) -> Result<Vec<NamespaceDescriptor>, NvmeError> {
    let bytes = first::<LEN>(bytes, "a list of namespace descriptors")?;
    let mut descriptors = Vec::new();
    let mut at = 0;
    while at + 4 <= LEN && bytes[at] != 0 {
        let bad = NvmeError::Descriptor { at };
        let len = usize::from(bytes[at + 1]);
        let value = bytes.get(at + 4..at + 4 + len).ok_or(bad)?;
        let long = || <[u8; 16]>::try_from(value).map_err(|_| bad);
        match bytes[at] {
            1 => {
                let id = value.try_into().map_err(|_| bad)?;
                descriptors.push(NamespaceDescriptor::Eui64(id));
            }
            2 => descriptors.push(NamespaceDescriptor::Guid(long()?)),
            3 => descriptors.push(NamespaceDescriptor::Uuid(long()?)),
            4 => match value {
                [set] => descriptors.push(NamespaceDescriptor::CommandSet(*set)),
                _ => return Err(bad),
            },
            _ => {}
        }
        at += 4 + len;
    }
    Ok(descriptors)
}
