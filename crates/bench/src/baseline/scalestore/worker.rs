//! The threads of a compute node: workers with several concurrent accesses to pages, and a
//! housekeeper.

use super::cache::{Attempt, Cache, PageSource, Waiter};
use super::channel::{Channel, Fetch, Holder, Message, READ, RECEIVED, kind, parts};
use super::frames::{HEADER, HEADER_WORDS};
use super::possession::{PageOwner, Peer};
use super::{Pages, Shared, next};
use crate::baseline::verbs::{Remote, poll, post};
use crate::harness::prelude::*;
use std::collections::BTreeMap;

/// Bytes per slot for headers read from other nodes: one header before the page, one after.
pub const SCRATCH: u64 = 2 * HEADER;

/// Completions taken in one step.
const POLL: usize = 4;

pub struct Worker {
    /// Its number at its node.
    pub number: u16,
    pub cache: Rc<RefCell<Cache>>,
    pub cq: CqId,
    /// The connection to the owner.
    pub channel: Channel,
    /// The pages' owners, if the compute nodes own them, and the connections to their handlers.
    pub owners: Option<Owners>,
    /// Connections to the frames of the other nodes, by their number; its own is not used.
    pub remotes: Vec<Option<Remote>>,
    /// Memory for headers that are read from other nodes: [`SCRATCH`] bytes for each slot.
    pub scratch: Region,
    pub pages: Pages,
    /// The cost of one access.
    pub work: Duration,
    /// Start and end of counting.
    pub window: (Instant, Instant),
    /// Where the pages of all threads were found.
    pub found: Shared,
    /// The pending accesses, each in a slot of its own.
    pub slots: Vec<Slot>,
    pub free: Vec<u16>,
    /// Accesses for which no frame was free.
    pub blocked: VecDeque<u16>,
    pub is_exhausted: bool,
}

/// What a thread needs to ask pages' owners.
pub struct Owners {
    pub page_owner: Rc<RefCell<PageOwner>>,
    /// Connections to the handlers of other nodes, by their number.
    pub channels: Vec<Option<Channel>>,
}

impl Owners {
    fn channel(&self, node: u16) -> Result<&Channel, Failure> {
        let channel = self.channels.get(usize::from(node));
        let channel = channel.and_then(Option::as_ref);
        channel.ok_or_else(|| format!("there is no connection to node {node}"))
    }
}

#[derive(Clone, Copy, Default, Debug)]
pub struct Slot {
    page: u64,
    /// The frame into which it fetches the page, if it is the access that does.
    frame: u32,
}

impl Program for Worker {
    /// Takes completions, then begins one access if possible.
    fn turn(&mut self, context: &mut Context<'_>) -> Result<Step, Failure> {
        let cache = Rc::clone(&self.cache);
        let cache = &mut *cache.borrow_mut();
        let completions = poll(context, self.cq, POLL)?;
        let mut happened = !completions.is_empty();
        for completion in &completions {
            match kind(completion.id) {
                RECEIVED => {
                    let channel = match (parts(completion.id).0, &self.owners) {
                        (from @ 1.., Some(owners)) => owners.channel(from as u16 - 1)?,
                        _ => &self.channel,
                    };
                    let (slot, answer) = channel.receive(context, completion)?;
                    self.take_answer(context, cache, slot, answer)?;
                }
                READ => {
                    let slot = parts(completion.id).1 as u16;
                    let (frame, headers) =
                        (self.slots[usize::from(slot)].frame, self.headers(slot));
                    if let Some(fetch) = cache.handle_read(frame, self.number, headers)? {
                        self.ask(context, slot, fetch)?;
                    }
                }
                _ => {}
            }
        }
        while let Some((slot, source)) = cache.done[usize::from(self.number)].pop_front() {
            happened = true;
            self.done(context, slot, source);
        }
        happened |= self.begin(context, cache)?;
        if core::mem::take(&mut cache.stirred) {
            context.wake_neighbours();
        }
        let is_done = self.is_exhausted && self.free.len() == self.slots.len();
        Ok(if is_done { Step::Done } else { next(happened) })
    }
}

