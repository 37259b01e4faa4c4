//! Gather and scatter between packets and the segments of work requests.
//!
//! Each call looks up its region again. This costs one probe and makes a deregistered region
//! unusable at once.

use crate::shared::Core;
use rackweave_base::packet::INLINE_MAX;
use rackweave_base::{BlockRef, Payload};
use rackweave_verbs::{Access, PdId, Segment};

/// Why bytes could not be gathered or scattered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SegmentError {
    /// A segment is outside its region or lacks permission.
    Protection,
    /// The segments end before the data.
    TooShort,
    /// The payload refers to memory that no longer exists.
    PayloadGone,
    /// No packet buffer is free.
    NoBuffer,
}

/// The bytes `offset..offset + len` of the segments, piece by piece.
struct Pieces<'a> {
    segments: &'a [Segment],
    offset: u32,
    left: u32,
}

impl Iterator for Pieces<'_> {
    type Item = Segment;

    #[inline]
    fn next(&mut self) -> Option<Segment> {
        while self.left > 0 {
            let (first, rest) = self.segments.split_first()?;
            if self.offset >= first.length {
                self.offset -= first.length;
                self.segments = rest;
                continue;
            }
            let length = self.left.min(first.length - self.offset);
            // An address that overflows is in no region.
            let address = first.address.saturating_add(u64::from(self.offset));
            self.offset += length;
            self.left -= length;
            return Some(Segment {
                address,
                length,
                lkey: first.lkey,
            });
        }
        None
    }
}

fn resolve(
    core: &Core,
    pd: PdId,
    piece: &Segment,
    access: Access,
) -> Result<BlockRef, SegmentError> {
    core.regions
        .local(pd, piece.lkey, piece.address, piece.length, access)
        .map_err(|_| SegmentError::Protection)
}

/// The total bytes of all segments, or the total as an error if it exceeds `limit`.
pub(crate) fn total(segments: &[Segment], limit: u64) -> Result<u32, u64> {
    let total = segments
        .iter()
        .map(|segment| u64::from(segment.length))
        .sum::<u64>();
    if total > limit {
        Err(total)
    } else {
        Ok(total as u32)
    }
}

/// Number of contiguous bytes from byte `offset` of the segments on: up to the end of the segment
/// that it is in.
#[inline]
pub(crate) fn neighbours(segments: &[Segment], offset: u32) -> u32 {
    let mut before = 0;
    for segment in segments {
        let end = before + segment.length;
        if offset < end {
            return end - offset;
        }
        before = end;
    }
    0
}

/// Whether all segments allow `access`.
pub(crate) fn check(core: &Core, pd: PdId, segments: &[Segment], access: Access) -> bool {
    segments
        .iter()
        .filter(|s| s.length > 0)
        .all(|s| resolve(core, pd, s, access).is_ok())
}

/// The payload of a packet: bytes `offset..offset + len` of the segments. A few bytes are copied
/// into the packet, more are referenced, and only bytes from several segments use a buffer.
#[inline]
pub(crate) fn gather(
    core: &Core,
    pd: PdId,
    segments: &[Segment],
    offset: u32,
    len: u32,
) -> Result<Payload, SegmentError> {
    if len == 0 {
        return Ok(Payload::Empty);
    }
    let mut pieces = Pieces {
        segments,
        offset,
        left: len,
    };
    let first = pieces.next().ok_or(SegmentError::TooShort)?;
    if first.length == len {
        let source = resolve(core, pd, &first, Access::empty())?;
        return reference_or_inline(core, source);
    }
    let pieces = Pieces {
        segments,
        offset,
        left: len,
    };
    gather_pieces(core, pd, pieces, len)
}

/// A payload of the bytes at `source`: copied if they are few, else referenced.
#[inline]
pub(crate) fn reference_or_inline(core: &Core, source: BlockRef) -> Result<Payload, SegmentError> {
    let len = source.len() as usize;
    if len > INLINE_MAX {
        return Ok(Payload::Region(source));
    }
    copy_inline(core, source)
}

