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

/// Writes pairs of words to the start of `bytes`, as words of 64 bits.
///
/// # Panics
/// If they do not fit.
#[inline]
pub(crate) fn write<const N: usize>(pairs: [[u32; 2]; N], bytes: &mut [u8]) {
    let (chunks, _) = bytes[..8 * N].as_chunks_mut::<8>();
    for (at, chunk) in chunks.iter_mut().enumerate() {
        let [low, high] = pairs[at];
        *chunk = (u64::from(low) | u64::from(high) << 32).to_le_bytes();
    }
}
