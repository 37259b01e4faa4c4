//! The operations of a user on the open store: it allocates pages, reads, changes and frees them,
//! and compares the results with the histories.

use super::{Job, Script, StoreUser};
use crate::campaign::count;
use crate::pages::allocators::{Closer, STORE};
use crate::pages::shared::Next;
use rackweave_base::{Duration, Instant};
use rackweave_endpoint::page_store::directory::Channel;
use rackweave_endpoint::page_store::{AllocateError, FixError, Freeing, Mode, PageGuard, Worker};
use rackweave_sim::checkers::page_history::{Asked, Got, PageStamp};
use rackweave_wire::fabric::page::PageId;

impl StoreUser {
    /// The next operation on the open store.
    pub(super) fn operate(&mut self, worker: &mut Worker<Channel>, now: Instant) -> Job {
        self.operations -= 1;
        let plan = self.store().plan;
        self.next_at = now + Duration::from_nanos(self.rng.below(plan.pause_max.as_nanos()));
        if self.rng.chance(plan.flush_chance) {
            let asked = self.shared.history.borrow().ask_flush(self.node());
            return Job::Flushes(worker.flush(), asked);
        }
        if self.rng.chance(plan.close_chance) && !self.store().users.borrow().is_left {
            self.store().users.borrow_mut().closing = Some(Closer::Nobody);
            return Job::Retires;
        }
        if self.rng.chance(plan.reopen_chance) {
            if self.rng.chance(plan.leak_chance) {
                self.leave_at_once();
                return Job::Rests;
            }
            return Job::Retires;
        }
        let in_use = self.store().page_use.borrow().in_use().count() as u64;
        let allocates = if in_use < plan.in_use { 0.6 } else { 0.2 };
        if self.rng.chance(allocates) {
            return Job::Allocates;
        }
        let Some(page) = self.pick() else {
            return Job::Allocates;
        };
        match self.rng.below(4) {
            0 => self.fix(worker, now, page, Mode::Shared),
            1 => self.fix(worker, now, page, Mode::Exclusive),
            _ => self.free(page),
        }
    }

    /// A page in use that is not fixed.
    fn pick(&mut self) -> Option<u64> {
        let store = self.shared.store.as_ref()?;
        let users = store.users.borrow();
        let is_free = |page| users.all.values().all(|user| user.page != Some(page));
        store.page_use.borrow().pick(&mut self.rng, is_free)
    }

    pub(super) fn allocate(&mut self, worker: &mut Worker<Channel>, now: Instant) -> Next<Job> {
        let Some(allocator) = &mut self.allocator else {
            return Next::Go(Job::Rests);
        };
        let Some(result) = allocator.poll(worker) else {
            return Next::Wait(Job::Allocates);
        };
        let page = match result {
            Ok(page) => page,
            Err(error) => return Next::Go(self.not_allocated(now, error)),
        };
        let (who, number) = (self.session.who, page.number());
        let store = self.shared.store.as_ref().expect("it was there at first");
        let mut page_use = store.page_use.borrow_mut();
        let was_used = page_use.handed_out(who, number);
        if !page_use.has(number) {
            return Next::Go(Job::Rests);
        }
        drop(page_use);
        if was_used {
            self.shared.history.borrow_mut().zeroed(who, number);
        }
        if let Some(available) = &mut self.available {
            *available = available.saturating_sub(1);
        }
        let mode = match self.script == Script::Exhaust || self.rng.chance(0.2) {
            true => Mode::Shared,
            false => Mode::Exclusive,
        };
        Next::Go(self.fix(worker, now, number, mode))
    }

    fn not_allocated(&mut self, now: Instant, error: AllocateError) -> Job {
        match error {
            AllocateError::StoreFull { .. } if self.script == Script::Exhaust => {
                if let Some(left @ 1..) = self.available {
                    self.wrong(now, format!("allocate: {error}, and {left} pages are free"));
                }
                return Job::Over;
            }
            AllocateError::StoreFull { .. } => {}
            other => self.judge_allocate(now, "allocate", other),
        }
        Job::Rests
    }

    pub(super) fn fix(
        &mut self,
        worker: &mut Worker<Channel>,
        now: Instant,
        page: u64,
        mode: Mode,
    ) -> Job {
        let Some(id) = page_of(page) else {
            return Job::Rests;
        };
        self.uses(Some(page));
        let history = self.shared.history.borrow();
        let asked = history.ask(now, self.session.who, page);
        Job::Fixes(worker.fix(id, mode), asked)
    }

    fn uses(&self, page: Option<u64>) {
        let mut users = self.store().users.borrow_mut();
        users.all.entry(self.node()).or_default().page = page;
    }

    pub(super) fn fixed(&mut self, now: Instant, asked: Asked, mut guard: PageGuard) -> Job {
        let got = self.shared.got(&guard);
        let hold = self.store().plan.hold_max.as_nanos();
        let until = now + Duration::from_nanos(1 + self.rng.below(hold));
        let mut history = self.shared.history.borrow_mut();
        if guard.mode() == Mode::Shared {
            history.shared(now, asked, got);
            return Job::Holds(guard, got, until, None);
        }
        history.exclusive(now, asked, got);
        let stamp = self.shared.begin_change(self.session.who, &mut guard);
        Job::Holds(guard, got, until, Some(stamp))
    }

    pub(super) fn give_back(
        &mut self,
        mut guard: PageGuard,
        got: Got,
        stamp: Option<PageStamp>,
    ) -> Job {
        self.uses(None);
        let (who, page) = (self.session.who, guard.page().number());
        match stamp {
            None => self.shared.look_again(who, &guard, got),
            Some(stamp) => {
                self.shared.end_change(&mut guard, stamp);
                let mut history = self.shared.history.borrow_mut();
                history.give_back(who, page, Some(stamp));
            }
        }
        Job::Rests
    }

    pub(super) fn not_fixed(&mut self, now: Instant, asked: Asked, error: FixError) -> Job {
        self.uses(None);
        let mut history = self.shared.history.borrow_mut();
        if let FixError::Lost(_) = error {
            history.refused_as_lost(now, asked);
            count(&self.shared.lost);
            return Job::Rests;
        }
        history.failed(now, asked);
        drop(history);
        self.judge(now, "fix", error);
        Job::Rests
    }

    fn free(&mut self, page: u64) -> Job {
        let layout = self.allocator.as_ref().map(|allocator| *allocator.layout());
        let (Some(id), Some(layout)) = (page_of(page), layout) else {
            return Job::Rests;
        };
        self.store().page_use.borrow_mut().free(page);
        Job::Frees(Freeing::new(layout, id), id)
    }

    pub(super) fn freed(
        &mut self,
        now: Instant,
        page: PageId,
        result: Result<(), AllocateError>,
    ) -> Job {
        if let Err(error) = result {
            let mut page_use = self.store().page_use.borrow_mut();
            page_use.may_leak();
            match error {
                AllocateError::NotInUse(_) => {
                    page_use.already_free(self.session.who, page.number())
                }
                error => {
                    drop(page_use);
                    self.judge_allocate(now, "free", error);
                }
            }
        }
        Job::Rests
    }
}

/// The page of the store with this number.
fn page_of(number: u64) -> Option<PageId> {
    let first = PageId::new(STORE, 0)?.number();
    PageId::new(STORE, number - first)
}
