//! The real directory of one worker: operations in slots, their steps on queue pairs, and the
//! results.
//!
//! Each operation has a slot and waits for one thing at a time: a response, the data after it, the
//! server, or time. A slot's areas in the control region therefore never have two users, and only
//! the id of the one work request in flight has to be matched.

mod events;

use super::parts::ChannelParts;
use super::renewal::Link;
use super::step::{NO_LATCH, Step};
use super::task::{Connection, Fruit, PAUSE_FIRST, Refused, Submitted, Task, Then, Waits, submit};
use super::{Answer, Directory, Op, Reply, Ticket};
use rackweave_base::{Duration, Instant, Qpn, Rkey};
use rackweave_verbs::{Completion, Verbs};
use rackweave_wire::fabric::page::request::{FRAMES_MAX, SLOTS_MAX};
use rackweave_wire::fabric::page::{LatchWord, Request, control};
use std::collections::VecDeque;

/// How often the queue pair to the switch is checked while only data is awaited. Nothing else would
/// show that the switch has failed.
const WATCH: Duration = Duration::from_millis(1);
/// Maximum number of completions polled at once.
const POLLED_MAX: usize = 64;

/// A channel to the page directory.
#[derive(Debug)]
pub struct Channel {
    pub(super) parts: ChannelParts,
    pub(super) slots: Vec<Option<Task>>,
    pub(super) free: Vec<u16>,
    replies: VecDeque<Reply>,
    polled: Vec<Completion>,
    tickets: u32,
    pub(super) posts: u64,
    /// Operations whose data is in flight.
    moving: u32,
    /// Operations that are paused.
    pausing: u32,
    watch: Instant,
    pub(super) switch: Link,
    pub(super) server: Link,
    /// This node has been declared dead.
    pub(super) fenced: bool,
}

impl Channel {
    /// Creates a channel from its parts.
    ///
    /// # Panics
    /// If there are no slots or too many, or the control region is too small for them.
    pub fn new(parts: ChannelParts) -> Self {
        assert!(
            (1..=SLOTS_MAX).contains(&parts.slots),
            "a channel has 1 to {SLOTS_MAX} slots"
        );
        let needs = control::control_bytes(parts.slots, parts.fallback.len() as u16);
        assert!(
            parts.control.len() as u64 >= needs,
            "the control region has fewer than {needs} bytes"
        );
        Self {
            slots: vec![None; usize::from(parts.slots)],
            free: (0..parts.slots).rev().collect(),
            replies: VecDeque::with_capacity(usize::from(parts.slots)),
            polled: Vec::with_capacity(POLLED_MAX),
            tickets: 0,
            posts: 0,
            moving: 0,
            pausing: 0,
            watch: Instant::ZERO,
            switch: Link::new(parts.generation()),
            server: Link::new(parts.server_generation()),
            fenced: false,
            parts,
        }
    }

    /// How often its connections were re-established. Operations then in flight are repeated, and
    /// the release of a latch that the node no longer holds is reported as done: the outcome cannot
    /// be known.
    pub fn renewals(&self) -> u64 {
        let links = [&self.switch, &self.server];
        let connected = links.map(|link| control::connected_of(link.generation));
        connected.map(u64::from).iter().sum()
    }

    /// Whether the connection to the switch has failed and is not yet re-established.
    pub fn is_lost(&self) -> bool {
        self.switch.is_lost
    }

    /// Whether this node was declared dead: every operation ends in [`Answer::Fenced`].
    pub fn is_fenced(&self) -> bool {
        self.fenced
    }

    /// The parts of the channel.
    pub fn parts(&self) -> &ChannelParts {
        &self.parts
    }

    /// Whether every slot is in use for owed work, so that no request can be started.
    fn is_all_owed(&self) -> bool {
        let mut tasks = self.slots.iter().flatten();
        self.free.is_empty() && tasks.all(|task| task.ticket.is_none())
    }

