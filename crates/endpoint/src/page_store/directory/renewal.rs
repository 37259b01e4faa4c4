//! Connections that fail and are re-established.
//!
//! A queue pair that has given up on its peer never works again. The channel then writes a plea
//! into its control region, and operations that need the connection wait. The controller aborts the
//! channel's transfers, reconnects it and increments its generation; the operations then start
//! again. Nearly all of them may be repeated: a node that has a latch keeps it when it asks again,
//! and a release of a latch that the node held before but no longer holds has already been done.
//! What a node has found out about a page in doubt is reported only to the directory that asked:
//! such operations end.
//!
//! An operation that ends meanwhile, because its time is up, may have taken a latch that no caller
//! will release. Its slot stays in use until the latch is released, and the node requests nothing
//! else for the page before.

use super::channel::Channel;
use super::step::NO_LATCH;
use super::step::{Event, Goal, Step};
use super::task::{Connection, PAUSE_FIRST, Task, Then, Waits};
use super::{Answer, Op};
use rackweave_base::{Duration, Instant};
use rackweave_verbs::Verbs;
use rackweave_wire::fabric::page::control;

/// Minimum time between pleas for a connection that keeps failing.
const AGAIN_SOON: Duration = Duration::from_millis(20);
const BACK_OFF_FIRST: Duration = Duration::from_micros(200);

/// The state of one connection of a channel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    pub generation: u64,
    /// The connection has failed.
    pub is_lost: bool,
    /// Work requests up to this one were posted before the connection was re-established.
    pub stale: u64,
    renewed: Instant,
    back_off: Duration,
    /// When to plead.
    plea_due: Option<Instant>,
}

impl Link {
    pub fn new(generation: u64) -> Self {
        Self {
            generation,
            is_lost: false,
            stale: 0,
            renewed: Instant::ZERO,
            back_off: Duration::ZERO,
            plea_due: None,
        }
    }

    /// The connection has failed.
    pub fn lose(&mut self, now: Instant) {
        if self.is_lost {
            return;
        }
        self.is_lost = true;
        let is_soon = self.renewed > Instant::ZERO && now.since(self.renewed) < AGAIN_SOON;
        self.back_off = match is_soon {
            true => (self.back_off * 2).max(BACK_OFF_FIRST).min(AGAIN_SOON),
            false => Duration::ZERO,
        };
        self.plea_due = Some(now + self.back_off);
    }

    fn renew(&mut self, now: Instant, generation: u64, posts: u64) {
        self.generation = generation;
        self.is_lost = false;
        self.stale = posts;
        self.renewed = now;
        self.plea_due = None;
    }

    /// When the connection next needs attention.
    pub fn due(&self) -> Option<Instant> {
        self.plea_due
    }

    /// Whether to plead now.
    fn pleads(&mut self, now: Instant) -> bool {
        self.plea_due.take_if(|due| *due <= now).is_some()
    }
}

impl Channel {
    /// Detects re-established connections, and pleads for failed ones.
    #[inline]
    pub(super) fn mind_connections(&mut self, now: Instant, verbs: &mut dyn Verbs) {
        let generation = self.parts.generation();
        let server = self.parts.server_generation();
        let is_as_before = generation == self.switch.generation && server == self.server.generation;
        let is_due = self.switch.due().is_some() || self.server.due().is_some();
        if !self.fenced && (!is_as_before || is_due) {
            self.renew_or_plead(now, verbs, (generation, server));
        }
    }

    /// Handles a connection that was re-established or has failed, or a node that was declared
    /// dead.
    #[cold]
    fn renew_or_plead(
        &mut self,
        now: Instant,
        verbs: &mut dyn Verbs,
        (generation, server): (u64, u64),
    ) {
        if generation == control::FENCED {
            return self.fence();
        }
        let (is_new, is_server_new) = (
            generation != self.switch.generation,
            server != self.server.generation,
        );
        if is_new || is_server_new {
            self.parts.entries_moved();
            self.server.renew(now, server, self.posts);
            if is_new {
                let directory = control::directory_of(generation);
                let is_other = directory != control::directory_of(self.switch.generation);
                self.switch.renew(now, generation, self.posts);
                self.begin_all_again(now, verbs, is_other, |_| true);
            } else {
                let of_server = |waits: &Waits| {
                    matches!(
                        waits,
                        Waits::Server(..) | Waits::Renewal(Connection::Server)
                    )
                };
                self.begin_all_again(now, verbs, false, of_server);
            }
        }
        if self.switch.pleads(now) {
            self.parts.plead(self.switch.generation);
        }
        if self.server.pleads(now) {
            self.parts.plead_for_server(self.server.generation);
        }
    }

