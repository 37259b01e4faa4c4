//! A client that asks by fetch-and-add: a word in a node's memory, or a register of the switch.

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
/// It has a queue pair of its own, which is to be connected to the word's node or to the switch;
/// then [`AtomicSequencer::connected`] tells where the word is. Requests bear numbers that are
/// never used again, so completions of a connection of before are told apart.
#[derive(Debug)]
pub struct AtomicSequencer {
    calls: Combiner,
    qpn: Qpn,
    /// With eight bytes for the answer to each request under way.
    nic: Resources,
    requests_max: u64,
    place: SequencerPlace,
    broken: Option<SequencerError>,
    completions: Vec<Completion>,
}

impl AtomicSequencer {
    /// A client that is not connected. Its few bytes come from `memory`.
    ///
    /// # Errors
    /// If a size is out of range or the NIC or the memory has no room.
    pub fn new(
        verbs: &mut dyn Verbs,
        memory: &Memory,
        config: SequencerConfig,
    ) -> Result<Self, SetUpError> {
        config.check()?;
        let requests = config.requests_max;
        let pd = verbs.create_pd();
        // A connection that breaks leaves completions that may not be taken before the next ones
        // come.
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

    /// The queue pair to connect: its requests are fetch-and-adds, it takes none.
    pub fn qpn(&self) -> Qpn {
        self.qpn
    }

    /// The queue pair has been connected, or connected again after a break, to where `place` is.
    /// Calls of before have ended or will at the next polls.
    pub fn connected(&mut self, place: SequencerPlace) {
        self.calls.fail_all(SequencerError::NotConnected);
        self.place = place;
        self.broken = None;
    }

    /// Gives queue pair, completion queue and region back. What has not been polled is lost.
    pub fn close(self, verbs: &mut dyn Verbs) {
        // Unknown to a NIC that has restarted meanwhile; then nothing is left to give back.
        let _gone = verbs.destroy_qp(self.qpn);
        self.nic.destroy(verbs);
    }

    fn break_off(&mut self, error: SequencerError) {
        self.calls.fail_all(error);
        self.broken = Some(error);
    }

    /// The place of a request's answer.
    fn answer_at(&self, request: u64) -> u64 {
        request % self.requests_max * 8
    }

    fn take_completions(&mut self, verbs: &mut dyn Verbs) {
        let limit = self.requests_max as usize;
        while verbs.poll_cq(self.nic.cq, limit, &mut self.completions) > 0 {
            for at in 0..self.completions.len() {
                let Completion { id, status, .. } = self.completions[at];
                if !self.calls.is_awaited(id) {
                    continue; // of a connection of before
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

    /// Posts what waits, as far as there is room. True if anything was posted.
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
            // A queue pair in error completes at once what is posted to it. No packet will come to
            // tell of that, so nobody might ask again.
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

    /// `chaos --system sequencer`, seed 7012618: a switch restarted while a client had nothing
    /// under way. Its next call failed as it was posted, and nobody asked for it again.
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
