//! Columns read as they arrive, without being assembled.

use super::super::{Buffer, ColumnHeader};
use super::Ticket;

/// A reader of columns piece by piece, without assembling them in memory.
///
/// The first piece of a column comes with its header and may be empty. Nothing comes between the
/// last piece and the request's end ([`super::Reply::Shown`]). If the request fails, the pieces
/// shown are the start of a column whose rest is lost, or, with `verify`, of one that is wrong.
pub trait PieceReader {
    /// Processes a piece. Its bytes are not valid afterwards.
    fn piece(&mut self, piece: &ColumnPiece<'_>);
}

/// Ignores all pieces.
impl PieceReader for () {
    fn piece(&mut self, _piece: &ColumnPiece<'_>) {}
}

impl<F: FnMut(&ColumnPiece<'_>)> PieceReader for F {
    fn piece(&mut self, piece: &ColumnPiece<'_>) {
        self(piece);
    }
}

/// Some bytes of a column.
#[derive(Clone, Copy, Debug)]
pub struct ColumnPiece<'a> {
    /// The request that asked for it.
    pub ticket: Ticket,
    /// The column's header.
    pub header: &'a ColumnHeader,
    /// Bytes behind the header and before this piece.
    pub offset: u64,
    /// The bytes. They may start and end anywhere, even within a value.
    pub bytes: &'a [u8],
}

impl<'a> ColumnPiece<'a> {
    /// The part of a buffer in this piece: how many of its bytes were in earlier pieces, and the
    /// bytes. The zeros behind a buffer are left out.
    pub fn part_of(&self, buffer: Buffer) -> Option<(u64, &'a [u8])> {
        let range = self.header.shape.range_of(buffer);
        let end = self.offset + self.bytes.len() as u64;
        let (from, to) = (self.offset.max(range.start), end.min(range.end));
        (from < to).then(|| {
            let bytes = &self.bytes[(from - self.offset) as usize..(to - self.offset) as usize];
            (from - range.start, bytes)
        })
    }
}
