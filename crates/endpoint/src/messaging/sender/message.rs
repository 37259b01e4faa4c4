//! Writing messages: a message is begun, written piece by piece, and ends with its last byte.

use super::{Ending, Message, SendError, Sender};
use rackweave_base::memory::SharedBytesMut;
use rackweave_verbs::Region;
use rackweave_wire::fabric::message::piece_span;

impl Sender {
    /// Starts a message of `total` bytes; they are written afterwards.
    ///
    /// # Errors
    /// If it is too long, another one is in progress, or nothing can be sent any more.
    pub fn begin(&mut self, opcode: u32, total: u64) -> Result<(), SendError> {
        self.check(total)?;
        let message = Message {
            opcode,
            total,
            offset: 0,
        };
        self.message = Some(message);
        if total == 0 {
            // It has a piece nevertheless; if there is no space now, a later poll writes it.
            self.write_empty();
        }
        Ok(())
    }

    pub(super) fn check(&self, total: u64) -> Result<(), SendError> {
        if let Some(closed) = self.end.shared.closed() {
            return Err(closed.into());
        }
        if self.ending != Ending::Open {
            return Err(SendError::Finished);
        }
        if let Some(message) = &self.message {
            // An empty message lacks only its piece.
            let missing = message.total - message.offset;
            return Err(SendError::Unfinished { missing });
        }
        let max = self.message_max();
        if total > max {
            return Err(SendError::TooLong { bytes: total, max });
        }
        Ok(())
    }

    /// Bytes of the current message that are still to be written.
    pub fn remaining(&self) -> u64 {
        self.message
            .as_ref()
            .map_or(0, |message| message.total - message.offset)
    }

    /// Whether a message has been started and is not yet completely written.
    pub fn is_writing(&self) -> bool {
        self.message.is_some()
    }

    /// The space for the next bytes of the current message, in the send buffer itself. Empty: there
    /// is no space now, or no message.
    pub fn space(&mut self) -> SharedBytesMut<'_> {
        let remaining = usize::try_from(self.remaining()).unwrap_or(usize::MAX);
        let len = match remaining > 0 && self.open(remaining) {
            true => remaining.min(self.slot_bytes - self.filled),
            false => 0,
        };
        let filled = self.filled;
        self.slot()
            .bytes
            .bytes_mut(0, 1)
            .into_slice(filled..filled + len)
    }

    /// Declares that the first `len` bytes of [`Self::space`] have been written.
    ///
    /// # Panics
    /// If the space is shorter than that.
    pub fn commit(&mut self, len: usize) {
        assert!(
            len <= self.space().len(),
            "more is committed than there is space"
        );
        if len > 0 {
            self.grow_piece(len);
            self.filled += len;
            self.after_bytes(len);
        }
    }

    /// Copies as many of the next bytes of the current message as there is space for, and returns
    /// how many.
    pub fn write(&mut self, bytes: &[u8]) -> usize {
        let mut written = 0;
        loop {
            let mut space = self.space();
            let len = space.len().min(bytes.len() - written);
            if len == 0 {
                return written;
            }
            space.write(0, &bytes[written..written + len]);
            self.commit(len);
            written += len;
        }
    }

    /// Adds to the current message `len` bytes at `offset` of a region, which is in [`Self::pd`];
    /// they are sent from there without a copy. Accepts as many as there is space for and returns
    /// how many. They must not change until they have arrived ([`Self::is_delivered`]).
    ///
    /// # Panics
    /// If the region is too short.
    pub fn write_region(&mut self, region: &Region, offset: u64, len: u64) -> u64 {
        let end = offset.checked_add(len);
        assert!(
            end.is_some_and(|end| end <= region.block.len() as u64),
            "bytes beyond the region"
        );
        let mut taken = 0;
        loop {
            let wanted = (len - taken).min(self.remaining());
            let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
            if wanted == 0 || !self.open(wanted) {
                return taken;
            }
            // The tail may fill the part of a receive buffer that exceeds the slot: it needs no
            // send buffer.
            let free = self.package_bytes() - self.filled;
            let piece = wanted.min(free);
            self.grow_piece(piece);
            let tail = region.segment(offset + taken, piece as u32);
            self.slot().tail = Some(tail);
            self.after_bytes(piece);
            self.close_package();
            taken += piece as u64;
        }
    }

    /// Sends a complete message if there is space for it. False: there is no space now.
    ///
    /// # Errors
    /// As for [`Self::begin`]; and if it does not fit in one piece.
    pub fn try_send(&mut self, opcode: u32, payload: &[u8]) -> Result<bool, SendError> {
        self.check(payload.len() as u64)?;
        let max = self.piece_max();
        if payload.len() > max {
            return Err(SendError::NotInOnePiece {
                bytes: payload.len(),
                max,
            });
        }
        if self.filled + piece_span(payload.len()) > self.slot_bytes {
            self.close_package();
        }
        if !self.has_slot() {
            return Ok(false);
        }
        self.message = Some(Message {
            opcode,
            total: payload.len() as u64,
            offset: 0,
        });
        self.add_header(payload.len(), 0);
        let filled = self.filled;
        self.slot().bytes.bytes_mut(0, 1).write(filled, payload);
        self.filled += payload.len();
        self.after_bytes(payload.len());
        Ok(true)
    }
}
