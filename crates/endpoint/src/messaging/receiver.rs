//! The receiving end of a channel.

use super::shared::{Closed, ClosedBy, End, Shared};
use rackweave_base::canary::{Canary, planted};
use rackweave_base::memory::{ReadSlots, SharedBytes};
use rackweave_base::{Instant, Qpn};
use rackweave_verbs::{Verbs, WorkRequest};
use rackweave_wire::fabric::message::{
    CloseReason, FLAG_FINISHED, PIECE_HEADER_LEN, PieceHeader, Sequence, Word, piece_span,
};
use std::sync::Arc;

/// How much a vector grows ahead of what has arrived of a message: its announced length is only
/// what the peer says.
const AHEAD: u64 = 1 << 20;

/// Receives the messages of one channel, in the order in which they were sent.
#[derive(Debug)]
pub struct Receiver {
    end: End,
    buffers: Vec<Buffer>,
    /// The package that is read or waited for. It lies in buffer `package % buffers`.
    package: u64,
    /// `package % buffers`.
    at: usize,
    /// Bytes in it; nothing: it has not come.
    length: Option<usize>,
    /// How far it has been released.
    read: usize,
    /// Bytes from `read` to the next piece, if the piece there has been looked at.
    peeked: Option<Peeked>,
    /// The number of the message that comes next or has begun to come.
    number: u32,
    /// What has come of it.
    begun: Option<MessageBegun>,
    finished: bool,
    /// Why nothing comes any more, as it has been said: that is not taken back.
    ended: Option<Closed>,
    /// Packages whose buffers the sender has been told to be free.
    told: u64,
    counters: ReceiverCounters,
}

/// What a receiver has taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReceiverCounters {
    /// Messages released whole.
    pub messages: u64,
    /// Bytes of messages released.
    pub bytes: u64,
    /// Pieces released.
    pub pieces: u64,
    /// Packages released.
    pub packages: u64,
    /// Signs of life asked for.
    pub pulses: u64,
}

#[derive(Debug)]
struct Buffer {
    bytes: ReadSlots,
    /// Its entry here.
    entry: usize,
    /// The raw word last believed.
    seen: u64,
    /// The peer's entry that says that it is free.
    free_entry: usize,
    /// Where the word lies that is written there.
    word_at: usize,
}

#[derive(Clone, Copy, Debug)]
struct Peeked {
    span: usize,
    length: usize,
    is_last: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct MessageBegun {
    opcode: u32,
    total: u64,
    offset: u64,
}

/// A part of a message, as it lies in a receive buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece<'a> {
    /// What the message is, as its sender has it.
    pub opcode: u32,
    /// The message's number on its channel, from zero, modulo 2^32.
    pub message: u32,
    /// Bytes of the whole message.
    pub total: u64,
    /// Bytes of the message before this piece.
    pub offset: u64,
    /// The bytes, at an address that is a multiple of 32. A peer that does not keep to the protocol
    /// can change them: what has to be looked at twice is to be copied first.
    pub bytes: SharedBytes<'a>,
}

impl Piece<'_> {
    /// Whether the message ends with this piece.
    pub fn is_last(&self) -> bool {
        self.offset + self.bytes.len() as u64 == self.total
    }
}

/// What there is to receive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrived<'a> {
    /// A piece.
    Piece(Piece<'a>),
    /// Nothing now.
    Empty,
    /// Nothing any more: the sender has finished.
    Finished,
}

/// A message that was copied out whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MessageInfo {
    /// What it is.
    pub opcode: u32,
    /// Its number on its channel, from zero, modulo 2^32.
    pub message: u32,
    /// Its bytes.
    pub length: u64,
}

/// Where a receiver's things are.
pub(super) struct ReceiverPlaces {
    /// For each buffer its number and where the word lies that says that it is free.
    pub buffers: Vec<(u8, usize)>,
}

