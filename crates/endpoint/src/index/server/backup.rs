//! A server thread's connection to the endpoint's replica, and the copying of keys to it.

use super::{ENTRIES_COPIED_MAX, write_of};
use crate::index::message::{ENTRY_HEADER, Entries, Outcome, Request, reply};
use crate::index::shard::{Marked, Shard, Stands, WriteKind};
use crate::rpc::{self, RpcError};
use rackweave_base::Instant;
use rackweave_verbs::Verbs;

/// The purpose of a request to the replica.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Call {
    None,
    /// The request of a client, kept in this slot.
    Task(u32),
    Copy,
}

/// Why a request was not sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unsent {
    /// Try again later, if the replica is not lost.
    NotNow,
    /// It is longer than the connection allows.
    TooLarge,
}

/// The next step of copying a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Clear,
    Export { from: u64 },
    Install { next: Option<u64> },
    Cover,
}

/// A chunk that is being copied.
#[derive(Debug)]
struct Copying {
    chunk: Marked,
    step: Step,
    /// Whether the step's request is in flight.
    is_sent: bool,
    /// The entries of the step.
    page: Vec<u8>,
}

/// The connection.
#[derive(Debug)]
pub(super) struct Backup {
    pub epoch: u64,
    client: rpc::Client,
    /// By slot of the client's window.
    calls: Vec<Call>,
    copying: Option<Copying>,
    is_lost: bool,
    request: Vec<u8>,
}

impl Backup {
    pub fn new(epoch: u64, client: rpc::Client) -> Self {
        Self {
            epoch,
            calls: vec![Call::None; client.config().window.into()],
            client,
            copying: None,
            is_lost: false,
            request: Vec::new(),
        }
    }

    pub fn close(self, verbs: &mut dyn Verbs) {
        self.client.close(verbs);
    }

    pub fn poll_timeout(&self) -> Option<Instant> {
        self.client.poll_timeout()
    }

    /// Whether there are keys to copy, and no answer to an earlier step is awaited.
    pub fn wants_to_copy(&self, shard: &Shard) -> bool {
        let is_sent = self.copying.as_ref().map(|copying| copying.is_sent);
        !self.is_lost
            && shard.stands(self.epoch) == Stands::InForce
            && is_sent.map_or_else(|| !shard.is_covered(), |is_sent| !is_sent)
    }

    /// Sends the request of a task.
    pub fn send(&mut self, task: u32, request: &Request<'_>) -> Result<(), Unsent> {
        self.begin(Call::Task(task), request)
    }

    fn begin(&mut self, call: Call, request: &Request<'_>) -> Result<(), Unsent> {
        if self.is_lost {
            return Err(Unsent::NotNow);
        }
        self.request.clear();
        request.encode(&mut self.request);
        match self
            .client
            .begin_with(request.method() as u16, &self.request)
        {
            Ok(ticket) => {
                self.calls[ticket.slot()] = call;
                Ok(())
            }
            Err(RpcError::TooLarge { .. }) => Err(Unsent::TooLarge),
            Err(_) => Err(Unsent::NotNow),
        }
    }

    /// Sends the requests that were begun and takes replies: to `ended` the outcomes of tasks. True
    /// if anything was sent or received.
    pub fn advance(
        &mut self,
        now: Instant,
        verbs: &mut dyn Verbs,
        shard: &Shard,
        ended: &mut Vec<(u32, Outcome)>,
    ) -> bool {
        let mut happened = self.client.advance(now, verbs);
        let mut copied = None;
        while let Some(answer) = self.client.take() {
            happened = true;
            let call = &mut self.calls[answer.ticket.slot()];
            let call = core::mem::replace(call, Call::None);
            let outcome = answer.result.ok().and_then(reply);
            // A replica that refuses the epoch is no replica any more; one that is damaged or does
            // not answer may have executed the request or not.
            let outcome = outcome.map(|(outcome, _)| outcome).filter(|outcome| {
                matches!(
                    outcome,
                    Outcome::Done | Outcome::Full | Outcome::ValueTooLarge
                )
            });
            match (call, outcome) {
                (_, None) => self.is_lost = true,
                (Call::Task(task), Some(outcome)) => ended.push((task, outcome)),
                (Call::Copy, Some(outcome)) => copied = Some(outcome),
                (Call::None, Some(_)) => {}
            }
        }
        match copied {
            Some(Outcome::Done) => self.step_done(),
            // A replica without space for the chunk will not be whole.
            Some(_) => self.is_lost = true,
            None => {}
        }
        self.is_lost |= self.client.is_broken();
        if self.is_lost {
            shard.lose_replica(self.epoch);
        } else {
            happened |= self.copy(shard);
        }
        happened
    }

