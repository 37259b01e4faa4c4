//! One thread's connection to a sequencer.

use super::{AttachedSequencer, NumberSource, SequencerService, SequencerServiceError};
use crate::Node;
use crate::services::{TIME_LIMIT, ready_within, wait_within};
use core::ops::Range;
use core::time::Duration;
use rackweave_controller::ask::AskError;
use rackweave_controller::{LaneError, SequencerSetUpError};
use rackweave_endpoint::sequencer::{BeginError, Done, Sequencer as _, SequencerError, Ticket};
use std::collections::{HashSet, VecDeque};

/// One thread's connection to a sequencer, from one node. Numbers that are still requested when it
/// is dropped are a gap.
#[derive(Debug)]
pub struct SequencerClient {
    /// `Some` until it is dropped.
    client: Option<AttachedSequencer>,
    sequencer: SequencerService,
    node: Node,
    /// Calls that ended while the caller waited for another one.
    done: VecDeque<Done>,
    /// Calls that were abandoned.
    given_up: HashSet<Ticket>,
    time_limit: Duration,
    repeats: u64,
}

const THERE: &str = "a client has its machine until it is dropped";

impl SequencerClient {
    pub(super) fn new(sequencer: SequencerService, node: Node, client: AttachedSequencer) -> Self {
        Self {
            client: Some(client),
            sequencer,
            node,
            done: VecDeque::new(),
            given_up: HashSet::new(),
            time_limit: TIME_LIMIT,
            repeats: 0,
        }
    }

    /// `count` numbers that no other call ever gets, within the time limit. A call that begins
    /// after another has ended, anywhere in the rack, gets higher ones. If the switch restarts
    /// meanwhile, the client connects again by itself, and asks for other numbers; those asked for
    /// before may be a gap.
    ///
    /// # Errors
    /// If no numbers were returned. Some may be used up then, as a gap.
    pub fn next(&mut self, count: u64) -> Result<Range<u64>, SequencerServiceError> {
        self.next_within(count, self.time_limit)
    }

    /// The same with another time limit; [`FOREVER`](crate::services::FOREVER) is none.
    ///
    /// # Errors
    /// As for [`SequencerClient::next`].
    pub fn next_within(
        &mut self,
        count: u64,
        limit: Duration,
    ) -> Result<Range<u64>, SequencerServiceError> {
        let node = self.node.clone();
        let mut awaited = Awaited::new(self, count);
        let ended = wait_within(&node, limit, || awaited.take());
        ended.unwrap_or(Err(SequencerServiceError::TimedOut { after: limit }))
    }

    /// [`SequencerClient::next`] for a task that awaits it. Numbers whose future is dropped are a
    /// gap.
    ///
    /// # Errors
    /// As for [`SequencerClient::next`].
    pub fn next_async(
        &mut self,
        count: u64,
    ) -> impl Future<Output = Result<Range<u64>, SequencerServiceError>> + Send {
        let (node, limit) = (self.node.clone(), self.time_limit);
        async move {
            let mut awaited = Awaited::new(self, count);
            let ended = ready_within(&node, limit, || awaited.take()).await;
            ended.unwrap_or(Err(SequencerServiceError::TimedOut { after: limit }))
        }
    }

    /// Begins a call for `count` numbers. Nothing is sent before the next poll, and calls that are
    /// begun together travel as one request.
    ///
    /// # Errors
    /// If the count is out of range, or too many calls are pending.
    pub fn begin(&mut self, count: u64) -> Result<Ticket, BeginError> {
        self.client.as_mut().expect(THERE).begin(count)
    }

    /// Advances pending calls; returns the next that has ended. Never waits.
    pub fn poll(&mut self) -> Option<Done> {
        if self.done.is_empty() {
            self.collect();
        }
        self.done.pop_front()
    }

    fn collect(&mut self) {
        self.sequencer.serve();
        let (client, now) = (self.client.as_mut().expect(THERE), self.node.now());
        while let Some(done) = self.node.with(|nic| client.poll(now, nic)) {
            if !self.given_up.remove(&done.ticket) {
                self.done.push_back(done);
            }
        }
    }

    /// Reconnects after the connection broke because the switch or the server was restarted. Calls
    /// that were pending have failed.
    ///
    /// # Errors
    /// If the sequencer has been removed, or there is no capacity.
    pub fn reconnect(&mut self) -> Result<(), SequencerServiceError> {
        self.sequencer.attach(self.client.as_mut().expect(THERE))
    }

    /// How many times a call has asked for other numbers because its connection broke. Each time,
    /// those that it had asked for before may be a gap.
    pub fn repeats(&self) -> u64 {
        self.repeats
    }

    /// Changes how long [`SequencerClient::next`] waits; it is [`TIME_LIMIT`] at first.
    pub fn set_time_limit(&mut self, limit: Duration) {
        self.time_limit = limit;
    }
}

impl Drop for SequencerClient {
    fn drop(&mut self) {
        if let Some(client) = self.client.take() {
            self.sequencer.release(client);
        }
    }
}

impl SequencerService {
    /// Whether a client that got this error can connect again: a sequencer in the switch outlives
    /// a restart of the switch, others go with the process that has them.
    fn may_reconnect(&self, error: &SequencerServiceError) -> bool {
        use SequencerServiceError as Error;
        let is_broken = matches!(
            error,
            Error::Failed(SequencerError::Broken(_) | SequencerError::Post(_))
                | Error::Begin(BeginError::Broken(_))
        );
        is_broken && matches!(self.0.source, NumberSource::Switch(_))
    }
}

/// A call of a caller; abandoned if it is dropped before it has ended.
struct Awaited<'a> {
    client: &'a mut SequencerClient,
    count: u64,
    /// `None` before it has begun, and once the numbers have arrived.
    ticket: Option<Ticket>,
}

impl<'a> Awaited<'a> {
    fn new(client: &'a mut SequencerClient, count: u64) -> Self {
        let ticket = None;
        Self {
            client,
            count,
            ticket,
        }
    }

    /// The numbers or an error, once there is one. A call whose connection broke begins again.
    fn take(&mut self) -> Option<Result<Range<u64>, SequencerServiceError>> {
        let error = match self.advance()? {
            Err(error) if self.client.sequencer.may_reconnect(&error) => error,
            ended => return Some(ended),
        };
        let is_lost = matches!(error, SequencerServiceError::Failed(_));
        self.client.repeats += u64::from(is_lost);
        match self.client.reconnect() {
            Ok(()) => None,
            // Its process is replaced by another.
            Err(SequencerServiceError::Switch(SequencerSetUpError::Lane(
                LaneError::Controller(AskError::NoAnswer) | LaneError::NoNode(_),
            ))) => None,
            Err(_) => Some(Err(error)),
        }
    }

    fn advance(&mut self) -> Option<Result<Range<u64>, SequencerServiceError>> {
        if self.ticket.is_none() {
            match self.client.begin(self.count) {
                Ok(ticket) => self.ticket = Some(ticket),
                Err(error) => return Some(Err(error.into())),
            }
        }
        self.client.collect();
        let mut done = self.client.done.iter();
        let at = done.position(|done| Some(done.ticket) == self.ticket)?;
        self.ticket = None;
        let done = self.client.done.remove(at)?;
        Some(done.result.map_err(SequencerServiceError::from))
    }
}

impl Drop for Awaited<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.client.given_up.insert(ticket);
        }
    }
}
