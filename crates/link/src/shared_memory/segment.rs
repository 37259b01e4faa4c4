//! The segment of a link: its layout, and the only accesses to its bytes.
//!
//! ```text
//! 0      header: magic 8, version 4, capacity 4, epoch 8, length 8, attached 4
//! 4096   words of the ring from the creator of the segment to the attaching end
//! 8192   words of the ring back
//! 12288  descriptors of the first ring, those of the second; then, from the next page on,
//!        the copied payloads of the first ring, those of the second
//! ```
//!
//! Everything read here may have been written by another process and is not trusted.

use super::AttachError;
use super::descriptor::{DESCRIPTOR_LEN, Descriptor};
use super::protocol::Words;
use core::ops::Deref;
use core::sync::atomic::{AtomicU32, Ordering};
use rackweave_base::memory::mapping::{self, Access, Mapping};
use rackweave_base::packet::PAYLOAD_MAX;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// The first eight bytes of a link's segment.
const MAGIC: u64 = u64::from_le_bytes(*b"RWlink\n\0");

/// The version of the layout in the module documentation, of [`Words`] and of [`Descriptor`].
const VERSION: u32 = 1;

/// Maximum packets that a link holds per direction.
pub const CAPACITY_MAX: usize = 1 << 14;

const PAGE: usize = 4096;

/// Distance between descriptors: whole cache lines.
const DESCRIPTOR_STRIDE: usize = 192;
const _: () = assert!(DESCRIPTOR_LEN <= DESCRIPTOR_STRIDE);
const _: () = assert!(size_of::<Words>() <= PAGE);

/// Offset of the first descriptor.
const DESCRIPTORS_AT: usize = 3 * PAGE;

#[repr(C)]
struct Header {
    magic: u64,
    version: u32,
    capacity: u32,
    epoch: u64,
    len: u64,
    attached: AtomicU32,
}

/// One of the two rings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    /// From the creator of the segment.
    Out = 0,
    /// To the creator of the segment.
    Back = 1,
}

#[derive(Debug)]
pub(super) struct Segment {
    mapping: Mapping,
    /// The capacity when the segment was checked; the header may have changed since.
    capacity: u32,
    epoch: u64,
}

/// The words of one ring; this keeps the segment mapped.
pub(super) struct RingWords {
    words: *const Words,
    _segment: Arc<Segment>,
}

// SAFETY: the words are atomics in memory that stays mapped while `_segment` lives.
unsafe impl Send for RingWords {}
// SAFETY: as above.
unsafe impl Sync for RingWords {}

impl Deref for RingWords {
    type Target = Words;

    #[inline(always)]
    fn deref(&self) -> &Words {
        // SAFETY: `Segment::words` made the pointer from a page of the mapping, which lives as long
        // as `self`. All fields are atomics, for which any bytes are valid.
        unsafe { &*self.words }
    }
}

/// The length of a segment with rings of `capacity`.
fn len(capacity: usize) -> usize {
    payloads_at(capacity) + 2 * capacity * PAYLOAD_MAX
}

fn payloads_at(capacity: usize) -> usize {
    (DESCRIPTORS_AT + 2 * capacity * DESCRIPTOR_STRIDE).next_multiple_of(PAGE)
}

impl Segment {
    /// A new segment with rings of `capacity` packets, a power of two.
    pub(super) fn create(capacity: u32) -> io::Result<(OwnedFd, Arc<Self>)> {
        assert!(capacity.is_power_of_two() && capacity as usize <= CAPACITY_MAX);
        let len = len(capacity as usize);
        let (fd, mapping) = mapping::create("rackweave-link", len, Access::ReadWrite)?;
        let epoch = RandomState::new().hash_one(());
        let header = Header {
            magic: MAGIC,
            version: VERSION,
            capacity,
            epoch,
            len: len as u64,
            attached: AtomicU32::new(0),
        };
        // SAFETY: the mapping is longer than the header, aligned to a page, and is not known to any
        // other code yet. The rings are zero, which is empty.
        unsafe { mapping.pointer().cast::<Header>().write(header) };
        let segment = Self {
            mapping,
            capacity,
            epoch,
        };
        Ok((fd, Arc::new(segment)))
    }

