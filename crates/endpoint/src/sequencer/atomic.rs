//! A client that uses fetch-and-adds, on a word in a node's memory or a register of the switch.

use super::combine::Combiner;
use super::{BeginError, Done, Sequencer, SequencerConfig, SequencerError, SetUpError, Ticket};
use crate::resources::Resources;
use core::sync::atomic::Ordering;
use rackweave_base::{Instant, Memory, Qpn, Rkey};
use rackweave_verbs::{
    Completion, CompletionStatus, Operation, PostError, QpCapabilities, Verbs, WorkRequest,
};
use rackweave_wire::fabric::sequencer::SequencerPlace;

/// A client of a word in a node's memory, or of a register of the switch.
///
/// It has its own queue pair, which must be connected to the word's node or to the switch. Then
/// [`AtomicSequencer::connected`] sets the location of the word. Request numbers are never reused,
/// so completions that belong to an earlier connection are recognised.
#[derive(Debug)]
pub struct AtomicSequencer {
    calls: Combiner,
    qpn: Qpn,
    /// Includes eight bytes for the response to each request in flight.
    nic: Resources,
    requests_max: u64,
    place: SequencerPlace,
    broken: Option<SequencerError>,
    completions: Vec<Completion>,
}

impl AtomicSequencer {
    /// A client that is not connected. Its few bytes are allocated from `memory`.
    ///
    /// # Errors
    /// If a size is out of range, or the NIC or the memory has no free resources.
    pub fn new(
        verbs: &mut dyn Verbs,
        memory: &Memory,
        config: SequencerConfig,
    ) -> Result<Self, SetUpError> {
        config.check()?;
        let requests = config.requests_max;
        let pd = verbs.create_pd();
        // A broken connection leaves completions that may still be unread when the next ones
        // arrive.
        let entries = requests * 4;
        let capabilities = QpCapabilities {
            send_max: requests,
            receive_max: 1,
            segments_max: 1,
        };
        let bytes = requests as usize * 8;
        let (nic, qpn) = Resources::with_qp(verbs, memory, pd, bytes, entries, capabilities)?;
        Ok(Self {
            calls: config.combiner(),
            qpn,
            nic,
            requests_max: requests.into(),
            place: SequencerPlace {
                address: 0,
                rkey: Rkey(0),
            },
            broken: Some(SequencerError::NotConnected),
            completions: Vec::with_capacity(requests as usize),
        })
    }

    /// The queue pair to connect. It sends fetch-and-adds and receives no requests.
    pub fn qpn(&self) -> Qpn {
        self.qpn
    }

    /// Call this when the queue pair has been connected, or reconnected after a failure, to the
    /// node or switch of `place`. Earlier calls have ended or end at the next polls.
    pub fn connected(&mut self, place: SequencerPlace) {
        self.calls.fail_all(SequencerError::NotConnected);
        self.place = place;
        self.broken = None;
    }

    /// Releases the queue pair, the completion queue and the region. Results that have not been
    /// polled are lost.
    pub fn close(self, verbs: &mut dyn Verbs) {
        // A NIC that has restarted does not know the queue pair; then there is nothing to release.
        let _gone = verbs.destroy_qp(self.qpn);
        self.nic.destroy(verbs);
    }

    fn break_off(&mut self, error: SequencerError) {
        self.calls.fail_all(error);
        self.broken = Some(error);
    }

    /// The address of a request's response.
    fn answer_at(&self, request: u64) -> u64 {
        request % self.requests_max * 8
    }

    fn take_completions(&mut self, verbs: &mut dyn Verbs) {
        let limit = self.requests_max as usize;
        while verbs.poll_cq(self.nic.cq, limit, &mut self.completions) > 0 {
            for at in 0..self.completions.len() {
                let Completion { id, status, .. } = self.completions[at];
                if !self.calls.is_awaited(id) {
                    continue; // belongs to an earlier connection
                }
                match status {
                    CompletionStatus::Success => {
                        let at = self.answer_at(id) as usize;
                        let first = self.nic.region.block.word(at).load(Ordering::Acquire);
                        self.calls.answered(id, Ok(first));
                    }
                    status => self.break_off(SequencerError::Broken(status)),
                }
            }
            self.completions.clear();
        }
    }

    /// Posts waiting requests, as far as there are free slots. True if anything was posted.
    fn send(&mut self, verbs: &mut dyn Verbs) -> bool {
        let mut sent = false;
        while self.broken.is_none()
            && let Some((request, count)) = self.calls.next_request()
        {
            let operation = Operation::FetchAdd {
                address: self.place.address,
                rkey: self.place.rkey,
                add: count,
            };
            let answer = self.nic.region.segment(self.answer_at(request), 8);
            let work = WorkRequest::new(request, operation, &[answer]);
            match self.post(verbs, work) {
                Ok(()) => sent = true,
                Err(error) => self.break_off(SequencerError::Post(error)),
            }
        }
        sent
    }

    fn post(&self, verbs: &mut dyn Verbs, work: WorkRequest) -> Result<(), PostError> {
        verbs.post_send(self.qpn, work)
    }
}

impl Sequencer for AtomicSequencer {
    #[inline]
    fn begin(&mut self, count: u64) -> Result<Ticket, BeginError> {
        match self.broken {
            Some(error) => Err(BeginError::Broken(error)),
            None => self.calls.begin(count),
        }
    }

    #[inline]
    fn poll(&mut self, _now: Instant, verbs: &mut dyn Verbs) -> Option<Done> {
        if let Some(done) = self.calls.poll() {
            return Some(done);
        }
        self.take_completions(verbs);
        if self.send(verbs) {
            // A queue pair in the error state completes posted requests at once. No packet
            // announces such a completion, so the caller might not poll again.
            self.take_completions(verbs);
        }
        self.calls.poll()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn broken(&self) -> Option<SequencerError> {
        self.broken
    }

    fn len(&self) -> usize {
        self.calls.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_network::Network;
    use rackweave_verbs::QpModify;

    /// `chaos --system sequencer`, seed 7012618: a switch restarted while a client had nothing in
    /// flight. The client's next call failed when it was posted, and the client was not polled
    /// again.
    #[test]
    fn a_call_by_a_broken_connection_ends_with_the_poll_that_sends_it() {
        let mut network = Network::new(1, 1);
        let (memory, nic) = (network.memory.clone(), &mut network.nics[0]);
        let client = AtomicSequencer::new(nic, &memory, SequencerConfig::default());
        let mut client = client.expect("there is room");
        client.connected(SequencerPlace {
            address: 0,
            rkey: Rkey(1),
        });
        for state in [QpModify::Init, QpModify::Error] {
            nic.modify_qp(client.qpn(), state).expect("it may");
        }
        let ticket = client.begin(3).expect("it is taken");
        let broken = SequencerError::Broken(CompletionStatus::Flushed);
        let done = Done {
            ticket,
            result: Err(broken),
        };
        assert_eq!(client.poll(network.now, nic), Some(done));
        assert_eq!(client.broken(), Some(broken));
    }
}
