//! A compute node's cache: what lies in its frames, what its workers wait for, and what the owner
//! wants back.
//!
//! A machine without input or output of its own, shared by the node's workers and its housekeeper.
//! Shared copies are used without asking anybody: the owner revokes them before somebody may change
//! the page. A page that is being fetched is fetched once; others who want it join. Whoever waited
//! for a page gets at it before it can be revoked again, so that two nodes cannot take it from each
//! other for ever without anybody getting on.

mod evict;
mod orders;
mod words;

use super::frames::{Frames, Hand};
use super::message::{DROPS_MAX, Message, Place};
use std::collections::VecDeque;

pub use words::{Attempt, CacheCounters, CacheError, Chore, Event, Next, Source, Waiter};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Free,
    /// Reserved for what is being fetched.
    Void,
    Shared,
    Exclusive,
    /// Revoked; it is still being written elsewhere.
    Leaving,
    /// The owner was asked to fetch and store it.
    Evicting,
    /// That, but it was revoked meanwhile.
    Superseded,
}

#[derive(Clone, Copy, Debug)]
struct Order {
    tag: u16,
    page: u64,
    id: u64,
    downgrade: bool,
    push: Option<Place>,
}

#[derive(Debug)]
struct Fault {
    id: u64,
    exclusive: bool,
    /// What the other node's header has to say.
    remote_id: u64,
    /// An order about what this fetch will bring.
    deferred: Option<Order>,
}

#[derive(Debug)]
struct Frame {
    page: u64,
    id: u64,
    state: State,
    referenced: bool,
    dirty: bool,
    pushes: u32,
    fault: Option<Fault>,
    waiters: Vec<Waiter>,
}

const NONE: u32 = u32::MAX;

/// A node's cache.
#[derive(Debug)]
pub struct Cache {
    bytes: Frames,
    frames: Vec<Frame>,
    /// The frame of each page.
    table: Vec<u32>,
    free: Vec<u32>,
    /// As many free frames as the housekeeper provides.
    free_low: usize,
    evicting: usize,
    hand: Hand,
    ids: u64,
    depth: usize,
    /// The frame that each slot of each worker has asked for.
    asked: Vec<u32>,
    events: Vec<VecDeque<Event>>,
    chores: VecDeque<Chore>,
    stirred: bool,
    counters: CacheCounters,
    #[cfg(test)]
    witness: Option<Witness>,
    /// Says that it gives pages up and does not.
    #[cfg(test)]
    pub lies: bool,
}

/// How often each page was changed, by whomever: what every access must find.
#[cfg(test)]
pub type Witness = std::sync::Arc<std::sync::Mutex<Vec<u64>>>;

impl Cache {
    /// An empty cache of `count` frames for `workers` workers with `depth` slots each, and for
    /// pages below `pages`.
    pub fn new(bytes: Frames, count: u32, pages: u64, workers: u16, depth: u16) -> Self {
        let frame = |_| Frame {
            page: 0,
            id: 0,
            state: State::Free,
            referenced: false,
            dirty: false,
            pushes: 0,
            fault: None,
            waiters: Vec::new(),
        };
        let share = count as usize / 100;
        let batches = (2 * DROPS_MAX).min(count as usize / 4);
        Self {
            bytes,
            frames: (0..count).map(frame).collect(),
            table: vec![NONE; pages as usize],
            free: (0..count).rev().collect(),
            free_low: share.max(batches).max(1),
            evicting: 0,
            hand: Hand::default(),
            ids: 0,
            depth: usize::from(depth),
            asked: vec![NONE; usize::from(workers) * usize::from(depth)],
            events: (0..workers).map(|_| VecDeque::new()).collect(),
            chores: VecDeque::new(),
            stirred: false,
            counters: CacheCounters::default(),
            #[cfg(test)]
            witness: None,
            #[cfg(test)]
            lies: false,
        }
    }

    /// The frames' bytes.
    pub fn bytes(&self) -> &Frames {
        &self.bytes
    }

    /// What it has done so far.
    pub fn counters(&self) -> CacheCounters {
        self.counters
    }

    /// What became of an access of a worker that waited.
    pub fn poll_event(&mut self, worker: u16) -> Option<Event> {
        self.events[usize::from(worker)].pop_front()
    }

