//! How a fix handles the directory's answers.

use super::fix::State;
use super::replies::Latch;
use super::{Key, Worker};
use crate::page_store::FixError;
use crate::page_store::directory::{Answer, Directory, Mode};
use crate::page_store::guard::{PageGuard, Unfix};
use crate::page_store::pool::LeaseRequest;
use crate::page_store::pool::table::{DIRTY, LOADING, TORN};
use rackweave_base::memory::{FrameRead, FrameWrite};
use rackweave_wire::fabric::page::{FrameState, PageId};
use std::sync::atomic::Ordering;

impl Answer {
    /// Why the operation will not be done, if asking again is pointless.
    pub(super) fn refusal(self, page: PageId) -> Option<FixError> {
        Some(match self {
            Self::Lost => FixError::Lost(page),
            Self::Full => FixError::StorageFull,
            Self::Storage(status) => FixError::Storage { status },
            Self::Invalid => FixError::NoSuchPage(page),
            Self::NotMember => FixError::NotMember(page),
            Self::Fenced => FixError::Fenced,
            _ => return None,
        })
    }
}

impl<D: Directory> Worker<D> {
    /// Handles the directory's answer to a fix.
    pub(super) fn fix_answered(&mut self, key: Key, answer: Answer, latch: Latch) {
        let Some(pending) = self.fixes.get_mut(key) else {
            return;
        };
        pending.asked = false;
        match core::mem::replace(&mut pending.state, State::Seek) {
            State::Verify {
                read,
                version,
                lease,
            } => self.verified(key, (read, version, lease), answer, latch),
            State::Fetch { write, have } => self.fetched(key, write, have, answer, latch),
            other => pending.state = other,
        }
    }

    fn verified(
        &mut self,
        key: Key,
        (read, version, lease): (FrameRead, u64, Option<LeaseRequest>),
        answer: Answer,
        latch: Latch,
    ) {
        let Some(page) = self.fixes.get(key).map(|pending| pending.page) else {
            return self.pool.let_go(read);
        };
        let frame = read.frame();
        let is_done = matches!(answer, Answer::Done | Answer::Leased);
        if is_done && !latch.is_locked() && latch.version() == version {
            let meta = self.pool.table.meta(frame);
            meta.touch();
            if let (Answer::Leased, Some(lease)) = (answer, lease) {
                self.pool.set_lease(meta, lease);
            }
            let guard = PageGuard::shared(&self.local, page, version, read);
            return self.finish(key, Ok(guard));
        }
        self.pool.let_go(read);
        match answer {
            _ if is_done && !latch.is_locked() => {
                self.statistics.stale_copies += 1;
                self.go_on(key, State::Replace { frame, version });
            }
            Answer::Done | Answer::Leased | Answer::Locked => self.locked(key, State::Seek),
            other => self.refused(key, State::Seek, other),
        }
    }

    fn fetched(
        &mut self,
        key: Key,
        mut write: FrameWrite,
        have: Option<u64>,
        answer: Answer,
        latch: Latch,
    ) {
        let Some(pending) = self.fixes.get_mut(key) else {
            return;
        };
        let (page, mode) = (pending.page, pending.mode);
        let version = latch.version();
        match answer {
            Answer::Fetched(served) => {
                self.statistics.count(served);
                pending.fetched = true;
                let checked = pending.checked;
                let admitted = self
                    .pool
                    .admit(&mut write, page, version, served.source, checked);
                if let Err(error) = admitted {
                    return self.not_admitted(key, write, error);
                }
            }
            Answer::Unchanged => {}
            Answer::Locked => return self.locked(key, State::Fetch { write, have }),
            other => return self.refused(key, State::Fetch { write, have }, other),
        }
        let meta = self.pool.table.meta(write.frame());
        meta.version.store(version, Ordering::Release);
        match answer {
            Answer::Unchanged => meta.clear(TORN | LOADING),
            _ => {
                meta.clear(TORN | LOADING | DIRTY);
                // The change was made on another node.
                meta.lsn.store(0, Ordering::Release);
            }
        }
        meta.touch();
        let state = match mode {
            Mode::Exclusive => FrameState::latched(version, meta.is(DIRTY)),
            Mode::Shared if meta.is(DIRTY) => FrameState::dirty(version),
            Mode::Shared => FrameState::NOTHING,
        };
        self.pool.set_state(write.frame(), state);
        let is_late = || self.pool.is_surveyed_after(self.directory.beginnings());
        if mode == Mode::Exclusive && is_late() {
            // The directory that granted the latch is lost, and the next one may not know of it.
            self.pool.set_unlatched(write.frame());
            return self.refused(key, State::Fetch { write, have }, Answer::Gone);
        }
        let guard = match mode {
            Mode::Exclusive => PageGuard::exclusive(&self.local, page, version, write),
            Mode::Shared => PageGuard::shared(&self.local, page, version, write.downgrade()),
        };
        self.finish(key, Ok(guard));
    }

