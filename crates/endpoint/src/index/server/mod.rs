//! The endpoint's side of requests.

mod datagram;
mod page;
mod report;

use super::message::{Entries, Outcome, Request, RequestError};
use super::meter::{Count, Meter};
use super::shard::{Denied, HandoverError, MoveId, Shard};
use crate::btree::{Direction, TreeError};
use crate::rpc::{self, Service, Status, Writer};
use page::PageWriter;
use rackweave_base::Instant;
use rackweave_verbs::Verbs;
use std::sync::Arc;

pub use datagram::{DatagramServer, DatagramServerConfig, DatagramServerStatistics};
pub use report::EndpointReport;

/// Executes requests on a shard. Each server thread has its own; all share the shard.
#[derive(Debug)]
pub struct IndexServer {
    shard: Arc<Shard>,
    meter: Arc<Meter>,
    value: Vec<u8>,
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

    /// Executes the most frequent requests.
    fn operate(&mut self, request: &Request<'_>, reply: &mut Writer<'_>) -> Option<()> {
        let (key, changed, was_there) = match *request {
            Request::Get { key } => {
                let there = self.shard.get(key, &mut self.value);
                let there = self.judge(there, Count::Gets, key, reply)?;
                return self.answer_get(there, reply);
            }
            Request::Insert { key, value } => (key, self.shard.insert(key, value), false),
            Request::Update { key, value } => (key, self.shard.update(key, value), true),
            Request::Put { key, value } => (key, self.shard.put(key, value), false),
            Request::Delete { key } => (key, self.shard.remove(key), true),
            _ => return None,
        };
        let changed = self.judge(changed, Count::Writes, key, reply)?;
        let there = changed == was_there;
        reply.push(&[if there {
            Outcome::Done
        } else {
            Outcome::Absent
        } as u8]);
        Some(())
    }

    fn answer_get(&self, there: bool, reply: &mut Writer<'_>) -> Option<()> {
        if there {
            reply.push(&[Outcome::Done as u8]);
            reply.push(&self.value);
        } else {
            reply.push(&[Outcome::Absent as u8]);
        }
        Some(())
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
    fn hand_over(&self, request: &Request<'_>, reply: &mut Writer<'_>) {
        let shard = &self.shard;
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
            Request::Export { id, from } => return self.export(*id, *from, reply),
            Request::Abort { id } => shard.abort(*id).map(|()| Vec::new()),
            Request::Release { id } => {
                shard.release(*id);
                Ok(Vec::new())
            }
            Request::Commit { id, map } => shard.commit(*id, map).map(|()| Vec::new()),
            Request::Stage { id, low, last, map } => {
                shard.stage(*id, (*low, *last), map).map(|()| Vec::new())
            }
            Request::Install { id, entries } => {
                shard.install(*id, entries.iter()).map(|count| vec![count])
            }
            Request::Discard { id } => shard.discard(*id).map(|()| Vec::new()),
            Request::Seal { id, entries } => shard.seal(*id, *entries).map(|()| Vec::new()),
            Request::Adopt { id, map } => shard.adopt(*id, map).map(|()| Vec::new()),
            _ => Ok(Vec::new()),
        };
        match numbers {
            Ok(numbers) => {
                reply.push(&[Outcome::Done as u8]);
                for number in numbers {
                    reply.push(&number.to_le_bytes());
                }
            }
            Err(error) => refuse(error, reply),
        }
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

fn outcome_of(error: &TreeError) -> Outcome {
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
        _client: u32,
        method: u16,
        request: &[u8],
        reply: &mut Writer<'_>,
    ) -> Status {
        let request = match Request::decode(method, request) {
            Ok(request) => request,
            Err(error) => {
                self.meter.count(Count::Malformed);
                return match error {
                    RequestError::UnknownMethod(_) => Status::UNKNOWN_METHOD,
                    RequestError::Malformed { .. } => Status::MALFORMED,
                };
            }
        };
        match request {
            Request::Get { .. }
            | Request::Insert { .. }
            | Request::Update { .. }
            | Request::Put { .. }
            | Request::Delete { .. } => {
                // A denied request has its reply already.
                let _ = self.operate(&request, reply);
            }
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
            Request::State => {
                reply.push(&[Outcome::Done as u8]);
                reply.push(&self.shard.state().encode());
            }
            _ => self.hand_over(&request, reply),
        }
        Status::OK
    }
}

/// One server thread of an endpoint; its owner polls it.
#[derive(Debug)]
pub struct ServerThread {
    /// The connections.
    pub rpc: rpc::Server,
    /// Executes the requests.
    pub service: IndexServer,
}

impl ServerThread {
    /// Executes received requests. True if there were any. The caller adds the elapsed time to the
    /// [meter](IndexServer::meter).
    pub fn poll(&mut self, now: Instant, verbs: &mut dyn Verbs) -> bool {
        self.rpc.poll(now, verbs, &mut self.service)
    }
}
