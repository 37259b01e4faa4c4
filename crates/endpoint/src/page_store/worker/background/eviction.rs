//! Evictions: a worker chooses buffer frames, has their pages written home, and frees them.

use crate::page_store::FixError;
use crate::page_store::directory::{Answer, Directory, Op};
use crate::page_store::pool::SizeClass;
use crate::page_store::pool::table::{DIRTY, EVICTING};
use crate::page_store::worker::Worker;
use crate::page_store::worker::flush::FlushKey;
use crate::page_store::worker::replies::Job;
use rackweave_base::Instant;
use rackweave_base::memory::FrameRead;
use rackweave_verbs::Verbs;
use rackweave_wire::fabric::page::{FrameState, PageId};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Frames that the clock inspects in one poll, for each buffer frame that is wanted.
const LOOKS: usize = 16;

/// A page that this worker writes home. Readers may stay, writers must wait.
#[derive(Debug)]
pub(in crate::page_store::worker) struct Eviction {
    read: FrameRead,
    pub(super) page: PageId,
    /// The LSN up to which the engine's log must be durable first, or zero.
    pub lsn: u64,
    /// The flush that requested the write; otherwise the page is to be dropped.
    flush: Option<FlushKey>,
    pub not_before: Instant,
    /// Since when it has been refused repeatedly.
    waits_since: Option<Instant>,
    pub(super) attempts: u32,
}

impl<D: Directory> Worker<D> {
    /// Runs the clock over the pages of each size that is short of buffer frames: gives each used
    /// page a second chance, and drops the others, or starts to write them.
    pub(super) fn choose_victims(&mut self) -> bool {
        let pool = Arc::clone(&self.pool);
        let short = pool.sizes.iter().filter(|class| class.is_short());
        short.fold(false, |chose, class| self.choose_victims_of(class) | chose)
    }

    fn choose_victims_of(&mut self, class: &SizeClass) -> bool {
        let on_the_way = [&class.isolated, &class.evicting].map(|it| it.load(Ordering::Relaxed));
        let have = class.free() + on_the_way.iter().sum::<usize>();
        if have >= class.low_water {
            return false;
        }
        let wanted = (class.low_water - have).max(class.evict_batch);
        let may_write = self.pool.may_write(self.now);
        let mut chosen = 0;
        for _ in 0..wanted * LOOKS {
            let frame = class.tick();
            let meta = self.pool.table.meta(frame);
            let Some(page) = meta.page() else {
                continue;
            };
            if !self.frames.is_idle(frame) || meta.take_reference() {
                continue;
            }
            let found = if meta.is(DIRTY) {
                may_write && self.begin_eviction(frame, page, None)
            } else {
                self.drop_if_clean(frame, page)
            };
            if found {
                chosen += 1;
                if chosen == wanted {
                    break;
                }
            }
        }
        chosen > 0
    }

    fn drop_if_clean(&mut self, frame: u32, page: PageId) -> bool {
        let Some(write) = self.frames.try_write(frame) else {
            return false;
        };
        let meta = self.pool.table.meta(frame);
        if !meta.has(page) || meta.is(DIRTY) {
            return false;
        }
        self.pool.drop_page(page, write);
        self.statistics.evicted_clean += 1;
        true
    }

    /// Starts to write a page home, if it is changed and is not being written already.
    pub(in crate::page_store::worker) fn begin_eviction(
        &mut self,
        frame: u32,
        page: PageId,
        flush: Option<FlushKey>,
    ) -> bool {
        let meta = self.pool.table.meta(frame);
        let shard = self.pool.table.lock(page);
        if !meta.has(page) || !meta.is(DIRTY) || meta.is(EVICTING) {
            return false;
        }
        let Some(read) = self.frames.try_read(frame) else {
            return false;
        };
        meta.set(EVICTING);
        drop(shard);
        self.pool.seal(&read);
        self.count_eviction(frame, &flush, 1);
        self.evictions.push(Eviction {
            lsn: meta.lsn.load(Ordering::Acquire),
            read,
            page,
            flush,
            not_before: Instant::ZERO,
            waits_since: None,
            attempts: 0,
        });
        true
    }

    fn count_eviction(&self, frame: u32, flush: &Option<FlushKey>, change: isize) {
        let change = change as usize;
        self.pool.moving.fetch_add(change, Ordering::Relaxed);
        if flush.is_none() {
            let class = self.pool.sizes.at(frame);
            class.evicting.fetch_add(change, Ordering::Relaxed);
        }
    }

