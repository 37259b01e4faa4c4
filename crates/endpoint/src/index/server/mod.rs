//! The endpoint's side of requests.

mod backup;
mod datagram;
mod page;
mod report;
mod tasks;
mod thread;

use super::message::{Entries, Outcome, Request};
use super::meter::{Count, Meter};
use super::shard::{Denied, HandoverError, MoveId, Shard, Write, WriteKind};
use crate::btree::{Direction, TreeError};
use crate::rpc::{Service, Status, Writer};
use backup::Backup;
use page::PageWriter;
use rackweave_base::Instant;
use std::sync::Arc;
use tasks::Tasks;

pub use datagram::{DatagramServer, DatagramServerConfig, DatagramServerStatistics};
pub use report::EndpointReport;
pub use thread::ServerThread;

/// Approximate number of entries copied to a replica at a time. Writes to them wait that long.
const ENTRIES_COPIED_MAX: u32 = if cfg!(test) { 50 } else { 4096 };

/// Executes requests on a shard. Each server thread has its own; all share the shard.
#[derive(Debug)]
pub struct IndexServer {
    shard: Arc<Shard>,
    meter: Arc<Meter>,
    value: Vec<u8>,
    tasks: Tasks,
    backup: Option<Backup>,
}

impl IndexServer {
    /// A service for one server thread of `shard`.
    pub fn new(shard: Arc<Shard>) -> Self {
        let meter = Arc::new(Meter::default());
        shard.add_meter(meter.clone());
        Self {
            shard,
            meter,
            value: Vec::new(),
            tasks: Tasks::default(),
            backup: None,
        }
    }

    /// The shard.
    pub fn shard(&self) -> &Arc<Shard> {
        &self.shard
    }

    /// Its counters. The thread that drives it adds its busy time.
    pub fn meter(&self) -> &Arc<Meter> {
        &self.meter
    }

    fn get(&mut self, key: u64, reply: &mut Writer<'_>) -> Status {
        let there = self.shard.get(key, &mut self.value);
        if let Some(there) = self.judge(there, Count::Gets, key, reply) {
            self.answer_get(there, reply);
        }
        Status::OK
    }

    fn answer_get(&self, there: bool, reply: &mut Writer<'_>) {
        if there {
            reply.push(&[Outcome::Done as u8]);
            reply.push(&self.value);
        } else {
            reply.push(&[Outcome::Absent as u8]);
        }
    }

    /// Executes a write, which is also `request`.
    fn write(
        &mut self,
        client: u32,
        write: &Write<'_>,
        request: &Request<'_>,
        reply: &mut Writer<'_>,
    ) -> Status {
        match self.shard.write(write) {
            Err(Denied::Replicated) => self.replicate(client, write, request, reply),
            changed => self.answer_write(write, changed, reply),
        }
    }

    fn answer_write(
        &self,
        write: &Write<'_>,
        changed: Result<bool, Denied>,
        reply: &mut Writer<'_>,
    ) -> Status {
        if let Some(changed) = self.judge(changed, Count::Writes, write.key, reply) {
            reply.push(&[outcome_of_write(write.kind, changed) as u8]);
        }
        Status::OK
    }

    /// Counts an operation and, if it was denied, writes the reason.
    fn judge<R>(
        &self,
        result: Result<R, Denied>,
        what: Count,
        key: u64,
        reply: &mut Writer<'_>,
    ) -> Option<R> {
        match result {
            Ok(result) => {
                self.meter.count_key(what, key);
                return Some(result);
            }
            Err(Denied::Moved { version }) => {
                self.meter.count(Count::Moved);
                reply.push(&[Outcome::Moved as u8]);
                reply.push(&version.to_le_bytes());
            }
            Err(Denied::Busy) => {
                self.meter.count(Count::Busy);
                reply.push(&[Outcome::Busy as u8]);
            }
            // Only of requests that are not for keys with a replica.
            Err(Denied::Replicated) => {
                reply.push(&[Outcome::Conflict as u8]);
            }
            Err(Denied::Tree(error)) => {
                let outcome = outcome_of(&error);
                if outcome == Outcome::Full {
                    self.meter.count(Count::Full);
                }
                reply.push(&[outcome as u8]);
            }
        }
        None
    }

    fn scan(
        &mut self,
        range: (u64, u64),
        direction: Direction,
        limit: u32,
        reply: &mut Writer<'_>,
    ) {
        let mut page = PageWriter::new(reply, limit);
        let result = self.shard.scan(
            range,
            direction,
            &mut page,
            PageWriter::begin,
            PageWriter::push,
        );
        let first = match direction {
            Direction::Forward => range.0,
            Direction::Backward => range.1,
        };
        match result {
            Ok(next) => {
                page.end(next);
                self.meter.count_key(Count::Scans, first);
            }
            Err(denied) => {
                reply.clear();
                self.judge::<()>(Err(denied), Count::Scans, first, reply);
            }
        }
    }

    fn load(&self, entries: Entries<'_>, reply: &mut Writer<'_>) {
        let mut done = 0u64;
        for (key, value) in entries.iter() {
            let put = self.shard.put(key, value);
            if self.judge(put, Count::Writes, key, reply).is_none() {
                return;
            }
            done += 1;
        }
        reply.push(&[Outcome::Done as u8]);
        reply.push(&done.to_le_bytes());
    }

