//! A client of a sequencer, with its resources at the other end.

use super::agent::Accepted;
use rackweave_base::{Instant, NodeId, Qpn};
use rackweave_endpoint::sequencer::{
    AtomicSequencer, BeginError, Done, RpcSequencer, Sequencer, SequencerConfig, SequencerError,
    Ticket,
};
use rackweave_verbs::Verbs;

#[derive(Debug)]
pub(super) enum Machine {
    Atomic(Box<AtomicSequencer>),
    Rpc(Box<RpcSequencer>),
}

/// A client at a node, polled by its holder. Dropping it does not free its resources at the other
/// end: [`SequencerService::release`](super::SequencerService::release) does.
#[derive(Debug)]
pub struct AttachedSequencer {
    pub(super) machine: Machine,
    pub(super) node: NodeId,
    pub(super) config: SequencerConfig,
    /// The number of its sequencer.
    pub(super) of: u64,
    /// Its resources at the node of the word or the server.
    pub(super) far: Option<Accepted>,
}

impl AttachedSequencer {
    /// The client's node.
    pub fn node(&self) -> NodeId {
        self.node
    }

    fn sequencer(&self) -> &dyn Sequencer {
        match &self.machine {
            Machine::Atomic(client) => &**client,
            Machine::Rpc(client) => &**client,
        }
    }

    fn sequencer_mut(&mut self) -> &mut dyn Sequencer {
        match &mut self.machine {
            Machine::Atomic(client) => &mut **client,
            Machine::Rpc(client) => &mut **client,
        }
    }
}

impl Machine {
    /// The queue pair of its connection.
    pub fn qpn(&self) -> Qpn {
        match self {
            Self::Atomic(client) => client.qpn(),
            Self::Rpc(client) => client.qpn(),
        }
    }

    pub fn close(self, verbs: &mut dyn Verbs) {
        match self {
            Self::Atomic(client) => client.close(verbs),
            Self::Rpc(client) => client.close(verbs),
        }
    }
}

impl Sequencer for AttachedSequencer {
    fn begin(&mut self, count: u64) -> Result<Ticket, BeginError> {
        self.sequencer_mut().begin(count)
    }

    fn poll(&mut self, now: Instant, verbs: &mut dyn Verbs) -> Option<Done> {
        self.sequencer_mut().poll(now, verbs)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.sequencer().poll_timeout()
    }

    fn broken(&self) -> Option<SequencerError> {
        self.sequencer().broken()
    }

    fn len(&self) -> usize {
        self.sequencer().len()
    }
}