    /// Gives up a write that has not started.
    pub(in crate::page_store::worker) fn give_up_eviction(&self, eviction: Eviction) {
        self.count_eviction(eviction.read.frame(), &eviction.flush, -1);
        let frame = eviction.read.frame();
        self.pool.table.meta(frame).clear(EVICTING);
        self.pool.let_go(eviction.read);
    }

    /// Gives up a write whose outcome is unknown.
    pub(in crate::page_store::worker) fn abandon_eviction(&self, eviction: Eviction) {
        self.count_eviction(eviction.read.frame(), &eviction.flush, -1);
        eviction.read.abandon();
    }

    pub(super) fn send_evictions(&mut self, verbs: &mut dyn Verbs) -> bool {
        let mut happened = false;
        let mut at = 0;
        while at < self.evictions.len() {
            let eviction = &self.evictions[at];
            let op = Op::Evict {
                page: eviction.page,
                frame: eviction.read.frame(),
                keep: eviction.flush.is_some(),
            };
            // It was requested before the latch was released, unless the log was installed later.
            let may_leave = self.pool.may_leave(eviction.lsn);
            if !may_leave && self.is_log_stuck(eviction.flush) {
                let eviction = self.evictions.swap_remove(at);
                let page = eviction.page;
                self.end_eviction(eviction, Err(FixError::NotLogged(page)));
                happened = true;
                continue;
            }
            let is_due = may_leave && eviction.not_before <= self.now;
            match is_due
                .then(|| self.directory.begin(self.now, verbs, op))
                .flatten()
            {
                Some(ticket) => {
                    let eviction = self.evictions.swap_remove(at);
                    self.jobs.push((ticket, Job::Evict(eviction)));
                    happened = true;
                }
                None => at += 1,
            }
        }
        happened
    }

    pub(in crate::page_store::worker) fn evicted(
        &mut self,
        mut eviction: Eviction,
        answer: Answer,
    ) {
        let result = match answer {
            Answer::Done => {
                self.statistics.written += 1;
                Ok(true)
            }
            // A newer version is elsewhere, or it is at home since this was requested twice, or the
            // directory has given it up; the next fix of the page learns which.
            Answer::Superseded => Ok(false),
            Answer::Lost => {
                if let Some(flush) = eviction.flush {
                    self.flush_failed(flush, eviction.page, FixError::Lost(eviction.page));
                }
                Ok(false)
            }
            answer => {
                if let Some(error) = answer.refusal(eviction.page) {
                    return self.end_eviction(eviction, Err(error));
                }
                let is_busy = matches!(answer, Answer::Locked | Answer::Pending);
                self.statistics.gone += u64::from(!is_busy);
                let since = *eviction.waits_since.get_or_insert(self.now);
                if self.now.since(since) < self.pool.config.patience {
                    eviction.not_before = match is_busy {
                        true => self.retry_at(eviction.attempts),
                        false => self.gone_until(eviction.attempts),
                    };
                    eviction.attempts += 1;
                    self.evictions.push(eviction);
                    return;
                }
                Err(match is_busy {
                    true => FixError::TimedOut(eviction.page),
                    false => FixError::Gone,
                })
            }
        };
        self.end_eviction(eviction, result);
    }

    /// A page was written home (true), or need not be any more, or could not be.
    fn end_eviction(&mut self, eviction: Eviction, result: Result<bool, FixError>) {
        self.count_eviction(eviction.read.frame(), &eviction.flush, -1);
        let Eviction {
            read, page, flush, ..
        } = eviction;
        let frame = read.frame();
        let meta = self.pool.table.meta(frame);
        match result {
            Ok(_) => {
                meta.clear(DIRTY | EVICTING);
                self.pool.set_state(frame, FrameState::NOTHING);
            }
            Err(_) => meta.clear(EVICTING),
        }
        self.pool.let_go(read);
        match result {
            Ok(_) => self.pool.set_fault(None),
            Err(error) => {
                self.statistics.write_failures += 1;
                self.pool.set_fault(Some((error, self.now)));
            }
        }
        match flush {
            Some(flush) => self.flush_answered(flush, page, result),
            None if result.is_ok() => self.drop_written(frame, page),
            None => {}
        }
    }

    /// Drops a page that was written for that purpose. If it is in use again by now, it stays.
    fn drop_written(&mut self, frame: u32, page: PageId) {
        let Some(write) = self.frames.try_write(frame) else {
            return;
        };
        let meta = self.pool.table.meta(frame);
        if meta.has(page) && !meta.is(DIRTY) {
            self.pool.drop_page(page, write);
            self.statistics.evicted_dirty += 1;
        }
    }
}
