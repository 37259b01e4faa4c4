//! The storage node: its cores own the directory and the drives.
//!
//! All its handlers share one [`Owner`]; each has a completion queue and the connections of some
//! threads. A page that no node holds is read from a drive into a staging buffer and written from
//! there into the requester's frame, and the answer follows on the same connection.
//!
//! The directory, which nodes have which page, is a state machine without input or output of its
//! own. Pages never change, so any number of nodes may have one. A page that no node has is loaded
//! for the first requester, and later requesters wait meanwhile.

use super::channel::{Channel, Fetch, Holder, Message, RECEIVED, WRITTEN, kind, parts};
use super::frames::{HEADER, write_page};
use super::next;
use crate::baseline::verbs::{Remote, poll, post};
use crate::harness::prelude::*;
use rackweave_target::{Backend, Io, IoKind};

/// Loads that miss every cache, per message: the page's bucket in a hash table and its entry.
/// Assumed, as for any hash table larger than the caches.
pub const MISSES_PER_MESSAGE: u64 = 2;

/// Completions taken in one step.
const POLL: usize = 8;

#[derive(Clone, Debug)]
pub struct Line {
    pub channel: Channel,
    pub node: u16,
    pub frames: Remote,
}

pub struct Owner {
    page_size: u32,
    pub directory: Directory,
    pub lines: Vec<Line>,
    /// Staging buffers of a page each.
    staging: Region,
    /// The load that uses each of them.
    loads: Vec<Option<Load>>,
    free: Vec<u32>,
    /// The drives, which model time and do not store the pages' content.
    drives: Box<dyn Backend>,
}

impl Owner {
    /// An owner of `pages` pages with as many staging buffers as `staging` holds.
    pub fn new(pages: u64, page_size: u32, staging: Region, drives: Box<dyn Backend>) -> Self {
        let count = (staging.block.len() / page_size as usize) as u32;
        Self {
            page_size,
            directory: Directory::new(pages),
            lines: Vec::new(),
            staging,
            loads: vec![None; count as usize],
            free: (0..count).rev().collect(),
            drives,
        }
    }

    /// Whether no staging buffer is in use; for tests.
    #[cfg(test)]
    pub fn is_idle(&self) -> bool {
        self.free.len() == self.loads.len()
    }

    fn receive(
        &mut self,
        context: &mut Context<'_>,
        completion: &Completion,
    ) -> Result<(), Failure> {
        let channel = parts(completion.id).0;
        let line = &self.lines[channel as usize];
        let (tag, message) = line.channel.receive(context, completion)?;
        let misses = context.cpu().memory_latency * MISSES_PER_MESSAGE;
        context.charge(Category::Communication, misses);
        let node = line.node;
        let asker = Asker { node, channel, tag };
        self.directory.handle_request(asker, message)
    }

    /// A page has been written into its frame: the staging buffer is free.
    fn written(&mut self, slot: u32) -> Result<(), Failure> {
        let load = self.loads[slot as usize].take();
        let load = load.ok_or("a page was written that was not loaded")?;
        self.free.push(slot);
        self.directory.handle_loaded(load.page)
    }

    /// Sends answers, and starts loads as long as staging buffers are free.
    fn work(&mut self, context: &mut Context<'_>) -> Result<(), Failure> {
        while let Some((to, message)) = self.directory.answers.pop_front() {
            let channel = &self.lines[to.channel as usize].channel;
            channel.send(context, to.tag, &message)?;
        }
        while let (Some(&load), Some(&slot)) = (self.directory.loads.front(), self.free.last()) {
            self.directory.loads.pop_front();
            self.free.pop();
            self.loads[slot as usize] = Some(load);
            // A command is written to a queue in memory and a doorbell is rung, as for a NIC.
            context.charge(Category::Communication, context.cpu().post_cost);
            let blocks = self.page_size / self.drives.block_size();
            let read = Io {
                tag: slot.into(),
                kind: IoKind::Read,
                block: load.page * u64::from(blocks),
                blocks,
                buffer: None,
            };
            let taken = self.drives.submit(context.now(), read);
            taken.map_err(|_| "the drives take no more commands")?;
        }
        Ok(())
    }

    /// Takes completions of the drives' commands, and sends the pages that were read.
    fn take_pages(&mut self, context: &mut Context<'_>) -> Result<bool, Failure> {
        context.charge(Category::Communication, context.cpu().cache_latency);
        let mut ended = Vec::new();
        self.drives.poll(context.now(), &mut ended);
        for done in &ended {
            context.charge(Category::Communication, context.cpu().poll_cost);
            let read = done.result;
            read.map_err(|error| format!("a drive has failed: {error}"))?;
            let load = self.loads[done.tag as usize];
            let Load { page, to, frame } = load.ok_or("a drive has read what nobody wanted")?;
            let size = u64::from(self.page_size);
            let at = done.tag * size;
            write_page(&self.staging.block, at as usize, size as usize, page);
            let line = &self.lines[to.channel as usize];
            let segment = self.staging.segment(at, self.page_size);
            let there = u64::from(frame) * (HEADER + size) + HEADER;
            let write = line.frames.write(WRITTEN | done.tag, there, segment);
            post(context, line.frames.qpn, write)?;
            let loaded = Message::Loaded { from_storage: true };
            line.channel.send(context, to.tag, &loaded)?;
        }
        Ok(!ended.is_empty())
    }
}

