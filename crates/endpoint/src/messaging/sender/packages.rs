//! How messages are packed into packages, and when packages are posted.

use super::{Ending, SendTarget, Sender, Slot};
use crate::messaging::shared::{End, Shared};
use crate::messaging::{Closed, KeyedAddress};
use rackweave_base::canary::{Canary, planted};
use rackweave_verbs::{Operation, Verbs, WorkRequest};
use rackweave_wire::fabric::message::{
    CloseReason, FLAG_FINISHED, INLINE_MAX, PIECE_ALIGN, PIECE_HEADER_LEN, PieceHeader, Sequence,
    Word,
};
use zerocopy::IntoBytes;

/// Minimum space behind a header in the rest of a package for a long message to start there and not
/// in the next one.
const WORTH_A_PIECE: usize = 256;

impl Sender {
    /// The capacity of a receive buffer of the peer.
    pub(super) fn package_bytes(&self) -> usize {
        self.end.shared.agreed.theirs.receive_bytes as usize
    }

    pub(super) fn slot(&mut self) -> &mut Slot {
        &mut self.slots[self.slot_at]
    }

    /// Whether the package that is being filled has a slot.
    pub(super) fn has_slot(&self) -> bool {
        self.filling - self.arriving < self.slots.len() as u64
    }

    /// Ensures that a piece is open that can take `bytes` more of the current message, or some of
    /// them. False: there is no space now.
    pub(super) fn open(&mut self, bytes: usize) -> bool {
        if !self.has_slot() {
            return false;
        }
        if self.open_piece.is_some() {
            return true;
        }
        let least = PIECE_HEADER_LEN + bytes.min(WORTH_A_PIECE);
        if self.filled > 0 && self.filled + least > self.slot_bytes {
            self.close_package();
            if !self.has_slot() {
                return false;
            }
        }
        self.add_header(0, 0);
        true
    }

    /// Appends a header to the package, for a piece that has `length` bytes.
    pub(super) fn add_header(&mut self, length: usize, flags: u32) {
        let message = self.message.as_ref();
        let header = PieceHeader {
            opcode: message.map_or(0, |message| message.opcode).into(),
            length: (length as u32).into(),
            total: message.map_or(0, |message| message.total).into(),
            offset: message.map_or(0, |message| message.offset).into(),
            message: self.number.into(),
            flags: flags.into(),
        };
        let at = self.filled;
        let mut bytes = self.slot().bytes.bytes_mut(0, 1);
        bytes.write(at, header.as_bytes());
        self.open_piece = Some(at);
        self.filled = at + PIECE_HEADER_LEN;
        self.counters.pieces += u64::from(flags == 0);
    }

    /// Extends the open piece by `len` bytes.
    pub(super) fn grow_piece(&mut self, len: usize) {
        let at = self.open_piece.expect("a piece is open");
        let mut bytes = self.slot().bytes.bytes_mut(0, 1);
        let header = bytes.array::<PIECE_HEADER_LEN>(at);
        let mut header: PieceHeader = zerocopy::transmute!(header);
        header.length += len as u32;
        bytes.write(at, header.as_bytes());
    }

    /// Accounts for `len` more bytes of the current message in the package.
    pub(super) fn after_bytes(&mut self, len: usize) {
        let message = self.message.as_mut().expect("bytes belong to a message");
        message.offset += len as u64;
        self.counters.bytes += len as u64;
        if message.offset == message.total {
            self.end_message();
        } else if self.filled == self.slot_bytes {
            self.close_package();
        }
    }

    pub(super) fn end_message(&mut self) {
        self.message = None;
        self.open_piece = None;
        self.number = self.number.wrapping_add(1);
        self.counters.messages += 1;
        self.filled = self.filled.next_multiple_of(PIECE_ALIGN);
        if self.filled + PIECE_HEADER_LEN > self.slot_bytes {
            self.close_package();
        }
    }

    /// Writes the piece of an empty message, which has no bytes that would cause it to be packed.
    pub(super) fn write_empty(&mut self) {
        if self.message.as_ref().is_some_and(|begun| begun.total == 0) && self.open(0) {
            self.end_message();
        }
    }

    /// Writes into the last package that nothing follows.
    pub(super) fn write_finished(&mut self) {
        if self.ending == Ending::Owed && self.has_slot() {
            self.add_header(0, FLAG_FINISHED);
            self.ending = Ending::Written;
            self.close_package();
        }
    }

    /// Declares the package being filled ready to be posted, if it is not empty.
    pub(super) fn close_package(&mut self) {
        self.open_piece = None;
        let len = core::mem::take(&mut self.filled);
        if len > 0 {
            self.slot().len = len;
            self.filling += 1;
            self.slot_at = (self.slot_at + 1) % self.slots.len();
        }
    }

