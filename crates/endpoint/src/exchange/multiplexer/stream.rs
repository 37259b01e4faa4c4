//! A stream, and the frames that it has to send.

use super::super::direction::{Ending, Receiving, Sending};
use super::super::error::{Misbehaviour, StreamError};
use super::Disposition;
use core::task::Waker;
use rackweave_wire::fabric::exchange::{FrameKind, StreamNumber};

#[derive(Debug)]
pub(super) struct Stream {
    /// The request, until it has been sent.
    pub request: Option<Vec<u8>>,
    pub sending: Sending,
    pub receiving: Receiving,
    pub is_ready: bool,
    pub has_sender: bool,
    pub has_receiver: bool,
}

impl Stream {
    pub fn new(request: Option<Vec<u8>>, receiving: Receiving) -> Self {
        Self {
            request,
            sending: Sending::default(),
            receiving,
            is_ready: false,
            has_sender: true,
            has_receiver: true,
        }
    }

    /// Ends both directions: the connection is gone. Returns the tasks to be woken.
    pub fn end(&mut self, why: &StreamError) -> [Option<Waker>; 2] {
        self.request = None;
        self.sending.is_over = true;
        let sender = self.sending.stop(why.clone());
        [sender, self.receiving.finish(Err(why.clone()))]
    }

    /// Begins to receive a message.
    pub fn begin_message(
        &mut self,
        number: StreamNumber,
        bytes: u64,
    ) -> Result<Disposition, Misbehaviour> {
        match self.receiving.begin(bytes) {
            false => Err(Misbehaviour::NoCredit(number)),
            true if self.receiving.is_wanted => Ok(Disposition::Keep),
            true => Ok(Disposition::Discard),
        }
    }

    pub fn has_frame(&self) -> bool {
        self.request.is_some() || self.receiving.is_ready() || self.sending.is_ready()
    }

    pub fn is_over(&self) -> bool {
        let held = self.has_sender || self.has_receiver;
        !held && self.has_ended()
    }

    /// Whether both directions have ended.
    pub fn has_ended(&self) -> bool {
        self.sending.is_over && self.receiving.end.is_some()
    }

    /// The next frame: credit and cancellation first, so that they wait for no data.
    pub fn next_frame(&mut self) -> Option<(FrameKind, Vec<u8>)> {
        if let Some(request) = self.request.take() {
            let credit = self.receiving.grant();
            let payload = [&credit.to_le_bytes()[..], &request].concat();
            return Some((FrameKind::Open, payload));
        }
        if self.receiving.is_ready() {
            if core::mem::take(&mut self.receiving.owes_cancel) {
                return Some((FrameKind::Cancel, Vec::new()));
            }
            let credit = self.receiving.grant();
            return Some((FrameKind::Credit, credit.to_le_bytes().to_vec()));
        }
        if !self.sending.is_ready() {
            return None;
        }
        if let Some(message) = self.sending.queue.pop_front() {
            return Some((FrameKind::Data, message));
        }
        let ending = self.sending.ending.as_mut()?;
        self.sending.is_over = true;
        Some(match core::mem::replace(ending, Ending::Finished) {
            Ending::Finished => (FrameKind::End, Vec::new()),
            Ending::Error(code, text) => (FrameKind::Error, [&[code as u8][..], &text].concat()),
        })
    }
}