/// A core that serves its connections and the drives; `cq` is the completion queue of its requests.
pub fn handler(owner: Rc<RefCell<Owner>>, cq: CqId) -> impl Program {
    move |context: &mut Context<'_>| -> Turn {
        let owner = &mut *owner.borrow_mut();
        let completions = poll(context, cq, POLL)?;
        for completion in &completions {
            match kind(completion.id) {
                RECEIVED => owner.receive(context, completion)?,
                WRITTEN => owner.written(parts(completion.id).1)?,
                _ => {}
            }
        }
        let has_read = owner.take_pages(context)?;
        owner.work(context)?;
        let step = next(has_read || !completions.is_empty());
        Ok(match (step, owner.drives.poll_timeout()) {
            // It polls the drives' queue, too.
            (Step::WaitForPacket, Some(due)) => Step::WaitUntil(due),
            _ => step,
        })
    }
}

/// The destination of an answer: the connection of the request, its node, and its tag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asker {
    pub node: u16,
    pub channel: u32,
    pub tag: u16,
}

/// A page to be read from storage and written into a frame of the requester, which then is to be
/// notified; then [`Directory::handle_loaded`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Load {
    pub page: u64,
    pub to: Asker,
    pub frame: u32,
}

#[derive(Clone, Default, Debug)]
pub struct Entry {
    pub holders: Vec<Holder>,
    is_loading: bool,
    waiting: VecDeque<(Asker, Fetch)>,
}

#[derive(Debug)]
pub struct Directory {
    entries: Vec<Entry>,
    pub answers: VecDeque<(Asker, Message)>,
    pub loads: VecDeque<Load>,
}

impl Entry {
    /// A node no longer holds the page; if an id is given, only the copy of that request is
    /// dropped.
    pub fn forget(&mut self, node: u16, id: Option<u64>) {
        let is_it = |holder: &Holder| holder.node == node && id.is_none_or(|id| holder.id == id);
        if let Some(at) = self.holders.iter().position(is_it) {
            self.holders.swap_remove(at);
        }
    }
}

impl Directory {
    pub fn new(pages: u64) -> Self {
        Self {
            entries: vec![Entry::default(); pages as usize],
            answers: VecDeque::new(),
            loads: VecDeque::new(),
        }
    }

    /// Handles a request.
    pub fn handle_request(&mut self, asker: Asker, message: Message) -> Result<(), Failure> {
        match message {
            Message::Fetch(fetch) => {
                let entry = self.entry(fetch.page)?;
                entry.waiting.push_back((asker, fetch));
                self.go_on(fetch.page)
            }
            Message::Drop(copies) => {
                for (page, id) in copies {
                    self.entry(page)?.forget(asker.node, Some(id));
                }
                self.answers.push_back((asker, Message::Dropped));
                Ok(())
            }
            _ => Err("a message came that is no request".into()),
        }
    }

    /// Handles the completed load of a page into a frame.
    pub fn handle_loaded(&mut self, page: u64) -> Result<(), Failure> {
        let entry = self.entry(page)?;
        if !core::mem::take(&mut entry.is_loading) {
            return Err(format!("page {page}: a load ended that had not begun"));
        }
        self.go_on(page)
    }

    fn entry(&mut self, page: u64) -> Result<&mut Entry, Failure> {
        let entry = self.entries.get_mut(page as usize);
        entry.ok_or_else(|| format!("page {page} does not exist"))
    }

    /// Handles the waiting requests until one of them has to wait.
    fn go_on(&mut self, page: u64) -> Result<(), Failure> {
        let entry = &mut self.entries[page as usize];
        while !entry.is_loading
            && let Some((asker, fetch)) = entry.waiting.pop_front()
        {
            // It requests the page because it has none: a drop of its former copy is still in
            // flight.
            entry.forget(asker.node, None);
            let first = entry.holders.first().copied();
            let holder = first.filter(|_| !fetch.from_storage);
            entry.is_loading = holder.is_none();
            entry.holders.push(Holder {
                node: asker.node,
                frame: fetch.frame,
                id: fetch.id,
            });
            match holder {
                Some(holder) => {
                    let redirect = Message::Redirect(holder);
                    self.answers.push_back((asker, redirect));
                }
                None => self.loads.push_back(Load {
                    page,
                    to: asker,
                    frame: fetch.frame,
                }),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
