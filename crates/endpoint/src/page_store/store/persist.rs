//! Changing a page and waiting until the change is durable.
//!
//! The page is fixed exclusively and changed, written home with a flush, and read once more to
//! check that the newest version contains the change. The last step covers a node that the
//! directory declared dead meanwhile: its change may have been rejected, and another node's version
//! written home in its place.
//!
//! If nothing was written, another worker has changed or written the page since. The page is then
//! fixed again, which gives it a new version, and flushed again. Since this takes the page away
//! from a worker that is about to write it, each worker waits before the retry, longer each time:
//! while storage does not respond, no worker would make progress otherwise.

use crate::page_store::directory::{Directory, Mode};
use crate::page_store::{Fix, FixError, Flush, FlushError, PageGuard, Worker};
use rackweave_base::Instant;
use rackweave_base::canary::{Canary, planted};
use rackweave_wire::fabric::page::PageId;

/// After this many attempts, and the pool's patience, the cause is something other than faster
/// workers or unresponsive storage.
const ATTEMPTS_MAX: u32 = 100;

/// The change to be made.
pub(super) trait Change {
    /// Makes the change, or repeats it on a version that others have changed since. False if there
    /// is nothing to be made durable.
    fn make(&mut self, guard: &mut PageGuard) -> bool;

    /// Whether a version contains the change.
    fn is_in(&self, bytes: &[u8]) -> bool;
}

/// A change of a page in progress.
#[derive(Debug)]
pub(super) struct Persist {
    page: PageId,
    /// Whether the page must match its checksum.
    checked: bool,
    step: Step,
    attempts: u32,
    /// When other workers were first faster.
    since: Option<Instant>,
}

#[derive(Debug)]
enum Step {
    Begin,
    Wait(Instant),
    Change(Fix),
    Flush(Flush),
    Look(Fix),
}

/// Why a change is not known to be durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Failure {
    Fix(FixError),
    Flush(FlushError),
    /// Other workers have changed the page again and again.
    Contended,
}

impl Persist {
    pub fn new(page: PageId) -> Self {
        Self {
            page,
            checked: true,
            step: Step::Begin,
            attempts: 0,
            since: None,
        }
    }

    /// The same for a page that has a checksum of its own.
    pub fn unchecked(page: PageId) -> Self {
        Self {
            checked: false,
            ..Self::new(page)
        }
    }

    /// Continues. Finally returns true if the change is durable, false if there was no change to
    /// make.
    pub fn poll<D: Directory>(
        &mut self,
        worker: &mut Worker<D>,
        change: &mut dyn Change,
    ) -> Option<Result<bool, Failure>> {
        loop {
            let result = match self.step {
                Step::Wait(until) if !worker.is_due(until) => return None,
                Step::Begin | Step::Wait(_) => self.fix(worker, Mode::Exclusive).map(Step::Change),
                Step::Change(fix) => match worker.take(fix)? {
                    Ok(mut guard) => {
                        if !change.make(&mut guard) {
                            return Some(Ok(false));
                        }
                        drop(guard);
                        // Superblocks are unchecked, maps are not.
                        if planted(Canary::PagesEarlyAllocation) && self.checked {
                            return Some(Ok(true));
                        }
                        Ok(Step::Flush(worker.flush_page(self.page)))
                    }
                    Err(error) => Err(Failure::Fix(error)),
                },
                Step::Flush(flush) => match worker.take_flush(flush)? {
                    Ok(flushed) if flushed.written > 0 => {
                        self.fix(worker, Mode::Shared).map(Step::Look)
                    }
                    Ok(_) => self.again(worker),
                    Err(error) => Err(Failure::Flush(error)),
                },
                Step::Look(fix) => match worker.take(fix)? {
                    Ok(guard) if change.is_in(&guard.data().to_vec()) => return Some(Ok(true)),
                    Ok(_) => self.again(worker),
                    Err(error) => Err(Failure::Fix(error)),
                },
            };
            match result {
                Ok(step) => self.step = step,
                Err(failure) => return Some(Err(failure)),
            }
        }
    }

    /// Gives up the pending operation. The change may have been made.
    pub fn abandon<D: Directory>(&self, worker: &mut Worker<D>) {
        match self.step {
            Step::Change(fix) | Step::Look(fix) => worker.abandon(fix),
            Step::Begin | Step::Wait(_) | Step::Flush(_) => {}
        }
    }

    fn fix<D: Directory>(&self, worker: &mut Worker<D>, mode: Mode) -> Result<Fix, Failure> {
        let fix = worker.try_fix_in_time(self.page, mode, self.checked);
        fix.map_err(Failure::Fix)
    }

    fn again<D: Directory>(&mut self, worker: &mut Worker<D>) -> Result<Step, Failure> {
        self.attempts += 1;
        let now = worker.now();
        let since = *self.since.get_or_insert(now);
        let patience = worker.pool().config().patience;
        match self.attempts < ATTEMPTS_MAX || now.since(since) < patience {
            true => Ok(Step::Wait(worker.step_back_until(self.attempts))),
            false => Err(Failure::Contended),
        }
    }
}
