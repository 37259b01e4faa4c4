//! Headers as words of 32 bits whose least significant byte is the first on the wire.
//!
//! A header that is put together in registers and written by words takes fewer instructions than
//! one that is written field by field. Its reader also reads words, and a processor that reads a
//! word just after its parts were written waits until all of them have reached the cache.

/// The word of two adjacent fields of 16 bits.
#[inline]
pub(crate) const fn pair(first: u16, second: u16) -> u32 {
    first.swap_bytes() as u32 | (second.swap_bytes() as u32) << 16
}

/// The bytes of words.
#[inline]
pub(crate) fn bytes<const N: usize>(words: [u32; N]) -> [[u8; 4]; N] {
    words.map(u32::to_le_bytes)
}

/// Two adjacent words as one of 64 bits.
#[inline]
pub(crate) const fn join(first: u32, second: u32) -> u64 {
    first as u64 | (second as u64) << 32
}

/// Writes pairs of words to the start of `bytes`.
///
/// # Panics
/// If they do not fit.
#[inline]
pub(crate) fn write<const N: usize>(pairs: [u64; N], bytes: &mut [u8]) {
    let (chunks, _) = bytes[..8 * N].as_chunks_mut::<8>();
    for (chunk, pair) in chunks.iter_mut().zip(pairs) {
        *chunk = pair.to_le_bytes();
    }
}
