//! How a user enters and leaves the store: formatting, opening, giving back, closing.

use super::{Job, LOOK, OPENINGS_MAX, RETRY_MAX, STORE, Script, StoreUser};
use crate::pages::allocators::Closer;
use crate::pages::harness::IDENTITY;
use crate::pages::shared::Next;
use rackweave_base::{Duration, Instant};
use rackweave_endpoint::page_store::directory::Channel;
use rackweave_endpoint::page_store::{
    Allocator, Closing, FormatOptions, Formatting, OpenError, Opening, Superblock, Worker,
};
use rackweave_sim::checkers::page_use::OpenAsked;

impl StoreUser {
    /// Opens the store, or formats it if no other user does.
    pub(super) fn open(&mut self, now: Instant) -> Next<Job> {
        let store = self.store();
        let mut users = store.users.borrow_mut();
        if users.closing.is_some() {
            users.all.entry(self.node()).or_default().is_out = true;
            return Next::Go(Job::Waits);
        }
        if !users.is_formatted {
            let formatter = users.formatter.filter(|node| users.all.contains_key(node));
            let formatter = *users.formatter.insert(formatter.unwrap_or(self.node()));
            if formatter != self.node() {
                drop(users);
                self.next_at = now + LOOK;
                return Next::Wait(Job::Rests);
            }
        }
        drop(users);
        if self.openings == OPENINGS_MAX {
            return Next::Go(self.give_up());
        }
        self.openings += 1;
        let mut page_use = self.store().page_use.borrow_mut();
        let asked = page_use.ask_open(self.session.who);
        drop(page_use);
        Next::Go(Job::Opens(Opening::new(STORE), asked))
    }

    pub(super) fn opened(
        &mut self,
        worker: &Worker<Channel>,
        now: Instant,
        asked: OpenAsked,
        result: Result<Superblock, OpenError>,
    ) -> Job {
        match result {
            Ok(found) => {
                let store = self.store();
                let closed = (found.clean, found.generation);
                let mut page_use = store.page_use.borrow_mut();
                page_use.opened(asked, closed.0, closed.1);
                drop(page_use);
                // If it was not formatted, this user found it after the formatter's crash.
                store.users.borrow_mut().is_formatted = true;
                let shape = (found.identity, found.capacity);
                if shape != (IDENTITY, store.plan.pages) {
                    self.wrong(now, format!("opened {found:?}"));
                }
                self.openings = 0;
                self.allocator = Some(Allocator::new(found.layout(STORE), worker.pool()));
            }
            Err(OpenError::Blank(_)) if !self.store().users.borrow().is_formatted => {
                let options = FormatOptions {
                    store: STORE,
                    capacity: self.store().plan.pages,
                    identity: IDENTITY,
                };
                let page_size = worker.pool().page_size(STORE);
                return match Formatting::new(options, page_size) {
                    Ok(formatting) => Job::Formats(formatting),
                    Err(error) => {
                        self.wrong(now, format!("format: {error}"));
                        Job::Over
                    }
                };
            }
            Err(error) => self.open_failed(now, error),
        }
        Job::Rests
    }

    pub(super) fn open_failed(&mut self, now: Instant, error: OpenError) {
        match error {
            OpenError::Fix(error) => self.judge(now, "open", error),
            OpenError::Flush(error) => self.judge_flush(now, "open", error.cause()),
            // Each attempt may have taken as long as a node waits for the others.
            OpenError::Contended(_) if self.shared.excuses.get().nobody_answers => {}
            other => self.wrong(now, format!("open: {other}")),
        }
        let wait = Duration::from_nanos(1000 << self.openings.min(10));
        self.next_at = now + wait.min(RETRY_MAX);
    }

    pub(super) fn formatted(&mut self, now: Instant, result: Result<Superblock, OpenError>) -> Job {
        match result {
            Ok(_) => {
                self.store().page_use.borrow_mut().formatted();
                self.store().users.borrow_mut().is_formatted = true;
            }
            // It is the old or the new store: opening it shows which.
            Err(error) => self.open_failed(now, error),
        }
        Job::Rests
    }