/// Calls `take` with the first `len` bytes of the segments, piece by piece. Bytes of several
/// segments are all checked before the first call.
#[inline]
pub(crate) fn for_each_source(
    core: &Core,
    pd: PdId,
    segments: &[Segment],
    len: u32,
    mut take: impl FnMut(BlockRef) -> Result<(), SegmentError>,
) -> Result<(), SegmentError> {
    if segments.len() > 1 && !check(core, pd, segments, Access::empty()) {
        return Err(SegmentError::Protection);
    }
    let pieces = Pieces {
        segments,
        offset: 0,
        left: len,
    };
    for piece in pieces {
        take(resolve(core, pd, &piece, Access::empty())?)?;
    }
    Ok(())
}

#[repr(align(8))]
struct Aligned([u8; INLINE_MAX]);

/// A payload of the few bytes at `source`, copied into the packet.
#[inline]
pub(crate) fn copy_inline(core: &Core, source: BlockRef) -> Result<Payload, SegmentError> {
    // Aligned, so that a single word is read atomically.
    let mut words = Aligned([0; INLINE_MAX]);
    let bytes = &mut words.0[..source.len() as usize];
    match core.memory.read(source, bytes) {
        true => Ok(Payload::inline(bytes)),
        false => Err(SegmentError::PayloadGone),
    }
}

fn gather_pieces(
    core: &Core,
    pd: PdId,
    pieces: Pieces<'_>,
    len: u32,
) -> Result<Payload, SegmentError> {
    let mut error = None;
    let fill = |target: &mut [u8]| {
        let mut at = 0;
        for piece in pieces {
            let end = at + piece.length as usize;
            match resolve(core, pd, &piece, Access::empty()) {
                Ok(source) if core.memory.read(source, &mut target[at..end]) => at = end,
                Ok(_) => error = Some(SegmentError::PayloadGone),
                Err(protection) => error = Some(protection),
            }
            if error.is_some() {
                return false;
            }
        }
        true
    };
    let buffer = core.pool.take(len as usize, fill);
    match (buffer, error) {
        (_, Some(error)) => Err(error),
        (None, None) => Err(SegmentError::NoBuffer),
        (Some(buffer), None) => Ok(Payload::Pooled(buffer)),
    }
}

/// Stores a packet's payload at `offset` of the segments.
#[inline]
pub(crate) fn scatter(
    core: &Core,
    pd: PdId,
    segments: &[Segment],
    offset: u32,
    payload: &Payload,
) -> Result<(), SegmentError> {
    let len = payload.len() as u32;
    if len == 0 {
        return Ok(());
    }
    let mut pieces = Pieces {
        segments,
        offset,
        left: len,
    };
    let first = pieces.next().ok_or(SegmentError::TooShort)?;
    if first.length == len {
        let target = resolve(core, pd, &first, Access::LOCAL_WRITE)?;
        return stored(payload.store(&core.memory, target));
    }
    let total = segments
        .iter()
        .map(|segment| u64::from(segment.length))
        .sum::<u64>();
    if u64::from(offset) + u64::from(len) > total {
        return Err(SegmentError::TooShort);
    }
    let mut at = 0;
    for piece in (Pieces {
        segments,
        offset,
        left: len,
    }) {
        let target = resolve(core, pd, &piece, Access::LOCAL_WRITE)?;
        stored(store_part(core, payload, at, target))?;
        at += piece.length;
    }
    Ok(())
}

#[inline]
pub(crate) fn stored(done: bool) -> Result<(), SegmentError> {
    if done {
        Ok(())
    } else {
        Err(SegmentError::PayloadGone)
    }
}

/// Stores the part of the payload that begins at byte `at` and is as long as `target`.
fn store_part(core: &Core, payload: &Payload, at: u32, target: BlockRef) -> bool {
    match payload {
        Payload::Region(source) => core.memory.copy(source.part(at, target.len()), target),
        other => {
            let bytes = other
                .as_slice()
                .expect("only references have no bytes at hand");
            let at = at as usize;
            core.memory
                .write(target, &bytes[at..at + target.len() as usize])
        }
    }
}
