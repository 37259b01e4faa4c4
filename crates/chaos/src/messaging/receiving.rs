//! The program at the receiving end of a channel.

use super::plan::Manners;
use super::sending::ended_by;
use super::shared::Shared;
use rackweave_base::{Duration, Instant, Rng};
use rackweave_endpoint::messaging::{Arrived, Closed, Receiver};
use rackweave_sim::checkers::messages::{ChannelEnd, ChannelName, Ended, SeenPiece};
use rackweave_verbs::Verbs;
use std::rc::Rc;

/// Pieces or messages taken in one step.
const AT_ONCE: u32 = 16;

/// Receives messages on a channel up to the end.
pub(super) struct Hearer {
    pub name: ChannelName,
    pub receiver: Receiver,
    shared: Rc<Shared>,
    rng: Rng,
    manners: Manners,
    /// Whether the current message is copied out.
    copies: bool,
    /// The bytes copied so far.
    target: Vec<u8>,
    /// Whether a piece was looked at and is still to be released.
    holds: bool,
    next_at: Instant,
    pub ended: Option<Ended>,
    /// Pieces and messages taken.
    pub events: u64,
}

impl Hearer {
    pub fn new(
        shared: Rc<Shared>,
        name: ChannelName,
        receiver: Receiver,
        manners: Manners,
        rng: Rng,
    ) -> Self {
        Self {
            name,
            receiver,
            shared,
            rng,
            manners,
            copies: false,
            target: Vec::new(),
            holds: false,
            next_at: Instant::ZERO,
            ended: None,
            events: 0,
        }
    }

    /// When its next step is due even if no event occurs.
    pub fn due(&self, now: Instant) -> Option<Instant> {
        let rests = (self.ended.is_none() && self.next_at > now).then_some(self.next_at);
        rests.into_iter().chain(self.receiver.poll_timeout()).min()
    }

    /// Whether all work is done: the peer has been notified of everything released.
    pub fn is_settled(&self) -> bool {
        let owes = self.receiver.owes() && self.receiver.closed().is_none();
        self.receiver.is_settled() && !owes
    }

    /// Advances all pending work.
    pub fn step(&mut self, now: Instant, nic: &mut dyn Verbs) {
        // A close shows once everything that has arrived is read.
        let _ = self.receiver.poll(now, nic);
        for _ in 0..AT_ONCE {
            if self.ended.is_some() || now < self.next_at {
                break;
            }
            match self.hear(now) {
                Ok(true) => self.events += 1,
                Ok(false) => break,
                Err(closed) => {
                    let mut history = self.shared.history.borrow_mut();
                    history.nothing_left(self.name);
                    drop(history);
                    self.end(ended_by(closed));
                }
            }
        }
        let _ = self.receiver.poll(now, nic);
    }

    pub fn end(&mut self, how: Ended) {
        if self.ended.replace(how).is_none() {
            let mut history = self.shared.history.borrow_mut();
            history.ended(self.name, ChannelEnd::Receiving, how);
        }
    }

    fn saw_finished(&mut self) {
        self.shared.history.borrow_mut().saw_finished(self.name);
        self.end(Ended::Well);
    }

    /// Takes a piece, or what has arrived of a message. False if nothing has.
    fn hear(&mut self, now: Instant) -> Result<bool, Closed> {
        if !self.holds && !self.receiver.is_within_message() && self.target.is_empty() {
            self.copies = self.rng.chance(0.4);
        }
        match self.copies && !self.holds {
            true => self.copy(now),
            false => self.look(now),
        }
    }

    fn look(&mut self, now: Instant) -> Result<bool, Closed> {
        match self.receiver.peek()? {
            Arrived::Empty => return Ok(false),
            Arrived::Finished => {
                self.saw_finished();
                return Ok(true);
            }
            Arrived::Piece(piece) => {
                let bytes = piece.bytes.to_vec();
                let piece = SeenPiece {
                    opcode: piece.opcode,
                    message: piece.message,
                    total: piece.total,
                    offset: piece.offset,
                    bytes: &bytes,
                };
                self.shared.history.borrow_mut().look(self.name, piece);
            }
        }
        if !self.holds && self.rests(now) {
            // It is looked at again before it is released.
            self.holds = true;
            return Ok(true);
        }
        self.receiver.release();
        self.holds = false;
        self.shared.history.borrow_mut().release(self.name);
        Ok(true)
    }

    /// Whether it rests now.
    fn rests(&mut self, now: Instant) -> bool {
        if let Some((after, lasts)) = self.manners.stall
            && self.events >= after
        {
            self.manners.stall = None;
            self.next_at = now + lasts;
            return true;
        }
        let most = self.manners.hold_max.as_nanos();
        if most == 0 || self.rng.chance(0.3) {
            return false;
        }
        self.next_at = now + Duration::from_nanos(1 + self.rng.below(most));
        true
    }

    fn copy(&mut self, now: Instant) -> Result<bool, Closed> {
        let before = self.target.len();
        let received = self.receiver.receive_into(&mut self.target);
        let mut history = self.shared.history.borrow_mut();
        history.copied(self.name, &self.target[before..]);
        let whole = received?;
        if let Some(info) = whole {
            history.copied_whole(self.name, info.opcode, info.message, info.length);
            drop(history);
            self.target.clear();
            self.rests(now);
            return Ok(true);
        }
        drop(history);
        if self.receiver.is_finished() {
            self.saw_finished();
            return Ok(true);
        }
        Ok(false)
    }

    /// Frees its resources.
    pub fn destroy(self, nic: &mut dyn Verbs) {
        self.receiver.destroy(nic);
    }
}