    /// What the housekeeper has to do next.
    pub fn poll_chore(&mut self) -> Option<Chore> {
        self.chores.pop_front()
    }

    /// Whether there is news, since the last call, for others than the one who made it.
    pub fn take_stirred(&mut self) -> bool {
        core::mem::take(&mut self.stirred)
    }

    /// Whether the housekeeper has something to do.
    pub fn has_chores(&self) -> bool {
        !self.chores.is_empty() || self.free.len() + self.evicting < self.free_low
    }

    /// Whether there is a free frame.
    pub fn has_room(&self) -> bool {
        !self.free.is_empty()
    }

    /// An access to a page below the number of pages.
    ///
    /// # Errors
    /// If the page is damaged.
    pub fn access(&mut self, page: u64, waiter: Waiter) -> Result<Attempt, CacheError> {
        let at = self.table[page as usize];
        if at == NONE {
            let Some(frame) = self.free.pop() else {
                return Ok(Attempt::NoFrame);
            };
            self.table[page as usize] = frame;
            let slot = &mut self.frames[frame as usize];
            (slot.page, slot.state, slot.dirty) = (page, State::Void, false);
            self.stirred |= self.has_chores();
            return Ok(Attempt::Ask(self.fetch(frame, waiter, false)));
        }
        let frame = &mut self.frames[at as usize];
        if frame.state == State::Exclusive || (frame.state == State::Shared && !waiter.write) {
            self.touch(at, waiter.write)?;
            return Ok(Attempt::Hit);
        }
        if frame.fault.is_none() && frame.state == State::Shared {
            return Ok(Attempt::Ask(self.fetch(at, waiter, false)));
        }
        frame.waiters.push(waiter);
        Ok(Attempt::Waits)
    }

    /// An answer of the owner to a fetch of a worker.
    ///
    /// # Errors
    /// If nothing was asked, or the page is damaged.
    pub fn handle_answer(
        &mut self,
        worker: u16,
        slot: u16,
        answer: &Message,
    ) -> Result<Next, CacheError> {
        let at = self.asked_by(worker, slot)?;
        match *answer {
            Message::Granted {
                dirty, from_home, ..
            } => {
                let kept = self.frames[at as usize].state == State::Shared;
                self.frames[at as usize].dirty |= dirty;
                let source = match (kept, from_home) {
                    (true, _) => Source::Kept,
                    (false, true) => Source::Home,
                    (false, false) => Source::Remote,
                };
                self.install(at, worker, source)?;
                Ok(Next::Nothing)
            }
            Message::Redirect { place, id, .. } => {
                let fault = self.frames[at as usize].fault.as_mut();
                fault.ok_or(CacheError::Unasked)?.remote_id = id;
                Ok(Next::Read {
                    from: place,
                    frame: at,
                })
            }
            _ => Err(CacheError::Unasked),
        }
    }

    /// A frame of another node has been read for a worker; its header was `before` and `after`.
    ///
    /// # Errors
    /// As for [`Cache::handle_answer`].
    pub fn handle_read(
        &mut self,
        worker: u16,
        slot: u16,
        before: [u64; 2],
        after: [u64; 2],
    ) -> Result<Next, CacheError> {
        let at = self.asked_by(worker, slot)?;
        let frame = &mut self.frames[at as usize];
        let fault = frame.fault.as_mut().ok_or(CacheError::Unasked)?;
        if before == after && after == [frame.page, fault.remote_id] {
            self.install(at, worker, Source::Remote)?;
            return Ok(Next::Nothing);
        }
        self.counters.redirects_stale += 1;
        // What it would have brought was never here.
        let deferred = fault.deferred.take();
        let write = fault.exclusive;
        if let Some(order) = deferred {
            self.comply(order, false, false);
        }
        let waiter = Waiter {
            worker,
            slot,
            write,
        };
        let waiters = core::mem::take(&mut self.frames[at as usize].waiters);
        let message = self.fetch(at, waiter, true);
        self.frames[at as usize].waiters = waiters;
        Ok(Next::Ask(message))
    }

