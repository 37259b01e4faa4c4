//! The node that posts work, and the node that receives SENDs. They read no clock: the same code
//! runs in real and in virtual time.

use super::pair::{Shape, Side};
use crate::measure::{Amount, histogram};
use crate::outcome::CliError;
use crate::programs::{Port, Program, Queue, Turn};
use core::sync::atomic::Ordering;
use hdrhistogram::Histogram;
use rackweave_base::{Qpn, Rkey};
use rackweave_verbs::{
    Completion, CompletionStatus, CqId, Operation, PostError, ReceiveRequest, Region, WorkRequest,
};
use serde::{Deserialize, Serialize};

/// Maximum number of completions taken at once.
const POLL: usize = 256;

/// A completion's id: the queue pair's index in the upper bits, the message's number in the lower.
const NUMBER_BITS: u32 = 48;

/// What to post.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Kind {
    Read,
    Write,
    Send,
    /// Fetch-and-add of one.
    FetchAdd,
    /// Compare-and-swap that adds one.
    CompareSwap,
}

impl Kind {
    pub fn is_atomic(self) -> bool {
        matches!(self, Kind::FetchAdd | Kind::CompareSwap)
    }
}

struct Sender {
    qpn: Qpn,
    /// How many were posted to warm up.
    before: u64,
    posted: u64,
    done: u64,
    /// When each message in flight was posted, by its number modulo the depth.
    posted_at: Vec<u64>,
}

/// The node that posts.
pub struct Initiator {
    kind: Kind,
    shape: Shape,
    local: Region,
    remote: (u64, Rkey),
    cq: CqId,
    senders: Vec<Sender>,
    amount: Amount,
    /// For how long messages are posted before those that are measured.
    warm_up: u64,
    /// When the first of those was posted.
    begun: Option<u64>,
    closed: bool,
    under_way: u64,
    completed: u64,
    /// Latencies of messages.
    pub histogram: Histogram<u64>,
    /// When the last message completed, in nanoseconds since the start.
    last: u64,
    /// Whether completions were in order and atomics returned the right values.
    pub is_sound: bool,
    completions: Vec<Completion>,
}

impl Initiator {
    /// An initiator that posts to the buffers at `remote`, an address and its key; `amount` after
    /// it has warmed up. Times are nanoseconds since the start.
    pub fn new(
        kind: Kind,
        shape: Shape,
        near: &Side,
        remote: (u64, Rkey),
        (amount, warm_up): (Amount, u64),
    ) -> Self {
        let depth = shape.depth as usize;
        let sender = |&qpn: &Qpn| Sender {
            qpn,
            before: 0,
            posted: 0,
            done: 0,
            posted_at: vec![0; depth],
        };
        Self {
            kind,
            shape,
            local: near.region.clone(),
            remote,
            cq: near.cq,
            senders: near.qpns.iter().map(sender).collect(),
            amount,
            warm_up,
            begun: (warm_up == 0).then_some(0),
            closed: false,
            under_way: 0,
            completed: 0,
            histogram: histogram(),
            last: 0,
            is_sound: true,
            completions: Vec::with_capacity(POLL),
        }
    }

    /// Posts as much as possible; returns the number of posted messages.
    fn post(&mut self, now: u64, queue: &mut Queue<'_, '_>) -> Result<u64, CliError> {
        if self.begun.is_none() && now >= self.warm_up {
            self.begun = Some(now);
            self.senders.iter_mut().for_each(|it| it.before = it.posted);
        }
        let most = match (self.amount, self.begun) {
            _ if self.closed => return Ok(0),
            (_, None) => u64::MAX,
            (Amount::Count(count), Some(_)) => count,
            (Amount::Nanos(nanos), Some(begun)) if now < begun + nanos => u64::MAX,
            (Amount::Nanos(_), Some(_)) => {
                self.closed = true;
                return Ok(0);
            }
        };
        let depth = u64::from(self.shape.depth);
        let (mut fresh, mut left) = (0, 0);
        for (index, sender) in self.senders.iter_mut().enumerate() {
            let most = sender.before.saturating_add(most);
            while sender.posted < most && sender.posted - sender.done < depth {
                let number = sender.posted;
                let offset = self.shape.offset(index, number);
                let address = self.remote.0 + offset;
                let operation = operation(self.kind, address, self.remote.1, number);
                let id = (index as u64) << NUMBER_BITS | number;
                let segment = self.local.segment(offset, self.shape.size);
                match queue.post_send(sender.qpn, WorkRequest::new(id, operation, &[segment])) {
                    Ok(()) => {}
                    Err(PostError::Full(_)) => break,
                    Err(error) => return Err(error.into()),
                }
                sender.posted_at[(number % depth) as usize] = now;
                sender.posted += 1;
                fresh += 1;
            }
            left |= most - sender.posted;
        }
        self.under_way += fresh;
        self.closed = left == 0;
        Ok(fresh)
    }

    /// Takes completions; returns their number.
    fn poll(&mut self, now: u64, queue: &mut Queue<'_, '_>) -> Result<u64, CliError> {
        if self.under_way == 0 {
            return Ok(0);
        }
        let mut completions = core::mem::take(&mut self.completions);
        completions.clear();
        let count = queue.poll_cq(self.cq, POLL, &mut completions) as u64;
        for completion in &completions {
            self.complete(now, completion)?;
        }
        self.completions = completions;
        self.under_way -= count;
        self.completed += count;
        if count > 0 {
            self.last = now;
        }
        Ok(count)
    }