impl Receiver {
    pub(super) fn new(end: End, places: ReceiverPlaces) -> Self {
        use rackweave_wire::fabric::message::{own_entry, peer_entry};
        let shared = &end.shared;
        let size = shared.agreed.mine.receive_bytes as usize;
        let buffers = places.buffers.iter().map(|&(number, word_at)| Buffer {
            bytes: ReadSlots::new(
                shared.receive.block.clone(),
                usize::from(number) * size,
                size,
                1,
            ),
            entry: own_entry(number),
            seen: 0,
            // What is an own buffer here is one of the peer's there.
            free_entry: peer_entry(number),
            word_at,
        });
        Self {
            buffers: buffers.collect(),
            end,
            package: 0,
            at: 0,
            length: None,
            read: 0,
            peeked: None,
            number: 0,
            begun: None,
            finished: false,
            ended: None,
            told: 0,
            counters: ReceiverCounters::default(),
        }
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.end.shared
    }

    /// The longest message in bytes.
    pub fn message_max(&self) -> u64 {
        self.end.shared.agreed.message_max
    }

    /// The channel's queue pair.
    pub fn qpn(&self) -> Qpn {
        self.end.qpn
    }

    /// What it has taken.
    pub fn counters(&self) -> ReceiverCounters {
        ReceiverCounters {
            pulses: self.end.pulses,
            ..self.counters
        }
    }

