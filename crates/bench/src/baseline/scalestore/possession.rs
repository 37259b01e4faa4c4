//! Pages that compute nodes own, as ScaleStore has them: message handlers at owners and holders.
//!
//! Page `p` is owned by compute node `p` modulo their number. A node that lacks a page asks the
//! page's owner. If the owner has the page in its own cache, its handler sends it; if only other
//! nodes have it, the requester is redirected and asks the handler of one of those; if no node has
//! it, the owner's handler first reads it from storage *into the owner's own cache*, and sends it
//! from there. The owner's own workers ask holders or storage themselves. (ScaleStore's code:
//! `Buffermanager::fix`, `MessageHandler::handlePossessionRequest`, and the handling of
//! `PossessionCopyRequest`.)
//!
//! A handler writes the page, and then its answer, over the connection of the requester's thread.
//! It looks again for a page that is being fetched when something has happened at its node, and
//! refuses the request after a few times (`messageHandlerMaxRetries`). ScaleStore's requester then
//! asks another holder; here it asks the owner to read the page from storage, which ends all
//! circles of nodes that wait for each other.

use super::cache::{Cache, PageSource, Presence};
use super::channel::{Channel, Fetch, Holder, Message, RECEIVED, WRITTEN, kind, parts};
use super::frames::HEADER;
use super::next;
use super::server::{Asker, Entry, Line, MISSES_PER_MESSAGE};
use crate::baseline::verbs::{poll, post};
use crate::harness::prelude::*;

/// Number of a handler's first own connection, to storage; the others' follow.
pub const STORAGE: u32 = 0x00ff_0000;

/// Loads in flight on each of a handler's connections to storage.
pub const LOADS: u32 = 16;

/// How often a copy that is being fetched is looked for before the request is refused. Source:
/// ScaleStore's default of `messageHandlerMaxRetries`.
const RETRIES: u32 = 10;

/// Completions taken in one step.
const POLL: usize = 8;

/// What a compute node knows of the pages that it owns, and its connections from other nodes.
pub struct PageOwner {
    node: u16,
    nodes: u16,
    cache: Rc<RefCell<Cache>>,
    /// The other nodes that have each page, or are about to.
    entries: Vec<Entry>,
    pub lines: Vec<Line>,
}

/// The peer that is asked for a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Peer {
    Storage,
    Node(u16),
}

impl PageOwner {
    /// A node among `nodes`, of `pages` pages in all.
    pub fn new(node: u16, nodes: u16, pages: u64, cache: Rc<RefCell<Cache>>) -> Self {
        Self {
            node,
            nodes,
            cache,
            entries: vec![Entry::default(); pages.div_ceil(u64::from(nodes)) as usize],
            lines: Vec::new(),
        }
    }

    /// The node that owns a page.
    pub fn owner(&self, page: u64) -> u16 {
        (page % u64::from(self.nodes)) as u16
    }

    fn entry(&mut self, page: u64) -> &mut Entry {
        &mut self.entries[(page / u64::from(self.nodes)) as usize]
    }

    /// Another node that has an own page, or is about to.
    fn holder(&mut self, page: u64, turn: u64) -> Option<Holder> {
        let holders = &self.entry(page).holders;
        let count = holders.len().max(1) as u64;
        holders.get((turn % count) as usize).copied()
    }

    /// The peer that a worker of this node asks for a page, and its request.
    pub fn route(&mut self, fetch: Fetch) -> (Peer, Message) {
        let owner = self.owner(fetch.page);
        if owner != self.node {
            return (Peer::Node(owner), Message::Fetch(fetch));
        }
        let holder = self.holder(fetch.page, fetch.id);
        match holder.filter(|_| !fetch.from_storage) {
            Some(holder) => (Peer::Node(holder.node), Message::Copy(fetch)),
            None => {
                let from_storage = true;
                let fetch = Fetch {
                    from_storage,
                    ..fetch
                };
                (Peer::Storage, Message::Fetch(fetch))
            }
        }
    }
}

/// A message handler of a compute node.
pub struct Handler {
    pub page_owner: Rc<RefCell<PageOwner>>,
    pub cq: CqId,
    /// Its connections to storage.
    pub storage: Vec<Channel>,
    /// Those of them, with their tags, that carry no load, and the frames that are loaded on the
    /// others, by connection and tag. Connections take turns, since NICs control the rate of each.
    pub free: VecDeque<(u32, u16)>,
    pub loads: Vec<[u32; LOADS as usize]>,
    pub requests: VecDeque<Request>,
}

/// A request that is to be answered.
pub struct Request {
    asker: Asker,
    message: Message,
    /// How often it was looked at.
    looks: u32,
    /// Whether the page was read from storage for it.
    from_storage: bool,
}

/// The result of looking at a request.
enum Look {
    Done,
    /// It is to be looked at again.
    Again,
}

