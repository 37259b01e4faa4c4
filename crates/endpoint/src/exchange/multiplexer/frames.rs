//! Frames from and to the peer.

use super::super::direction::{CREDIT_MAX, Ending, Path};
use super::{Budget, Disposition, Frame, Misbehaviour, Multiplexer, Stream, StreamError};
use rackweave_wire::fabric::exchange::{
    CREDIT_LEN, ErrorCode, FrameKind, StreamNumber, split_credit,
};

/// The longest text of an error in bytes.
pub(super) const ERROR_MAX: u64 = 1 << 20;

impl Multiplexer {
    /// The next frame to send. Streams take turns.
    pub fn poll_frame(&mut self) -> Option<Frame> {
        while let Some(number) = self.ready.pop_front() {
            let Some(stream) = self.streams.get_mut(&number) else {
                continue;
            };
            stream.is_ready = false;
            let frame = stream.next_frame();
            self.mark(number);
            self.remove_if_over(number);
            if let Some((kind, payload)) = frame {
                let opcode = kind.opcode(number);
                return Some(Frame { opcode, payload });
            }
        }
        None
    }

    /// Checks a frame of `bytes` bytes that begins to arrive, before memory is allocated for it.
    ///
    /// # Errors
    /// If the protocol does not allow it. The connection must be closed then.
    pub fn begin_frame(&mut self, opcode: u32, bytes: u64) -> Result<Disposition, Misbehaviour> {
        let (kind, number) = FrameKind::of_opcode(opcode).ok_or(Misbehaviour::Opcode(opcode))?;
        let (least, most) = match kind {
            FrameKind::Hello | FrameKind::Join | FrameKind::Joined => {
                return Err(Misbehaviour::Opcode(opcode));
            }
            FrameKind::Open if self.dialed => return Err(Misbehaviour::Opcode(opcode)),
            FrameKind::Open => (
                CREDIT_LEN as u64,
                CREDIT_LEN as u64 + self.config.request_max,
            ),
            FrameKind::Data => (0, self.config.message_max),
            FrameKind::Credit => (CREDIT_LEN as u64, CREDIT_LEN as u64),
            FrameKind::End | FrameKind::Cancel => (0, 0),
            FrameKind::Error => (1, 1 + ERROR_MAX),
        };
        if !(least..=most).contains(&bytes) {
            return Err(Misbehaviour::Length { opcode, bytes });
        }
        match kind {
            FrameKind::Open if self.streams.contains_key(&number) => {
                return Err(Misbehaviour::OpenedTwice(number));
            }
            FrameKind::Open if self.is_full() => {
                return Err(Misbehaviour::TooMany(self.config.streams_max));
            }
            FrameKind::Data => {
                let stream = self.open_from_peer(number)?;
                return stream.begin_message(number, bytes);
            }
            _ => {}
        }
        Ok(Disposition::Keep)
    }

    /// Whether the peer may open no more streams. Those whose ends it has seen do not count, even
    /// if this node's program still holds them.
    fn is_full(&self) -> bool {
        let max = self.config.streams_max;
        let is_open = |stream: &&Stream| !stream.has_ended();
        self.streams.len() >= max && self.streams.values().filter(is_open).count() >= max
    }

    /// A stream whose direction from the peer has not ended.
    pub(super) fn open_from_peer(
        &mut self,
        number: StreamNumber,
    ) -> Result<&mut Stream, Misbehaviour> {
        let stream = self.streams.get_mut(&number);
        let stream = stream.filter(|stream| stream.receiving.end.is_none());
        stream.ok_or(Misbehaviour::NotOpen(number))
    }

