//! Reading packages: from a receive buffer to its pieces. All of it was written by the peer, and is
//! checked here.

use super::{MessageBegun, Peeked, Receiver};
use rackweave_base::canary::{Canary, planted};
use rackweave_wire::fabric::message::{
    CloseReason, FLAG_FINISHED, PIECE_HEADER_LEN, PieceHeader, Sequence, Word, piece_span,
};

impl Receiver {
    // ---- Packages.

    /// Whether the awaited package has arrived.
    pub(super) fn look(&mut self) -> Result<bool, CloseReason> {
        let shared = &self.end.shared;
        let buffer = &mut self.buffers[self.at];
        let word = shared.entry(buffer.entry);
        if word == buffer.seen {
            return Ok(false);
        }
        buffer.seen = word;
        let Ok(Word::Filled { sequence, length }) = Word::try_from(word) else {
            return Err(CloseReason::ForeignState);
        };
        let is_next = sequence == Sequence::of(self.package);
        if !is_next && !planted(Canary::MessagingAnySequence) {
            return Err(CloseReason::BadSequence);
        }
        // Its sender must have been told that the buffer is free.
        if self.package >= self.released_sent + self.buffers.len() as u64 {
            return Err(CloseReason::BadSequence);
        }
        let length = length as usize;
        let most = shared.agreed.mine.receive_bytes as usize;
        if !(PIECE_HEADER_LEN..=most).contains(&length) {
            return Err(CloseReason::BadLength);
        }
        self.length = Some(length);
        self.read = 0;
        Ok(true)
    }

    /// The next piece of the package, checked; `None`: the sender has finished.
    pub(super) fn piece(&mut self) -> Result<Option<(PieceHeader, Peeked)>, CloseReason> {
        let length = self.length.expect("a package is there");
        let package = self.buffers[self.at].bytes.bytes(0, 1);
        let rest = package.slice(self.read..length);
        if rest.len() < PIECE_HEADER_LEN {
            return Err(CloseReason::BadHeader);
        }
        // One copy, which is checked and then trusted.
        let header: PieceHeader = zerocopy::transmute!(rest.array::<PIECE_HEADER_LEN>(0));
        let rest = rest.slice(PIECE_HEADER_LEN..);
        let piece = header.length.get() as usize;
        let (total, offset) = (header.total.get(), header.offset.get());
        if header.flags.get() == FLAG_FINISHED {
            // It belongs to no message, and nothing follows it.
            let alone = rest.is_empty() && piece == 0 && total == 0 && self.begun.is_none();
            return if alone {
                Ok(None)
            } else {
                Err(CloseReason::BadHeader)
            };
        }
        if total > self.end.shared.agreed.message_max {
            return Err(CloseReason::MessageTooLong);
        }
        let opcode = header.opcode.get();
        let expected = self.begun.unwrap_or(MessageBegun {
            opcode,
            total,
            offset: 0,
        });
        let begun = MessageBegun {
            opcode,
            total,
            offset,
        };
        let fits = offset
            .checked_add(piece as u64)
            .is_some_and(|end| end <= total);
        let makes_sense = begun == expected
            && fits
            && piece <= rest.len()
            && (piece > 0 || total == 0)
            && header.flags.get() == 0
            && header.message.get() == self.number;
        if !makes_sense {
            return Err(CloseReason::BadHeader);
        }
        let is_last = offset + piece as u64 == total;
        self.begun = Some(begun);
        let peeked = Peeked {
            span: piece_span(piece),
            length: piece,
            is_last,
        };
        Ok(Some((header, peeked)))
    }

    pub(super) fn end_package(&mut self) {
        self.length = None;
        self.package += 1;
        self.at = (self.at + 1) % self.buffers.len();
        self.counters.packages += 1;
    }
}
