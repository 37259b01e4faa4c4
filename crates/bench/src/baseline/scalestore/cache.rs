//! A compute node's cache: the pages in its frames, and the accesses of its workers that wait.
//!
//! A state machine without input or output of its own, shared by the node's workers and its
//! housekeeper. Copies are used without a request to the owner. A page that is being fetched is
//! fetched once; other accesses to it join.

use super::channel::{DROPS_MAX, Fetch};
use super::frames::Frames;
use crate::harness::prelude::*;

/// Maximum frames that the hand passes before other threads may use the cache.
const LOOKS_MAX: u32 = 256;

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Waiter {
    pub worker: u16,
    pub slot: u16,
}

/// Where the page of an access was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PageSource {
    /// In the node's own frame.
    Local,
    /// It was already being fetched for another access.
    Joined,
    /// In another node's frame.
    Remote,
    Storage,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Attempt {
    Hit,
    /// It waits for a fetch that another access has started.
    Waits,
    /// It waits; this request has to be sent to the owner under the tag of its slot.
    Ask(Fetch),
    /// No frame is free; the housekeeper frees some.
    NoFrame,
}

/// Whether a page is in a cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Presence {
    Absent,
    /// It is being fetched.
    Coming,
    Here(u32),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Free,
    /// Reserved for a page that is being fetched, with the required header of the frame that it is
    /// read from, if another node has the page.
    Fetching {
        remote_id: u64,
    },
    Here,
}

#[derive(Debug)]
struct Frame {
    page: u64,
    /// Of the request by which the page was or is being fetched.
    id: u64,
    state: State,
    /// Whether it was used since the hand last passed it.
    referenced: bool,
    /// Number of transfers to other nodes that read it.
    pins: u32,
    waiters: Vec<Waiter>,
}

#[derive(Debug)]
pub struct Cache {
    /// The frames' bytes.
    pub bytes: Frames,
    frames: Vec<Frame>,
    /// The frame of each page.
    table: Vec<u32>,
    pub free: Vec<u32>,
    /// The number of free frames that the housekeeper provides.
    free_low: usize,
    /// The frame that is checked next when one is to be freed (second chance).
    hand: u32,
    ids: u64,
    /// Accesses of each worker that waited and are done: the slot, and where the page was.
    pub done: Vec<VecDeque<(u16, PageSource)>>,
    /// Whether there is news for other threads.
    pub stirred: bool,
    pub redirects_stale: u64,
}

/// The number of frames that are kept free, of `count`: one in a hundred, as ScaleStore's default,
/// but two batches.
pub fn frames_kept_free(count: u32) -> u32 {
    let batches = (2 * DROPS_MAX as u32).min(count / 4);
    (count / 100).max(batches).max(1)
}

impl Cache {
    /// An empty cache of `count` frames for `workers` workers, and for pages below `pages`.
    pub fn new(bytes: Frames, count: u32, pages: u64, workers: u16) -> Self {
        let frame = |_| Frame {
            page: 0,
            id: 0,
            state: State::Free,
            referenced: false,
            pins: 0,
            waiters: Vec::new(),
        };
        Self {
            bytes,
            frames: (0..count).map(frame).collect(),
            table: vec![NONE; pages as usize],
            free: (0..count).rev().collect(),
            free_low: frames_kept_free(count) as usize,
            hand: 0,
            ids: 0,
            done: (0..workers).map(|_| VecDeque::new()).collect(),
            stirred: false,
            redirects_stale: 0,
        }
    }

    /// An access to a page below the number of pages.
    pub fn access(&mut self, page: u64, waiter: Waiter) -> Result<Attempt, Failure> {
        let at = self.table[page as usize];
        if at == NONE {
            let Some(at) = self.free.pop() else {
                return Ok(Attempt::NoFrame);
            };
            self.table[page as usize] = at;
            let frame = &mut self.frames[at as usize];
            frame.page = page;
            frame.waiters.push(waiter);
            self.stirred |= self.free.len() < self.free_low;
            return Ok(Attempt::Ask(self.fetch(at, false)));
        }
        if self.frames[at as usize].state == State::Here {
            self.touch(at)?;
            return Ok(Attempt::Hit);
        }
        self.frames[at as usize].waiters.push(waiter);
        Ok(Attempt::Waits)
    }

    /// The id of the request by which the page of a frame was or is being fetched.
    pub fn id(&self, at: u32) -> u64 {
        self.frames[at as usize].id
    }

    /// Whether a page is present.
    pub fn presence(&self, page: u64) -> Presence {
        match self.table[page as usize] {
            NONE => Presence::Absent,
            at if self.frames[at as usize].state == State::Here => Presence::Here(at),
            _ => Presence::Coming,
        }
    }

    /// Starts to fetch an absent page for another node, if a frame is free; returns the request.
    pub fn load(&mut self, page: u64) -> Option<Fetch> {
        let at = self.free.pop()?;
        self.table[page as usize] = at;
        self.frames[at as usize].page = page;
        self.stirred |= self.free.len() < self.free_low;
        Some(self.fetch(at, true))
    }