    /// Handles a fetch that did not return the page.
    fn not_admitted(&mut self, key: Key, write: FrameWrite, error: FixError) {
        let Some(pending) = self.fixes.get(key) else {
            return;
        };
        match error {
            FixError::Corrupt { .. } => self.statistics.checksum_failures += 1,
            _ => self.statistics.wrong_pages += 1,
        }
        // No other node may copy it from here.
        self.pool.void(write.frame());
        let (page, mode) = (pending.page, pending.mode);
        match mode {
            Mode::Shared => self.pool.drop_page(page, write),
            Mode::Exclusive => self.pool.push_unfix(Unfix {
                write,
                page,
                version: 0,
                changed: false,
                lsn: 0,
                discard: true,
                again: false,
                outcome: None,
            }),
        }
        self.finish(key, Err(error));
    }

    /// Another node has the latch: retries later.
    fn locked(&mut self, key: Key, state: State) {
        self.statistics.conflicts += 1;
        let Some(pending) = self.fixes.get(key) else {
            return;
        };
        if pending.is_abandoned {
            let late = FixError::TimedOut(pending.page);
            return self.give_up(key, state, late);
        }
        let until = self.retry_at(pending.attempts);
        if let Some(pending) = self.fixes.get_mut(key) {
            pending.gone_since = None;
            pending.attempts += 1;
            pending.not_before = until;
        }
        self.go_on(key, state);
    }

    /// The directory has not executed the request.
    fn refused(&mut self, key: Key, state: State, answer: Answer) {
        let Some(pending) = self.fixes.get_mut(key) else {
            return;
        };
        let page = pending.page;
        let error = match answer.refusal(page) {
            Some(error) => error,
            // No response, or the response is not valid.
            None => {
                self.statistics.gone += 1;
                let since = *pending.gone_since.get_or_insert(self.now);
                let patience = self.pool.config.patience;
                if self.now.since(since) < patience && !pending.is_abandoned {
                    let attempts = pending.attempts;
                    pending.attempts += 1;
                    let until = self.gone_until(attempts);
                    if let Some(pending) = self.fixes.get_mut(key) {
                        pending.not_before = until;
                    }
                    return self.go_on(key, state);
                }
                FixError::Gone
            }
        };
        self.give_up(key, state, error);
    }

    /// Ends a fix without the page.
    pub(super) fn give_up(&mut self, key: Key, state: State, error: FixError) {
        let Some(page) = self.fixes.get(key).map(|pending| pending.page) else {
            return;
        };
        if let State::Fetch { write, have } = state {
            match have {
                None => self.pool.drop_page(page, write),
                // The copy may be damaged, or may be the only one. Every fix checks its version
                // with the directory, which reveals that.
                Some(_) => self.pool.table.meta(write.frame()).set(TORN),
            }
        }
        self.finish(key, Err(error));
    }

    fn go_on(&mut self, key: Key, state: State) {
        self.set_state(key, state);
        self.runnable.push(key);
    }

    /// Ends the fix.
    pub(super) fn finish(&mut self, key: Key, result: Result<PageGuard, FixError>) {
        let Some(pending) = self.fixes.get_mut(key) else {
            return;
        };
        if core::mem::take(&mut pending.moves) {
            self.pool.moving.fetch_sub(1, Ordering::Relaxed);
        }
        match &result {
            _ if pending.is_abandoned => {}
            Ok(_) => {
                self.statistics.fixes += 1;
                self.statistics.joined += u64::from(pending.joined && !pending.fetched);
                self.statistics.local_hits += u64::from(!pending.joined && !pending.fetched);
            }
            Err(_) => self.statistics.failed += 1,
        }
        if pending.is_abandoned {
            self.fixes.remove(key);
        } else {
            pending.state = State::Ready(result);
        }
    }
}