    /// Restarts the operations that wait for this connection, with `is_new` in another directory;
    /// first those that no caller waits for any more.
    fn begin_all_again(
        &mut self,
        now: Instant,
        verbs: &mut dyn Verbs,
        is_new: bool,
        which: impl Fn(&Waits) -> bool,
    ) {
        for is_owed in [true, false] {
            for slot in 0..self.parts.slots {
                let task = self.slots[usize::from(slot)].as_ref();
                let begins = |task: &Task| {
                    let has_begun = !matches!(task.waits, Waits::Until(_, Then::Begin));
                    let minds = has_begun || task.goal.finds_out();
                    task.ticket.is_none() == is_owed && minds && which(&task.waits)
                };
                if !task.is_some_and(begins) {
                    continue;
                }
                let Some(mut task) = self.take(slot) else {
                    continue;
                };
                self.parts.clear_completion(slot);
                // It may be another directory, in which the node must resolve its doubts first.
                let step = match task.goal.finds_out() {
                    true => None,
                    false => task.begin_again(is_new),
                };
                match step {
                    Some(step) => self.start(now, verbs, slot, task, step),
                    None => self.ended(now, slot, task, (Answer::Gone, NO_LATCH.0)),
                }
            }
        }
    }

    /// Starts an operation, unless one is owed for its page.
    pub(super) fn start(
        &mut self,
        now: Instant,
        verbs: &mut dyn Verbs,
        slot: u16,
        mut task: Task,
        step: Step,
    ) {
        let page = task.goal.page();
        if task.ticket.is_some() && page.is_some_and(|page| self.parts.owed.has(page)) {
            if task.is_tired(now) {
                task.owed = task.owed.or(task.owes());
                return self.ended(now, slot, task, (Answer::Gone, NO_LATCH.0));
            }
            let waits = Waits::Until(now + PAUSE_FIRST, Then::Begin);
            task.waits = waits;
            return self.wait(now, slot, task, waits);
        }
        self.go_on(now, verbs, slot, task, step);
    }

    /// The connection was not re-established in time: the operation ends.
    pub(super) fn give_up(
        &mut self,
        now: Instant,
        verbs: &mut dyn Verbs,
        slot: u16,
        connection: Connection,
    ) {
        let Some(mut task) = self.take(slot) else {
            return;
        };
        task.owed = task.owed.or(task.owes());
        let step = task.next(match connection {
            Connection::Switch => Event::Lost,
            Connection::Server => Event::ServerLost,
        });
        self.go_on(now, verbs, slot, task, step);
    }

    /// An operation has ended. If it may have left a latch or a mark, its slot stays in use.
    pub(super) fn ended(&mut self, now: Instant, slot: u16, mut task: Task, end: (Answer, u64)) {
        let (mut answer, latch) = end;
        let gives_back = matches!(task.goal, Goal::Do(Op::Unfix { .. } | Op::Release { .. }));
        if answer == Answer::Superseded && task.again && gives_back {
            answer = Answer::Done;
        }
        let owed = task.owed.take();
        let page = task.goal.page();
        if let Some(ticket) = task.ticket.take() {
            if owed.is_some() {
                page.into_iter().for_each(|page| self.parts.owed.add(page));
            }
            self.reply(ticket, answer, latch);
            if let Some(goal) = owed {
                task.goal = goal;
                let waits = Waits::Until(now + PAUSE_FIRST, Then::Begin);
                return self.wait(now, slot, task, waits);
            }
        } else if let Some(page) = page {
            self.parts.owed.settle(page);
        }
        self.free.push(slot);
    }

    /// This node was declared dead: none of its requests is executed any more.
    fn fence(&mut self) {
        self.fenced = true;
        for slot in 0..self.parts.slots {
            let Some(task) = self.take(slot) else {
                continue;
            };
            match (task.ticket, task.goal.page()) {
                (Some(ticket), _) => self.reply(ticket, Answer::Fenced, NO_LATCH.0),
                (None, Some(page)) => self.parts.owed.settle(page),
                (None, None) => {}
            }
            self.free.push(slot);
        }
    }
}