    /// Keeps a frame from being evicted until [`Self::unpin`].
    pub fn pin(&mut self, at: u32) {
        self.frames[at as usize].pins += 1;
    }

    /// Undoes one [`Self::pin`].
    pub fn unpin(&mut self, at: u32) {
        self.frames[at as usize].pins -= 1;
        self.stirred = true;
    }

    /// Reports that the page that `worker`, or another thread, fetched into a frame has been
    /// written there from `source`.
    pub fn handle_loaded(
        &mut self,
        at: u32,
        worker: Option<u16>,
        source: PageSource,
    ) -> Result<(), Failure> {
        self.fetching(at)?;
        self.install(at, worker, source)
    }

    /// Reports that the node that was to send a page does not have it; returns the request to the
    /// owner, who is to read it from storage.
    pub fn handle_gone(&mut self, at: u32) -> Result<Fetch, Failure> {
        self.fetching(at)?;
        self.redirects_stale += 1;
        Ok(self.fetch(at, true))
    }

    /// Reports that the page to fetch into a frame is in another node's frame, whose header must
    /// bear this id. The caller must read header and page into the local frame, then the header
    /// again.
    pub fn handle_redirect(&mut self, at: u32, id: u64) -> Result<(), Failure> {
        *self.fetching(at)? = id;
        Ok(())
    }

    /// Reports that a frame of another node has been read into a local one for `worker`; its header
    /// was `before` and `after`. If the page had been evicted meanwhile, returns the request to the
    /// owner.
    pub fn handle_read(
        &mut self,
        at: u32,
        worker: u16,
        [before, after]: [[u64; 2]; 2],
    ) -> Result<Option<Fetch>, Failure> {
        let id = *self.fetching(at)?;
        if before == after && after == [self.frames[at as usize].page, id] {
            self.install(at, Some(worker), PageSource::Remote)?;
            return Ok(None);
        }
        self.redirects_stale += 1;
        Ok(Some(self.fetch(at, true)))
    }

    /// Frees frames, if few are free. Returns how many frames it had to check, and the dropped
    /// copies, as pairs of page and id.
    pub fn evict(&mut self) -> (u32, Vec<(u64, u64)>) {
        let (mut looks, mut dropped) = (0, Vec::new());
        while self.free.len() < self.free_low && dropped.len() < DROPS_MAX && looks < LOOKS_MAX {
            looks += 1;
            let at = self.hand;
            self.hand = (at + 1) % self.frames.len() as u32;
            let frame = &mut self.frames[at as usize];
            let may_go = frame.state == State::Here && frame.pins == 0;
            if !may_go || core::mem::take(&mut frame.referenced) {
                continue;
            }
            frame.state = State::Free;
            dropped.push((frame.page, frame.id));
            self.bytes.void(at);
            self.table[frame.page as usize] = NONE;
            self.free.push(at);
        }
        self.stirred |= !dropped.is_empty();
        (looks, dropped)
    }

    /// The id that the header of another node's frame has to bear.
    fn fetching(&mut self, at: u32) -> Result<&mut u64, Failure> {
        match self
            .frames
            .get_mut(at as usize)
            .map(|frame| &mut frame.state)
        {
            Some(State::Fetching { remote_id }) => Ok(remote_id),
            _ => Err("an answer came that nobody waits for".into()),
        }
    }

    /// Starts to fetch the page of a frame; returns the request.
    fn fetch(&mut self, at: u32, from_storage: bool) -> Fetch {
        self.ids += 1;
        let frame = &mut self.frames[at as usize];
        (frame.id, frame.state) = (self.ids, State::Fetching { remote_id: 0 });
        Fetch {
            page: frame.page,
            id: frame.id,
            frame: at,
            from_storage,
        }
    }

    /// A fetched page is present: all accesses that waited for it are done.
    fn install(&mut self, at: u32, worker: Option<u16>, source: PageSource) -> Result<(), Failure> {
        let frame = &mut self.frames[at as usize];
        frame.state = State::Here;
        self.bytes.name(at, frame.page, frame.id);
        let mut source = source;
        for waiter in core::mem::take(&mut frame.waiters) {
            self.touch(at)?;
            self.stirred |= Some(waiter.worker) != worker;
            let done = &mut self.done[usize::from(waiter.worker)];
            done.push_back((
                waiter.slot,
                core::mem::replace(&mut source, PageSource::Joined),
            ));
        }
        Ok(())
    }

    /// Reads a cached page.
    fn touch(&mut self, at: u32) -> Result<(), Failure> {
        let frame = &mut self.frames[at as usize];
        frame.referenced = true;
        if self.bytes.read(at) == Some(frame.page) {
            return Ok(());
        }
        let page = frame.page;
        Err(format!(
            "page {page} is damaged, or another one was in its place"
        ))
    }
}

#[cfg(test)]
mod tests;
