//! A thread that looks records up, one after another, and its results.

use super::database::Database;
use crate::harness::metered::Toll;
use crate::harness::metered::{TREE_ENTRY_BYTES, streamed};
use crate::harness::prelude::*;
use crate::harness::tally::{mean, quantile};
use rackweave_endpoint::index::{Answer, IndexClient, Op, Reply, Ticket};
use rackweave_rack::Attached;
use rackweave_wire::fabric::tree::RECORD_HEADER_WORDS;

/// Costs of a thread that reads by READs.
#[derive(Clone, Copy, Debug)]
pub struct Reads {
    pub core: Core,
    /// Bytes of a tree node.
    pub node_bytes: u32,
}

impl Toll for Reads {
    fn posts(&self, requests: usize) -> Duration {
        self.core.posts(requests)
    }

    fn receives(&self) -> Duration {
        self.core.receives()
    }

    fn takes(&self, completion: &Completion) -> Duration {
        let bytes = u64::from(completion.length);
        let use_of_it = match completion.opcode {
            CompletionOpcode::Read if completion.length == self.node_bytes => {
                let entries = bytes / TREE_ENTRY_BYTES;
                self.core.verified(bytes) + self.core.searched(entries)
            }
            CompletionOpcode::Read => self.core.record(bytes),
            _ => self.core.arrived(bytes),
        };
        self.core.cpu.poll_cost + use_of_it
    }
}

/// A client thread that looks `asked` records up, and ends when all lookups are done.
pub fn client(
    toll: Reads,
    mut client: Attached<IndexClient>,
    database: Database,
    mut asked: VecDeque<u64>,
    log: Rc<RefCell<Seen>>,
) -> impl Program {
    let dispatch = toll.core.work(devices::RPC_DISPATCH_CYCLES);
    // The pending lookup: its ticket, its record, when it began, and the number of READs before it.
    let mut going: Option<(Ticket, u64, Instant, u64)> = None;
    // When the first lookup began.
    let mut began = None;
    on_core(toll, move |now, verbs| {
        let mut spent = Duration::ZERO;
        client.advance(now, verbs);
        while let Some(reply) = client.take() {
            spent += dispatch;
            let now = now + verbs.spent() + spent;
            let going = going.take().filter(|going| going.0 == reply.ticket);
            let (_, number, since, reads) = going.ok_or("an answer to no question")?;
            check(&database, number, &reply, false)?;
            let mut log = log.borrow_mut();
            log.latencies_ns.push(now.since(since).as_nanos());
            log.reads.push(client.reader_statistics().reads - reads);
            log.span = now.since(*began.get_or_insert(since));
        }
        if going.is_none() {
            let Some(number) = asked.pop_front() else {
                return Ok(None);
            };
            let since = now + verbs.spent() + spent;
            let reads = client.reader_statistics().reads;
            spent += dispatch;
            let key = database.key(number);
            let begun = client.begin(&Op::Get { key });
            let ticket = begun.map_err(|error| format!("key {key:#x}: {error}"))?;
            going = Some((ticket, number, since, reads));
            client.advance(now, verbs);
        }
        Ok(Some((spent, client.poll_timeout())))
    })
}

/// Whether the reply to an operation on a record is right; only an update may find it without its
/// value.
pub fn check(
    database: &Database,
    number: u64,
    reply: &Reply,
    may_update: bool,
) -> Result<(), Failure> {
    let key = database.key(number);
    match &reply.result {
        Ok(Answer::Found(true)) if may_update => Ok(()),
        Ok(Answer::Value(Some(value))) if **value == *database.value(number) => Ok(()),
        Ok(Answer::Value(Some(_))) => Err(format!("key {key:#x} has a wrong value")),
        Ok(answer) => Err(format!("key {key:#x}: {answer:?}")),
        Err(error) => Err(format!("key {key:#x}: {error}")),
    }
}

impl Core {
    /// Time to load a record that a NIC has just written, and to verify it word by word.
    fn record(&self, bytes: u64) -> Duration {
        let words = (bytes / 8).saturating_sub(RECORD_HEADER_WORDS as u64);
        streamed(&self.cpu, bytes) + self.work(words * devices::RECORD_CHECK_WORD_CYCLES)
    }
}

#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Seen {
    /// Latency of each lookup, in nanoseconds.
    pub latencies_ns: Vec<u64>,
    /// READs per lookup, including network queries: round trips.
    pub reads: Vec<u64>,
    /// From the first lookup's beginning to the last one's end.
    pub span: Duration,
}

impl Seen {
    /// Lookups per second.
    pub fn per_second(&self) -> f64 {
        self.latencies_ns.len() as f64 / self.span.as_secs_f64()
    }

    /// Mean latency in microseconds.
    pub fn mean_us(&self) -> f64 {
        mean(&self.latencies_ns) / 1e3
    }

    /// The latency that this share of all does not exceed, in microseconds.
    pub fn quantile_us(&self, part: f64) -> f64 {
        quantile(&self.latencies_ns, part) / 1e3
    }

    /// Mean READs of a lookup.
    pub fn round_trips(&self) -> f64 {
        mean(&self.reads)
    }

    /// The percentage of lookups by number of READs.
    pub fn distribution(&self) -> Vec<(f64, f64)> {
        let mut reads = self.reads.clone();
        reads.sort_unstable();
        let all = reads.len() as f64;
        let groups = reads.chunk_by(|a, b| a == b);
        let point = |same: &[u64]| (same[0] as f64, same.len() as f64 / all * 100.0);
        groups.map(point).collect()
    }
}

#[cfg(test)]
pub(super) mod tests;
