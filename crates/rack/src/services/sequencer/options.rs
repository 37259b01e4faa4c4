//! Options of a sequencer.

use rackweave_base::NodeId;
use rackweave_controller::SequencerSpec;
use rackweave_controller::connect::PairAttributes;
use rackweave_endpoint::rpc::{ClientConfig, ServerConfig};
use serde::{Deserialize, Serialize};

/// The source of the numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum SequencerPlacement {
    /// A register of the switch, which executes fetch-and-adds in one pass.
    Switch,
    /// A word in a node's memory, whose NIC executes fetch-and-adds.
    Memory(NodeId),
    /// A counter in a server, which answers requests.
    Server(CounterServerSpec),
}

/// A server with a counter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CounterServerSpec {
    /// The server's node.
    pub node: NodeId,
    /// NICs by which it is reached: that of `node`, and those of the nodes numbered after it.
    /// Threads are assigned to them in turn.
    pub ports: u16,
    /// Its threads, at least one. Clients are assigned to them in turn.
    pub threads: u16,
    /// The configuration of each thread. The incarnation is chosen by the sequencer.
    pub server: ServerConfig,
    /// The configuration of its clients' connections. Their longest request is the server's.
    pub client: ClientConfig,
}

impl CounterServerSpec {
    /// A server with one thread for up to 16 clients.
    pub fn new(node: NodeId) -> Self {
        Self {
            node,
            ports: 1,
            threads: 1,
            server: ServerConfig::new(1),
            client: ClientConfig::default(),
        }
    }
}

/// Options of a sequencer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SequencerOptions {
    /// The source of the numbers.
    pub placement: SequencerPlacement,
    /// The first number: 0, or what
    /// [`SequencerService::reserved`](super::SequencerService::reserved) of the previous one
    /// returned.
    pub first: u64,
    /// For a sequencer in the switch: as [`SequencerSpec::block`].
    pub block: u64,
    /// The attributes of connections.
    pub attributes: PairAttributes,
}

impl SequencerPlacement {
    /// The node whose agent has it; `None` if the switch has it.
    pub(super) fn home(&self) -> Option<NodeId> {
        match self {
            Self::Switch => None,
            Self::Memory(node) => Some(*node),
            Self::Server(spec) => Some(spec.node),
        }
    }
}

impl SequencerOptions {
    /// A sequencer whose first number is zero.
    pub fn new(placement: SequencerPlacement) -> Self {
        Self {
            placement,
            first: 0,
            block: SequencerSpec::default().block,
            attributes: PairAttributes::default(),
        }
    }
}
