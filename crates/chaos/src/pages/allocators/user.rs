//! A user of the store: a worker that opens it ([`session`]), allocates, reads, changes and frees
//! pages ([`operations`]).

mod operations;
mod session;

use super::{FIRST, MAP, STORE, Store, User};
use crate::campaign::{ROUNDS_MAX, count};
use crate::pages::shared::{Next, Session, Shared};
use core::mem::replace;
use rackweave_base::{Duration, Instant, Rng};
use rackweave_endpoint::page_store::directory::Channel;
use rackweave_endpoint::page_store::{
    AllocateError, Allocator, Closing, Fix, FixError, Flush, Formatting, Freeing, MapError, Mode,
    Opening, PageGuard, Worker,
};
use rackweave_sim::checkers::page_history::{Asked, FlushAsked, Got, PageStamp};
use rackweave_sim::checkers::page_use::OpenAsked;
use rackweave_sim::world::{Actor, Context, Step};
use rackweave_wire::fabric::page::PageId;
use std::collections::VecDeque;
use std::rc::Rc;

/// Number of attempts to open the store before a user gives up, and the maximum wait between them.
/// It waits for the acceptance of a loss, or for free space on the device.
const OPENINGS_MAX: u32 = 24;
const RETRY_MAX: Duration = Duration::from_millis(1);

/// Interval at which users check what others do.
const LOOK: Duration = Duration::from_micros(3);

/// The task of a user.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::pages) enum Script {
    /// This many operations of all kinds.
    Work(u32),
    /// Reads all pages in use, each once.
    ReadAll,
    /// Gives back the pages set aside, and flushes. It must succeed.
    Retire,
    /// Opens the store and closes it. It must succeed.
    Close,
    /// Opens the store, looks at its map, and allocates all free pages. It must succeed.
    Exhaust,
}

/// A user.
pub(in crate::pages) struct StoreUser {
    shared: Rc<Shared>,
    session: Rc<Session>,
    /// `None` once it has ended.
    worker: Option<Worker<Channel>>,
    allocator: Option<Allocator>,
    script: Script,
    /// No further fault occurs: everything must succeed.
    is_quiet: bool,
    rng: Rng,
    job: Job,
    operations: u32,
    to_read: VecDeque<u64>,
    next_at: Instant,
    openings: u32,
    /// Pages that can be allocated according to its map, less those already allocated.
    available: Option<u64>,
    /// Remaining steps while its node is presumed dead.
    steps_left: u32,
}

/// Its current job.
enum Job {
    Rests,
    Formats(Formatting),
    Opens(Opening, OpenAsked),
    Allocates,
    Fixes(Fix, Asked),
    Holds(PageGuard, Got, Instant, Option<PageStamp>),
    Frees(Freeing, PageId),
    Flushes(Flush, FlushAsked),
    /// Gives back the pages set aside, flushes, and waits for the closing, if one is requested.
    Retires,
    Flushed(Flush, FlushAsked),
    Waits,
    Closes(Closing),
    LooksAtMap(Fix),
    Over,
}

impl StoreUser {
    /// Takes the worker from its session. `None` if the worker is in use, or the seed has no store.
    pub fn new(shared: Rc<Shared>, session: Rc<Session>, script: Script) -> Option<Self> {
        let worker = session.worker.borrow_mut().take()?;
        let store = shared.store.as_ref()?;
        let operations = match script {
            Script::Work(operations) => operations,
            _ => 0,
        };
        let to_read = match script {
            Script::ReadAll => store.page_use.borrow().in_use().collect(),
            _ => VecDeque::new(),
        };
        let mut users = store.users.borrow_mut();
        users.all.insert(session.who.node, User::default());
        drop(users);
        let allocator = session.allocator.borrow_mut().take();
        Some(Self {
            rng: shared.rng(session.who, "store user"),
            shared,
            session,
            worker: Some(worker),
            allocator,
            is_quiet: !matches!(script, Script::Work(_)),
            script,
            job: Job::Rests,
            operations,
            to_read,
            next_at: Instant::ZERO,
            openings: 0,
            available: None,
            steps_left: 100,
        })
    }

    fn store(&self) -> &Store {
        self.shared.store.as_ref().expect("it was there at first")
    }

    fn node(&self) -> u16 {
        self.session.who.node
    }

    /// Advances its job. True if anything happened.
    fn advance(&mut self, worker: &mut Worker<Channel>, now: Instant) -> bool {
        let mut happened = false;
        loop {
            let job = replace(&mut self.job, Job::Rests);
            match self.go_on(worker, now, job) {
                Next::Wait(job) => {
                    self.job = job;
                    return happened;
                }
                Next::Go(job) => self.job = job,
            }
            happened = true;
        }
    }