    /// Gives back the pages set aside.
    pub(super) fn retire(&mut self, worker: &mut Worker<Channel>, now: Instant) -> Next<Job> {
        if let Some(allocator) = &mut self.allocator {
            match allocator.poll_retire(worker) {
                None => return Next::Wait(Job::Retires),
                Some(Ok(())) => self.allocator = None,
                Some(Err(error)) => {
                    self.store().page_use.borrow_mut().may_leak();
                    self.judge_allocate(now, "retire", error);
                    self.next_at = now + LOOK;
                    self.allocator = None;
                    return Next::Go(self.cannot_close());
                }
            }
        }
        let asked = self.shared.history.borrow().ask_flush(self.node());
        Next::Go(Job::Flushed(worker.flush(), asked))
    }

    /// This node no longer has pages set aside or unflushed changes.
    pub(super) fn is_out(&mut self) -> Job {
        if let Script::Work(_) = self.script {
            let mut users = self.store().users.borrow_mut();
            if users.closing.is_some() {
                users.all.entry(self.node()).or_default().is_out = true;
                return Job::Waits;
            }
            return Job::Rests;
        }
        Job::Over
    }

    /// It could not give back or flush everything: the others need not wait for it.
    pub(super) fn cannot_close(&mut self) -> Job {
        let mut users = self.store().users.borrow_mut();
        users.closing = users.closing.filter(|closer| *closer != Closer::Nobody);
        match self.script {
            Script::Work(_) => Job::Rests,
            _ => {
                users.is_left = true;
                Job::Over
            }
        }
    }

    pub(super) fn wait_for_others(&mut self, now: Instant) -> Next<Job> {
        if now < self.next_at {
            return Next::Wait(Job::Waits);
        }
        let node = self.node();
        let mut users = self.store().users.borrow_mut();
        match users.closing {
            None => {
                users.all.entry(node).or_default().is_out = false;
                drop(users);
                return Next::Go(Job::Rests);
            }
            Some(Closer::Nobody) if users.all.values().all(|user| user.is_out) => {
                users.closing = Some(Closer::Node(node));
                drop(users);
                self.store().page_use.borrow_mut().ask_close();
                return Next::Go(Job::Closes(Closing::new(STORE)));
            }
            Some(_) => {}
        }
        drop(users);
        self.next_at = now + LOOK;
        Next::Wait(Job::Waits)
    }

    pub(super) fn closed(&mut self, now: Instant, result: Result<(), OpenError>) -> Job {
        match result {
            Ok(()) => self.store().page_use.borrow_mut().closed(),
            Err(OpenError::Fix(error)) => self.judge(now, "close", error),
            Err(OpenError::Flush(error)) => self.judge_flush(now, "close", error.cause()),
            Err(OpenError::Contended(_)) if self.shared.excuses.get().nobody_answers => {}
            Err(other) => self.wrong(now, format!("close: {other}")),
        }
        let mut users = self.store().users.borrow_mut();
        users.closing = None;
        users.all.entry(self.node()).or_default().is_out = false;
        match self.script {
            Script::Work(_) => Job::Rests,
            _ => Job::Over,
        }
    }

    /// Its work is done. Some users keep the store open.
    pub(super) fn end(&mut self) -> Job {
        if self.rng.chance(0.5) {
            self.store().users.borrow_mut().is_left = true;
            return Job::Over;
        }
        self.script = Script::Retire;
        Job::Retires
    }

    /// Drops the pages that it has set aside.
    pub(super) fn leave_at_once(&mut self) {
        self.allocator = None;
        self.store().page_use.borrow_mut().may_leak();
    }

    /// It cannot open the store.
    pub(super) fn give_up(&mut self) -> Job {
        if self.is_quiet {
            let wrong = format!("{} cannot open the store", self.session.who);
            self.shared.wrong.push(wrong);
        }
        self.store().users.borrow_mut().is_left = true;
        Job::Over
    }
}
