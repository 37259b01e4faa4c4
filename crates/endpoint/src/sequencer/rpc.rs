//! A client that uses RPC to a server.

use super::combine::Combiner;
use super::counter::{EXHAUSTED, UNKNOWN};
use super::{BeginError, Done, Sequencer, SequencerConfig, SequencerError, SetUpError, Ticket};
use crate::rpc::{self, RpcError};
use rackweave_base::{Instant, Qpn};
use rackweave_verbs::Verbs;
use rackweave_wire::fabric::sequencer::{NEXT, Request};

/// A client of a counter in a server.
///
/// A broken connection cannot be reused: create another client over a new connection.
#[derive(Debug)]
pub struct RpcSequencer {
    calls: Combiner,
    client: rpc::Client,
    sequencer: u64,
    requests_max: usize,
    /// Requests in flight: the RPC's ticket, and the request's number here.
    under_way: Vec<(rpc::Ticket, u64)>,
}

impl RpcSequencer {
    /// A client of the counter with this name, over a connection of its own.
    ///
    /// # Errors
    /// If a size is out of range, or larger than the window of the connection.
    pub fn new(
        client: rpc::Client,
        sequencer: u64,
        config: SequencerConfig,
    ) -> Result<Self, SetUpError> {
        config.check()?;
        let window = u32::from(client.config().window);
        if config.requests_max > window {
            return Err(SetUpError::OutOfRange {
                what: "requests_max",
                value: config.requests_max.into(),
                least: 1,
                most: window.into(),
            });
        }
        let requests_max = config.requests_max as usize;
        Ok(Self {
            calls: config.combiner(),
            client,
            sequencer,
            requests_max,
            under_way: Vec::with_capacity(requests_max),
        })
    }

    /// The queue pair of its connection.
    pub fn qpn(&self) -> Qpn {
        self.client.qpn()
    }

    /// Releases the connection. Results that have not been polled are lost.
    pub fn close(self, verbs: &mut dyn Verbs) {
        self.client.close(verbs);
    }

    /// Begins as many requests as possible.
    fn send(&mut self) {
        while self.under_way.len() < self.requests_max
            && self.client.free() > 0
            && let Some((number, count)) = self.calls.next_request()
        {
            let request = Request {
                sequencer: self.sequencer,
                count,
            };
            match self.client.begin_with(NEXT, &request.emit()) {
                Ok(ticket) => self.under_way.push((ticket, number)),
                Err(error) => self.calls.answered(number, Err(SequencerError::Rpc(error))),
            }
        }
    }

    /// Handles received replies.
    fn receive(&mut self, now: Instant, verbs: &mut dyn Verbs) {
        while let Some(reply) = self.client.poll(now, verbs) {
            let ticket = reply.ticket;
            let at = self
                .under_way
                .iter()
                .position(|&(other, _)| other == ticket);
            let Some(at) = at else { continue };
            let (_, number) = self.under_way.swap_remove(at);
            let answer = match reply.result {
                Ok(bytes) => match bytes.try_into() {
                    Ok(bytes) => Ok(u64::from_le_bytes(bytes)),
                    Err(_) => Err(SequencerError::BadAnswer(bytes.len())),
                },
                Err(RpcError::Refused(UNKNOWN)) => Err(SequencerError::Unknown),
                Err(RpcError::Refused(EXHAUSTED)) => Err(SequencerError::Exhausted),
                Err(error) => Err(SequencerError::Rpc(error)),
            };
            self.calls.answered(number, answer);
        }
        if let Some(error) = self.broken() {
            self.calls.fail_all(error);
        }
    }
}

impl Sequencer for RpcSequencer {
    #[inline]
    fn begin(&mut self, count: u64) -> Result<Ticket, BeginError> {
        match self.broken() {
            Some(error) => Err(BeginError::Broken(error)),
            None => self.calls.begin(count),
        }
    }

    #[inline]
    fn poll(&mut self, now: Instant, verbs: &mut dyn Verbs) -> Option<Done> {
        if let Some(done) = self.calls.poll() {
            return Some(done);
        }
        self.send();
        self.receive(now, verbs);
        // Received replies may have freed slots of the window.
        if self.calls.len() > 0 {
            self.send();
            self.client.advance(now, verbs);
        }
        self.calls.poll()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.client.poll_timeout()
    }

    fn broken(&self) -> Option<SequencerError> {
        let cause = self.client.cause()?;
        Some(SequencerError::Rpc(RpcError::Disconnected(cause)))
    }

    fn len(&self) -> usize {
        self.calls.len()
    }
}
