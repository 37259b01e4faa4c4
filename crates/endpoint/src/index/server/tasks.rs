//! Requests whose reply waits for the endpoint's replica, or for a request that does.
//!
//! | state | of a write | of a step of a move |
//! |---|---|---|
//! | waiting | another write to the key is pending | writes or earlier steps are at the replica |
//! | in flight | the replica gets the write | the replica gets the change of the range |
//! | undoing | the tree here is full: the replica gets the value before | |
//! | ended | the reply is known | the reply is known |
//!
//! A request that waits is executed anew at every poll, so it may also find that its key has moved.
//! One that is in flight completes even if its client has left. If the epoch ends meanwhile, it is
//! completed without the replica.

use super::backup::{Backup, Unsent, for_replica};
use super::{IndexServer, outcome_of, outcome_of_write, write_of};
use crate::index::message::{Outcome, Request};
use crate::index::meter::Count;
use crate::index::shard::{Begun, ReplicationError, Stands, Write};
use crate::rpc::{self, Status, Writer};
use rackweave_base::Instant;
use rackweave_verbs::Verbs;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Waiting,
    InFlight,
    Undoing(Outcome),
    Ended(Outcome),
}

/// A request without a reply so far.
#[derive(Debug)]
struct Task {
    /// `None`: it has left.
    client: Option<u32>,
    method: u16,
    request: Vec<u8>,
    state: State,
    /// A number that the reply contains.
    number: Option<u64>,
}

/// The requests of one server thread.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    slots: Vec<Option<Task>>,
    free: Vec<u32>,
    /// Number of those that wait.
    waiting: usize,
    /// The epoch of those in flight or undoing, and their number.
    epoch: u64,
    in_flight: usize,
    /// Those in flight or undoing that are still to be sent.
    unsent: Vec<u32>,
    ended: Vec<(u32, Outcome)>,
    /// Memory of requests, for reuse.
    spare: Vec<Vec<u8>>,
}

impl Tasks {
    fn add(&mut self, client: u32, request: &Request<'_>, state: State) -> u32 {
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.clear();
        request.encode(&mut bytes);
        let task = Task {
            client: Some(client),
            method: request.method() as u16,
            request: bytes,
            state,
            number: None,
        };
        let at = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        });
        self.waiting += usize::from(state == State::Waiting);
        self.slots[at as usize] = Some(task);
        at
    }

    fn get(&mut self, at: u32) -> &mut Task {
        let task = self.slots[at as usize].as_mut();
        task.expect("slots that are passed around are in use")
    }

    fn remove(&mut self, at: u32) -> Option<Task> {
        let task = self.slots.get_mut(at as usize)?.take()?;
        self.waiting -= usize::from(task.state == State::Waiting);
        self.free.push(at);
        Some(task)
    }

    fn forget(&mut self, at: u32) {
        if let Some(task) = self.remove(at) {
            self.spare.push(task.request);
        }
    }
}

impl IndexServer {
    /// Connects this thread to the replica of the next epoch. `client` is to be connected to a
    /// server of the replica, and must allow requests and replies as long as those of this thread's
    /// server. A reply that takes longer than its timeout means that the replica is lost.
    ///
    /// # Errors
    /// If the thread is connected to the replica of an epoch that is not over, or this one is; then
    /// the client is closed.
    pub fn attach_replica(
        &mut self,
        now: Instant,
        verbs: &mut dyn Verbs,
        epoch: u64,
        client: rpc::Client,
    ) -> Result<(), ReplicationError> {
        self.advance(now, verbs);
        let error = if self.backup.is_some() {
            ReplicationError::InUse
        } else if self.shard.stands(epoch) == Stands::Over {
            let newest = epoch;
            ReplicationError::Epoch { epoch, newest }
        } else {
            self.backup = Some(Backup::new(epoch, client));
            return Ok(());
        };
        client.close(verbs);
        Err(error)
    }

    /// Releases the connection to the replica. Requests in flight stay without a reply, and their
    /// keys cannot be written any more: to be called when the endpoint ends.
    pub fn close(self, verbs: &mut dyn Verbs) {
        if let Some(backup) = self.backup {
            backup.close(verbs);
        }
    }

