//! Users of pages: they read, change and check pages again, and report everything to the checker.

use super::shared::{Next, Session, Shared};
use crate::campaign::{ROUNDS_MAX, count};
use core::mem::replace;
use rackweave_base::{Duration, Instant, Rng};
use rackweave_endpoint::page_store::directory::Channel;
use rackweave_endpoint::page_store::{Fix, FixError, Flush, Mode, PageGuard, Validation, Worker};
use rackweave_sim::checkers::page_history::{Asked, FlushAsked, Got, PageStamp};
use rackweave_sim::world::{Actor, Context, Step};
use rackweave_wire::fabric::page::PageId;
use std::collections::VecDeque;
use std::rc::Rc;

/// The task of a worker.
pub(super) enum Work {
    /// This many fixes of all kinds.
    Random(u32),
    /// Reads all pages, each once.
    ReadAll,
    /// Reads these pages.
    Listed(VecDeque<u64>),
    /// Writes home the changes of its node. It must succeed.
    Flush,
    Done,
}

/// A worker.
pub(super) struct Browser {
    shared: Rc<Shared>,
    session: Rc<Session>,
    /// `None` once it has ended.
    worker: Option<Worker<Channel>>,
    rng: Rng,
    work: Work,
    jobs: Vec<Job>,
    flush: Option<(Flush, FlushAsked)>,
    next_at: Instant,
    /// Remaining steps while its node is presumed dead.
    steps_left: u32,
    /// The request that it makes after that.
    in_vain: Option<Fix>,
}

/// The state of a page that the worker uses.
enum Job {
    Asked(Fix, Asked, PageId),
    /// Fixed shared until this time, and whether it is validated afterwards.
    Reads(PageGuard, Got, Instant, bool),
    Validates(PageGuard, Got, Asked, Validation),
    /// Fixed exclusively until this time, and the change, if it is half done.
    Holds(PageGuard, Instant, Option<PageStamp>),
    Over,
}

impl Browser {
    /// Takes the worker from its session.
    pub fn new(shared: Rc<Shared>, session: Rc<Session>, work: Work) -> Option<Self> {
        let worker = session.worker.borrow_mut().take()?;
        Some(Self {
            rng: shared.rng(session.who, "browser"),
            shared,
            session,
            worker: Some(worker),
            work,
            jobs: Vec::new(),
            flush: None,
            next_at: Instant::ZERO,
            steps_left: 100,
            in_vain: None,
        })
    }

    /// Advances all requested and fixed pages. True if anything happened.
    fn advance(&mut self, worker: &mut Worker<Channel>, now: Instant) -> bool {
        let mut happened = false;
        let mut jobs = core::mem::take(&mut self.jobs);
        for job in &mut jobs {
            loop {
                match self.go_on(worker, now, replace(job, Job::Over)) {
                    Next::Wait(next) => break *job = next,
                    Next::Go(next) => *job = next,
                }
                happened = true;
            }
        }
        jobs.retain(|job| !matches!(job, Job::Over));
        self.jobs = jobs;
        happened
    }

    fn go_on(&mut self, worker: &mut Worker<Channel>, now: Instant, job: Job) -> Next<Job> {
        match job {
            Job::Asked(fix, asked, page) => match worker.take(fix) {
                None => return Next::Wait(job),
                Some(Ok(guard)) => return Next::Go(self.fixed(now, asked, guard)),
                Some(Err(error)) => self.failed(now, asked, page, error),
            },
            Job::Reads(guard, got, until, validates) if now >= until => {
                self.shared.look_again(self.session.who, &guard, got);
                if validates {
                    let history = self.shared.history.borrow();
                    let asked = history.ask(now, self.session.who, guard.page().number());
                    let validation = worker.validate(&guard);
                    return Next::Go(Job::Validates(guard, got, asked, validation));
                }
            }
            Job::Validates(guard, got, asked, validation) => {
                let Some(result) = worker.take_validation(validation) else {
                    return Next::Wait(Job::Validates(guard, got, asked, validation));
                };
                self.shared.look_again(self.session.who, &guard, got);
                // Counts as a read at that time.
                if result == Ok(true) {
                    self.shared.history.borrow_mut().shared(now, asked, got);
                }
            }
            Job::Holds(guard, until, change) if now >= until => self.give_back(guard, change),
            job => return Next::Wait(job),
        }
        Next::Go(Job::Over)
    }

