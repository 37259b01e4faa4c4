//! Entries, and pages of them.

use super::encoding::Numbers;

/// Consecutive entries: key, length of the value (four bytes), value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entries<'a> {
    bytes: &'a [u8],
}

/// Bytes of an entry before its value.
pub const ENTRY_HEADER: usize = 12;

impl<'a> Entries<'a> {
    /// The entries in these bytes, if they are complete.
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        let mut rest = bytes;
        while !rest.is_empty() {
            rest = next_entry(rest)?.1;
        }
        Some(Self { bytes })
    }

    /// Appends an entry.
    pub fn push(bytes: &mut Vec<u8>, key: u64, value: &[u8]) {
        bytes.extend(entry_header(key, value));
        bytes.extend(value);
    }

    /// Their bytes.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The entries.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &'a [u8])> + use<'a> {
        let mut rest = self.bytes;
        core::iter::from_fn(move || {
            let (entry, after) = next_entry(rest)?;
            rest = after;
            Some(entry)
        })
    }
}

/// The header of an entry, which precedes its value.
pub fn entry_header(key: u64, value: &[u8]) -> [u8; ENTRY_HEADER] {
    let mut header = [0; ENTRY_HEADER];
    header[..8].copy_from_slice(&key.to_le_bytes());
    header[8..].copy_from_slice(&(value.len() as u32).to_le_bytes());
    header
}

type Entry<'a> = (u64, &'a [u8]);

fn next_entry(bytes: &[u8]) -> Option<(Entry<'_>, &[u8])> {
    let (key, bytes) = bytes.split_first_chunk()?;
    let (len, bytes) = bytes.split_first_chunk()?;
    let (value, rest) = bytes.split_at_checked(u32::from_le_bytes(*len) as usize)?;
    Some(((u64::from_le_bytes(*key), value), rest))
}

/// A page of a scan or of an export: where to continue, and the entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Page<'a> {
    /// The key at which to continue; `None` if the page is the last.
    pub next: Option<u64>,
    /// The entries.
    pub entries: Entries<'a>,
}

/// Bytes of a page before its entries: whether more entries follow, and from which key.
pub const PAGE_HEADER: usize = 12;

/// The header of a page, which precedes its entries.
pub fn page_header(next: Option<u64>) -> [u8; PAGE_HEADER] {
    let mut header = [0; PAGE_HEADER];
    header[..4].copy_from_slice(&u32::from(next.is_some()).to_le_bytes());
    header[4..].copy_from_slice(&next.unwrap_or_default().to_le_bytes());
    header
}

impl<'a> Page<'a> {
    /// Decodes the page that follows the outcome in a reply.
    pub fn decode(bytes: &'a [u8]) -> Option<Self> {
        let mut numbers = Numbers(bytes);
        let (more, next) = (numbers.half()?, numbers.word()?);
        Some(Self {
            next: (more != 0).then_some(next),
            entries: Entries::new(numbers.0)?,
        })
    }
}
