//! How a fix proceeds.
//!
//! 1. *Seek*: where is the page in the pool? If it is not there, a free buffer frame becomes its
//!    place, and it is fetched. If another fix is fetching it, or holds it exclusively, this fix
//!    waits.
//! 2. A shared fix of a page in the pool latches the buffer frame and has the directory *verify*
//!    the version, unless a lease shows that it is the newest ([`Worker::fix_leased`]). If it is
//!    outdated, the page is fetched: over the old copy if that has no readers, else into another
//!    buffer frame, while the readers of the old copy continue.
//! 3. An exclusive fix of a page in the pool takes the buffer frame's latch first. Then it fetches,
//!    and nothing is moved if the copy is the newest version.
//!
//! A fix that waited for another's fetch has its version verified like any other: that fetch may
//! have started, and its version been replaced, before this fix started.

mod pending;

pub(super) use pending::{Pending, State};

use super::replies::Job;
use super::{Key, Worker};
use crate::page_store::FixError;
use crate::page_store::directory::{Directory, Mode, Op};
use crate::page_store::guard::PageGuard;
use crate::page_store::pool::table::{EVICTING, LOADING, TORN};
use rackweave_base::Duration;
use rackweave_base::memory::{FrameRead, FrameWrite};
use rackweave_verbs::Verbs;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// How long readers yield to a writer. This is limited: a thread that waits for a reader of this
/// node must not wait for one that yields.
const STEP_BACK: Duration = Duration::from_micros(50);

/// How long a fix waits for a buffer frame without progress.
const FRAME_WAIT: Duration = Duration::from_millis(20);

/// The result of a step.
enum Step {
    /// Continues in this state at once.
    Next(State),
    /// It waits in this state.
    Wait(State),
    /// A request to the directory was started.
    Asked(State),
    Done(Result<PageGuard, FixError>),
    /// A prefetch has nothing more to do.
    Vanish,
}

impl<D: Directory> Worker<D> {
    /// Advances the fixes that wait for something other than an answer.
    pub(super) fn poll_fixes(&mut self, verbs: &mut dyn Verbs) -> bool {
        let mut happened = false;
        let mut keys = core::mem::replace(&mut self.runnable, core::mem::take(&mut self.spare));
        for key in keys.drain(..) {
            let Some(pending) = self.fixes.get(key) else {
                continue;
            };
            if pending.not_before > self.now {
                self.runnable.push(key);
                continue;
            }
            happened |= self.run(key, verbs);
        }
        self.spare = keys;
        happened
    }

    /// Takes steps until the fix has to wait.
    fn run(&mut self, key: Key, verbs: &mut dyn Verbs) -> bool {
        let mut happened = false;
        loop {
            let Some(pending) = self.fixes.get_mut(key) else {
                return happened;
            };
            pending.began.get_or_insert(self.now);
            // An abandoned fix has no waiting caller, so it does not wait. A prefetch waits only
            // for a free slot in the directory.
            let may_wait = !pending.is_abandoned || pending.is_prefetch;
            let state = core::mem::replace(&mut pending.state, State::Seek);
            let step = match state {
                State::Seek => self.seek(key),
                State::Verify { read, version, .. } => self.verify(key, read, version, verbs),
                State::Fetch { write, have } => self.fetch(key, write, have, verbs),
                State::Replace { frame, version } => self.replace(key, frame, version),
                State::Ready(result) => Step::Done(result),
            };
            match step {
                Step::Next(state) => self.set_state(key, state),
                Step::Wait(state) if !may_wait => {
                    self.give_up(key, state, FixError::Gone);
                    return true;
                }
                Step::Wait(state) => {
                    self.set_state(key, state);
                    self.runnable.push(key);
                    return happened;
                }
                Step::Asked(state) => {
                    self.set_state(key, state);
                    if let Some(pending) = self.fixes.get_mut(key) {
                        pending.asked = true;
                    }
                    return true;
                }
                Step::Done(result) => {
                    self.finish(key, result);
                    return true;
                }
                Step::Vanish => {
                    self.fixes.remove(key);
                    return true;
                }
            }
            happened = true;
        }
    }

