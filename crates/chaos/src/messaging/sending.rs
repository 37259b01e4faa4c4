//! The program at the sending end of a channel.

use super::plan::Manners;
use super::shared::Shared;
use rackweave_base::{Duration, Instant, Rng};
use rackweave_endpoint::messaging::{Closed, ClosedBy, SendError, Sender};
use rackweave_sim::checkers::messages::{ChannelEnd, ChannelName, Ended, fill_message};
use rackweave_verbs::{Access, Region, Verbs};
use std::rc::Rc;

/// How an end ended that finds its connection closed.
pub(super) fn ended_by(closed: Closed) -> Ended {
    match closed.by {
        ClosedBy::Local => Ended::ClosedHere(closed.reason as u16),
        ClosedBy::Peer => Ended::ClosedThere(closed.reason as u16),
        ClosedBy::Transport => Ended::Broken,
    }
}

/// How a message is passed to the sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Style {
    InPlace,
    Copied,
    /// From a region of its own.
    Lent,
    /// In one call, if it fits into a piece.
    Whole,
}

/// A message that is being written.
struct Current {
    number: u32,
    total: u64,
    written: u64,
    style: Style,
}

/// Sends messages on a channel, and then marks its end.
pub(super) struct Talker {
    pub name: ChannelName,
    pub sender: Sender,
    shared: Rc<Shared>,
    rng: Rng,
    manners: Manners,
    left: u32,
    bytes_left: u64,
    current: Option<Current>,
    /// A message that did not fit into one piece: opcode and length.
    refused: Option<(u32, u64)>,
    next_at: Instant,
    finished: bool,
    /// The regions it has lent, until all messages have arrived.
    lent: Vec<Region>,
    reported: bool,
    pub ended: Option<Ended>,
    /// Messages begun.
    pub events: u64,
    /// False for a rogue: it does not finish.
    pub finishes: bool,
}

impl Talker {
    pub fn new(
        shared: Rc<Shared>,
        name: ChannelName,
        sender: Sender,
        manners: Manners,
        rng: Rng,
    ) -> Self {
        Self {
            name,
            sender,
            shared,
            rng,
            left: manners.messages,
            bytes_left: manners.bytes,
            manners,
            current: None,
            refused: None,
            next_at: Instant::ZERO,
            finished: false,
            lent: Vec::new(),
            reported: true,
            ended: None,
            events: 0,
            finishes: true,
        }
    }

    /// Whether it has sent all messages, and knows that all were consumed.
    pub fn is_quiet(&self) -> bool {
        self.left == 0 && self.current.is_none() && self.sender.is_consumed()
    }

    /// When its next step is due even if no event occurs.
    pub fn due(&self, now: Instant) -> Option<Instant> {
        let rests = (self.ended.is_none() && self.next_at > now).then_some(self.next_at);
        rests.into_iter().chain(self.sender.poll_timeout()).min()
    }

    /// Advances all pending work.
    pub fn step(&mut self, now: Instant, nic: &mut dyn Verbs) {
        let polled = self.sender.poll(now, nic);
        if self.ended.is_some() {
            return;
        }
        if let Err(closed) = polled {
            return self.end_closed(closed);
        }
        match self.talk(now, nic) {
            Ok(()) => {}
            Err(SendError::Closed(closed)) => return self.end_closed(closed),
            Err(error) => {
                let name = self.name;
                self.shared
                    .wrong
                    .push(format!("{name} at {now:?}: {error}"));
                self.left = 0;
            }
        }
        match self.sender.poll(now, nic) {
            Ok(_) => self.note(nic),
            Err(closed) => self.end_closed(closed),
        }
    }

    fn end_closed(&mut self, closed: Closed) {
        // The peer may have closed it because all work is done.
        if self.finished && self.sender.is_consumed() {
            return self.end(Ended::Well);
        }
        self.end(ended_by(closed));
    }

    pub fn end(&mut self, how: Ended) {
        if self.ended.replace(how).is_none() {
            let mut history = self.shared.history.borrow_mut();
            if how == Ended::Well {
                history.consumed(self.name);
            }
            history.ended(self.name, ChannelEnd::Sending, how);
        }
    }

    /// Records which messages have arrived and been consumed.
    fn note(&mut self, nic: &mut dyn Verbs) {
        if self.sender.is_delivered() {
            for region in self.lent.drain(..) {
                nic.deregister(&region);
            }
            if !self.reported {
                self.shared.history.borrow_mut().arrived(self.name);
            }
        }
        if self.sender.is_consumed() {
            if self.finished {
                return self.end(Ended::Well);
            }
            if !self.reported {
                self.shared.history.borrow_mut().consumed(self.name);
                self.reported = true;
            }
        }
    }

    fn talk(&mut self, now: Instant, nic: &mut dyn Verbs) -> Result<(), SendError> {
        while now >= self.next_at {
            if self.current.is_some() {
                if !self.go_on(now) {
                    return Ok(());
                }
            } else if self.left > 0 {
                if !self.begin(now, nic)? {
                    return Ok(());
                }
            } else {
                if self.finishes && !self.finished {
                    self.sender.finish()?;
                    self.finished = true;
                    self.reported = false;
                    let mut history = self.shared.history.borrow_mut();
                    history.finish_channel(self.name);
                }
                return Ok(());
            }
        }
        Ok(())
    }