impl Worker {
    fn take_answer(
        &mut self,
        context: &mut Context<'_>,
        cache: &mut Cache,
        slot: u16,
        answer: Message,
    ) -> Result<(), Failure> {
        let asked = self.slots.get(usize::from(slot));
        let frame = asked.ok_or("an answer came that nobody waits for")?.frame;
        match answer {
            Message::Loaded { from_storage } => {
                let source = match from_storage {
                    true => PageSource::Storage,
                    false => PageSource::Remote,
                };
                cache.handle_loaded(frame, Some(self.number), source)
            }
            Message::Gone => {
                let fetch = cache.handle_gone(frame)?;
                self.ask(context, slot, fetch)
            }
            Message::Redirect(holder) if let Some(owners) = &self.owners => {
                let (page, from_storage) = (self.slots[usize::from(slot)].page, false);
                let id = cache.id(frame);
                let copy = Message::Copy(Fetch {
                    page,
                    id,
                    frame,
                    from_storage,
                });
                owners.channel(holder.node)?.send(context, slot, &copy)
            }
            Message::Redirect(holder) => {
                cache.handle_redirect(frame, holder.id)?;
                self.read(context, cache, slot, holder)
            }
            other => Err(format!("the owner sent a worker {other:?}")),
        }
    }

    /// Begins an access, or retries one that found no free frame.
    fn begin(&mut self, context: &mut Context<'_>, cache: &mut Cache) -> Result<bool, Failure> {
        if !self.blocked.is_empty() {
            // Its other slots wait, too: pages are fetched in the order of the accesses.
            if cache.free.is_empty() {
                return Ok(false);
            }
            let blocked = self.blocked.pop_front();
            blocked.map_or(Ok(()), |slot| self.attempt(context, cache, slot))?;
            return Ok(true);
        }
        let Some(&slot) = self.free.last() else {
            return Ok(false);
        };
        let page = match self.is_exhausted {
            true => None,
            false => (self.pages)(),
        };
        let Some(page) = page else {
            self.is_exhausted = true;
            return Ok(false);
        };
        self.free.pop();
        self.slots[usize::from(slot)].page = page;
        self.attempt(context, cache, slot)?;
        Ok(true)
    }

    fn attempt(
        &mut self,
        context: &mut Context<'_>,
        cache: &mut Cache,
        slot: u16,
    ) -> Result<(), Failure> {
        let worker = self.number;
        let page = self.slots[usize::from(slot)].page;
        match cache.access(page, Waiter { worker, slot })? {
            Attempt::Hit => self.done(context, slot, PageSource::Local),
            Attempt::Waits => {}
            Attempt::Ask(fetch) => self.ask(context, slot, fetch)?,
            Attempt::NoFrame => self.blocked.push_back(slot),
        }
        Ok(())
    }

    fn ask(&mut self, context: &mut Context<'_>, slot: u16, fetch: Fetch) -> Result<(), Failure> {
        self.slots[usize::from(slot)].frame = fetch.frame;
        let Some(owners) = &self.owners else {
            return self.channel.send(context, slot, &Message::Fetch(fetch));
        };
        let (peer, message) = owners.page_owner.borrow_mut().route(fetch);
        match peer {
            Peer::Storage => self.channel.send(context, slot, &message),
            Peer::Node(node) => owners.channel(node)?.send(context, slot, &message),
        }
    }

