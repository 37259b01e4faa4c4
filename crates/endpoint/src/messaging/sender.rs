//! The sending end of a channel. `message` writes messages, `packages` packs them into packages and
//! posts those.

mod message;
mod packages;

use super::KeyedAddress;
use super::shared::{Closed, ClosedBy, End, Shared};
use rackweave_base::memory::WriteSlots;
use rackweave_base::{Instant, Qpn};
use rackweave_verbs::{Segment, Verbs};
use rackweave_wire::fabric::message::{CloseReason, PIECE_HEADER_LEN};
use std::sync::Arc;

/// Sends messages on one channel.
#[derive(Debug)]
pub struct Sender {
    end: End,
    /// Parts of the send buffer, each for one package.
    slots: Vec<Slot>,
    /// The peer's receive buffers of this channel.
    buffers: Vec<RemoteBuffer>,
    /// The package that is being filled. It has slot `filling % slots` and goes to buffer
    /// `filling % buffers`.
    filling: u64,
    /// The package to be posted next; those between it and `filling` are ready.
    posting: u64,
    /// The oldest package whose arrival has not been confirmed.
    arriving: u64,
    /// Bytes in the package that is being filled.
    filled: usize,
    /// Offset of the last header in it, if bytes may still be added to its piece.
    open_piece: Option<usize>,
    message: Option<Message>,
    /// The number of the next message, or of the current one.
    number: u32,
    flush: bool,
    ending: Ending,
    slot_bytes: usize,
    /// `filling % slots`, needed for every message.
    slot_at: usize,
    counters: SenderCounters,
}

/// Whether messages may follow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ending {
    Open,
    /// No more messages; the receiver is yet to be notified.
    Owed,
    /// No more messages, as the last package states.
    Written,
}

/// Counters of a sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SenderCounters {
    /// Messages completely accepted.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Pieces into which they were cut.
    pub pieces: u64,
    /// Packages posted.
    pub packages: u64,
    /// Polls at which a package was ready and no receive buffer of the peer was free.
    pub waits_for_buffer: u64,
    /// Signs of life requested.
    pub pulses: u64,
}

#[derive(Debug)]
struct Slot {
    bytes: WriteSlots,
    /// Its offset in the send region.
    at: u64,
    /// Offset there of the word that announces its package.
    word_at: usize,
    /// Bytes of the package in it.
    len: usize,
    /// Bytes of a caller's region that follow.
    tail: Option<Segment>,
}

#[derive(Debug)]
struct RemoteBuffer {
    target: SendTarget,
    /// The raw word last read there.
    seen: u64,
    /// The package last posted to it, if it is still there.
    holds: Option<u64>,
}

#[derive(Debug)]
struct Message {
    opcode: u32,
    total: u64,
    offset: u64,
}

/// Why a sender does not accept a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SendError {
    /// It exceeds the length agreed with the peer.
    #[error("a message of {bytes} bytes; at most {max} were agreed on (message_max)")]
    TooLong {
        /// The length asked for.
        bytes: u64,
        /// The limit.
        max: u64,
    },
    /// It does not fit one package.
    #[error("{bytes} bytes do not fit one piece of at most {max}; use begin and write")]
    NotInOnePiece {
        /// The length asked for.
        bytes: usize,
        /// The longest piece.
        max: usize,
    },
    /// The previous message is not complete.
    #[error("{missing} bytes of the message begun before are still to be written")]
    Unfinished {
        /// The number of missing bytes.
        missing: u64,
    },
    /// The sender has declared that nothing follows.
    #[error("the sender has finished")]
    Finished,
    /// The connection is closed.
    #[error(transparent)]
    Closed(#[from] Closed),
}

/// A receive buffer of the peer.
#[derive(Clone, Copy, Debug)]
pub(super) struct SendTarget {
    pub to: KeyedAddress,
    /// Its inline buffer, if the peer's NIC stores the words of WRITEs last.
    pub inline: Option<KeyedAddress>,
    /// Its entry in the peer's buffer info.
    pub entry: usize,
    /// The entry here that says whether it is free.
    pub free_entry: usize,
}

/// The locations of a sender's slots and buffers.
pub(super) struct SenderPlaces {
    /// Offsets in the send region of each slot and its word.
    pub slots: Vec<(u64, usize)>,
    pub slot_bytes: usize,
    pub buffers: Vec<SendTarget>,
}