    fn fixed(&mut self, now: Instant, asked: Asked, mut guard: PageGuard) -> Job {
        let got = self.shared.got(&guard);
        if let Ok(Some(change)) = got.content {
            let node = self.session.who.node;
            self.shared.check_log(node, &guard, change);
        }
        let habits = self.shared.habits;
        let until = now + Duration::from_nanos(1 + self.rng.below(habits.hold_max.as_nanos()));
        let mut history = self.shared.history.borrow_mut();
        if guard.mode() == Mode::Shared {
            history.shared(now, asked, got);
            let validates = self.rng.chance(habits.validate_chance);
            return Job::Reads(guard, got, until, validates);
        }
        history.exclusive(now, asked, got);
        let changes = self.rng.chance(habits.change_share);
        let change = changes.then(|| self.shared.begin_change(self.session.who, &mut guard));
        Job::Holds(guard, until, change)
    }

    fn give_back(&mut self, mut guard: PageGuard, change: Option<PageStamp>) {
        let page = guard.page().number();
        if let Some(stamp) = change {
            self.shared.end_change(&mut guard, stamp);
            self.shared.logs.borrow_mut().append(&mut guard, stamp);
        }
        let mut history = self.shared.history.borrow_mut();
        history.give_back(self.session.who, page, change);
    }

    fn failed(&mut self, now: Instant, asked: Asked, page: PageId, error: FixError) {
        let mut history = self.shared.history.borrow_mut();
        match error {
            FixError::Lost(_) => {
                history.refused_as_lost(now, asked);
                count(&self.shared.lost);
            }
            FixError::StorageFull => {
                history.failed(now, asked);
                count(&self.shared.full);
            }
            error if error.is_damage() && self.shared.damaged.borrow().contains(&page) => {
                history.failed(now, asked);
                count(&self.shared.damage_found);
            }
            error if self.shared.excuses.get().cover(error) => history.failed(now, asked),
            error => {
                history.failed(now, asked);
                let who = self.session.who;
                let wrong = format!("{who} at {now:?}: {error}");
                self.shared.wrong.push(wrong);
            }
        }
    }

    /// Begins the next operation. True if it did.
    fn begin(&mut self, worker: &mut Worker<Channel>, now: Instant) -> bool {
        let habits = self.shared.habits;
        if now < self.next_at || self.jobs.len() >= habits.at_once {
            return false;
        }
        if let Work::ReadAll = self.work {
            let (pages, first) = (self.shared.pages, self.rng.below(self.shared.pages));
            let all = (0..pages).map(|at| (first + at) % pages);
            self.work = Work::Listed(all.collect());
        }
        let (index, mode) = match &mut self.work {
            Work::Random(0) | Work::ReadAll | Work::Done => return false,
            Work::Flush => {
                self.work = Work::Done;
                return self.begin_flush(worker);
            }
            Work::Listed(pages) => match pages.pop_front() {
                Some(index) => (index, Mode::Shared),
                None => return false,
            },
            Work::Random(fixes) => {
                *fixes -= 1;
                let range = match self.rng.chance(habits.hot_share) {
                    true => habits.hot_pages,
                    false => self.shared.pages,
                };
                let mode = match self.rng.chance(habits.write_share) {
                    true => Mode::Exclusive,
                    false => Mode::Shared,
                };
                (self.rng.below(range), mode)
            }
        };
        let page = self.shared.page(index);
        if matches!(self.work, Work::Random(_)) {
            self.next_at = now + Duration::from_nanos(self.rng.below(habits.pause_max.as_nanos()));
            if self.rng.chance(habits.flush_chance) {
                self.begin_flush(worker);
            }
            if self.rng.chance(habits.prefetch_chance) {
                let other = self.shared.page(self.rng.below(self.shared.pages));
                if !self.uses(other) {
                    worker.prefetch(other);
                }
            }
            if self.uses(page) {
                return true;
            }
        }
        let history = self.shared.history.borrow();
        let asked = history.ask(now, self.session.who, page.number());
        drop(history);
        let leased = (mode == Mode::Shared).then(|| worker.fix_leased(page, || now));
        let job = match leased.flatten() {
            Some(guard) => self.fixed(now, asked, guard),
            None => Job::Asked(worker.fix(page, mode), asked, page),
        };
        self.jobs.push(job);
        true
    }

    fn begin_flush(&mut self, worker: &mut Worker<Channel>) -> bool {
        if self.flush.is_some() {
            return false;
        }
        let history = self.shared.history.borrow();
        let asked = history.ask_flush(self.session.who.node);
        self.flush = Some((worker.flush(), asked));
        true
    }