    fn is_sane(&self, op: Op) -> bool {
        match op {
            Op::Fetch { frame, .. } | Op::Unfix { frame, .. } | Op::Evict { frame, .. } => {
                frame < self.parts.frames.min(FRAMES_MAX)
            }
            _ => true,
        }
    }

    /// Advances the operation in a slot until it waits or has ended.
    pub(super) fn go_on(
        &mut self,
        now: Instant,
        verbs: &mut dyn Verbs,
        slot: u16,
        mut task: Task,
        step: Step,
    ) {
        let mut step = step;
        loop {
            step = match step {
                Step::End(answer, latch) => {
                    return self.ended(now, slot, task, (answer, latch.0));
                }
                Step::Pause => {
                    let waits = task.pause(now, Then::Wake, self.pausing);
                    return self.wait(now, slot, task, waits);
                }
                Step::Switch(goal) | Step::Fallback(goal) => {
                    match task.hop(self.parts.node, now, step, goal, self.pausing) {
                        Ok(step) => step,
                        Err(waits) => return self.wait(now, slot, task, waits),
                    }
                }
                Step::Ask { .. } | Step::ReadEntry | Step::Swap { .. } => {
                    match self.post(now, verbs, slot, &task, step) {
                        Ok(waits) => {
                            task.is_posted = true;
                            return self.wait(now, slot, task, waits);
                        }
                        Err(Refused::Full) => {
                            let waits = Waits::Until(now + PAUSE_FIRST, Then::Do(step));
                            return self.wait(now, slot, task, waits);
                        }
                        Err(Refused::Lost(connection)) => {
                            let waits = Waits::Renewal(connection);
                            return self.wait(now, slot, task, waits);
                        }
                        Err(Refused::NoEntry) => Step::End(Answer::Invalid, NO_LATCH),
                        Err(Refused::NotMember) => Step::End(Answer::NotMember, NO_LATCH),
                    }
                }
            }
        }
    }

    pub(super) fn wait(&mut self, now: Instant, slot: u16, mut task: Task, waits: Waits) {
        match waits {
            Waits::Data(..) => {
                if self.moving == 0 {
                    self.watch = now + WATCH;
                }
                self.moving += 1;
            }
            Waits::Until(..) | Waits::Renewal(_) => self.pausing += 1,
            Waits::Response(_) | Waits::Server(..) => {}
        }
        task.waits = waits;
        self.slots[usize::from(slot)] = Some(task);
    }

    /// Takes the operation out of its slot in order to advance it.
    pub(super) fn take(&mut self, slot: u16) -> Option<Task> {
        let task = self.slots.get_mut(usize::from(slot))?.take()?;
        match task.waits {
            Waits::Data(..) => self.moving -= 1,
            Waits::Until(..) | Waits::Renewal(_) => self.pausing -= 1,
            Waits::Response(_) | Waits::Server(..) => {}
        }
        Some(task)
    }

    pub(super) fn reply(&mut self, ticket: Ticket, answer: Answer, latch: u64) {
        self.replies.push_back(Reply {
            ticket,
            answer,
            latch: LatchWord(latch),
        });
    }