impl Program for Handler {
    fn turn(&mut self, context: &mut Context<'_>) -> Result<Step, Failure> {
        let page_owner = Rc::clone(&self.page_owner);
        let page_owner = &mut *page_owner.borrow_mut();
        let completions = poll(context, self.cq, POLL)?;
        for completion in &completions {
            let (number, low) = parts(completion.id);
            match kind(completion.id) {
                RECEIVED if number >= STORAGE => {
                    let at = number - STORAGE;
                    let channel = &self.storage[at as usize];
                    let (tag, _) = channel.receive(context, completion)?;
                    let frame = self.loads[at as usize][usize::from(tag)];
                    self.free.push_back((at, tag));
                    let cache = &mut *page_owner.cache.borrow_mut();
                    cache.handle_loaded(frame, None, PageSource::Joined)?;
                }
                RECEIVED => {
                    let line = &page_owner.lines[number as usize];
                    let (tag, message) = line.channel.receive(context, completion)?;
                    let misses = context.cpu().memory_latency * MISSES_PER_MESSAGE;
                    context.charge(Category::Communication, misses);
                    let (node, channel) = (line.node, number);
                    self.requests.push_back(Request {
                        asker: Asker { node, channel, tag },
                        message,
                        looks: 0,
                        from_storage: false,
                    });
                }
                WRITTEN => page_owner.cache.borrow_mut().unpin(low),
                _ => {}
            }
        }
        let mut happened = !completions.is_empty();
        for _ in 0..self.requests.len() {
            let Some(mut request) = self.requests.pop_front() else {
                break;
            };
            context.charge(Category::Communication, context.cpu().cache_latency);
            match self.look(context, page_owner, &mut request)? {
                Look::Done => happened = true,
                Look::Again => {
                    request.looks += 1;
                    self.requests.push_back(request);
                }
            }
        }
        if core::mem::take(&mut page_owner.cache.borrow_mut().stirred) {
            context.wake_neighbours();
        }
        Ok(next(happened))
    }
}

impl Handler {
    fn look(
        &mut self,
        context: &mut Context<'_>,
        page_owner: &mut PageOwner,
        request: &mut Request,
    ) -> Result<Look, Failure> {
        let &mut Request { asker, looks, .. } = request;
        let (fetch, is_owner) = match &request.message {
            Message::Fetch(fetch) => (*fetch, true),
            Message::Copy(fetch) => (*fetch, false),
            Message::Drop(copies) => {
                for &(page, id) in copies {
                    page_owner.entry(page).forget(asker.node, Some(id));
                }
                return answer(context, page_owner, asker, &Message::Dropped);
            }
            other => return Err(format!("a node sent a handler {other:?}")),
        };
        if is_owner && looks == 0 {
            // It requests the page because it has none.
            page_owner.entry(fetch.page).forget(asker.node, None);
        }
        let presence = page_owner.cache.borrow().presence(fetch.page);
        match presence {
            Presence::Here(frame) => {
                if is_owner {
                    enter(page_owner, asker, fetch);
                }
                send_page(context, page_owner, request, (frame, fetch.frame))
            }
            Presence::Coming if !is_owner && looks >= RETRIES => {
                answer(context, page_owner, asker, &Message::Gone)
            }
            Presence::Coming => Ok(Look::Again),
            Presence::Absent if !is_owner => answer(context, page_owner, asker, &Message::Gone),
            Presence::Absent => self.absent(context, page_owner, request, fetch),
        }
    }

    /// Handles a request for an own page that this node does not have.
    fn absent(
        &mut self,
        context: &mut Context<'_>,
        page_owner: &mut PageOwner,
        request: &mut Request,
        fetch: Fetch,
    ) -> Result<Look, Failure> {
        let asker = request.asker;
        let holder = page_owner.holder(fetch.page, fetch.id);
        if let Some(holder) = holder.filter(|_| !fetch.from_storage) {
            enter(page_owner, asker, fetch);
            return answer(context, page_owner, asker, &Message::Redirect(holder));
        }
        let Some(&(at, tag)) = self.free.front() else {
            return Ok(Look::Again);
        };
        let load = page_owner.cache.borrow_mut().load(fetch.page);
        if let Some(load) = load {
            request.from_storage = true;
            self.free.pop_front();
            self.loads[at as usize][usize::from(tag)] = load.frame;
            let channel = &self.storage[at as usize];
            channel.send(context, tag, &Message::Fetch(load))?;
        }
        Ok(Look::Again)
    }
}

/// Enters the requester as a holder.
fn enter(page_owner: &mut PageOwner, asker: Asker, fetch: Fetch) {
    let (node, frame, id) = (asker.node, fetch.frame, fetch.id);
    page_owner
        .entry(fetch.page)
        .holders
        .push(Holder { node, frame, id });
}

fn answer(
    context: &mut Context<'_>,
    page_owner: &PageOwner,
    asker: Asker,
    message: &Message,
) -> Result<Look, Failure> {
    let line = &page_owner.lines[asker.channel as usize];
    line.channel.send(context, asker.tag, message)?;
    Ok(Look::Done)
}

/// Writes a frame into the requester's, and then the answer.
fn send_page(
    context: &mut Context<'_>,
    page_owner: &PageOwner,
    request: &Request,
    (from, to): (u32, u32),
) -> Result<Look, Failure> {
    let &Request {
        asker,
        from_storage,
        ..
    } = request;
    let line = &page_owner.lines[asker.channel as usize];
    let cache = &mut *page_owner.cache.borrow_mut();
    let there = cache.bytes.offset(to) + HEADER;
    let segment = cache.bytes.segment(from);
    cache.pin(from);
    let write = line.frames.write(WRITTEN | u64::from(from), there, segment);
    post(context, line.frames.qpn, write)?;
    answer(
        context,
        page_owner,
        asker,
        &Message::Loaded { from_storage },
    )
}

#[cfg(test)]
impl PageOwner {
    /// The own pages that a node is known to have, as page, frame and id.
    pub fn known(&self, node: u16) -> Vec<(u64, u32, u64)> {
        let pages = (u64::from(self.node)..).step_by(usize::from(self.nodes));
        let entries = pages.zip(&self.entries);
        let all = entries.flat_map(|(page, entry)| entry.holders.iter().map(move |of| (page, of)));
        let its = all.filter(|(_, holder)| holder.node == node);
        its.map(|(page, holder)| (page, holder.frame, holder.id))
            .collect()
    }
}
