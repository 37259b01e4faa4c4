//! The common part of both machines: bytes received, bytes to send, the deadline.

use super::{HandshakeError, Kind};
use crate::messaging::Role;
use rackweave_base::{Duration, Instant};
use rackweave_wire::fabric::message::handshake::{
    FirstBytes, MESSAGE_MAX, Message, MessageError, Refusal, RefusalCode,
};

/// One side of the dialogue.
pub(super) struct Talk {
    peer: Role,
    /// Received bytes of the message that is due.
    came: Vec<u8>,
    /// More bytes have arrived than are kept.
    overflow: bool,
    ended: bool,
    send: Vec<u8>,
    deadline: Instant,
    patience: Duration,
    over: bool,
}

impl Talk {
    /// A dialogue with a node of this role, from now to the deadline.
    pub fn new(peer: Role, now: Instant, deadline: Instant) -> Self {
        Self {
            peer,
            came: Vec::new(),
            overflow: false,
            ended: false,
            send: Vec::new(),
            deadline,
            patience: deadline.since(now),
            over: false,
        }
    }

    pub fn handle_bytes(&mut self, now: Instant, bytes: &[u8]) {
        // Bytes that arrive too late are ignored.
        if self.over || now >= self.deadline {
            return;
        }
        let free = MESSAGE_MAX - self.came.len();
        self.came.extend_from_slice(&bytes[..bytes.len().min(free)]);
        self.overflow |= bytes.len() > free;
    }

    pub fn handle_end(&mut self, now: Instant) {
        self.ended |= now < self.deadline;
    }

    pub fn send(&mut self, message: &Message) {
        self.send.extend_from_slice(&message.emit());
    }

    pub fn poll_send(&mut self) -> Option<Vec<u8>> {
        (!self.send.is_empty()).then(|| core::mem::take(&mut self.send))
    }

    pub fn poll_timeout(&self) -> Option<Instant> {
        (!self.over).then_some(self.deadline)
    }

    pub fn is_over(&self) -> bool {
        self.over
    }

    /// The next message, which must be a `due`; `None` if it has not arrived yet.
    ///
    /// # Errors
    /// If it will not arrive: the time is over, the stream has ended, or another message has
    /// arrived.
    pub fn take(&mut self, now: Instant, due: Kind) -> Result<Option<Message>, HandshakeError> {
        let peer = self.peer;
        if now >= self.deadline {
            let after = self.patience;
            return Err(HandshakeError::TimedOut { peer, due, after });
        }
        let taken = Message::take(&self.came);
        match taken.map_err(|cause| HandshakeError::NoMessage { peer, cause })? {
            Some((message, len)) if len == self.came.len() && !self.overflow => {
                self.came.clear();
                match message {
                    Message::Refuse { refusal, .. } => {
                        Err(HandshakeError::Refused { by: peer, refusal })
                    }
                    message if message.kind() == due => Ok(Some(message)),
                    message => Err(HandshakeError::OutOfOrder {
                        peer,
                        found: message.kind(),
                        due,
                    }),
                }
            }
            Some((message, len)) => Err(HandshakeError::TooMuch {
                peer,
                after: message.kind(),
                first: FirstBytes::of(&self.came[len..]),
            }),
            None if self.ended => Err(HandshakeError::Ended {
                peer,
                due,
                came: self.came.len(),
            }),
            None => Ok(None),
        }
    }

    /// The dialogue has succeeded.
    pub fn finish(&mut self) {
        self.over = true;
        self.came = Vec::new();
    }

    /// The dialogue has failed. The reason is sent to the peer if that is useful.
    pub fn fail(&mut self, error: &HandshakeError) {
        if !self.over && self.tells(error) {
            let refusal = Refusal::new(error.code(), &error.message_to_peer());
            self.send(&Message::refuse(refusal));
        }
        self.finish();
    }

    /// This node refuses to continue. Messages that are not sent yet are discarded.
    pub fn refuse(&mut self, code: RefusalCode, why: &str) {
        if !self.over {
            self.send.clear();
            self.send(&Message::refuse(Refusal::new(code, why)));
        }
        self.finish();
    }

    /// Whether the reason of the failure is sent to the peer.
    fn tells(&self, error: &HandshakeError) -> bool {
        match error {
            HandshakeError::Refused { .. } | HandshakeError::Ended { .. } => false,
            // A client of another protocol gets an answer in ours, which a person may read. A
            // server does not: it would take it for a request.
            HandshakeError::NoMessage {
                cause: MessageError::Foreign(_),
                ..
            } => self.peer == Role::Compute,
            _ => true,
        }
    }
}
