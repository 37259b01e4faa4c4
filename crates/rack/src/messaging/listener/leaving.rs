//! Dialers that a listener has refused: each is sent the reason before its stream is closed.

use super::Listener;
use crate::messaging::PENDING_MAX;
use crate::messaging::stream::{Came, Stream};
use core::time::Duration;
use rackweave_base::Instant;
use rackweave_endpoint::messaging::handshake::{Handshake, RefusalCode};

/// Maximum streams with a last message in flight.
const LEAVING_MAX: usize = 64;

/// How long a stream is kept open for its last message to arrive: if it were closed before the
/// peer's bytes are read, the system would discard the message.
const LAST_WORD: Duration = Duration::from_millis(500);

/// A stream with a last message in flight.
pub(super) struct Leaving {
    pub(super) stream: Stream,
    until: Instant,
    /// The message has been sent, and the peer knows that nothing follows.
    finished: bool,
}

impl Listener {
    pub(super) fn turn_away(&mut self, stream: Stream, mut greeter: Handshake, now: Instant) {
        self.counters.busy += 1;
        self.counters.count_code(RefusalCode::Busy);
        let why = format!("{PENDING_MAX} are about to connect already");
        greeter.refuse(RefusalCode::Busy, &why);
        self.leave(stream, &mut greeter, now);
    }

    /// Keeps a stream that is finished except for its last message.
    pub(super) fn leave(&mut self, mut stream: Stream, greeter: &mut Handshake, now: Instant) {
        if let Some(bytes) = greeter.poll_send() {
            stream.send(&bytes);
        }
        let mut leaving = Leaving {
            stream,
            until: now + LAST_WORD.into(),
            finished: false,
        };
        if !leaving.is_gone(now) && self.leaving.len() < LEAVING_MAX {
            self.leaving.push(leaving);
        }
    }
}

impl Leaving {
    /// Whether the last message has arrived, or never will.
    pub(super) fn is_gone(&mut self, now: Instant) -> bool {
        if now >= self.until || self.stream.is_broken() {
            return true;
        }
        if !self.finished && self.stream.flush() {
            self.stream.finish();
            self.finished = true;
        }
        matches!(self.stream.receive(), Came::End)
    }
}