    fn complete(&mut self, now: u64, completion: &Completion) -> Result<(), CliError> {
        if completion.status != CompletionStatus::Success {
            let Completion { qpn, status, .. } = completion;
            return Err(CliError::run(format!("queue pair {qpn}: {status}")));
        }
        let index = (completion.id >> NUMBER_BITS) as usize;
        let number = completion.id & ((1 << NUMBER_BITS) - 1);
        let sender = &mut self.senders[index];
        self.is_sound &= number == sender.done;
        sender.done += 1;
        let since = sender.posted_at[(number % u64::from(self.shape.depth)) as usize];
        if self.begun.is_some() && number >= sender.before {
            self.histogram.saturating_record(now.saturating_sub(since));
        }
        if self.kind.is_atomic() {
            // There is one word per queue pair, incremented each time: its old value is the number.
            let offset = self.shape.offset(index, number);
            let word = self.local.block.word(offset as usize);
            self.is_sound &= word.load(Ordering::Acquire) == number;
        }
        Ok(())
    }

    /// How many messages were measured, and in how many nanoseconds.
    pub fn measured(&self) -> (u64, u64) {
        let of = |it: &Sender| it.done.saturating_sub(it.before);
        let Some(begun) = self.begun else {
            return (0, 0);
        };
        let messages = self.senders.iter().map(of).sum();
        (messages, self.last.saturating_sub(begun))
    }

    /// Messages completed on each queue pair.
    pub fn completed(&self) -> Vec<u64> {
        self.senders.iter().map(|sender| sender.done).collect()
    }
}

fn operation(kind: Kind, address: u64, rkey: Rkey, number: u64) -> Operation {
    match kind {
        Kind::Read => Operation::Read { address, rkey },
        Kind::Write => Operation::Write {
            address,
            rkey,
            immediate: None,
        },
        Kind::Send => Operation::Send { immediate: None },
        Kind::FetchAdd => Operation::FetchAdd {
            address,
            rkey,
            add: 1,
        },
        Kind::CompareSwap => Operation::CompareSwap {
            address,
            rkey,
            compare: number,
            swap: number + 1,
        },
    }
}

/// The node that receives SENDs: keeps its receive queues full.
pub struct Responder {
    shape: Shape,
    region: Region,
    cq: CqId,
    /// Queue pairs, and how many receives were posted to each.
    receivers: Vec<(Qpn, u64)>,
    /// Messages received so far.
    pub received: u64,
    completions: Vec<Completion>,
}

impl Responder {
    /// Posts the first receives.
    pub fn new(shape: Shape, far: &Side, queue: &mut Queue<'_, '_>) -> Result<Self, CliError> {
        let mut responder = Self {
            shape,
            region: far.region.clone(),
            cq: far.cq,
            receivers: far.qpns.iter().map(|&qpn| (qpn, 0)).collect(),
            received: 0,
            completions: Vec::with_capacity(POLL),
        };
        for index in 0..responder.receivers.len() {
            for _ in 0..responder.shape.receives {
                responder.receive(index, queue)?;
            }
        }
        Ok(responder)
    }

    /// Takes arrived messages and posts receives in their place; returns the number of messages.
    pub fn run(&mut self, queue: &mut Queue<'_, '_>) -> Result<u64, CliError> {
        let mut completions = core::mem::take(&mut self.completions);
        completions.clear();
        let count = queue.poll_cq(self.cq, POLL, &mut completions) as u64;
        for completion in &completions {
            if completion.status != CompletionStatus::Success {
                let Completion { qpn, status, .. } = completion;
                return Err(CliError::run(format!(
                    "receiving queue pair {qpn}: {status}"
                )));
            }
            self.receive((completion.id >> NUMBER_BITS) as usize, queue)?;
        }
        self.completions = completions;
        self.received += count;
        Ok(count)
    }

    fn receive(&mut self, index: usize, queue: &mut Queue<'_, '_>) -> Result<(), CliError> {
        let (qpn, number) = self.receivers[index];
        let segment = self
            .region
            .segment(self.shape.offset(index, number), self.shape.size);
        let id = (index as u64) << NUMBER_BITS | number;
        queue.post_receive(qpn, ReceiveRequest::new(id, &[segment]))?;
        self.receivers[index].1 += 1;
        Ok(())
    }
}

impl Program for Initiator {
    fn turn(&mut self, port: &mut Port<'_, '_>) -> Result<Turn, CliError> {
        let clock = port.clock();
        let moved = port.act(|queue| {
            // Read after acquiring the NIC, which may have taken a while.
            let now = clock.now();
            let completed = self.poll(now, queue)?;
            Ok(self.post(now, queue)? + completed > 0)
        })?;
        Ok(match self.closed && self.under_way == 0 {
            true => Turn::Ended,
            false => Turn::Waits { moved },
        })
    }

    fn finish(&mut self) {
        self.closed = true;
    }

    fn done(&self) -> u64 {
        self.completed
    }
}

impl Program for Responder {
    fn turn(&mut self, port: &mut Port<'_, '_>) -> Result<Turn, CliError> {
        let moved = port.act(|queue| self.run(queue))? > 0;
        Ok(Turn::Waits { moved })
    }

    fn is_server(&self) -> bool {
        true
    }
}