    /// Sends the requests that were begun.
    pub fn flush(&mut self, now: Instant, verbs: &mut dyn Verbs) {
        self.client.advance(now, verbs);
    }

    /// The current step of copying has ended.
    fn step_done(&mut self) {
        let Some(copying) = &mut self.copying else {
            return;
        };
        copying.is_sent = false;
        let from = copying.chunk.low;
        copying.step = match copying.step {
            Step::Install { next: None } => Step::Cover,
            Step::Install { next: Some(from) } => Step::Export { from },
            _ => Step::Export { from },
        };
    }

    /// Takes the next step of copying. True if there was one.
    fn copy(&mut self, shard: &Shard) -> bool {
        if shard.stands(self.epoch) != Stands::InForce {
            return false;
        }
        let Some(mut copying) = self.copying.take() else {
            let chunk = shard.mark_copy(self.epoch, ENTRIES_COPIED_MAX);
            self.copying = chunk.map(|chunk| Copying {
                chunk,
                step: Step::Clear,
                is_sent: false,
                page: Vec::new(),
            });
            return self.copying.is_some();
        };
        if copying.is_sent {
            self.copying = Some(copying);
            return false;
        }
        let (epoch, chunk) = (self.epoch, copying.chunk);
        if let Step::Export { from } = copying.step {
            copying.step = self.export(shard, chunk, from, &mut copying.page);
        }
        let request = match copying.step {
            Step::Clear => Request::ReplicaClear {
                epoch,
                low: chunk.low,
                last: chunk.last,
            },
            Step::Cover => {
                shard.cover(epoch);
                shard.end_range();
                return true;
            }
            Step::Export { .. } | Step::Install { .. } => Request::ReplicaInstall {
                epoch,
                entries: Entries::new(&copying.page).expect("a page has whole entries"),
            },
        };
        match self.begin(Call::Copy, &request) {
            Ok(()) => copying.is_sent = true,
            Err(Unsent::NotNow) => {}
            // A single entry that is longer than a request.
            Err(Unsent::TooLarge) => self.is_lost = true,
        }
        let is_sent = copying.is_sent;
        self.copying = Some(copying);
        is_sent
    }

    /// Fills a page with entries of the chunk, from `from` on. Returns the step that follows.
    fn export(&self, shard: &Shard, chunk: Marked, from: u64, page: &mut Vec<u8>) -> Step {
        // The epoch precedes the entries.
        let free = (self.client.config().payload_max as usize).saturating_sub(8);
        page.clear();
        let next = shard.export_copy(chunk, from, &mut |key, value| {
            // An entry that does not fit at all is refused when it is sent.
            let fits = page.is_empty() || page.len() + ENTRY_HEADER + value.len() <= free;
            if fits {
                Entries::push(page, key, value);
            }
            fits
        });
        match (next, page.is_empty()) {
            (None, true) => Step::Cover,
            (next, _) => Step::Install { next },
        }
    }

    /// The epoch is over: nothing more will come. The chunk was released with the epoch.
    pub fn abandon(&mut self, shard: &Shard) {
        self.is_lost = true;
        if self.copying.take().is_some() {
            shard.end_range();
        }
    }
}

/// The request to the replica for a request in flight.
pub(super) fn for_replica<'a>(request: &Request<'a>, epoch: u64) -> Request<'a> {
    match *request {
        Request::Stage { low, last, .. } => Request::ReplicaClear { epoch, low, last },
        Request::Install { entries, .. } => Request::ReplicaInstall { epoch, entries },
        Request::Commit { ref map, .. } | Request::Adopt { ref map, .. } => {
            let map = map.clone();
            Request::ReplicaMap { epoch, map }
        }
        _ => match write_of(request) {
            Some(write) if write.kind != WriteKind::Remove => Request::ReplicaPut {
                epoch,
                key: write.key,
                value: write.value,
            },
            write => Request::ReplicaRemove {
                epoch,
                key: write.map_or(0, |write| write.key),
            },
        },
    }
}
