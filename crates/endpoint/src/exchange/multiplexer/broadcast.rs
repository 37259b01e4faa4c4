//! Streams whose messages leave or arrive as broadcasts.
//!
//! All frames of such a direction go by the flow, so that their order is that of the flow. One that
//! leaves the broadcast continues over the connection, but not before all items up to then have
//! been delivered.

use super::super::direction::{Ending, Path};
use super::super::error::BROADCAST_LOST;
use super::frames::ERROR_MAX;
use super::{Disposition, Misbehaviour, Multiplexer, StreamError};
use rackweave_wire::fabric::exchange::{ErrorCode, FrameKind, StreamNumber};

impl Multiplexer {
    /// Makes the messages to the peer part of a broadcast. False: some have been sent already, or
    /// the peer wants none.
    pub fn join_broadcast(&mut self, number: StreamNumber) -> bool {
        let sending = &mut self.stream(number).sending;
        let joins = !sending.has_sent && sending.stopped.is_none();
        if joins {
            sending.path = Path::Broadcast;
        }
        joins
    }

    /// Whether there is credit for a message.
    pub fn has_credit(&mut self, number: StreamNumber) -> bool {
        self.stream(number).sending.credit > 0
    }

    /// Takes the credit for a message that is broadcast.
    pub fn use_credit(&mut self, number: StreamNumber, bytes: u64) {
        self.stream(number).sending.credit -= bytes as i64;
    }

    /// Declares that the last broadcast will be handed over, with the end. False: the stream must
    /// not be a member of it, because its end goes over the connection. The number must not be used
    /// for sending afterwards.
    #[must_use]
    pub fn finish_broadcast(&mut self, number: StreamNumber) -> bool {
        let is_member = self.stream(number).sending.path == Path::Broadcast;
        self.end_sending(number, Ending::Finished);
        is_member
    }

    /// The last broadcast has been delivered.
    pub fn handle_broadcast_end(&mut self, number: StreamNumber) {
        if let Some(stream) = self.streams.get_mut(&number)
            && stream.sending.path == Path::Broadcast
        {
            stream.sending.is_over = true;
            self.remove_if_over(number);
        }
    }

    /// The stream's messages go over the connection from now on, or rather from
    /// [`Self::resume`] on.
    pub fn leave_broadcast(&mut self, number: StreamNumber) {
        self.stream(number).sending.path = Path::Paused;
    }

    /// All broadcasts that the stream was a member of have been delivered.
    pub fn resume(&mut self, number: StreamNumber) {
        if let Some(stream) = self.streams.get_mut(&number)
            && stream.sending.path == Path::Paused
        {
            stream.sending.path = Path::Connection;
            self.mark(number);
        }
    }

    /// The flow of the broadcasts was aborted: nobody knows which of them were delivered. Ends the
    /// directions that were part of one.
    pub fn handle_broadcasts_lost(&mut self) {
        let numbers: Vec<_> = self.streams.keys().copied().collect();
        for number in numbers {
            let peer = self.peer.clone();
            let stream = self.stream(number);
            let sending = &mut stream.sending;
            if sending.path == Path::Connection || sending.is_over {
                continue;
            }
            sending.path = Path::Connection;
            sending.ending = Some(Ending::Error(ErrorCode::BroadcastLost, Vec::new()));
            let why = BROADCAST_LOST.into();
            let waker = sending.stop(StreamError::Gone { peer, why });
            self.wakes.extend(waker);
            self.mark(number);
        }
    }

    /// Checks a broadcast that begins to arrive, as [`Self::begin_frame`] checks a frame. One for a
    /// stream that is over may have been on its way when the stream was cancelled.
    ///
    /// # Errors
    /// If the protocol does not allow it. The connection must be closed then.
    pub fn begin_broadcast(
        &mut self,
        kind: FrameKind,
        number: StreamNumber,
        bytes: u64,
    ) -> Result<Disposition, Misbehaviour> {
        let opcode = kind.opcode(number);
        let most = match kind {
            FrameKind::Data => self.config.message_max,
            FrameKind::End => 0,
            FrameKind::Error => 1 + ERROR_MAX,
            _ => return Err(Misbehaviour::Opcode(opcode)),
        };
        if bytes > most {
            return Err(Misbehaviour::Length { opcode, bytes });
        }
        let Ok(stream) = self.open_from_peer(number) else {
            return Ok(Disposition::Discard);
        };
        if kind == FrameKind::Data {
            return stream.begin_message(number, bytes);
        }
        Ok(Disposition::Keep)
    }

    /// Handles a broadcast that has arrived, and that [`Self::begin_broadcast`] has accepted.
    ///
    /// # Errors
    /// As for [`Self::begin_broadcast`].
    pub fn handle_broadcast(
        &mut self,
        kind: FrameKind,
        number: StreamNumber,
        payload: Vec<u8>,
    ) -> Result<(), Misbehaviour> {
        if self.open_from_peer(number).is_err() {
            return Ok(());
        }
        match kind {
            FrameKind::Data => self.handle_message(number, payload),
            FrameKind::Error => self.handle_error(number, &payload),
            _ => self.handle_end(number, Ok(())),
        }
    }
}
