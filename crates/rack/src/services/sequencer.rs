//! Sequencers in the switch for a program: ranges of numbers that nobody else ever gets
//! (docs/sequencer.md).

use super::{TIME_LIMIT, wait_within};
use crate::{Node, Rack};
use core::ops::Range;
use rackweave_base::{Duration, NodeId};
use rackweave_controller::connect::PairAttributes;
use rackweave_controller::{SequencerId, SequencerSetUpError, SequencerSpec};
use rackweave_endpoint::sequencer::{
    AtomicSequencer, BeginError, Done, Sequencer as _, SequencerConfig, SequencerError, SetUpError,
    Ticket,
};
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

/// A sequencer in the switch of a rack. Clones of it are the same. It goes with the last of them
/// and of its clients.
#[derive(Clone, Debug)]
pub struct SequencerService(Arc<Made>);

#[derive(Debug)]
struct Made {
    rack: Rack,
    id: SequencerId,
}

impl Drop for Made {
    fn drop(&mut self) {
        self.rack.close_sequencer(self.id);
    }
}

impl SequencerService {
    /// Makes a sequencer whose first number is `first`: 0, or what [`SequencerService::reserved`]
    /// said of the one before.
    ///
    /// # Errors
    /// If the number is out of range or the switch has no room (`switch.sequencers`).
    pub fn new(rack: &Rack, first: u64) -> Result<Self, SequencerSetUpError> {
        let id = rack.create_sequencer(SequencerSpec {
            first,
            ..SequencerSpec::default()
        })?;
        let rack = rack.clone();
        Ok(Self(Arc::new(Made { rack, id })))
    }

    /// A client for one thread, at a node.
    ///
    /// # Errors
    /// If there is no such node, or it or the switch lacks room.
    pub fn connect(
        &self,
        node: impl Into<NodeId>,
    ) -> Result<SequencerClient, SequencerClientError> {
        let node = node.into();
        let rack = self.rack();
        let access = rack.node_here(node);
        let access = access.ok_or(SequencerClientError::NoNode(node))?;
        let config = SequencerConfig::default();
        let made = access.with(|nic| AtomicSequencer::new(nic, rack.memory(), config));
        let mut client = SequencerClient {
            client: Some(made?),
            sequencer: self.clone(),
            at: node,
            node: access,
            done: VecDeque::new(),
            given_up: HashSet::new(),
            time_limit: TIME_LIMIT,
        };
        client.reconnect()?;
        Ok(client)
    }

    /// A number of which, and of all above it, none was ever handed out: to be kept and given to
    /// the next sequencer as its first, when the rack ends.
    pub fn reserved(&self) -> Option<u64> {
        self.rack().sequencer_reserved(self.0.id)
    }

    /// The rack.
    pub fn rack(&self) -> &Rack {
        &self.0.rack
    }
}

/// Why there is no client of a sequencer.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SequencerClientError {
    /// No such node.
    #[error("{0:?} is not in the rack")]
    NoNode(NodeId),
    /// The node lacks room.
    #[error(transparent)]
    Node(#[from] SetUpError),
    /// The switch lacks room, or the sequencer is gone.
    #[error(transparent)]
    Switch(#[from] SequencerSetUpError),
}

/// Why there are no numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SequencerCallError {
    /// The call was not begun.
    #[error(transparent)]
    Begin(#[from] BeginError),
    /// It failed; numbers may be used up. Of a broken connection: reconnect.
    #[error(transparent)]
    Failed(#[from] SequencerError),
    /// No answer came in time. The numbers are a gap.
    #[error("no numbers came within {after}; those asked for are a gap")]
    TimedOut {
        /// How long was waited.
        after: Duration,
    },
}

/// One thread's way to a sequencer, from one node. Numbers that were asked for when it is dropped
/// are a gap.
#[derive(Debug)]
pub struct SequencerClient {
    /// Always there, until it is dropped.
    client: Option<AtomicSequencer>,
    sequencer: SequencerService,
    at: NodeId,
    node: Node,
    /// Calls that ended while another one was waited for.
    done: VecDeque<Done>,
    /// Calls that nobody waits for any more.
    given_up: HashSet<Ticket>,
    time_limit: Duration,
}

const THERE: &str = "a client has its machine until it is dropped";

impl SequencerClient {
    /// `count` numbers that nobody else ever gets, within the time limit. A call that begins after
    /// another has ended, anywhere in the rack, gets higher ones.
    ///
    /// # Errors
    /// If no numbers came. Some may be used up then, as a gap.
    pub fn next(&mut self, count: u64) -> Result<Range<u64>, SequencerCallError> {
        self.next_within(count, self.time_limit)
    }

    /// The same within another time limit; [`FOREVER`](super::FOREVER) is none.
    ///
    /// # Errors
    /// As for [`SequencerClient::next`].
    pub fn next_within(
        &mut self,
        count: u64,
        limit: Duration,
    ) -> Result<Range<u64>, SequencerCallError> {
        let ticket = self.begin(count)?;
        let node = self.node.clone();
        let came = wait_within(&node, limit, || {
            self.collect();
            let at = self.done.iter().position(|done| done.ticket == ticket)?;
            self.done.remove(at)
        });
        match came {
            Some(done) => Ok(done.result?),
            None => {
                self.given_up.insert(ticket);
                Err(SequencerCallError::TimedOut { after: limit })
            }
        }
    }

    /// Begins to ask for `count` numbers. Nothing is sent before the next poll, and calls that are
    /// begun together travel as one request.
    ///
    /// # Errors
    /// If the count is out of range, or too many calls are under way.
    pub fn begin(&mut self, count: u64) -> Result<Ticket, BeginError> {
        self.client.as_mut().expect(THERE).begin(count)
    }

    /// Gets on with it, and gives the next call that has ended. Never waits.
    pub fn poll(&mut self) -> Option<Done> {
        if self.done.is_empty() {
            self.collect();
        }
        self.done.pop_front()
    }

    fn collect(&mut self) {
        let (client, now) = (self.client.as_mut().expect(THERE), self.node.now());
        while let Some(done) = self.node.with(|nic| client.poll(now, nic)) {
            if !self.given_up.remove(&done.ticket) {
                self.done.push_back(done);
            }
        }
    }

    /// Connects anew, after the connection broke: the switch was restarted. What was under way has
    /// failed.
    ///
    /// # Errors
    /// If the sequencer is gone or the switch lacks room.
    pub fn reconnect(&mut self) -> Result<(), SequencerSetUpError> {
        let client = self.client.as_mut().expect(THERE);
        let (rack, id) = (self.sequencer.rack(), self.sequencer.0.id);
        let end = (self.at, client.qpn());
        let place = rack.attach_sequencer(id, end, &PairAttributes::default())?;
        client.connected(place);
        Ok(())
    }

    /// Changes how long [`SequencerClient::next`] waits; it is [`TIME_LIMIT`] at first.
    pub fn set_time_limit(&mut self, limit: Duration) {
        self.time_limit = limit;
    }
}

impl Drop for SequencerClient {
    fn drop(&mut self) {
        if let Some(client) = self.client.take() {
            self.sequencer
                .rack()
                .detach_sequencer((self.at, client.qpn()));
            self.node.with(|nic| client.close(nic));
        }
    }
}