    fn go_on(&mut self, worker: &mut Worker<Channel>, now: Instant, job: Job) -> Next<Job> {
        match job {
            Job::Rests if now < self.next_at => Next::Wait(Job::Rests),
            Job::Rests => self.begin(worker, now),
            Job::Formats(mut formatting) => match formatting.poll(worker) {
                None => Next::Wait(Job::Formats(formatting)),
                Some(result) => Next::Go(self.formatted(now, result)),
            },
            Job::Opens(mut opening, asked) => match opening.poll(worker) {
                None => Next::Wait(Job::Opens(opening, asked)),
                Some(result) => Next::Go(self.opened(worker, now, asked, result)),
            },
            Job::Allocates => self.allocate(worker, now),
            Job::Fixes(fix, asked) => match worker.take(fix) {
                None => Next::Wait(Job::Fixes(fix, asked)),
                Some(Ok(guard)) => Next::Go(self.fixed(now, asked, guard)),
                Some(Err(error)) => Next::Go(self.not_fixed(now, asked, error)),
            },
            Job::Holds(_, _, until, _) if now < until => Next::Wait(job),
            Job::Holds(guard, got, _, stamp) => Next::Go(self.give_back(guard, got, stamp)),
            Job::Frees(mut freeing, page) => match freeing.poll(worker) {
                None => Next::Wait(Job::Frees(freeing, page)),
                Some(result) => Next::Go(self.freed(now, page, result)),
            },
            Job::Flushes(flush, asked) => match worker.take_flush(flush) {
                None => Next::Wait(Job::Flushes(flush, asked)),
                Some(flushed) => {
                    match flushed {
                        Ok(_) => self.shared.history.borrow_mut().flushed(&asked),
                        Err(error) => self.judge_flush(now, "flush", error.cause()),
                    }
                    Next::Go(Job::Rests)
                }
            },
            Job::Retires => self.retire(worker, now),
            Job::Flushed(flush, asked) => match worker.take_flush(flush) {
                None => Next::Wait(Job::Flushed(flush, asked)),
                Some(Ok(_)) => {
                    self.shared.history.borrow_mut().flushed(&asked);
                    Next::Go(self.is_out())
                }
                Some(Err(error)) => {
                    self.judge_flush(now, "flush before leaving", error.cause());
                    Next::Go(self.cannot_close())
                }
            },
            Job::Waits => self.wait_for_others(now),
            Job::Closes(mut closing) => match closing.poll(worker) {
                None => Next::Wait(Job::Closes(closing)),
                Some(result) => Next::Go(self.closed(now, result)),
            },
            Job::LooksAtMap(fix) => match worker.take(fix) {
                None => Next::Wait(Job::LooksAtMap(fix)),
                Some(result) => Next::Go(self.look_at_map(result)),
            },
            Job::Over => Next::Wait(Job::Over),
        }
    }

    /// Takes the next job.
    fn begin(&mut self, worker: &mut Worker<Channel>, now: Instant) -> Next<Job> {
        let is_open = self.allocator.is_some();
        match self.script {
            Script::ReadAll => match self.to_read.pop_front() {
                Some(page) => Next::Go(self.fix(worker, now, page, Mode::Shared)),
                None => Next::Go(Job::Over),
            },
            Script::Retire => Next::Go(Job::Retires),
            Script::Close | Script::Exhaust | Script::Work(_) if !is_open => self.open(now),
            Script::Close => {
                // It has not used the store that it opened.
                self.allocator = None;
                self.store().page_use.borrow_mut().ask_close();
                Next::Go(Job::Closes(Closing::new(STORE)))
            }
            Script::Exhaust if self.available.is_none() => {
                let map = PageId::new(STORE, MAP).unwrap_or_default();
                Next::Go(Job::LooksAtMap(worker.fix(map, Mode::Shared)))
            }
            Script::Exhaust => Next::Go(Job::Allocates),
            Script::Work(_) if self.store().users.borrow().closing.is_some() => {
                Next::Go(Job::Retires)
            }
            Script::Work(_) if self.operations == 0 => Next::Go(self.end()),
            Script::Work(_) => Next::Go(self.operate(worker, now)),
        }
    }

