//! Pieces, the parts of a package.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of a piece's header.
pub const PIECE_HEADER_LEN: usize = size_of::<PieceHeader>();

/// The alignment of pieces within a package.
pub const PIECE_ALIGN: usize = 32;

const _: () = assert!(PIECE_HEADER_LEN == 32);

/// The sender sends nothing after this piece, which belongs to no message.
pub const FLAG_FINISHED: u32 = 1;

/// The header of a piece. Its bytes follow; then zero to 31 bytes of padding, up to the next piece.
#[derive(
    Clone,
    Copy,
    PartialEq,
    Eq,
    Debug,
    Default,
    FromBytes,
    IntoBytes,
    Immutable,
    KnownLayout,
    Unaligned,
)]
#[repr(C)]
pub struct PieceHeader {
    /// The type of the message, chosen by sender and receiver.
    pub opcode: U32,
    /// Bytes of the message in this piece.
    pub length: U32,
    /// Bytes of the whole message.
    pub total: U64,
    /// Bytes of the message in the pieces before this one.
    pub offset: U64,
    /// The message's number, counted per channel from zero, modulo 2^32.
    pub message: U32,
    /// Zero or [`FLAG_FINISHED`].
    pub flags: U32,
}

/// Bytes from the start of a piece to the start of the next.
pub const fn piece_span(length: usize) -> usize {
    (PIECE_HEADER_LEN + length).next_multiple_of(PIECE_ALIGN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_as_it_lies_in_memory() {
        let header = PieceHeader {
            opcode: 0x0102_0304.into(),
            length: 0x0506_0708.into(),
            total: 0x1112_1314_1516_1718.into(),
            offset: 0x2122_2324_2526_2728.into(),
            message: 0x3132_3334.into(),
            flags: FLAG_FINISHED.into(),
        };
        let bytes = [
            4, 3, 2, 1, 8, 7, 6, 5, 0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11, 0x28, 0x27,
            0x26, 0x25, 0x24, 0x23, 0x22, 0x21, 0x34, 0x33, 0x32, 0x31, 1, 0, 0, 0,
        ];
        assert_eq!(header.as_bytes(), bytes);
        assert_eq!(PieceHeader::read_from_bytes(&bytes), Ok(header));
    }

    #[test]
    fn pieces_are_aligned() {
        let spans = [0, 1, 32, 33, 64].map(piece_span);
        assert_eq!(spans, [32, 64, 64, 96, 96]);
    }
}