    pub(super) fn set_state(&mut self, key: Key, state: State) {
        if let Some(pending) = self.fixes.get_mut(key) {
            pending.state = state;
        }
    }

    /// Looks for the page in the pool and latches it; assigns a buffer frame if it is not there.
    fn seek(&mut self, key: Key) -> Step {
        let Some(pending) = self.fixes.get_mut(key) else {
            return Step::Vanish;
        };
        let page = pending.page;
        let Some(frame) = self.pool.table.find(page) else {
            return self.make_place(key);
        };
        let meta = self.pool.table.meta(frame);
        if pending.is_prefetch {
            meta.touch();
            return Step::Vanish;
        }
        if self.pool.is_in_doubt(frame, page) {
            return Step::Wait(State::Seek);
        }
        if pending.mode == Mode::Exclusive {
            return match self.frames.try_write(frame) {
                Some(write) if meta.has(page) => {
                    let have = Some(meta.version.load(Ordering::Acquire));
                    Step::Next(State::Fetch { write, have })
                }
                Some(_) => Step::Wait(State::Seek),
                None => {
                    pending.joined |= meta.is(LOADING);
                    self.frames.want(frame);
                    Step::Wait(State::Seek)
                }
            };
        }
        if self.frames.is_wanted(frame) && !self.local.has(page, true) {
            let since = *pending.stepped_back.get_or_insert(self.now);
            if self.now.since(since) < STEP_BACK {
                return Step::Wait(State::Seek);
            }
        }
        if self.directory.capacity() == 0 {
            // The version could not be verified. Latching the frame and releasing it again would
            // look like endless progress.
            return Step::Wait(State::Seek);
        }
        let Some(read) = self.frames.try_read(frame) else {
            pending.joined |= meta.is(LOADING);
            return Step::Wait(State::Seek);
        };
        let version = meta.version.load(Ordering::Acquire);
        if !meta.has(page) {
            self.pool.let_go(read);
            return Step::Wait(State::Seek);
        }
        if meta.is(TORN) {
            self.pool.let_go(read);
            return Step::Next(State::Replace { frame, version });
        }
        Step::Next(State::Verify {
            read,
            version,
            lease: None,
        })
    }

    /// Assigns a free buffer frame to the page.
    fn make_place(&mut self, key: Key) -> Step {
        let write = match self.free_frame(key) {
            Ok(write) => write,
            Err(step) => return step,
        };
        let Some(pending) = self.fixes.get_mut(key) else {
            self.pool.put_back(write);
            return Step::Vanish;
        };
        let shard = self.pool.table.lock(pending.page);
        if shard.find().is_some() {
            drop(shard);
            self.pool.put_back(write);
            return Step::Next(State::Seek);
        }
        shard.insert(write.frame());
        drop(shard);
        Step::Next(State::Fetch { write, have: None })
    }

    /// An old version is in `frame`, to be replaced by the newest.
    fn replace(&mut self, key: Key, frame: u32, version: u64) -> Step {
        let Some(page) = self.fixes.get(key).map(|pending| pending.page) else {
            return Step::Vanish;
        };
        let pool = Arc::clone(&self.pool);
        let meta = pool.table.meta(frame);
        let is_as_it_was = || meta.has(page) && meta.version.load(Ordering::Acquire) == version;
        if let Some(write) = self.frames.try_write(frame) {
            if is_as_it_was() {
                let have = Some(version);
                return Step::Next(State::Fetch { write, have });
            }
            return Step::Next(State::Seek);
        }
        if !is_as_it_was() || self.frames.is_written(frame) {
            return Step::Wait(State::Seek);
        }
        if meta.is(EVICTING) {
            return Step::Wait(State::Replace { frame, version });
        }
        let write = match self.free_frame(key) {
            Ok(write) => write,
            Err(Step::Wait(_)) => return Step::Wait(State::Replace { frame, version }),
            Err(step) => return step,
        };
        let shard = self.pool.table.lock(page);
        let same = shard.find() == Some(frame) && is_as_it_was() && !meta.is(EVICTING);
        if !same || !self.pool.detach(&shard, frame) {
            drop(shard);
            self.pool.put_back(write);
            return Step::Wait(State::Seek);
        }
        shard.insert(write.frame());
        drop(shard);
        Step::Next(State::Fetch { write, have: None })
    }