    /// The oldest piece that has not been released. It stays where it is until then.
    ///
    /// ```compile_fail,E0499
    /// # use rackweave_endpoint::messaging::{Arrived, Receiver};
    /// fn late(receiver: &mut Receiver) -> Option<u64> {
    ///     let Ok(Arrived::Piece(piece)) = receiver.peek() else { return None };
    ///     receiver.release();
    ///     Some(piece.total)
    /// }
    /// ```
    ///
    /// # Errors
    /// If the connection is closed and everything that arrived before has been released, or the
    /// peer is found to lie. That stays so, whatever the peer writes afterwards.
    pub fn peek(&mut self) -> Result<Arrived<'_>, Closed> {
        if self.finished {
            return Ok(Arrived::Finished);
        }
        if let Some(closed) = self.ended {
            return Err(closed);
        }
        if self.length.is_none() {
            // First whether it is closed: what came before that is seen then.
            let closed = self.end.shared.closed();
            let found = self.look().map_err(|reason| self.end.shared.lied(reason));
            match (found, closed) {
                (Ok(true), _) => {}
                (Ok(false), None) => return Ok(Arrived::Empty),
                (Err(closed), _) | (Ok(false), Some(closed)) => {
                    self.ended = Some(closed);
                    return Err(closed);
                }
            }
        }
        match self.piece() {
            Ok(None) => {
                self.finished = true;
                self.end.set_over();
                self.end_package();
                Ok(Arrived::Finished)
            }
            Ok(Some((header, peeked))) => {
                self.peeked = Some(peeked);
                let from = self.read + PIECE_HEADER_LEN;
                let bytes = self.buffers[self.at].bytes.bytes(0, 1);
                Ok(Arrived::Piece(Piece {
                    opcode: header.opcode.get(),
                    message: self.number,
                    total: header.total.get(),
                    offset: header.offset.get(),
                    bytes: bytes.slice(from..from + peeked.length),
                }))
            }
            Err(reason) => {
                let closed = self.end.shared.lied(reason);
                self.ended = Some(closed);
                Err(closed)
            }
        }
    }

    /// Frees the piece last peeked at.
    ///
    /// # Panics
    /// If none has been peeked at since the last one.
    pub fn release(&mut self) {
        let peeked = self.peeked.take().expect("a piece is peeked at first");
        self.counters.pieces += 1;
        self.counters.bytes += peeked.length as u64;
        if peeked.is_last {
            self.begun = None;
            self.number = self.number.wrapping_add(1);
            self.counters.messages += 1;
        } else if let Some(begun) = &mut self.begun {
            begun.offset += peeked.length as u64;
        }
        self.read += peeked.span;
        if self.length.is_some_and(|length| self.read >= length) {
            self.end_package();
        }
    }

    /// Whether a message has begun to come and is not released whole.
    pub fn is_within_message(&self) -> bool {
        self.begun.is_some()
    }

    /// Copies what has come of the next message behind what is in `target`, and frees it. The
    /// message if it is whole now; nothing: go on with the same vector later.
    ///
    /// # Errors
    /// As for [`Self::peek`]. What `target` has got is the begin of a message whose rest is lost.
    pub fn receive_into(&mut self, target: &mut Vec<u8>) -> Result<Option<MessageInfo>, Closed> {
        while let Arrived::Piece(piece) = self.peek()? {
            let rest = piece.total - piece.offset;
            target.reserve(rest.min(piece.bytes.len() as u64 + AHEAD) as usize);
            piece.bytes.append_to(target);
            let whole = piece.is_last().then_some(MessageInfo {
                opcode: piece.opcode,
                message: piece.message,
                length: piece.total,
            });
            self.release();
            if whole.is_some() {
                return Ok(whole);
            }
        }
        Ok(None)
    }

    /// Whether the sender has finished and everything is released.
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    /// Whether the package that is read or waited for is there, as far as its word says.
    pub(super) fn has_package(&self) -> bool {
        let buffer = &self.buffers[self.at];
        self.length.is_some() || self.end.shared.entry(buffer.entry) != buffer.seen
    }

    /// Whether there are free buffers that the sender has not been told of: [`Self::poll`] tells.
    pub fn owes(&self) -> bool {
        self.told < self.package
    }

    /// Tells the sender of buffers that are free. True if anything happened.
    ///
    /// # Errors
    /// If the connection is closed.
    pub fn poll(&mut self, now: Instant, verbs: &mut dyn Verbs) -> Result<bool, Closed> {
        let mut any = self.end.complete(now, verbs, |_| {});
        self.end.mind(now, verbs, self.owes())?;
        let count = self.buffers.len() as u64;
        let early = planted(Canary::MessagingEarlyFree) && self.length.is_some();
        let owed = self.package + u64::from(early);
        // A peer that acknowledges nothing may go on sending: the rest waits until it does.
        while self.told < owed && u64::from(self.end.pending()) < 2 * count {
            let package = self.told;
            let buffer = &self.buffers[(package % count) as usize];
            let sequence = Sequence::of(package + count);
            let shared = &self.end.shared;
            let word = shared.stage(buffer.word_at, Word::Free { sequence });
            let to = shared.peer_entry(buffer.free_entry);
            let tell = WorkRequest::new(End::package_id(package), to, &[word]);
            self.end.post(verbs, &[tell])?;
            self.told += 1;
            any = true;
        }
        Ok(any)
    }

    /// When [`Self::poll`] is due even if nothing happens.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.end.due()
    }

    /// Closes the connection for a reason, and tells the peer. [`Self::poll`] gets that done until
    /// [`Self::is_settled`].
    pub fn close(&mut self, now: Instant, verbs: &mut dyn Verbs, reason: CloseReason) {
        self.end.shared.close(Closed {
            by: ClosedBy::Local,
            reason,
        });
        // It says that it is closed, which is known.
        let _ = self.poll(now, verbs);
    }

    /// Why the connection is closed, if it is.
    pub fn closed(&self) -> Option<Closed> {
        self.end.shared.closed()
    }

    /// Whether no work request is under way, and the peer is told if the connection is closed.
    pub fn is_settled(&self) -> bool {
        self.end.is_settled(self.owes())
    }

    /// Gives back what it has at the NIC. The last end of a connection gives the regions back.
    pub fn destroy(self, verbs: &mut dyn Verbs) {
        self.end.destroy(verbs);
    }

    // ---- Packages.

    /// Whether the package that is waited for is there.
    fn look(&mut self) -> Result<bool, CloseReason> {
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
        // Its sender has to know that the buffer is free.
        if self.package >= self.told + self.buffers.len() as u64 {
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

    /// The piece at which the package is read, checked; nothing: the sender has finished.
    fn piece(&mut self) -> Result<Option<(PieceHeader, Peeked)>, CloseReason> {
        let length = self.length.expect("a package is there");
        let package = self.buffers[self.at].bytes.bytes(0, 1);
        let rest = package.slice(self.read..length);
        if rest.len() < PIECE_HEADER_LEN {
            return Err(CloseReason::BadHeader);
        }
        // One copy, which is checked and then believed.
        let header: PieceHeader = zerocopy::transmute!(rest.array::<PIECE_HEADER_LEN>(0));
        let rest = rest.slice(PIECE_HEADER_LEN..);
        let piece = header.length.get() as usize;
        let (total, offset) = (header.total.get(), header.offset.get());
        if header.flags.get() == FLAG_FINISHED {
            // It belongs to no message, and nothing comes behind it.
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

    fn end_package(&mut self) {
        self.length = None;
        self.package += 1;
        self.at = (self.at + 1) % self.buffers.len();
        self.counters.packages += 1;
    }
}
