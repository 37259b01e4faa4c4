//! Parts of a request that both engines share: its location in the file, its buffer, the meaning of
//! errors.

use crate::{Io, IoError, RegionRange};
use rackweave_base::memory::{SharedBytes, SharedBytesMut};
use rustix::io::Errno;

/// Zeroes to write where a hole cannot be punched, aligned for `O_DIRECT`.
#[repr(align(4096))]
pub(super) struct Zeroes(pub(super) [u8; 64 << 10]);
pub(super) static ZEROES: Zeroes = Zeroes([0; 64 << 10]);

/// The location of a request in the file: offset and length in bytes.
pub(super) fn range(io: &Io, block_size: u32) -> (u64, usize) {
    let size = u64::from(block_size);
    (io.block * size, (u64::from(io.blocks) * size) as usize)
}

/// A view of the `len` bytes at a place, to be filled.
pub(super) fn filled(place: &RegionRange, len: usize) -> SharedBytesMut<'_> {
    place.block.bytes_mut(place.offset, len)
}

/// A view of the `len` bytes at a place, to be read.
pub(super) fn given(place: &RegionRange, len: usize) -> SharedBytes<'_> {
    place.block.bytes(place.offset, len)
}

/// Translates an error of the system.
pub(super) fn error(errno: Errno) -> IoError {
    match errno {
        Errno::NOSPC | Errno::DQUOT | Errno::FBIG => IoError::NoSpace,
        Errno::IO | Errno::NODATA | Errno::REMOTEIO => IoError::MediaError,
        _ => IoError::Other,
    }
}

/// Whether an immediate retry of the same request may succeed: it was interrupted, or cancelled
/// because the thread that submitted it has ended.
pub(super) fn is_passing(errno: Errno) -> bool {
    matches!(errno, Errno::INTR | Errno::AGAIN | Errno::CANCELED)
}

/// Whether the file cannot punch holes.
pub(super) fn has_no_holes(errno: Errno) -> bool {
    matches!(errno, Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL)
}