    /// A free buffer frame, or the step to take without one.
    fn free_frame(&mut self, key: Key) -> Result<FrameWrite, Step> {
        let freed = self.pool.freed();
        let Some(pending) = self.fixes.get_mut(key) else {
            return Err(Step::Vanish);
        };
        if let Some(write) = self.pool.take_free(pending.page) {
            return Ok(write);
        }
        if pending.is_prefetch {
            return Err(Step::Vanish);
        }
        match pending.frame_wait {
            Some((since, then)) if then == freed => {
                let still = self.pool.moving.load(Ordering::Relaxed) == 0
                    && self.pool.isolated() == 0
                    && self.pool.unfixes_pending() == 0;
                let waited = self.now.since(since);
                if waited >= self.pool.config.patience {
                    let why = self.pool.fault().unwrap_or(FixError::Gone);
                    return Err(Step::Done(Err(why)));
                }
                if still && waited >= FRAME_WAIT {
                    let class = self.pool.sizes.of_store(pending.page.store());
                    let frames = class.count;
                    let why = self
                        .pool
                        .fault()
                        .unwrap_or(FixError::PoolTooSmall { frames });
                    return Err(Step::Done(Err(why)));
                }
            }
            _ => pending.frame_wait = Some((self.now, freed)),
        }
        Err(Step::Wait(State::Seek))
    }

    fn verify(&mut self, key: Key, read: FrameRead, version: u64, verbs: &mut dyn Verbs) -> Step {
        let Some(page) = self.fixes.get(key).map(|pending| pending.page) else {
            self.pool.let_go(read);
            return Step::Vanish;
        };
        let beginning = self.directory.beginnings();
        let lease = self.pool.ask_lease(page, beginning, self.now);
        let op = Op::Verify {
            page,
            lease: lease.map(|_| version),
        };
        match self.directory.begin(self.now, verbs, op) {
            Some(ticket) => {
                self.jobs.push((ticket, Job::Fix(key)));
                Step::Asked(State::Verify {
                    read,
                    version,
                    lease,
                })
            }
            None => {
                self.pool.let_go(read);
                Step::Wait(State::Seek)
            }
        }
    }

    fn fetch(
        &mut self,
        key: Key,
        write: FrameWrite,
        have: Option<u64>,
        verbs: &mut dyn Verbs,
    ) -> Step {
        let Some(pending) = self.fixes.get_mut(key) else {
            return Step::Vanish;
        };
        if !pending.moves {
            pending.moves = true;
            self.pool.moving.fetch_add(1, Ordering::Relaxed);
        }
        let (page, mode, frame) = (pending.page, pending.mode, write.frame());
        if have.is_some() && self.pool.is_in_doubt(frame, page) {
            return Step::Wait(State::Fetch { write, have });
        }
        // It may have been republished since.
        let version = || self.pool.table.meta(frame).version.load(Ordering::Acquire);
        let have = have.map(|_| version());
        if have.is_none() {
            // An earlier attempt may have left the page's header here.
            self.pool.void(frame);
        }
        let op = Op::Fetch {
            page,
            mode,
            frame,
            have,
        };
        match self.directory.begin(self.now, verbs, op) {
            Some(ticket) => {
                self.jobs.push((ticket, Job::Fix(key)));
                Step::Asked(State::Fetch { write, have })
            }
            None => Step::Wait(State::Fetch { write, have }),
        }
    }
}
