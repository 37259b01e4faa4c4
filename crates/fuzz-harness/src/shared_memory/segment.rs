//! A link's segment as the process at the other end sees it: bytes that it may overwrite at will,
//! and their meaning by the layouts that the link describes.

use super::arena::Reference;
use rackweave_base::packet::{HEADER_MAX, INLINE_MAX, PAYLOAD_MAX};
use rackweave_link::shared_memory::{CAPACITY_MAX, TRAIN_MAX};
use rustix::fs::{MemfdFlags, SealFlags};
use std::os::fd::OwnedFd;

const PAGE: usize = 4096;
const DESCRIPTORS_AT: usize = 3 * PAGE;
const STRIDE: usize = 192;
pub const DESCRIPTOR_LEN: usize = 136;

/// One of the two rings: from the maker of the segment, or to it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Ring {
    Out,
    Back,
}

/// Offsets of a ring's words, in bytes from its page.
#[derive(Clone, Copy)]
pub enum Word {
    Head = 0,
    Tail = 128,
    Sleeping = 256,
    Starved = 384,
    Closed = 512,
}

pub const WORDS: [Word; 5] = [
    Word::Head,
    Word::Tail,
    Word::Sleeping,
    Word::Starved,
    Word::Closed,
];

/// The content of a descriptor, if it can be a packet.
#[derive(Debug, PartialEq)]
pub struct Described {
    pub header: Vec<u8>,
    pub pad: Vec<u8>,
    pub check: Option<[u8; 4]>,
    pub fragments: u32,
    pub payload: Content,
}

#[derive(Debug, PartialEq)]
pub enum Content {
    Bytes(Vec<u8>),
    Reference(Reference),
}

pub struct Segment {
    pub fd: OwnedFd,
    pub capacity: u32,
}

fn len(capacity: usize) -> usize {
    payloads_at(capacity) + 2 * capacity * PAYLOAD_MAX
}

fn payloads_at(capacity: usize) -> usize {
    (DESCRIPTORS_AT + 2 * capacity * STRIDE).next_multiple_of(PAGE)
}

/// An anonymous file of `len` zero bytes.
pub fn file(len: u64, seals: SealFlags) -> OwnedFd {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let fd = rustix::fs::memfd_create("rackweave-fuzz", flags).expect("an anonymous file");
    rustix::fs::ftruncate(&fd, len).expect("it can grow");
    rustix::fs::fcntl_add_seals(&fd, seals).expect("it can be sealed");
    fd
}

/// The bytes of `fd` from `at` on; zero beyond its end.
pub fn bytes_of<const N: usize>(fd: &OwnedFd, at: u64) -> [u8; N] {
    let mut bytes = [0; N];
    let _short = rustix::io::pread(fd, &mut bytes[..], at).expect("it can be read");
    bytes
}

impl Segment {
    /// A segment as a maker makes it, with `beyond` more bytes than its header says.
    pub fn make(capacity: u32, beyond: u64, seals: SealFlags) -> Self {
        let len = len(capacity as usize) as u64;
        let fd = file(len + beyond, seals);
        let segment = Self { fd, capacity };
        segment.write(0, b"RWlink\n\0");
        segment.write(8, &1_u32.to_le_bytes());
        segment.write(12, &capacity.to_le_bytes());
        segment.write(24, &len.to_le_bytes());
        segment
    }