    /// When to call [`IndexServer::advance`] even if no completion arrives.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.backup.as_ref().and_then(Backup::poll_timeout)
    }

    /// Whether there is work that no completion announces: the thread has to be polled again soon.
    pub fn is_waiting(&self) -> bool {
        let wants_to_copy = |backup: &Backup| backup.wants_to_copy(&self.shard);
        self.tasks.waiting > 0
            || !self.tasks.unsent.is_empty()
            || self.backup.as_ref().is_some_and(wants_to_copy)
    }

    /// Handles acknowledgements of the replica, sends it what waits, and copies keys to it. True if
    /// anything happened. To be called before the requests of clients are served;
    /// [`IndexServer::flush`] afterwards sends what they cause.
    pub fn advance(&mut self, now: Instant, verbs: &mut dyn Verbs) -> bool {
        let mut happened = false;
        if let Some(mut backup) = self.backup.take() {
            if self.shard.stands(backup.epoch) == Stands::Over {
                backup.abandon(&self.shard);
                backup.close(verbs);
                happened = true;
            } else {
                let mut ended = core::mem::take(&mut self.tasks.ended);
                happened = backup.advance(now, verbs, &self.shard, &mut ended);
                self.backup = Some(backup);
                for (at, outcome) in ended.drain(..) {
                    self.acknowledged(at, outcome, false);
                }
                self.tasks.ended = ended;
            }
        }
        let epoch = self.tasks.epoch;
        if self.tasks.in_flight > 0 && self.shard.stands(epoch) == Stands::Over {
            self.end_alone();
            happened = true;
        }
        if happened && self.backup.is_none() {
            self.shard.settle();
        }
        for at in core::mem::take(&mut self.tasks.unsent) {
            self.send_task(at);
        }
        happened
    }

    /// Sends the replica what requests of clients have caused.
    pub fn flush(&mut self, now: Instant, verbs: &mut dyn Verbs) {
        if let Some(backup) = &mut self.backup {
            backup.flush(now, verbs);
        }
    }

    /// Executes a write to a covered key.
    pub(super) fn replicate(
        &mut self,
        client: u32,
        write: &Write<'_>,
        request: &Request<'_>,
        reply: &mut Writer<'_>,
    ) -> Status {
        match self.shard.begin_write(write, &mut self.value) {
            Ok(Begun::Pending(epoch)) => self.begin_task(client, request, (epoch, None), reply),
            Ok(Begun::Later) => self.wait(client, request, reply),
            Ok(Begun::Ended(changed)) => self.answer_write(write, Ok(changed), reply),
            Err(denied) => self.answer_write(write, Err(denied), reply),
        }
    }

    /// Executes the request again at the next poll.
    pub(super) fn wait(
        &mut self,
        client: u32,
        request: &Request<'_>,
        reply: &mut Writer<'_>,
    ) -> Status {
        let at = self.tasks.add(client, request, State::Waiting);
        reply.defer(at.into())
    }

    /// Sends the replica what the request changes, and replies when that is acknowledged.
    pub(super) fn begin_task(
        &mut self,
        client: u32,
        request: &Request<'_>,
        (epoch, number): (u64, Option<u64>),
        reply: &mut Writer<'_>,
    ) -> Status {
        let at = self.tasks.add(client, request, State::InFlight);
        self.tasks.get(at).number = number;
        self.tasks.in_flight += 1;
        self.tasks.epoch = epoch;
        self.send_task(at);
        reply.defer(at.into())
    }

    fn send_task(&mut self, at: u32) {
        let Self {
            tasks,
            backup,
            shard,
            value,
            ..
        } = self;
        let epoch = tasks.epoch;
        // It may have ended with its epoch.
        let Some(Some(task)) = tasks.slots.get(at as usize) else {
            return;
        };
        let is_undoing = match task.state {
            State::InFlight => false,
            State::Undoing(_) => true,
            State::Waiting | State::Ended(_) => return,
        };
        let request = decode(task);
        let request = match write_of(&request).filter(|_| is_undoing) {
            None => for_replica(&request, epoch),
            Some(Write { key, .. }) => match shard.tree().lookup(key, value) {
                true => Request::ReplicaPut { epoch, key, value },
                false => Request::ReplicaRemove { epoch, key },
            },
        };
        let backup = backup.as_mut().filter(|backup| backup.epoch == epoch);
        match backup.map_or(Err(Unsent::NotNow), |backup| backup.send(at, &request)) {
            Ok(()) => {}
            Err(Unsent::NotNow) => tasks.unsent.push(at),
            Err(Unsent::TooLarge) => self.acknowledged(at, Outcome::ValueTooLarge, false),
        }
    }

    /// Handles the outcome at the replica; `alone` if there is no replica any more.
    fn acknowledged(&mut self, at: u32, outcome: Outcome, alone: bool) {
        let task = self.tasks.get(at);
        let state = task.state;
        let request = core::mem::take(&mut task.request);
        let decoded = Request::decode(task.method, &request).expect("it was decoded before");
        let ended = match (write_of(&decoded), state, outcome) {
            (Some(write), State::InFlight, Outcome::Done) => self.execute_here(&write, alone),
            (Some(write), State::InFlight, refused) => {
                self.shard.release_key(write.key);
                Ok(refused)
            }
            (Some(write), State::Undoing(full), Outcome::Done) => {
                self.shard.release_key(write.key);
                Ok(full)
            }
            // The replica has no space for the value before: other keys may make some.
            (Some(_), State::Undoing(full), _) => Err(full),
            (None, ..) => {
                match decoded {
                    Request::Stage { id, .. } => self.shard.staged(id),
                    Request::Commit { .. } | Request::Adopt { .. } => self.shard.end_map(),
                    _ => self.shard.end_range(),
                }
                Ok(outcome)
            }
            (Some(_), State::Waiting | State::Ended(_), _) => {
                unreachable!("only requests in flight are acknowledged")
            }
        };
        let task = self.tasks.get(at);
        task.request = request;
        match ended {
            Err(full) => {
                task.state = State::Undoing(full);
                self.tasks.unsent.push(at);
            }
            Ok(outcome) => {
                if outcome == Outcome::Full {
                    self.meter.count(Count::Full);
                }
                task.state = State::Ended(outcome);
                self.tasks.in_flight -= 1;
                if self.tasks.get(at).client.is_none() {
                    self.tasks.forget(at);
                }
            }
        }
    }

    /// Executes a write that the replica has; the error is the outcome if it has to be undone
    /// there.
    fn execute_here(&mut self, write: &Write<'_>, alone: bool) -> Result<Outcome, Outcome> {
        match self.shard.end_write(write) {
            Ok(changed) => {
                self.meter.count_key(Count::Writes, write.key);
                Ok(outcome_of_write(write.kind, changed))
            }
            Err(error) if alone => {
                self.shard.release_key(write.key);
                Ok(outcome_of(&error))
            }
            Err(error) => Err(outcome_of(&error)),
        }
    }

    /// Completes everything in flight without the replica.
    fn end_alone(&mut self) {
        self.tasks.unsent.clear();
        for at in 0..self.tasks.slots.len() as u32 {
            let task = self.tasks.slots[at as usize].as_ref();
            let state = task.map(|task| task.state);
            if matches!(state, Some(State::InFlight | State::Undoing(_))) {
                self.acknowledged(at, Outcome::Done, true);
            }
        }
    }

    /// Continues the request that was deferred as `number`.
    pub(super) fn resume_task(
        &mut self,
        client: u32,
        number: u64,
        reply: &mut Writer<'_>,
    ) -> Status {
        let at = number as u32;
        match self.tasks.get(at).state {
            State::InFlight | State::Undoing(_) => reply.defer(number),
            State::Ended(outcome) => {
                let number = self.tasks.get(at).number;
                self.tasks.forget(at);
                reply.push(&[outcome as u8]);
                if let Some(number) = number.filter(|_| outcome == Outcome::Done) {
                    reply.push(&number.to_le_bytes());
                }
                Status::OK
            }
            State::Waiting => {
                let task = self.tasks.remove(at).expect("it is in its slot");
                let status = self.execute(client, &decode(&task), reply);
                self.tasks.spare.push(task.request);
                status
            }
        }
    }

    /// Nobody waits for the replies to this client any more.
    pub(super) fn forget_client(&mut self, client: u32) {
        for at in 0..self.tasks.slots.len() as u32 {
            let Some(task) = &mut self.tasks.slots[at as usize] else {
                continue;
            };
            if task.client == Some(client) {
                match task.state {
                    State::InFlight | State::Undoing(_) => task.client = None,
                    State::Waiting | State::Ended(_) => self.tasks.forget(at),
                }
            }
        }
    }
}

fn decode(task: &Task) -> Request<'_> {
    Request::decode(task.method, &task.request).expect("it was decoded before")
}