    fn poll_flush(&mut self, worker: &mut Worker<Channel>) -> bool {
        let Some((flush, asked)) = &self.flush else {
            return false;
        };
        match worker.take_flush(*flush) {
            None => return false,
            Some(Ok(_)) => self.shared.history.borrow_mut().flushed(asked),
            Some(Err(error)) if matches!(self.work, Work::Done) => {
                let wrong = format!("{}, at the end: {error}", self.session.who);
                self.shared.wrong.push(wrong);
            }
            Some(Err(_)) => {}
        }
        self.flush = None;
        true
    }

    /// Whether it has requested or fixed a page.
    fn uses(&self, page: PageId) -> bool {
        self.jobs.iter().any(|job| match job {
            Job::Asked(_, _, other) => *other == page,
            Job::Reads(guard, ..) | Job::Validates(guard, ..) | Job::Holds(guard, ..) => {
                guard.page() == page
            }
            Job::Over => false,
        })
    }

    fn has_finished(&self, worker: &Worker<Channel>) -> bool {
        let nothing_left = match &self.work {
            Work::Random(fixes) => *fixes == 0,
            Work::Listed(pages) => pages.is_empty(),
            Work::ReadAll | Work::Flush => false,
            Work::Done => true,
        };
        nothing_left && self.jobs.is_empty() && self.flush.is_none() && worker.is_idle()
    }

    /// When its next step is due even if no packet arrives.
    fn due(&self, worker: &Worker<Channel>, now: Instant) -> Option<Instant> {
        let jobs = self.jobs.iter().filter_map(|job| match job {
            Job::Reads(_, _, until, _) | Job::Holds(_, until, _) => Some(*until),
            _ => None,
        });
        let next = (self.next_at > now).then_some(self.next_at);
        jobs.chain(next).chain(worker.poll_timeout()).min()
    }

    /// Reads all hot pages on which the node has leases.
    fn read_leased(&self, worker: &mut Worker<Channel>, now: Instant) {
        for index in 0..self.shared.habits.hot_pages {
            let Some(guard) = worker.fix_leased(self.shared.page(index), || now) else {
                continue;
            };
            let mut history = self.shared.history.borrow_mut();
            let asked = history.ask(now, self.session.who, guard.page().number());
            history.shared(now, asked, self.shared.got(&guard));
        }
    }

    /// The node is presumed dead: it releases its fixed pages and reports nothing. It requests
    /// pages exclusively, and must get none. By leases it may read, as long as no other node can
    /// change these pages.
    fn wind_up(&mut self, mut worker: Worker<Channel>, context: &mut Context<'_>) -> Step {
        for job in core::mem::take(&mut self.jobs) {
            match job {
                Job::Asked(fix, ..) => worker.abandon(fix),
                // Half a change, which no reader may ever see.
                Job::Holds(mut guard, ..) => guard.update(0..1, |bytes| bytes[0] ^= 0xff),
                _ => {}
            }
        }
        self.read_leased(&mut worker, context.now());
        let page = self.shared.page(self.rng.below(self.shared.pages));
        let ask = || worker.fix(page, Mode::Exclusive);
        let fix = *self.in_vain.get_or_insert_with(ask);
        worker.poll(context.now(), context.nic());
        if let Some(result) = worker.take(fix) {
            self.in_vain = None;
            if let Ok(guard) = result {
                let (who, page) = (self.session.who, guard.page());
                let wrong = format!("{who} was declared dead and got {page} to change");
                self.shared.wrong.push(wrong);
            }
        }
        self.steps_left = self.steps_left.saturating_sub(1);
        if self.steps_left == 0 {
            return Step::Done;
        }
        self.worker = Some(worker);
        Step::Sleep(Duration::from_micros(10))
    }
}

impl Actor for Browser {
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
                let wrong = format!("{} does not come to rest at {now:?}", self.session.who);
                self.shared.wrong.push(wrong);
                return Step::Done;
            }
            let mut happened = worker.poll(now, context.nic());
            self.shared.tell_losses(self.session.who, &worker);
            happened |= self.advance(&mut worker, now);
            happened |= self.poll_flush(&mut worker);
            happened |= self.begin(&mut worker, now);
            if !happened {
                break;
            }
        }
        if self.has_finished(&worker) {
            self.session.worker.replace(Some(worker));
            return Step::Done;
        }
        let due = self.due(&worker, now);
        self.worker = Some(worker);
        self.session.rest(now, rounds > 0, due)
    }
}