    /// Handles a frame that has arrived, and that [`Self::begin_frame`] has accepted. The messages
    /// of a stream that it opens count against `budget`.
    ///
    /// # Errors
    /// As for [`Self::begin_frame`].
    pub fn handle_frame(
        &mut self,
        opcode: u32,
        payload: Vec<u8>,
        budget: &Budget,
    ) -> Result<(), Misbehaviour> {
        let (kind, number) = FrameKind::of_opcode(opcode).ok_or(Misbehaviour::Opcode(opcode))?;
        let bytes = payload.len() as u64;
        let length = Misbehaviour::Length { opcode, bytes };
        match kind {
            FrameKind::Hello | FrameKind::Join | FrameKind::Joined => {
                return Err(Misbehaviour::Opcode(opcode));
            }
            FrameKind::Open => {
                let (credit, request) = split_credit(&payload).ok_or(length)?;
                let request = request.to_vec();
                self.add(number, None, budget);
                // Nothing is granted before somebody accepts the stream.
                let stream = self.stream(number);
                stream.receiving.owes_credit = false;
                stream.sending.credit = credit.into();
                self.incoming.push_back((number, request));
            }
            FrameKind::Data => self.handle_message(number, payload)?,
            FrameKind::Credit => {
                let (credit, _) = split_credit(&payload).ok_or(length)?;
                self.handle_credit(number, credit)?;
            }
            FrameKind::Cancel => self.handle_cancel(number),
            FrameKind::End => self.handle_end(number, Ok(()))?,
            FrameKind::Error => self.handle_error(number, &payload)?,
        }
        Ok(())
    }

    pub(super) fn handle_message(
        &mut self,
        number: StreamNumber,
        message: Vec<u8>,
    ) -> Result<(), Misbehaviour> {
        let waker = self.open_from_peer(number)?.receiving.add(message);
        self.wakes.extend(waker);
        Ok(())
    }

    pub(super) fn handle_error(
        &mut self,
        number: StreamNumber,
        payload: &[u8],
    ) -> Result<(), Misbehaviour> {
        let (&code, text) = payload.split_first().ok_or(Misbehaviour::ErrorCode(0))?;
        let known = ErrorCode::from_code(code).ok_or(Misbehaviour::ErrorCode(code))?;
        // Its end may have been among the broadcasts that were delivered.
        if known == ErrorCode::BroadcastLost && self.open_from_peer(number).is_err() {
            return Ok(());
        }
        let error = StreamError::from_wire(known, text.to_vec(), &self.peer);
        self.handle_end(number, Err(error))
    }

    fn handle_credit(&mut self, number: StreamNumber, credit: u32) -> Result<(), Misbehaviour> {
        // It may cross the end.
        let Some(stream) = self.streams.get_mut(&number) else {
            return Ok(());
        };
        stream.sending.credit += i64::from(credit);
        if stream.sending.credit > CREDIT_MAX {
            return Err(Misbehaviour::TooMuchCredit(number));
        }
        self.wakes.extend(stream.sending.waker.take());
        Ok(())
    }

    fn handle_cancel(&mut self, number: StreamNumber) {
        let peer = self.peer.clone();
        if let Some(stream) = self.streams.get_mut(&number) {
            let waker = stream.sending.stop(StreamError::Cancelled { peer });
            // Nobody waits for the order any more, unless the end is on its way as a broadcast.
            if stream.has_sender || stream.sending.path != Path::Broadcast {
                stream.sending.path = Path::Connection;
            }
            stream.sending.ending.get_or_insert(Ending::Finished);
            self.wakes.extend(waker);
            self.mark(number);
        }
    }

    pub(super) fn handle_end(
        &mut self,
        number: StreamNumber,
        end: Result<(), StreamError>,
    ) -> Result<(), Misbehaviour> {
        let waker = self.open_from_peer(number)?.receiving.finish(end);
        self.wakes.extend(waker);
        self.remove_if_over(number);
        Ok(())
    }

    /// Refuses a stream that the peer has opened: this node accepts none.
    pub fn refuse(&mut self, number: StreamNumber) {
        self.end_sending(number, Ending::Error(ErrorCode::NotAccepted, Vec::new()));
        self.drop_receiver(number);
    }
}
