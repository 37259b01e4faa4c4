//! The storage node: its cores own the directory and the drives.
//!
//! All its handlers share one [`Server`]; each has a completion queue and the connections of some
//! workers. A page that nobody holds is read from a drive into a staging buffer and written from
//! there into the asker's frame, and the answer follows on the same connection. A changed page is
//! fetched by a READ of its holder's frame.

use super::ScaleStoreError;
use super::channel::{Channel, Meter, READ, RECEIVED, WRITTEN, kind, parts, poll};
use super::directory::{Asker, Directory, Task};
use super::drives::Storage;
use super::frames::HEADER;
use super::housekeeper::{ORDERS, REQUESTS};
use super::message::{Envelope, Message, Place};
use super::page::Disk;
use rackweave_base::{Instant, Rkey};
use rackweave_sim::SsdAccess;
use rackweave_verbs::{CqId, Operation, Region, Verbs, WorkRequest};
use std::collections::VecDeque;

/// Loads that miss every cache, per message: the page's bucket in a hash table and its entry.
/// Assumed, as for any hash table larger than the caches.
const MISSES_PER_MESSAGE: u64 = 2;

/// Completions taken in one step.
const POLL: usize = 8;

/// What the owner knows of a compute node.
#[derive(Clone, Debug)]
pub struct Client {
    /// The first byte of its frames.
    pub address: u64,
    /// Their key.
    pub rkey: Rkey,
    /// Bytes from one frame to the next.
    pub stride: u64,
    /// The number of the connection to its housekeeper.
    pub housekeeper: u32,
}

/// A connection and the node that it leads to.
#[derive(Clone, Debug)]
pub struct Line {
    /// Our end.
    pub channel: Channel,
    /// The node.
    pub node: u16,
}

/// What a staging buffer is used for.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Job {
    Load {
        page: u64,
        to: Asker,
        frame: u32,
        answer: Message,
    },
    Store {
        page: u64,
    },
}

#[derive(Debug)]
struct Orders {
    free: Vec<u16>,
    waiting: VecDeque<Message>,
}

/// What a server is made of.
pub struct Parts {
    /// Pages that there are.
    pub pages: u64,
    /// Bytes of a page.
    pub page_size: u32,
    /// The completion queue of each handler.
    pub cqs: Vec<CqId>,
    /// The connections.
    pub lines: Vec<Line>,
    /// The compute nodes.
    pub clients: Vec<Client>,
    /// Staging buffers of a page each.
    pub staging: Region,
    /// How many.
    pub staging_count: u32,
    /// The drives.
    pub storage: Box<dyn Storage>,
}

/// The storage node.
pub struct Server {
    parts: Parts,
    directory: Directory,
    disk: Disk,
    jobs: Vec<Option<Job>>,
    free: Vec<u32>,
    /// Loads and stores for which there is no staging buffer.
    waiting: VecDeque<Task>,
    orders: Vec<Orders>,
    submitted: bool,
}

impl Server {
    /// A server whose pages are as they were made.
    pub fn new(parts: Parts) -> Self {
        let orders = |_| Orders {
            free: (0..ORDERS as u16).rev().collect(),
            waiting: VecDeque::new(),
        };
        Self {
            directory: Directory::new(parts.pages),
            disk: Disk::default(),
            jobs: (0..parts.staging_count).map(|_| None).collect(),
            free: (0..parts.staging_count).rev().collect(),
            waiting: VecDeque::new(),
            orders: (0..parts.clients.len()).map(orders).collect(),
            submitted: false,
            parts,
        }
    }

    /// When the next command of a drive ends.
    pub fn due(&self) -> Option<Instant> {
        self.parts.storage.due()
    }

    /// Whether a command was given to a drive since the last call.
    pub fn take_submitted(&mut self) -> bool {
        core::mem::take(&mut self.submitted)
    }

    /// What is stored; for tests.
    #[cfg(test)]
    pub fn disk(&self) -> &Disk {
        &self.disk
    }

