//! A thread that looks records up, one after another.

use super::database::Database;
use super::seen::Seen;
use crate::harness::metered::{Metered, MeteredProgram, Toll, Worked};
use crate::harness::work::{Core, TREE_ENTRY_BYTES, streamed};
use rackweave_base::{Duration, Instant};
use rackweave_endpoint::index::{Answer, IndexClient, Op, Reply, Ticket};
use rackweave_rack::Attached;
use rackweave_sim::devices;
use rackweave_verbs::{Completion, CompletionOpcode};
use rackweave_wire::fabric::tree::RECORD_HEADER_WORDS;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// Costs of a thread that reads by READs.
#[derive(Clone, Copy, Debug)]
pub struct Reads {
    /// The core that it runs on.
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

/// A pending lookup.
pub struct Going {
    ticket: Ticket,
    number: u64,
    since: Instant,
    /// Number of READs before it.
    reads: u64,
}

/// A client thread.
pub struct ClientActor {
    pub(super) client: Attached<IndexClient>,
    pub(super) database: Database,
    /// Records that are still to be looked up.
    pub(super) asked: VecDeque<u64>,
    pub(super) going: Option<Going>,
    /// When the first lookup began.
    pub(super) began: Option<Instant>,
    pub(super) log: Rc<RefCell<Seen>>,
}

impl ClientActor {
    fn reads(&self) -> u64 {
        self.client.reader_statistics().reads
    }

    fn end(&mut self, reply: &Reply, now: Instant) -> Result<(), String> {
        let going = self.going.take();
        let going = going.filter(|going| going.ticket == reply.ticket);
        let going = going.ok_or("an answer to no question")?;
        let key = self.database.key(going.number);
        match &reply.result {
            Ok(Answer::Value(Some(value))) if **value == *self.database.value(going.number) => {}
            Ok(Answer::Value(Some(_))) => return Err(format!("key {key:#x} has a wrong value")),
            Ok(answer) => return Err(format!("key {key:#x}: {answer:?}")),
            Err(error) => return Err(format!("key {key:#x}: {error}")),
        }
        let reads = self.reads() - going.reads;
        let began = *self.began.get_or_insert(going.since);
        let mut log = self.log.borrow_mut();
        log.latencies_ns.push(now.since(going.since).as_nanos());
        log.reads.push(reads);
        log.span = now.since(began);
        Ok(())
    }
}

/// It ends when all lookups are done.
impl MeteredProgram for ClientActor {
    type Toll = Reads;

    fn work(&mut self, now: Instant, verbs: &mut Metered<'_, Reads>) -> Worked {
        let dispatch = verbs.toll().core.work(devices::RPC_DISPATCH_CYCLES);
        let mut spent = Duration::ZERO;
        self.client.advance(now, verbs);
        while let Some(reply) = self.client.take() {
            spent += dispatch;
            self.end(&reply, now + verbs.spent() + spent)?;
        }
        if self.going.is_none() {
            let Some(number) = self.asked.pop_front() else {
                return Ok(None);
            };
            let since = now + verbs.spent() + spent;
            let reads = self.reads();
            spent += dispatch;
            let key = self.database.key(number);
            let begun = self.client.begin(&Op::Get { key });
            let ticket = begun.map_err(|error| format!("key {key:#x}: {error}"))?;
            self.going = Some(Going {
                ticket,
                number,
                since,
                reads,
            });
            self.client.advance(now, verbs);
        }
        Ok(Some(spent))
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.client.poll_timeout()
    }
}

impl Core {
    /// Time to load a record that a NIC has just written, and to verify it word by word.
    fn record(&self, bytes: u64) -> Duration {
        let words = (bytes / 8).saturating_sub(RECORD_HEADER_WORDS as u64);
        streamed(&self.cpu, bytes) + self.work(words * devices::RECORD_CHECK_WORD_CYCLES)
    }
}