    /// The number of packets that a ring holds, if this is the segment of a fresh link.
    pub fn sound_capacity(&self) -> Option<u32> {
        let seals = rustix::fs::fcntl_get_seals(&self.fd).expect("it is an anonymous file");
        let found = rustix::fs::fstat(&self.fd).expect("it is open").st_size as u64;
        let header: [u8; 36] = bytes_of(&self.fd, 0);
        let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|byte| header[at + byte]));
        let said = u64::from(word(24)) | u64::from(word(28)) << 32;
        let capacity = word(12);
        let is_sound = seals.contains(SealFlags::SHRINK | SealFlags::GROW)
            && header.starts_with(b"RWlink\n\0")
            && word(8) == 1
            && capacity.is_power_of_two()
            && capacity as usize <= CAPACITY_MAX
            && len(capacity as usize) as u64 == found
            && said == found
            && word(32) == 0
            && self.word(Ring::Out, Word::Closed) == 0;
        is_sound.then_some(capacity)
    }

    /// Writes within the file.
    pub fn write(&self, at: usize, bytes: &[u8]) {
        let _sealed = rustix::io::pwrite(&self.fd, bytes, at as u64);
    }

    pub fn word(&self, ring: Ring, word: Word) -> u32 {
        u32::from_le_bytes(bytes_of(&self.fd, Self::word_at(ring, word) as u64))
    }

    pub fn set_word(&self, ring: Ring, word: Word, value: u32) {
        self.write(Self::word_at(ring, word), &value.to_le_bytes());
    }

    fn word_at(ring: Ring, word: Word) -> usize {
        PAGE + ring as usize * PAGE + word as usize
    }

    /// Offset of the descriptor in the slot of `counter`.
    pub fn descriptor_at(&self, ring: Ring, counter: u32) -> usize {
        DESCRIPTORS_AT + self.slot(ring, counter) * STRIDE
    }

    pub fn payload_at(&self, ring: Ring, counter: u32) -> usize {
        payloads_at(self.capacity as usize) + self.slot(ring, counter) * PAYLOAD_MAX
    }

    fn slot(&self, ring: Ring, counter: u32) -> usize {
        (ring as u32 * self.capacity + (counter & (self.capacity - 1))) as usize
    }

    /// The bytes of all slots of `ring`.
    pub fn slots(&self, ring: Ring) -> Vec<u8> {
        let capacity = self.capacity as usize;
        let (descriptors, payloads) = (capacity * STRIDE, capacity * PAYLOAD_MAX);
        let mut bytes = vec![0; descriptors + payloads];
        for (part, at) in [
            (0..descriptors, self.descriptor_at(ring, 0)),
            (descriptors..bytes.len(), self.payload_at(ring, 0)),
        ] {
            rustix::io::pread(&self.fd, &mut bytes[part], at as u64).expect("it can be read");
        }
        bytes
    }

    /// The content of the slot of `counter`, if it can be a packet.
    pub fn described(&self, ring: Ring, counter: u32) -> Option<Described> {
        let at = self.descriptor_at(ring, counter) as u64;
        let bytes: [u8; DESCRIPTOR_LEN] = bytes_of(&self.fd, at);
        let half = |at: usize| usize::from(bytes[at]) | usize::from(bytes[at + 1]) << 8;
        let (header, pad) = (usize::from(bytes[1]), usize::from(bytes[2]));
        let (fragment, inline) = (half(4), half(6));
        let payload = match bytes[0] {
            0 => Content::Bytes(Vec::new()),
            1 if inline <= INLINE_MAX => Content::Bytes(bytes[16..16 + inline].to_vec()),
            2 => Content::Reference(Reference::decode(&bytes[16..40])),
            3 if inline <= PAYLOAD_MAX => {
                let at = self.payload_at(ring, counter) as u64;
                let bytes: [u8; PAYLOAD_MAX] = bytes_of(&self.fd, at);
                Content::Bytes(bytes[..inline].to_vec())
            }
            _ => return None,
        };
        let len = match &payload {
            Content::Bytes(bytes) => bytes.len(),
            Content::Reference(reference) => reference.len as usize,
        };
        let fragments = len.checked_div(fragment).unwrap_or(1);
        let is_train = fragments * fragment == len && (2..=TRAIN_MAX as usize).contains(&fragments);
        let first = if fragment == 0 { len } else { fragment };
        let can_be =
            header <= HEADER_MAX && pad <= 3 && first <= PAYLOAD_MAX && (fragment == 0 || is_train);
        can_be.then(|| Described {
            header: bytes[48..48 + header].to_vec(),
            pad: bytes[12..12 + pad].to_vec(),
            check: (bytes[3] != 0).then(|| [8, 9, 10, 11].map(|at| bytes[at])),
            fragments: fragments as u32,
            payload,
        })
    }
}