    /// Detects which receive buffers have been released.
    pub(super) fn look_for_buffers(&mut self) -> Result<bool, Closed> {
        let shared = &self.end.shared;
        let count = self.buffers.len() as u64;
        let mut freed = false;
        for buffer in &mut self.buffers {
            let word = shared.entry(buffer.target.free_entry);
            if word == buffer.seen {
                continue;
            }
            buffer.seen = word;
            let Ok(Word::Free { sequence }) = Word::try_from(word) else {
                return Err(shared.lied(CloseReason::ForeignState));
            };
            // Only what was last sent there can have been released.
            match buffer.holds {
                Some(package) if Sequence::of(package + count) == sequence => {
                    buffer.holds = None;
                    freed = true;
                }
                _ => return Err(shared.lied(CloseReason::BadSequence)),
            }
        }
        Ok(freed)
    }

    /// Whether the package being filled should be posted although it has space: waiting for more
    /// messages would be useless.
    pub(super) fn goes_alone(&self) -> bool {
        self.filled > 0 && (self.flush || (self.posting == self.arriving && self.message.is_none()))
    }

    pub(super) fn post(&mut self, verbs: &mut dyn Verbs) -> Result<bool, Closed> {
        let mut posted = false;
        loop {
            if self.posting == self.filling {
                if !self.goes_alone() {
                    break;
                }
                let at = (self.posting % self.buffers.len() as u64) as usize;
                if self.buffers[at].holds.is_some() {
                    // As long as it cannot be posted, more messages may join it.
                    self.counters.waits_for_buffer += 1;
                    break;
                }
                self.close_package();
            }
            if !self.post_package(verbs)? {
                self.counters.waits_for_buffer += 1;
                break;
            }
            posted = true;
        }
        if self.filled == 0 && self.posting == self.filling {
            self.flush = false;
        }
        Ok(posted)
    }

    /// Posts the oldest package that is ready. False: its receive buffer is not free.
    pub(super) fn post_package(&mut self, verbs: &mut dyn Verbs) -> Result<bool, Closed> {
        let package = self.posting;
        let (slots, buffers) = (self.slots.len() as u64, self.buffers.len() as u64);
        let buffer = &mut self.buffers[(package % buffers) as usize];
        if buffer.holds.is_some() {
            return Ok(false);
        }
        let slot = &mut self.slots[(package % slots) as usize];
        let shared = &self.end.shared;
        // From here on the package may arrive.
        buffer.holds = Some(package);
        let inline = buffer.target.inline;
        if let (Some(inline), None) = (inline, slot.tail)
            && !planted(Canary::MessagingEarlyWord)
            && let Some(whole) = inline_request(shared, slot, self.slot_bytes, inline, package)
        {
            self.end.post(verbs, &[whole])?;
        } else {
            let mut requests = requests(shared, slot, &buffer.target, package);
            if planted(Canary::MessagingEarlyWord) {
                requests.reverse();
            }
            self.end.post(verbs, &requests)?;
        }
        self.posting += 1;
        self.counters.packages += 1;
        Ok(true)
    }
}

/// The WRITE of a small package with its word into an inline buffer; `None` if it does not fit.
fn inline_request(
    shared: &Shared,
    slot: &mut Slot,
    slot_bytes: usize,
    inline: KeyedAddress,
    package: u64,
) -> Option<WorkRequest> {
    // What pads the package is never read.
    let len = slot.len.next_multiple_of(PIECE_ALIGN);
    if len > INLINE_MAX || len + size_of::<u64>() > slot_bytes {
        return None;
    }
    let (sequence, length) = (Sequence::of(package), len as u32);
    let word = u64::from(Word::Filled { sequence, length });
    slot.bytes.bytes_mut(0, 1).write(len, &word.to_le_bytes());
    let to = write_to(inline.at((INLINE_MAX - len) as u64));
    let bytes = shared
        .send
        .segment(slot.at, length + size_of::<u64>() as u32);
    Some(WorkRequest::new(End::package_id(package), to, &[bytes]))
}

/// The WRITEs of a package into a receive buffer, and of its word.
fn requests(
    shared: &Shared,
    slot: &mut Slot,
    target: &SendTarget,
    package: u64,
) -> [WorkRequest; 2] {
    let bytes = shared.send.segment(slot.at, slot.len as u32);
    let tail = slot.tail.take();
    let segments = [bytes, tail.unwrap_or(bytes)];
    let segments = &segments[..1 + usize::from(tail.is_some())];
    let length = segments.iter().map(|segment| segment.length).sum();
    let id = End::package_id(package);
    let mut data = WorkRequest::new(id, write_to(target.to), segments);
    data.signaled = false;
    let sequence = Sequence::of(package);
    let word = shared.stage(slot.word_at, Word::Filled { sequence, length });
    let announce = WorkRequest::new(id, shared.peer_entry(target.entry), &[word]);
    [data, announce]
}

fn write_to(target: KeyedAddress) -> Operation {
    Operation::Write {
        address: target.address,
        rkey: target.rkey,
        immediate: None,
    }
}
