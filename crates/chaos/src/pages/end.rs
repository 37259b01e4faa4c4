//! The quiet phase at the end of a run: no further fault occurs, losses are accepted, and all pages
//! are read and written home.

use super::actors::Work;
use super::allocators;
use super::harness::Harness;
use super::shared::Excuses;
use crate::campaign::Campaign;
use rackweave_base::Duration;
use rackweave_rack::RunEnd;

/// Interval at which the acceptance of a loss is retried.
const ACCEPT_EVERY: Duration = Duration::from_millis(1);

impl Harness<'_> {
    /// Repairs everything, reports all crashes to the controller, and accepts the losses.
    pub(super) fn quieten(&mut self) {
        self.quiet = true;
        self.mend_cables();
        self.fill(None);
        self.stall(Duration::ZERO);
        for page in 0..self.plan.store.pages {
            self.set_broken(page, false);
        }
        let started = self.start_target();
        self.check(started);
        for node in core::mem::take(&mut self.unreported) {
            self.tell(node);
        }
        if (0..self.nodes()).all(|at| !self.is_alive(at)) {
            match self.go_on(0) {
                Ok(()) => _ = self.drive("after all had died: "),
                error => self.check(error),
            }
        }
        self.accept_losses();
        self.shared.excuses.set(Excuses::default());
        // All workers are idle: everything released has been taken.
        for at in 0..self.nodes() {
            let number = self.number(at);
            if self.is_alive(at) {
                self.shared.history.borrow_mut().confirmed(number);
            }
        }
    }

    /// Accepts all losses, repeatedly if needed: a loss is not accepted while a target executes
    /// writes of a crashed node, nor while leases of one may be valid. Time passes even if nothing
    /// else is to happen.
    fn accept_losses(&mut self) {
        let end = self.rack.now() + Self::PATIENCE + self.stalls();
        loop {
            self.accept();
            let Some(lost) = self.lost_pages().first().copied() else {
                return;
            };
            let now = self.rack.now();
            self.rack.at(now + ACCEPT_EVERY, u64::MAX);
            let _stalls = self.pause(ACCEPT_EVERY);
            if now >= end {
                let wrong = format!("the loss of {} cannot be accepted", lost.page);
                return self.report.violations.push(wrong);
            }
        }
    }

    /// Lets virtual time pass. False if no further event can occur.
    fn pause(&mut self, time: Duration) -> bool {
        let until = self.rack.now() + time;
        loop {
            match self.rack.run(until) {
                // No further fault occurs.
                RunEnd::Done | RunEnd::Control(_) => {}
                RunEnd::Deadline => return true,
                RunEnd::Stalled => return false,
            }
        }
    }

    /// All nodes read all pages.
    pub(super) fn read_all(&mut self) {
        for at in 0..self.nodes() {
            self.spawn(at, false, || Work::ReadAll);
        }
        self.drive("reading everything: ");
        self.at_store(allocators::Script::ReadAll);
    }

    pub(super) fn flush_all(&mut self) {
        for at in 0..self.nodes() {
            self.spawn(at, false, || Work::Flush);
        }
        self.drive("writing everything home: ");
    }

    /// All users of the second store run this script.
    pub(super) fn at_store(&mut self, script: allocators::Script) {
        if self.plan.second.is_none() {
            return;
        }
        for at in 0..self.nodes() {
            self.spawn_store_user(at, script);
        }
        self.drive("at the second store: ");
    }

    pub(super) fn one_at_store(&mut self, script: allocators::Script) {
        let at = (0..self.nodes()).find(|&at| self.is_alive(at));
        if let Some(at) = at.filter(|_| self.plan.second.is_some()) {
            self.spawn_store_user(at, script);
            self.drive("closing the second store, or looking at it: ");
        }
    }
}