    /// The length of a message: often at a limit.
    fn length(&mut self) -> u64 {
        let piece = self.sender.piece_max() as u64;
        let most = self.sender.message_max();
        let rng = &mut self.rng;
        let length = match rng.below(10) {
            0 => rng.below(3),
            1 => piece - 1,
            2 => piece,
            3 => piece + 1,
            4 => most,
            5 => most - 1,
            6 => piece * rng.between(1, 5) + rng.below(3),
            7 => rng.below(piece * 4),
            _ => rng.below(300),
        };
        length.min(most).min(self.bytes_left)
    }

    /// Begins a message. False if no buffer is free for it.
    fn begin(&mut self, now: Instant, nic: &mut dyn Verbs) -> Result<bool, SendError> {
        let (opcode, total) = match self.refused.take() {
            Some(message) => message,
            None => (self.rng.next_u32(), self.length()),
        };
        let most = self.sender.message_max();
        if self.rng.chance(0.02) {
            let too_long = self.sender.begin(opcode, most + 1);
            if !matches!(
                too_long,
                Err(SendError::TooLong { .. } | SendError::Closed(_))
            ) {
                let name = self.name;
                self.shared
                    .wrong
                    .push(format!("{name}: {too_long:?} beyond the limit"));
            }
        }
        let styles = [Style::InPlace, Style::Copied, Style::Lent, Style::Whole];
        let mut style = *self.rng.pick(&styles);
        if style == Style::Whole && !self.sender.has_room() {
            self.refused = Some((opcode, total));
            return Ok(false);
        }
        if style == Style::Whole {
            let mut bytes = vec![0; total as usize];
            let number = self.shared.history.borrow().begun(self.name);
            fill_message(&mut bytes, self.shared.plan.seed, self.name, number, 0);
            match self.sender.try_send(opcode, &bytes) {
                Ok(true) => {
                    let mut history = self.shared.history.borrow_mut();
                    history.begin(self.name, opcode, total);
                    history.wrote(self.name, total);
                    drop(history);
                    self.after_message(now, total);
                    return Ok(true);
                }
                Ok(false) => {
                    self.refused = Some((opcode, total));
                    return Ok(false);
                }
                Err(SendError::NotInOnePiece { .. }) => style = Style::Copied,
                Err(error) => return Err(error),
            }
        }
        self.sender.begin(opcode, total)?;
        self.reported = false;
        let number = self
            .shared
            .history
            .borrow_mut()
            .begin(self.name, opcode, total);
        if style == Style::Lent && !self.lend(number, total, nic) {
            style = Style::Copied;
        }
        self.current = Some(Current {
            number,
            total,
            written: 0,
            style,
        });
        Ok(true)
    }

    /// Creates a region with the bytes of a message. False if it cannot be created.
    fn lend(&mut self, number: u32, total: u64, nic: &mut dyn Verbs) -> bool {
        if total == 0 {
            return false;
        }
        let Ok(block) = self.shared.memory.allocate(total as usize) else {
            return false;
        };
        let mut bytes = vec![0; total as usize];
        fill_message(&mut bytes, self.shared.plan.seed, self.name, number, 0);
        block.write(0, &bytes);
        match nic.register(self.sender.pd(), block, Access::empty()) {
            Ok(region) => {
                self.lent.push(region);
                true
            }
            Err(_) => false,
        }
    }

    /// Writes more of the current message. False if no more fits.
    fn go_on(&mut self, now: Instant) -> bool {
        let Some(current) = &mut self.current else {
            return false;
        };
        let (number, seed, name) = (current.number, self.shared.plan.seed, self.name);
        let left = current.total - current.written;
        let wanted = match self.rng.chance(0.6) {
            true => left,
            false => self.rng.between(left.min(1), left),
        };
        let mut wrote = 0;
        match current.style {
            Style::InPlace => {
                let mut space = self.sender.space();
                let len = space.len().min(wanted as usize);
                let mut bytes = vec![0; len];
                fill_message(&mut bytes, seed, name, number, current.written);
                space.write(0, &bytes);
                self.sender.commit(len);
                wrote = len as u64;
            }
            Style::Copied | Style::Whole => {
                // A little more than fits.
                let bytes_max = 3 * self.sender.piece_max() * usize::from(self.sender.has_room());
                let mut bytes = vec![0; bytes_max.min(wanted as usize)];
                fill_message(&mut bytes, seed, name, number, current.written);
                wrote = self.sender.write(&bytes) as u64;
            }
            Style::Lent => {
                if let Some(region) = self.lent.last() {
                    wrote = self.sender.write_region(region, current.written, wanted);
                }
            }
        }
        current.written += wrote;
        let (done, total) = (current.written == current.total, current.total);
        self.shared.history.borrow_mut().wrote(name, wrote);
        if done && !self.sender.is_writing() {
            self.current = None;
            self.after_message(now, total);
            return true;
        }
        // An empty message waits for a free buffer, too.
        wrote > 0
    }

    fn after_message(&mut self, now: Instant, total: u64) {
        self.reported = false;
        self.left -= 1;
        self.bytes_left -= total.min(self.bytes_left);
        self.events += 1;
        if self.rng.chance(0.4) {
            self.sender.flush();
        }
        if self.rng.chance(0.5) {
            let rests = 1 + self.rng.below(self.manners.pause_max.as_nanos());
            self.next_at = self.next_at.max(now) + Duration::from_nanos(rests);
        }
    }

    /// Frees its resources.
    pub fn destroy(self, nic: &mut dyn Verbs) {
        self.sender.destroy(nic);
        for region in &self.lent {
            nic.deregister(region);
        }
    }
}