    /// The directory; for tests.
    #[cfg(test)]
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// A handler does what there is to do. True if anything happened.
    ///
    /// # Errors
    /// If a request fails, a page is damaged, or a node does not keep to the protocol.
    pub fn step(
        &mut self,
        handler: usize,
        now: Instant,
        verbs: &mut dyn Verbs,
        meter: &mut Meter,
    ) -> Result<bool, ScaleStoreError> {
        let completions = poll(verbs, self.parts.cqs[handler], POLL, meter)?;
        let mut happened = !completions.is_empty();
        for completion in &completions {
            let (number, slot) = parts(completion.id);
            match kind(completion.id) {
                RECEIVED => {
                    let line = self.parts.lines.get(number as usize);
                    let line = line.ok_or(ScaleStoreError::NoPath)?;
                    let envelope = line.channel.receive(verbs, completion, meter)?;
                    let asker = Asker {
                        node: line.node,
                        channel: number,
                        tag: envelope.tag,
                    };
                    meter.misses += MISSES_PER_MESSAGE;
                    self.take(asker, envelope.message)?;
                }
                WRITTEN => {
                    if let Some(Job::Load { page, .. }) = self.end(slot) {
                        self.directory.handle_loaded(page)?;
                    }
                }
                READ => self.fetched(now, slot, meter)?,
                _ => {}
            }
        }
        meter.looks += 1;
        if let Some(slot) = self.parts.storage.poll(now) {
            meter.completions += 1;
            self.stored_or_read(slot, verbs, meter)?;
            happened = true;
        }
        self.work(now, verbs, meter)?;
        Ok(happened)
    }

    fn take(&mut self, asker: Asker, message: Message) -> Result<(), ScaleStoreError> {
        let Message::Complied { page, had, dirty } = message else {
            return Ok(self.directory.handle_request(asker, message)?);
        };
        self.orders[usize::from(asker.node)].free.push(asker.tag);
        Ok(self
            .directory
            .handle_complied(asker.node, page, had, dirty)?)
    }

    /// Does what the directory says.
    fn work(
        &mut self,
        now: Instant,
        verbs: &mut dyn Verbs,
        meter: &mut Meter,
    ) -> Result<(), ScaleStoreError> {
        while let Some(task) = self.directory.poll_task() {
            match task {
                Task::Answer { to, message } => self.answer(to, message, verbs, meter)?,
                Task::Order { node, message } => {
                    self.orders[usize::from(node)].waiting.push_back(message);
                }
                task => self.waiting.push_back(task),
            }
        }
        while !self.free.is_empty()
            && let Some(task) = self.waiting.pop_front()
        {
            self.begin(task, now, verbs, meter)?;
        }
        for node in 0..self.orders.len() {
            self.order(node, verbs, meter)?;
        }
        Ok(())
    }

    fn order(
        &mut self,
        node: usize,
        verbs: &mut dyn Verbs,
        meter: &mut Meter,
    ) -> Result<(), ScaleStoreError> {
        let orders = &mut self.orders[node];
        while let Some(&tag) = orders.free.last()
            && let Some(message) = orders.waiting.pop_front()
        {
            orders.free.pop();
            let line = self.parts.clients[node].housekeeper;
            let channel = &self.parts.lines[line as usize].channel;
            let slot = REQUESTS + u32::from(tag);
            channel.send(verbs, slot, &Envelope { tag, message }, meter)?;
        }
        Ok(())
    }

    fn answer(
        &self,
        to: Asker,
        message: Message,
        verbs: &mut dyn Verbs,
        meter: &mut Meter,
    ) -> Result<(), ScaleStoreError> {
        let (slot, tag) = (u32::from(to.tag), to.tag);
        let channel = &self.parts.lines[to.channel as usize].channel;
        channel.send(verbs, slot, &Envelope { tag, message }, meter)
    }

