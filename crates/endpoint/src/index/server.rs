//! The endpoint's side of requests.

use super::message::{
    self, ENTRY_HEADER, Entries, Numbers, Outcome, PAGE_HEADER, Request, RequestError,
};
use super::meter::{Count, Meter};
use super::shard::{Denied, HandoverError, MoveId, Shard};
use super::statistics::ShardStatistics;
use crate::btree::{Direction, TreeError};
use crate::rpc::{self, Service, Status, Writer};
use rackweave_base::{Duration, Instant};
use rackweave_verbs::Verbs;
use std::sync::Arc;

/// Carries requests out on a shard. Each server thread has its own; all share the shard.
#[derive(Debug)]
pub struct IndexServer {
    shard: Arc<Shard>,
    meter: Arc<Meter>,
    value: Vec<u8>,
}

/// Keys in a report that divide what was asked for into parts of equal weight, at most.
const QUANTILES: usize = 128;

/// What an endpoint says of itself.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EndpointReport {
    /// The version of its map.
    pub version: u64,
    /// Server threads.
    pub threads: u32,
    /// Requests that wait at them.
    pub queue: u32,
    /// Time that they have worked, all together.
    pub busy: Duration,
    /// Its counters.
    pub statistics: ShardStatistics,
    /// Keys, ascending, that divide its last operations into parts of equal weight. There may be
    /// equal ones.
    pub keys: Vec<u64>,
}

impl EndpointReport {
    /// How an endpoint is doing.
    pub fn of(shard: &Shard) -> Self {
        let mut report = Self {
            version: shard.version(),
            statistics: shard.handover_statistics(),
            ..Self::default()
        };
        let mut keys = Vec::new();
        for meter in shard.meters() {
            report.threads += 1;
            report.queue = report.queue.saturating_add(meter.queue());
            report.busy += meter.busy();
            report.statistics += meter.statistics();
            meter.keys(&mut keys);
        }
        if let Some(part) = shard.part() {
            keys.retain(|key| part.keys().contains(key));
        } else {
            keys.clear();
        }
        keys.sort_unstable();
        let count = keys.len().min(QUANTILES);
        let quantile = |at: usize| keys[(2 * at + 1) * keys.len() / (2 * count)];
        report.keys = (0..count).map(quantile).collect();
        report
    }

    fn encode(&self) -> Vec<u8> {
        let sizes = u64::from(self.threads) | u64::from(self.queue) << 32;
        let head = [self.version, sizes, self.busy.as_nanos()];
        let counters = self.statistics.list().map(|(_, value)| value);
        let words = head.into_iter().chain(counters).chain(self.keys.clone());
        words.flat_map(u64::to_le_bytes).collect()
    }

    /// The report in what follows the outcome of a reply.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut numbers = Numbers(bytes);
        let (version, sizes, busy) = (numbers.word()?, numbers.word()?, numbers.word()?);
        let mut words = core::iter::from_fn(|| numbers.word());
        Some(Self {
            version,
            threads: sizes as u32,
            queue: (sizes >> 32) as u32,
            busy: Duration::from_nanos(busy),
            statistics: ShardStatistics::from_values(words.by_ref())?,
            keys: words.collect(),
        })
    }
}

impl IndexServer {
    /// A server thread's way to `shard`.
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

    /// What it counts; whoever drives it tells it how long it has worked.
    pub fn meter(&self) -> &Arc<Meter> {
        &self.meter
    }

    /// Carries out what clients ask for most.
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

    /// Counts an operation and says why it was denied, if it was.
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

    /// Steps of a move.
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

/// A reply that is a page of entries.
struct PageWriter<'a, 'b> {
    reply: &'a mut Writer<'b>,
    limit: u32,
    left: u32,
    /// An entry does not fit, although the page is empty.
    oversized: bool,
}

impl<'a, 'b> PageWriter<'a, 'b> {
    fn new(reply: &'a mut Writer<'b>, limit: u32) -> Self {
        Self {
            reply,
            limit,
            left: limit,
            oversized: false,
        }
    }

    /// Begins the page anew.
    fn begin(&mut self) {
        self.reply.clear();
        self.reply.push(&[Outcome::Done as u8]);
        self.reply.push(&[0; PAGE_HEADER]);
        self.left = self.limit;
        self.oversized = false;
    }

    /// False if the page takes no more.
    fn push(&mut self, key: u64, value: &[u8]) -> bool {
        if self.left == 0 {
            return false;
        }
        if self.reply.left() < ENTRY_HEADER + value.len() {
            self.oversized = self.reply.len() == 1 + PAGE_HEADER;
            return false;
        }
        self.left -= 1;
        self.reply.push(&message::entry_header(key, value)) && self.reply.push(value)
    }

    /// Says how to go on.
    fn end(self, next: Option<u64>) {
        if self.oversized {
            self.reply.clear();
            self.reply.push(&[Outcome::ValueTooLarge as u8]);
        } else if let Some(header) = self.reply.written().get_mut(1..=PAGE_HEADER) {
            header.copy_from_slice(&message::page_header(next));
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
                // What was denied has its answer.
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

/// One server thread of an endpoint: whoever runs it polls it.
#[derive(Debug)]
pub struct ServerThread {
    /// The connections.
    pub rpc: rpc::Server,
    /// What requests do.
    pub service: IndexServer,
}

impl ServerThread {
    /// Carries out what has come. True if there was anything. Whoever polls it tells its
    /// [meter](IndexServer::meter) how long that took, or calls [`Self::poll_timed`].
    pub fn poll(&mut self, now: Instant, verbs: &mut dyn Verbs) -> bool {
        self.rpc.poll(now, verbs, &mut self.service)
    }

    /// The same by a clock that runs: notes how long it took if there was anything.
    pub fn poll_timed(
        &mut self,
        clock: &mut dyn FnMut() -> Instant,
        verbs: &mut dyn Verbs,
    ) -> bool {
        let begun = clock();
        let happened = self.poll(begun, verbs);
        if happened {
            self.service.meter.note_busy(clock().since(begun), 0);
        }
        happened
    }
}