    fn post(
        &mut self,
        now: Instant,
        verbs: &mut dyn Verbs,
        slot: u16,
        task: &Task,
        step: Step,
    ) -> Result<Waits, Refused> {
        self.posts += 1;
        let id = self.posts << 16 | u64::from(slot);
        if let Step::Ask {
            operation,
            page,
            argument,
            frame,
        } = step
        {
            if self.switch.is_lost {
                return Err(Refused::Lost(Connection::Switch));
            }
            let request = Request {
                operation,
                page,
                argument,
                slot: slot as u8,
                frame,
            };
            let request = self.parts.ask(id, slot, request);
            return match submit(verbs, self.parts.requests, request) {
                Submitted::Yes => Ok(Waits::Response(id)),
                Submitted::Full => Err(Refused::Full),
                Submitted::Never => {
                    self.switch.lose(now);
                    Err(Refused::Lost(Connection::Switch))
                }
            };
        }
        let (qpn, entry, rkey) = self.entry_of(task)?;
        if self.server.is_lost {
            return Err(Refused::Lost(Connection::Server));
        }
        let (request, fruit) = match step {
            Step::Swap {
                word,
                compare,
                swap,
            } => {
                let request = self
                    .parts
                    .swap(id, slot, (entry, rkey), word, (compare, swap));
                (request, Fruit::Swapped)
            }
            _ => (self.parts.read_entry(id, slot, entry, rkey), Fruit::Entry),
        };
        match submit(verbs, qpn, request) {
            Submitted::Yes => Ok(Waits::Server(id, fruit)),
            Submitted::Full => Err(Refused::Full),
            Submitted::Never => {
                self.server.lose(now);
                Err(Refused::Lost(Connection::Server))
            }
        }
    }

    /// Queue pair, address and key of the entry of a task's page.
    fn entry_of(&self, task: &Task) -> Result<(Qpn, u64, Rkey), Refused> {
        let page = task.goal.page().ok_or(Refused::NoEntry)?;
        let store = page.store();
        let parts = self.parts.fallback.iter().find(|f| f.store == store);
        let parts = parts.ok_or(Refused::NoEntry)?;
        if !parts.is_open() {
            return Err(Refused::NotMember);
        }
        let entry = parts.entry(page).ok_or(Refused::NoEntry)?;
        Ok((parts.qpn, entry, parts.rkey))
    }
}

impl Directory for Channel {
    fn capacity(&self) -> usize {
        let free = match self.is_all_owed() {
            true => 1,
            false => self.free.len(),
        };
        free.saturating_sub(self.replies.len())
    }

    fn begin(&mut self, now: Instant, verbs: &mut dyn Verbs, op: Op) -> Option<Ticket> {
        if self.capacity() == 0 {
            return None;
        }
        self.tickets = self.tickets.wrapping_add(1);
        let ticket = Ticket(self.tickets);
        let Some(slot) = self.free.pop() else {
            // The peer does not respond, possibly for long.
            self.reply(ticket, Answer::Gone, NO_LATCH.0);
            return Some(ticket);
        };
        if !self.is_sane(op) || self.fenced {
            let answer = match self.fenced {
                true => Answer::Fenced,
                false => Answer::Invalid,
            };
            self.free.push(slot);
            self.reply(ticket, answer, NO_LATCH.0);
            return Some(ticket);
        }
        let (task, step) = Task::new(now, ticket, op, self.parts.frames);
        self.start(now, verbs, slot, task, step);
        Some(ticket)
    }

    fn poll(&mut self, now: Instant, verbs: &mut dyn Verbs) -> Option<Reply> {
        if let Some(reply) = self.replies.pop_front() {
            return Some(reply);
        }
        self.mind_connections(now, verbs);
        let mut polled = core::mem::take(&mut self.polled);
        verbs.poll_cq(self.parts.cq, POLLED_MAX, &mut polled);
        for completion in polled.drain(..) {
            self.completed(now, verbs, completion);
        }
        self.polled = polled;
        self.watch(now, verbs);
        if self.moving > 0 || self.pausing > 0 || self.switch.is_lost || self.server.is_lost {
            self.look(now, verbs);
        }
        self.replies.pop_front()
    }

    fn beginnings(&self) -> u64 {
        control::directory_of(self.switch.generation)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        if !self.replies.is_empty() {
            return Some(Instant::ZERO);
        }
        let pauses = match self.pausing {
            0 => None,
            _ => self.slots.iter().flatten().filter_map(Task::due).min(),
        };
        let watch = (self.moving > 0).then_some(self.watch);
        let pleas = [self.switch.due(), self.server.due()];
        let all = [pauses, watch].into_iter().chain(pleas);
        all.flatten().min()
    }
}