    fn judge_allocate(&self, now: Instant, doing: &str, error: AllocateError) {
        match error {
            AllocateError::Fix(error) => self.judge(now, doing, error),
            AllocateError::Maps { source, .. } => match source {
                MapError::Fix(error) => self.judge(now, doing, error),
                MapError::Flush(error) => self.judge_flush(now, doing, error.cause()),
                MapError::Contended if self.shared.excuses.get().nobody_answers => {}
                other => self.wrong(now, format!("{doing}: {other}")),
            },
            other => self.wrong(now, format!("{doing}: {other}")),
        }
    }

    /// Reads the map in a rack without further faults, before anything is allocated.
    fn look_at_map(&mut self, result: Result<PageGuard, FixError>) -> Job {
        match result {
            Ok(guard) => {
                let first = PageId::new(STORE, FIRST).map_or(0, PageId::number);
                let mut page_use = self.store().page_use.borrow_mut();
                let available = page_use.judge_map(first, &guard.data().to_vec());
                drop(page_use);
                self.available = Some(available);
                Job::Rests
            }
            Err(error) => {
                self.wrong(Instant::ZERO, format!("the map: {error}"));
                Job::Over
            }
        }
    }

    /// A flush skips a page that others change all the time, and reports it.
    pub(super) fn judge_flush(&self, now: Instant, doing: &str, error: FixError) {
        match error {
            FixError::TimedOut(_) if self.shared.is_impatient && !self.is_quiet => {}
            error => self.judge(now, doing, error),
        }
    }

    /// Judges an error of a page that the history does not have, or of no page.
    fn judge(&self, now: Instant, doing: &str, error: FixError) {
        let may_lose = !self.is_quiet && self.store().users.borrow().may_lose;
        match error {
            FixError::Lost(_) if may_lose => count(&self.shared.lost),
            FixError::StorageFull if !self.is_quiet => count(&self.shared.full),
            error if self.shared.excuses.get().cover(error) => {}
            error => self.wrong(now, format!("{doing}: {error}")),
        }
    }

    fn wrong(&self, now: Instant, what: String) {
        let who = self.session.who;
        self.shared.wrong.push(format!("{who} at {now:?}: {what}"));
    }

    /// When its next step is due even if no packet arrives.
    fn due(&self, worker: &Worker<Channel>, now: Instant) -> Option<Instant> {
        let own = match &self.job {
            Job::Holds(_, _, until, _) => Some(*until),
            _ => (self.next_at > now).then_some(self.next_at),
        };
        own.into_iter().chain(worker.poll_timeout()).min()
    }

    /// The node is presumed dead: it releases what it holds and reports nothing.
    fn wind_up(&mut self, mut worker: Worker<Channel>, context: &mut Context<'_>) -> Step {
        match replace(&mut self.job, Job::Over) {
            Job::Fixes(fix, _) | Job::LooksAtMap(fix) => worker.abandon(fix),
            // Half a change, which no reader may ever see.
            Job::Holds(mut guard, ..) if guard.mode() == Mode::Exclusive => {
                guard.update(0..1, |bytes| bytes[0] ^= 0xff);
            }
            _ => {}
        }
        worker.abandon_all();
        worker.poll(context.now(), context.nic());
        self.steps_left = self.steps_left.saturating_sub(1);
        if self.steps_left == 0 || worker.is_idle() {
            return Step::Done;
        }
        self.worker = Some(worker);
        Step::Sleep(Duration::from_micros(10))
    }
}

impl Actor for StoreUser {
    fn step(&mut self, context: &mut Context<'_>) -> Step {
        let Some(mut worker) = self.worker.take() else {
            return Step::Done;
        };
        let now = context.now();
        if self.session.is_presumed_dead.get() {
            return self.wind_up(worker, context);
        }
        let mut rounds = 0;
        for round in 0.. {
            rounds = round;
            if round == ROUNDS_MAX {
                self.wrong(now, "does not come to rest".into());
                return Step::Done;
            }
            worker.poll(now, context.nic());
            self.shared.tell_losses(self.session.who, &worker);
            // The store's state machines do not report whether they have sent a request.
            let happened = self.advance(&mut worker, now);
            if !happened && !worker.poll(now, context.nic()) {
                break;
            }
        }
        if matches!(self.job, Job::Over) && worker.is_idle() {
            let mut users = self.store().users.borrow_mut();
            users.all.remove(&self.session.who.node);
            drop(users);
            self.session.allocator.replace(self.allocator.take());
            self.session.worker.replace(Some(worker));
            return Step::Done;
        }
        let due = self.due(&worker, now);
        self.worker = Some(worker);
        self.session.rest(now, rounds > 0, due)
    }
}