impl Sender {
    pub(super) fn new(end: End, places: SenderPlaces) -> Self {
        let block = &end.shared.send.block;
        let slots = places.slots.iter().map(|&(at, word_at)| Slot {
            bytes: WriteSlots::new(block.clone(), at as usize, places.slot_bytes, 1),
            at,
            word_at,
            len: 0,
            tail: None,
        });
        let slots = slots.collect();
        let buffers = places.buffers.iter();
        let buffers = buffers.map(|&target| RemoteBuffer {
            target,
            seen: 0,
            holds: None,
        });
        Self {
            slots,
            buffers: buffers.collect(),
            end,
            filling: 0,
            posting: 0,
            arriving: 0,
            filled: 0,
            open_piece: None,
            message: None,
            number: 0,
            flush: false,
            ending: Ending::Open,
            slot_bytes: places.slot_bytes,
            slot_at: 0,
            counters: SenderCounters::default(),
        }
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.end.shared
    }

    /// The longest message in bytes.
    pub fn message_max(&self) -> u64 {
        self.end.shared.agreed.message_max
    }

    /// The maximum number of bytes of a message in one piece.
    pub fn piece_max(&self) -> usize {
        self.slot_bytes - PIECE_HEADER_LEN
    }

    /// The channel's queue pair.
    pub fn qpn(&self) -> Qpn {
        self.end.qpn
    }

    /// The protection domain in which regions must be registered for [`Self::write_region`].
    pub fn pd(&self) -> rackweave_verbs::PdId {
        self.end.shared.send.pd
    }

    /// The sender's counters.
    pub fn counters(&self) -> SenderCounters {
        SenderCounters {
            pulses: self.end.pulses,
            ..self.counters
        }
    }

    /// Whether a package can be filled: a part of the send buffer is free.
    pub fn has_room(&self) -> bool {
        self.has_slot()
    }

    /// Whether nothing can be sent any more because [`Self::finish`] has been called.
    pub fn is_finished(&self) -> bool {
        self.ending != Ending::Open
    }

    /// Posts what has been written as soon as there is a receive buffer for it. Otherwise a sender
    /// waits for more messages to fill the package while other packages are in flight.
    pub fn flush(&mut self) {
        self.flush = true;
    }

    /// Declares that nothing follows. The receiver is notified after the last message.
    ///
    /// # Errors
    /// If a message is unfinished, or the connection is closed.
    pub fn finish(&mut self) -> Result<(), SendError> {
        match self.check(0) {
            Err(SendError::Finished) => Ok(()),
            Err(error) => Err(error),
            Ok(()) => {
                self.ending = Ending::Owed;
                self.write_finished();
                Ok(())
            }
        }
    }

    /// Whether everything written has arrived in the peer's memory.
    pub fn is_delivered(&self) -> bool {
        self.is_posted() && self.arriving == self.filling
    }

    /// Whether the receiver has released everything written. Poll first to get the latest state,
    /// also when the connection is closed.
    pub fn is_consumed(&self) -> bool {
        self.is_posted() && self.buffers.iter().all(|buffer| buffer.holds.is_none())
    }

    /// Whether everything written has been posted to the NIC.
    pub fn is_posted(&self) -> bool {
        let gathering = self.filled > 0 || self.ending == Ending::Owed || self.is_writing();
        !gathering && self.posting == self.filling
    }

    /// Posts what is ready, and processes arrivals and releases. True if anything happened.
    ///
    /// # Errors
    /// If the connection is closed.
    pub fn poll(&mut self, now: Instant, verbs: &mut dyn Verbs) -> Result<bool, Closed> {
        let mut arrived = 0;
        let arriving = self.arriving;
        let any = self.end.complete(now, verbs, |number| {
            debug_assert_eq!(number, arriving + arrived, "packages arrive in order");
            arrived += 1;
        });
        self.arriving += arrived;
        let freed = self.look_for_buffers()?;
        if self.ending == Ending::Written && self.is_consumed() {
            self.end.set_over();
        }
        if let Err(closed) = self.end.mind(now, verbs, false) {
            // Buffers released before the close count.
            self.look_for_buffers()?;
            return Err(closed);
        }
        self.write_empty();
        self.write_finished();
        let posted = self.post(verbs)?;
        Ok(any || freed || posted)
    }

    /// Whether [`Self::poll`] has something to post, as far as known without the NIC: a package is
    /// ready and a receive buffer is free for it. The peer's releases are visible in memory.
    pub fn could_post(&mut self) -> bool {
        if self.look_for_buffers().is_err() {
            return true;
        }
        let at = (self.posting % self.buffers.len() as u64) as usize;
        let ready = self.posting < self.filling || self.filled > 0;
        ready && self.buffers[at].holds.is_none()
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
        self.end.is_settled(false)
    }

    /// Releases its resources at the NIC. The last end of a connection releases the regions.
    pub fn destroy(self, verbs: &mut dyn Verbs) {
        self.end.destroy(verbs);
    }
}