    /// Maps the segment behind `fd`, if it is the segment of a link.
    pub(super) fn open(fd: &OwnedFd) -> Result<Arc<Self>, AttachError> {
        let mapping = mapping::open(fd, Access::ReadWrite).map_err(AttachError::Open)?;
        if mapping.len() < DESCRIPTORS_AT {
            return Err(AttachError::NoLink);
        }
        // SAFETY: within the mapping, aligned to a page; any bytes are a valid header. Volatile,
        // because other processes may write meanwhile.
        let header = unsafe { mapping.pointer().cast::<Header>().read_volatile() };
        if header.magic != MAGIC {
            return Err(AttachError::NoLink);
        }
        if header.version != VERSION {
            return Err(AttachError::Version {
                found: header.version,
            });
        }
        let capacity = header.capacity as usize;
        let is_sound = capacity.is_power_of_two()
            && capacity <= CAPACITY_MAX
            && len(capacity) == mapping.len()
            && header.len == mapping.len() as u64;
        if !is_sound {
            return Err(AttachError::Sizes {
                said: header.len,
                capacity: header.capacity,
                found: mapping.len(),
            });
        }
        Ok(Arc::new(Self {
            mapping,
            capacity: header.capacity,
            epoch: header.epoch,
        }))
    }

    pub(super) fn capacity(&self) -> u32 {
        self.capacity
    }

    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Claims the attaching end. Returns true for the first caller.
    pub(super) fn take(&self) -> bool {
        // SAFETY: the header is within the mapping, aligned, and this word is only accessed
        // atomically once other processes know the segment.
        let attached = unsafe { &(*self.mapping.pointer().cast::<Header>()).attached };
        attached.swap(1, Ordering::AcqRel) == 0
    }

    pub(super) fn words(self: &Arc<Self>, way: Way) -> RingWords {
        // SAFETY: both pages of words are before the descriptors, within the mapping.
        let words = unsafe { self.mapping.pointer().add(PAGE + way as usize * PAGE) };
        RingWords {
            words: words.cast(),
            _segment: self.clone(),
        }
    }

    /// Fills slot `index`, which this end has reserved. `payload` is copied next to the descriptor.
    #[inline]
    pub(super) fn write(&self, way: Way, index: u32, descriptor: &[u8], payload: &[u8]) {
        assert!(descriptor.len() <= DESCRIPTOR_LEN && payload.len() <= PAYLOAD_MAX);
        self.mapping
            .write(self.descriptor_at(way, index), descriptor);
        self.mapping.write(self.payload_at(way, index), payload);
    }

    /// The descriptor in slot `index`, read once, so that the checked bytes are the ones used, even
    /// if the other end writes meanwhile.
    #[inline]
    pub(super) fn read(&self, way: Way, index: u32) -> Descriptor {
        let mut bytes = [0; DESCRIPTOR_LEN];
        self.mapping
            .read(self.descriptor_at(way, index), &mut bytes);
        Descriptor(bytes)
    }

    /// Copies the payload next to slot `index`, of at most [`PAYLOAD_MAX`] bytes.
    pub(super) fn read_payload(&self, way: Way, index: u32, target: &mut [u8]) {
        assert!(target.len() <= PAYLOAD_MAX);
        self.mapping.read(self.payload_at(way, index), target);
    }

    fn slot(&self, way: Way, index: u32) -> usize {
        assert!(index < self.capacity);
        way as usize * self.capacity as usize + index as usize
    }

    fn descriptor_at(&self, way: Way, index: u32) -> usize {
        DESCRIPTORS_AT + self.slot(way, index) * DESCRIPTOR_STRIDE
    }

    fn payload_at(&self, way: Way, index: u32) -> usize {
        payloads_at(self.capacity as usize) + self.slot(way, index) * PAYLOAD_MAX
    }
}
