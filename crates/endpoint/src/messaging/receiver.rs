//! The receiving end of a channel. `packages` reads and checks what has arrived.

mod packages;

use super::shared::{Closed, ClosedBy, End, Shared};
use packages::Inline;
use rackweave_base::canary::{Canary, planted};
use rackweave_base::memory::{ReadSlots, SharedBytes};
use rackweave_base::{Instant, Qpn};
use rackweave_verbs::{Verbs, WorkRequest};
use rackweave_wire::fabric::message::{CloseReason, PIECE_HEADER_LEN, Sequence, Word};
use std::sync::Arc;

/// How far a vector may grow beyond the received bytes of a message: its announced length is only a
/// claim of the peer.
const AHEAD: u64 = 1 << 20;

/// Receives the messages of one channel, in the order in which they were sent.
#[derive(Debug)]
pub struct Receiver {
    end: End,
    buffers: Vec<Buffer>,
    /// The package that is being read or awaited. It is in buffer `package % buffers`.
    package: u64,
    /// `package % buffers`.
    at: usize,
    /// Its end in the receive buffer or the inline buffer; `None`: it has not arrived.
    end_at: Option<usize>,
    /// Whether it is in the inline buffer.
    is_inline: bool,
    /// How far it has been released.
    read: usize,
    /// Bytes from `read` to the next piece, if the piece there has been peeked.
    peeked: Option<Peeked>,
    /// The number of the message that comes next or is being received.
    number: u32,
    /// The part of it that has arrived.
    begun: Option<MessageBegun>,
    finished: bool,
    /// Why nothing more arrives, as reported before: that is final.
    ended: Option<Closed>,
    /// Packages whose buffers have been reported free to the sender.
    released_sent: u64,
    counters: ReceiverCounters,
}

/// Counters of a receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReceiverCounters {
    /// Messages completely released.
    pub messages: u64,
    /// Bytes of messages released.
    pub bytes: u64,
    /// Pieces released.
    pub pieces: u64,
    /// Packages released.
    pub packages: u64,
    /// Signs of life requested.
    pub pulses: u64,
}

#[derive(Debug)]
struct Buffer {
    bytes: ReadSlots,
    /// Its entry in this node's buffer info.
    entry: usize,
    /// The raw word last accepted.
    seen: u64,
    inline: Option<Inline>,
    /// The peer's entry that announces that it is free.
    free_entry: usize,
    /// Where the word is that is written there.
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

/// A part of a message, in place in a receive buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece<'a> {
    /// The kind of message, as set by its sender.
    pub opcode: u32,
    /// The message's number on its channel, from zero, modulo 2^32.
    pub message: u32,
    /// Bytes of the whole message.
    pub total: u64,
    /// Bytes of the message before this piece.
    pub offset: u64,
    /// The bytes, at an address that is a multiple of 32. A peer that breaks the protocol can
    /// change them: copy first whatever is read twice.
    pub bytes: SharedBytes<'a>,
}

impl Piece<'_> {
    /// Whether the message ends with this piece.
    pub fn is_last(&self) -> bool {
        self.offset + self.bytes.len() as u64 == self.total
    }
}

/// The result of a receive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrived<'a> {
    /// A piece.
    Piece(Piece<'a>),
    /// Nothing at present.
    Empty,
    /// The sender has finished.
    Finished,
}

/// A message that was copied out completely.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MessageInfo {
    /// The kind of message.
    pub opcode: u32,
    /// Its number on its channel, from zero, modulo 2^32.
    pub message: u32,
    /// Its length in bytes.
    pub length: u64,
}

/// The locations of a receiver's buffers and words.
pub(super) struct ReceiverPlaces {
    /// For each buffer its number and where the word is that announces that it is free.
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
            inline: Inline::of(shared, number),
            // A local buffer here is one of the peer's there.
            free_entry: peer_entry(number),
            word_at,
        });
        Self {
            buffers: buffers.collect(),
            end,
            package: 0,
            at: 0,
            end_at: None,
            is_inline: false,
            read: 0,
            peeked: None,
            number: 0,
            begun: None,
            finished: false,
            ended: None,
            released_sent: 0,
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

    /// The receiver's counters.
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
    /// peer is found to break the protocol. The error is permanent, whatever the peer writes
    /// afterwards.
    pub fn peek(&mut self) -> Result<Arrived<'_>, Closed> {
        if self.finished {
            return Ok(Arrived::Finished);
        }
        if let Some(closed) = self.ended {
            return Err(closed);
        }
        if self.end_at.is_none() {
            // Check for a close first: what arrived before it is then visible.
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
                let bytes = self.package_bytes();
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

    /// Releases the last peeked piece.
    ///
    /// # Panics
    /// If no piece has been peeked since the last release.
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
        if self.end_at.is_some_and(|end| self.read >= end) {
            self.end_package();
        }
    }

    /// Whether a message has started to arrive and is not completely released.
    pub fn is_within_message(&self) -> bool {
        self.begun.is_some()
    }

    /// Appends the received part of the next message to `target`, and releases it. Returns the
    /// message if it is complete now; `None`: call again later with the same vector.
    ///
    /// # Errors
    /// As for [`Self::peek`]. `target` then contains the start of a message whose rest is lost.
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

    /// Whether there are free buffers that have not been reported to the sender: [`Self::poll`]
    /// reports them.
    pub fn owes(&self) -> bool {
        self.released_sent < self.package
    }

    /// Reports free buffers to the sender. True if anything happened.
    ///
    /// # Errors
    /// If the connection is closed.
    pub fn poll(&mut self, now: Instant, verbs: &mut dyn Verbs) -> Result<bool, Closed> {
        let mut any = self.end.complete(now, verbs, |_| {});
        self.end.mind(now, verbs, self.owes())?;
        let count = self.buffers.len() as u64;
        let early = planted(Canary::MessagingEarlyFree) && self.end_at.is_some();
        let owed = self.package + u64::from(early);
        // A peer that acknowledges nothing may continue to send: the rest waits until it
        // acknowledges.
        while self.released_sent < owed && u64::from(self.end.pending()) < 2 * count {
            let package = self.released_sent;
            let buffer = &self.buffers[(package % count) as usize];
            let sequence = Sequence::of(package + count);
            let shared = &self.end.shared;
            let word = shared.stage(buffer.word_at, Word::Free { sequence });
            let to = shared.peer_entry(buffer.free_entry);
            let tell = WorkRequest::new(End::package_id(package), to, &[word]);
            self.end.post(verbs, &[tell])?;
            self.released_sent += 1;
            any = true;
        }
        Ok(any)
    }

    /// When [`Self::poll`] is due even if nothing happens.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.end.due()
    }

    /// Closes the connection for a reason, and notifies the peer. Call [`Self::poll`] until
    /// [`Self::is_settled`] to complete this.
    pub fn close(&mut self, now: Instant, verbs: &mut dyn Verbs, reason: CloseReason) {
        self.end.shared.close(Closed {
            by: ClosedBy::Local,
            reason,
        });
        // It returns that the connection is closed, which is known.
        let _ = self.poll(now, verbs);
    }

    /// Why the connection is closed, if it is.
    pub fn closed(&self) -> Option<Closed> {
        self.end.shared.closed()
    }

    /// Whether no work request is in flight, and the peer is notified if the connection is closed.
    pub fn is_settled(&self) -> bool {
        self.end.is_settled(self.owes())
    }

    /// Releases its resources at the NIC. The last end of a connection releases the regions.
    pub fn destroy(self, verbs: &mut dyn Verbs) {
        self.end.destroy(verbs);
    }
}
