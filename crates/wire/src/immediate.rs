//! Immediate data (ImmDt) and the key to invalidate (IETH), each one word (InfiniBand specification
//! 1.4, 9.3.6 and 9.3.7).

use zerocopy::byteorder::network_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of the header.
pub const LEN: usize = 4;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct Layout {
    value: U32,
}
const _: () = assert!(size_of::<Layout>() == LEN);

#[inline]
pub(crate) fn parse(layout: &Layout) -> u32 {
    layout.value.get()
}

#[inline]
pub(crate) fn emit(value: u32) -> Layout {
    Layout {
        value: U32::new(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_goes_both_ways() {
        let bytes = [1, 2, 3, 4];
        assert_eq!(parse(&zerocopy::transmute!(bytes)), 0x0102_0304);
        assert_eq!(emit(0x0102_0304).as_bytes(), bytes);
    }
}