    /// The frame of a page that was changed and is not stored yet; for tests.
    #[cfg(test)]
    pub fn dirty_frame(&self, page: u64) -> Option<u32> {
        let at = self.table[page as usize];
        (at != NONE && self.frames[at as usize].dirty).then_some(at)
    }

    /// From now on, every access must find what `witness` says; for tests.
    #[cfg(test)]
    pub fn set_witness(&mut self, witness: &Witness) {
        self.witness = Some(witness.clone());
    }

    fn asked_by(&self, worker: u16, slot: u16) -> Result<u32, CacheError> {
        let at = usize::from(worker) * self.depth + usize::from(slot);
        let frame = self.asked.get(at).copied().unwrap_or(NONE);
        if frame == NONE || self.frames[frame as usize].fault.is_none() {
            return Err(CacheError::Unasked);
        }
        Ok(frame)
    }

    /// Begins to fetch the page of a frame; returns what to send.
    fn fetch(&mut self, at: u32, waiter: Waiter, from_home: bool) -> Message {
        self.ids += 1;
        let asked = usize::from(waiter.worker) * self.depth + usize::from(waiter.slot);
        self.asked[asked] = at;
        let frame = &mut self.frames[at as usize];
        let kept = if frame.state == State::Shared {
            frame.id
        } else {
            0
        };
        frame.waiters.push(waiter);
        frame.fault = Some(Fault {
            id: self.ids,
            exclusive: waiter.write,
            remote_id: 0,
            deferred: None,
        });
        Message::Fetch {
            page: frame.page,
            id: self.ids,
            kept,
            frame: at,
            exclusive: waiter.write,
            from_home,
        }
    }

    /// What was fetched is here: everybody who waited gets at it, then the owner.
    fn install(&mut self, at: u32, worker: u16, source: Source) -> Result<(), CacheError> {
        let frame = &mut self.frames[at as usize];
        let fault = frame.fault.take().ok_or(CacheError::Unasked)?;
        frame.id = fault.id;
        frame.state = if fault.exclusive {
            State::Exclusive
        } else {
            State::Shared
        };
        self.bytes.name(at, frame.page, frame.id);
        let mut source = source;
        for waiter in core::mem::take(&mut frame.waiters) {
            self.stirred |= waiter.worker != worker;
            let event = if fault.exclusive || !waiter.write {
                self.touch(at, waiter.write)?;
                Event::Done(waiter.slot, core::mem::replace(&mut source, Source::Joined))
            } else {
                Event::Retry(waiter.slot)
            };
            self.events[usize::from(waiter.worker)].push_back(event);
        }
        if let Some(order) = fault.deferred {
            self.obey(order);
        }
        Ok(())
    }

    /// Reads or changes a page that is here.
    fn touch(&mut self, at: u32, write: bool) -> Result<(), CacheError> {
        let frame = &mut self.frames[at as usize];
        let damaged = CacheError::Damaged(frame.page);
        let stamp = self.bytes.read(at).ok_or(damaged)?;
        if stamp.page != frame.page {
            return Err(damaged);
        }
        #[cfg(test)]
        if let Some(witness) = &self.witness {
            let changes = &mut witness.lock().unwrap()[stamp.page as usize];
            assert_eq!(stamp.version, *changes, "page {} is old", stamp.page);
            *changes += u64::from(write);
        }
        frame.referenced = true;
        if write {
            frame.dirty = true;
            self.bytes.write(at, stamp.raised());
        }
        Ok(())
    }

    fn add(&mut self, chore: Chore) {
        self.stirred = true;
        self.chores.push_back(chore);
    }

    /// A frame is free; who waited for its page has to ask anew.
    fn release(&mut self, at: u32) {
        self.bytes.void(at);
        let frame = &mut self.frames[at as usize];
        self.table[frame.page as usize] = NONE;
        (frame.state, frame.dirty) = (State::Free, false);
        frame.referenced = false;
        self.stirred |= self.free.is_empty() || !frame.waiters.is_empty();
        for waiter in core::mem::take(&mut frame.waiters) {
            self.events[usize::from(waiter.worker)].push_back(Event::Retry(waiter.slot));
        }
        self.free.push(at);
    }
}

#[cfg(test)]
mod tests;
