//! Reading packages: from a receive buffer to its pieces. All of it was written by the peer, and is
//! checked here.

use super::{MessageBegun, Peeked, Receiver};
use crate::messaging::shared::Shared;
use rackweave_base::canary::{Canary, planted};
use rackweave_base::memory::{ReadSlots, SharedBytes};
use rackweave_wire::fabric::message::{
    CloseReason, FLAG_FINISHED, INLINE_MAX, PIECE_ALIGN, PIECE_HEADER_LEN, PieceHeader, Sequence,
    Word, inline_at, piece_span,
};

/// The inline buffer that belongs to a receive buffer.
#[derive(Debug)]
pub(super) struct Inline {
    bytes: ReadSlots,
    /// Where its word is in this node's buffer info.
    word_at: usize,
    /// The raw word last accepted.
    seen: u64,
}

impl Inline {
    /// That of a receive buffer, if this node's NIC stores the last word of a WRITE last.
    pub(super) fn of(shared: &Shared, buffer: u8) -> Option<Self> {
        let at = inline_at(buffer) as usize;
        let block = shared.buffer_info.block.clone();
        shared.agreed.mine.word_last.then(|| Self {
            bytes: ReadSlots::new(block, at, INLINE_MAX, 1),
            word_at: at + INLINE_MAX,
            seen: 0,
        })
    }
}

impl Receiver {
    // ---- Packages.

    /// Whether the package that is being read or awaited has arrived, according to its word.
    pub(in crate::messaging) fn has_package(&self) -> bool {
        let (buffer, shared) = (&self.buffers[self.at], &self.end.shared);
        let is_inline = |inline: &Inline| shared.word(inline.word_at) != inline.seen;
        self.end_at.is_some()
            || shared.entry(buffer.entry) != buffer.seen
            || buffer.inline.as_ref().is_some_and(is_inline)
    }

    /// Whether the awaited package has arrived.
    pub(super) fn look(&mut self) -> Result<bool, CloseReason> {
        let shared = &self.end.shared;
        let buffer = &mut self.buffers[self.at];
        let word = shared.entry(buffer.entry);
        let inline = buffer.inline.as_mut();
        let inline = inline.map(|inline| (shared.word(inline.word_at), inline));
        let (word, is_inline) = match inline {
            _ if word != buffer.seen => {
                buffer.seen = word;
                (word, false)
            }
            Some((word, inline)) if word != inline.seen => {
                inline.seen = word;
                (word, true)
            }
            _ => return Ok(false),
        };
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
        let most = match is_inline {
            true => INLINE_MAX,
            false => shared.agreed.mine.receive_bytes as usize,
        };
        let is_aligned = !is_inline || length.is_multiple_of(PIECE_ALIGN);
        if !(PIECE_HEADER_LEN..=most).contains(&length) || !is_aligned {
            return Err(CloseReason::BadLength);
        }
        // An inline package ends where its word is.
        (self.read, self.end_at) = match is_inline {
            true => (INLINE_MAX - length, Some(INLINE_MAX)),
            false => (0, Some(length)),
        };
        self.is_inline = is_inline;
        Ok(true)
    }

    /// The buffer that the package is in.
    pub(super) fn package_bytes(&self) -> SharedBytes<'_> {
        let buffer = &self.buffers[self.at];
        match &buffer.inline {
            Some(inline) if self.is_inline => inline.bytes.bytes(0, 1),
            _ => buffer.bytes.bytes(0, 1),
        }
    }

    /// The next piece of the package, checked; `None`: the sender has finished.
    pub(super) fn piece(&mut self) -> Result<Option<(PieceHeader, Peeked)>, CloseReason> {
        let end = self.end_at.expect("a package is there");
        let rest = self.package_bytes().slice(self.read..end);
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
        self.end_at = None;
        self.package += 1;
        self.at = (self.at + 1) % self.buffers.len();
        self.counters.packages += 1;
    }
}