    /// Begins a load or a store; there is a staging buffer.
    fn begin(
        &mut self,
        task: Task,
        now: Instant,
        verbs: &mut dyn Verbs,
        meter: &mut Meter,
    ) -> Result<(), ScaleStoreError> {
        let Some(slot) = self.free.pop() else {
            return Ok(());
        };
        let job = match task {
            Task::Load {
                page,
                to,
                frame,
                answer,
            } => {
                self.submit(now, page, SsdAccess::Read, slot, meter);
                Job::Load {
                    page,
                    to,
                    frame,
                    answer,
                }
            }
            Task::Store { page, from } => {
                let (address, rkey) = self.page_of(from);
                let operation = Operation::Read { address, rkey };
                let line = self.parts.clients[usize::from(from.node)].housekeeper;
                let id = READ | u64::from(slot);
                let request = WorkRequest::new(id, operation, &[self.segment(slot)]);
                verbs.post_send(self.parts.lines[line as usize].channel.qpn, request)?;
                meter.posts += 1;
                Job::Store { page }
            }
            Task::Answer { .. } | Task::Order { .. } => {
                self.free.push(slot);
                return Ok(());
            }
        };
        self.jobs[slot as usize] = Some(job);
        Ok(())
    }

    fn submit(&mut self, now: Instant, page: u64, access: SsdAccess, slot: u32, meter: &mut Meter) {
        // A command goes into a queue in memory and a doorbell is rung, as for a NIC.
        meter.posts += 1;
        self.submitted = true;
        self.parts.storage.submit(now, page, access, slot);
    }

    /// A changed page has come from its holder: it is stored.
    fn fetched(
        &mut self,
        now: Instant,
        slot: u32,
        meter: &mut Meter,
    ) -> Result<(), ScaleStoreError> {
        let Some(&Some(Job::Store { page })) = self.jobs.get(slot as usize) else {
            return Err(ScaleStoreError::NoPath);
        };
        self.submit(now, page, SsdAccess::Write, slot, meter);
        Ok(())
    }

    /// A command of a drive has ended: the page is in the staging buffer, or stored.
    fn stored_or_read(
        &mut self,
        slot: u32,
        verbs: &mut dyn Verbs,
        meter: &mut Meter,
    ) -> Result<(), ScaleStoreError> {
        let (block, at) = (&self.parts.staging.block, self.offset(slot) as usize);
        let bytes = self.parts.page_size as usize;
        match self.jobs[slot as usize].clone() {
            Some(Job::Load {
                page,
                to,
                frame,
                answer,
            }) => {
                self.disk.load(page, block, at, bytes);
                let node = to.node;
                let (address, rkey) = self.page_of(Place { node, frame });
                let operation = Operation::Write {
                    address,
                    rkey,
                    immediate: None,
                };
                let id = WRITTEN | u64::from(slot);
                let request = WorkRequest::new(id, operation, &[self.segment(slot)]);
                let channel = &self.parts.lines[to.channel as usize].channel;
                verbs.post_send(channel.qpn, request)?;
                meter.posts += 1;
                self.answer(to, answer, verbs, meter)
            }
            Some(Job::Store { page }) => {
                if !self.disk.store(page, block, at, bytes) {
                    return Err(ScaleStoreError::Stored(page));
                }
                self.end(slot);
                Ok(self.directory.handle_stored(page)?)
            }
            None => Err(ScaleStoreError::NoPath),
        }
    }

    /// A staging buffer is free.
    fn end(&mut self, slot: u32) -> Option<Job> {
        let job = self.jobs.get_mut(slot as usize)?.take()?;
        self.free.push(slot);
        Some(job)
    }

    fn offset(&self, slot: u32) -> u64 {
        u64::from(slot) * u64::from(self.parts.page_size)
    }

    fn segment(&self, slot: u32) -> rackweave_verbs::Segment {
        let at = self.offset(slot);
        self.parts.staging.segment(at, self.parts.page_size)
    }

    /// The page in a frame, as a work request names it.
    fn page_of(&self, place: Place) -> (u64, Rkey) {
        let client = &self.parts.clients[usize::from(place.node)];
        let at = u64::from(place.frame) * client.stride + HEADER;
        (client.address + at, client.rkey)
    }
}
