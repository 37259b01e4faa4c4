//! The two directions of a stream, as this node sees them.

use super::budget::Budget;
use super::error::StreamError;
use core::task::Waker;
use rackweave_wire::fabric::exchange::ErrorCode;
use std::collections::VecDeque;

/// The maximum credit of a direction: a peer that grants more does not count its bytes.
pub(super) const CREDIT_MAX: i64 = 1 << 40;

/// How a direction ends.
#[derive(Debug)]
pub(super) enum Ending {
    Finished,
    Error(ErrorCode, Vec<u8>),
}

/// How the frames of a direction get to the peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Path {
    /// Over the connection.
    #[default]
    Connection,
    /// As broadcasts, which others send.
    Broadcast,
    /// Over the connection, as soon as the broadcasts before have been delivered.
    Paused,
}

/// The direction towards the peer.
#[derive(Debug, Default)]
pub(super) struct Sending {
    pub path: Path,
    /// Whether a message was accepted.
    pub has_sent: bool,
    pub queue: VecDeque<Vec<u8>>,
    /// Bytes that may be sent. One message may exceed it.
    pub credit: i64,
    /// Set when nothing is added to the queue any more.
    pub ending: Option<Ending>,
    /// Whether the peer has been sent the end.
    pub is_over: bool,
    /// Why messages are no longer accepted, if not because of `ending`.
    pub stopped: Option<StreamError>,
    pub waker: Option<Waker>,
}

impl Sending {
    /// Stops it: the peer wants no more, or is gone.
    pub fn stop(&mut self, why: StreamError) -> Option<Waker> {
        self.queue.clear();
        self.stopped.get_or_insert(why);
        self.waker.take()
    }

    /// Bytes of the messages in the queue.
    pub fn bytes(&self) -> u64 {
        bytes_of(&self.queue)
    }

    /// Whether a frame can be sent.
    pub fn is_ready(&self) -> bool {
        !self.is_over
            && self.path == Path::Connection
            && (!self.queue.is_empty() || self.ending.is_some())
    }
}

/// The direction from the peer.
#[derive(Debug)]
pub(super) struct Receiving {
    pub queue: VecDeque<Vec<u8>>,
    /// Bytes that may be in flight and in the queue.
    window: u32,
    /// Bytes that the peer may still send; below zero if the last message exceeded it.
    outstanding: i64,
    /// Bytes that may be granted in addition.
    to_grant: u64,
    /// Bytes of the message that is arriving, if it counts against the budget.
    arriving: u64,
    /// Whether `to_grant` is to be granted with the next frame.
    pub owes_credit: bool,
    /// How it ended.
    pub end: Option<Result<(), StreamError>>,
    /// Whether there is still somebody who takes messages.
    pub is_wanted: bool,
    pub owes_cancel: bool,
    pub waker: Option<Waker>,
    budget: Budget,
}

impl Receiving {
    /// A direction with `window` bytes of credit to be granted.
    pub fn new(window: u32, budget: Budget) -> Self {
        budget.hold(window);
        Self {
            queue: VecDeque::new(),
            window,
            outstanding: 0,
            to_grant: window.into(),
            arriving: 0,
            owes_credit: true,
            end: None,
            is_wanted: true,
            owes_cancel: false,
            waker: None,
            budget,
        }
    }

    /// Bytes of the messages in the queue, and of the one that is arriving.
    pub fn bytes(&self) -> u64 {
        bytes_of(&self.queue) + self.arriving
    }

    /// Whether a frame can be sent.
    pub fn is_ready(&self) -> bool {
        self.end.is_none() && (self.owes_credit && self.is_wanted || self.owes_cancel)
    }

    /// The credit for the peer, which counts as granted.
    pub fn grant(&mut self) -> u32 {
        self.owes_credit = false;
        let credit = u32::try_from(self.to_grant).unwrap_or(u32::MAX);
        self.to_grant -= u64::from(credit);
        self.outstanding += i64::from(credit);
        credit
    }

    /// Begins to receive a message. False: without credit.
    pub fn begin(&mut self, bytes: u64) -> bool {
        if self.outstanding <= 0 {
            return false;
        }
        self.outstanding -= bytes as i64;
        if self.is_wanted {
            self.budget.add(bytes);
            self.arriving = bytes;
        }
        true
    }

    /// Adds a message that was begun.
    pub fn add(&mut self, message: Vec<u8>) -> Option<Waker> {
        self.arriving = 0;
        if self.is_wanted {
            self.queue.push_back(message);
        }
        self.waker.take()
    }

    /// Takes the oldest message. A consumer that keeps up with a sender that has used all its
    /// credit gets a larger window.
    pub fn take(&mut self, window_max: u32) -> Option<Vec<u8>> {
        let message = self.queue.pop_front()?;
        let bytes = message.len() as u64;
        self.budget.remove(bytes);
        self.to_grant += bytes;
        if self.end.is_none() {
            let more = self.window.min(window_max.saturating_sub(self.window));
            let waits = self.queue.is_empty() && self.outstanding <= 0;
            if waits && more > 0 && self.budget.try_hold(more) {
                self.window += more;
                self.to_grant += u64::from(more);
            }
            self.owes_credit = self.outstanding <= 0 || self.to_grant * 2 >= self.window.into();
        }
        Some(message)
    }

    /// Ends it: nothing more arrives.
    pub fn finish(&mut self, end: Result<(), StreamError>) -> Option<Waker> {
        if self.end.is_none() {
            self.end = Some(end);
            self.budget.release(core::mem::take(&mut self.window));
        }
        self.waker.take()
    }

    /// Nobody takes messages any more.
    pub fn give_up(&mut self) {
        self.is_wanted = false;
        self.owes_cancel = self.end.is_none();
        self.clear();
    }

    fn clear(&mut self) {
        let queued = self.queue.drain(..).map(|message| message.len() as u64);
        let bytes = queued.sum::<u64>() + core::mem::take(&mut self.arriving);
        self.budget.remove(bytes);
    }
}

fn bytes_of(queue: &VecDeque<Vec<u8>>) -> u64 {
    queue.iter().map(|message| message.len() as u64).sum()
}

impl Drop for Receiving {
    fn drop(&mut self) {
        self.budget.release(self.window);
        self.clear();
    }
}