    /// Executes the steps of a move.
    fn hand_over(&mut self, client: u32, request: &Request<'_>, reply: &mut Writer<'_>) -> Status {
        let shard = &self.shard;
        let mut at_replica = None;
        let numbers = match request {
            Request::Mark {
                id,
                to,
                low,
                last,
                entries_max,
                map,
            } => shard
                .mark(*id, *to, (*low, *last), *entries_max, map)
                .map(|marked| vec![marked.low, marked.last]),
            Request::Export { id, from } => {
                self.export(*id, *from, reply);
                return Status::OK;
            }
            Request::Abort { id } => shard.abort(*id).map(|()| Vec::new()),
            Request::Release { id } => {
                shard.release(*id);
                Ok(Vec::new())
            }
            Request::Commit { id, map } => shard.commit(*id, map).map(|epoch| {
                at_replica = epoch.map(|epoch| (epoch, None));
                Vec::new()
            }),
            Request::Stage { id, low, last, map } => {
                shard.stage(*id, (*low, *last), map).map(|epoch| {
                    at_replica = epoch.map(|epoch| (epoch, None));
                    Vec::new()
                })
            }
            Request::Install { id, entries } => {
                shard.install(*id, entries.iter()).map(|(count, epoch)| {
                    at_replica = epoch.map(|epoch| (epoch, Some(count)));
                    vec![count]
                })
            }
            Request::Discard { id } => shard.discard(*id).map(|()| Vec::new()),
            Request::Seal { id, entries } => shard.seal(*id, *entries).map(|()| Vec::new()),
            Request::Adopt { id, map } => shard.adopt(*id, map).map(|epoch| {
                at_replica = epoch.map(|epoch| (epoch, None));
                Vec::new()
            }),
            // Requests to a replica.
            _ => Err(HandoverError::Other),
        };
        if let Some(at_replica) = at_replica {
            return self.begin_task(client, request, at_replica, reply);
        }
        match numbers {
            Err(HandoverError::Unfinished) => return self.wait(client, request, reply),
            Ok(numbers) => {
                reply.push(&[Outcome::Done as u8]);
                for number in numbers {
                    reply.push(&number.to_le_bytes());
                }
            }
            Err(error) => refuse(error, reply),
        }
        Status::OK
    }

    fn export(&self, id: MoveId, from: u64, reply: &mut Writer<'_>) {
        let mut page = PageWriter::new(reply, u32::MAX);
        page.begin();
        let next = self
            .shard
            .export(id, from, &mut |key, value| page.push(key, value));
        match next {
            Ok(next) => page.end(next),
            Err(error) => {
                reply.clear();
                refuse(error, reply);
            }
        }
    }
}

/// The write that a request is.
#[inline]
fn write_of<'a>(request: &Request<'a>) -> Option<Write<'a>> {
    let (kind, key, value) = match *request {
        Request::Insert { key, value } => (WriteKind::Insert, key, value),
        Request::Update { key, value } => (WriteKind::Update, key, value),
        Request::Put { key, value } => (WriteKind::Put, key, value),
        Request::Delete { key } => (WriteKind::Remove, key, &[][..]),
        _ => return None,
    };
    Some(Write { kind, key, value })
}

/// The outcome of a write: whether the key was there before.
#[inline]
fn outcome_of_write(kind: WriteKind, changed: bool) -> Outcome {
    let if_changed = matches!(kind, WriteKind::Update | WriteKind::Remove);
    match changed == if_changed {
        true => Outcome::Done,
        false => Outcome::Absent,
    }
}

pub(super) fn outcome_of(error: &TreeError) -> Outcome {
    match error {
        TreeError::ValueTooLarge { .. } => Outcome::ValueTooLarge,
        TreeError::NodesUsedUp { .. } | TreeError::HeapFull { .. } | TreeError::Memory(_) => {
            Outcome::Full
        }
        _ => Outcome::Corrupt,
    }
}

fn refuse(error: HandoverError, reply: &mut Writer<'_>) {
    let outcome = match error {
        HandoverError::Tree(error) => outcome_of(&error),
        _ => Outcome::Conflict,
    };
    reply.push(&[outcome as u8]);
}

impl Service for IndexServer {
    fn serve(
        &mut self,
        _now: Instant,
        client: u32,
        method: u16,
        request: &[u8],
        reply: &mut Writer<'_>,
    ) -> Status {
        let request = match Request::decode(method, request) {
            Ok(request) => request,
            Err(error) => {
                self.meter.count(Count::Malformed);
                return error.into();
            }
        };
        self.execute(client, &request, reply)
    }

    fn resume(
        &mut self,
        _now: Instant,
        client: u32,
        number: u64,
        reply: &mut Writer<'_>,
    ) -> Status {
        self.resume_task(client, number, reply)
    }

    fn left(&mut self, client: u32) {
        self.forget_client(client);
    }
}

impl IndexServer {
    /// Executes a request of a client.
    #[inline]
    fn execute(&mut self, client: u32, request: &Request<'_>, reply: &mut Writer<'_>) -> Status {
        if let Request::Get { key } = *request {
            return self.get(key, reply);
        }
        if let Some(write) = write_of(request) {
            return self.write(client, &write, request, reply);
        }
        match *request {
            Request::Scan {
                low,
                last,
                direction,
                limit,
            } => self.scan((low, last), direction, limit, reply),
            Request::Load { entries } => self.load(entries, reply),
            Request::Map => {
                reply.push(&[Outcome::Done as u8]);
                reply.push(&self.shard.map().encode());
            }
            Request::Statistics => {
                reply.push(&[Outcome::Done as u8]);
                reply.push(&EndpointReport::of(&self.shard).encode());
            }
            Request::State if self.shard.has_pending_map() => {
                return self.wait(client, request, reply);
            }
            Request::State => {
                reply.push(&[Outcome::Done as u8]);
                reply.push(&self.shard.state().encode());
            }
            _ => return self.hand_over(client, request, reply),
        }
        Status::OK
    }
}