    /// Reads a frame of another node: its header to the scratch memory, its page into the local
    /// frame, then its header once more, all in this order.
    fn read(
        &mut self,
        context: &mut Context<'_>,
        cache: &Cache,
        slot: u16,
        holder: Holder,
    ) -> Result<(), Failure> {
        let remote = self.remotes.get(usize::from(holder.node));
        let remote = remote.copied().flatten();
        let remote = remote.ok_or("a message names a node that there is not")?;
        let there = cache.bytes.offset(holder.frame);
        let scratch = u64::from(slot) * SCRATCH;
        let id = READ | u64::from(slot);
        let header = self.scratch.segment(scratch, HEADER as u32);
        let page = cache.bytes.segment(self.slots[usize::from(slot)].frame);
        let mut all = remote.read(id, there, &[header, page]);
        all.signaled = false;
        // Both share one doorbell, which is charged for the second.
        let posted = context.nic().post_send(remote.qpn, all);
        posted.map_err(|error| format!("queue pair {}: {error}", remote.qpn))?;
        let again = self.scratch.segment(scratch + HEADER, HEADER_WORDS);
        post(context, remote.qpn, remote.read(id, there, &[again]))
    }

    /// The two headers that were read for a slot.
    fn headers(&self, slot: u16) -> [[u64; 2]; 2] {
        let at = usize::from(slot) * SCRATCH as usize;
        let word = |at: usize| self.scratch.block.word(at).load(Ordering::Acquire);
        [at, at + HEADER as usize].map(|at| [word(at), word(at + 8)])
    }

    fn done(&mut self, context: &mut Context<'_>, slot: u16, source: PageSource) {
        context.charge(Category::Compute, self.work);
        self.free.push(slot);
        let (from, until) = self.window;
        if (from..until).contains(&context.now()) {
            let mut found = self.found.get();
            found[source as usize] += 1;
            self.found.set(found);
        }
    }
}

/// Maximum requests to the owner in flight.
pub const TAGS: u32 = 64;

/// The housekeeper of a node, which frees frames and notifies the owners of evicted pages over
/// `channels`, by their numbers; `owner` is the number of a page's owner, unless that is this node.
/// `cq` is the completion queue of its requests.
pub fn housekeeper(
    cache: Rc<RefCell<Cache>>,
    cq: CqId,
    channels: BTreeMap<u32, Channel>,
    owner: impl Fn(u64) -> Option<u32>,
) -> impl Program {
    // Tags without a request in flight, and drops that wait for one.
    let tags = || (0..TAGS as u16).rev().collect::<Vec<u16>>();
    let mut free: BTreeMap<u32, Vec<u16>> = channels.keys().map(|&at| (at, tags())).collect();
    let mut waiting: VecDeque<(u32, Message)> = VecDeque::new();
    move |context: &mut Context<'_>| -> Turn {
        let completions = poll(context, cq, 2 * POLL)?;
        for completion in completions.iter().filter(|one| kind(one.id) == RECEIVED) {
            let (number, _) = parts(completion.id);
            match channels[&number].receive(context, completion)? {
                (tag, Message::Dropped) => free.entry(number).or_default().push(tag),
                (_, other) => return Err(format!("the owner sent a housekeeper {other:?}")),
            }
        }
        let mut cache = cache.borrow_mut();
        let (looks, dropped) = cache.evict();
        let mut copies = BTreeMap::<u32, Vec<(u64, u64)>>::new();
        for (page, id) in dropped {
            if let Some(owner) = owner(page) {
                copies.entry(owner).or_default().push((page, id));
            }
        }
        waiting.extend(copies.into_iter().map(|(to, of)| (to, Message::Drop(of))));
        let cost = context.cpu().cache_latency * u64::from(looks);
        context.charge(Category::Communication, cost);
        while let Some((to, _)) = waiting.front()
            && let Some(tag) = free.get_mut(to).and_then(Vec::pop)
            && let Some((to, message)) = waiting.pop_front()
        {
            channels[&to].send(context, tag, &message)?;
        }
        if core::mem::take(&mut cache.stirred) {
            context.wake_neighbours();
        }
        Ok(next(looks > 0 || !completions.is_empty()))
    }
}
