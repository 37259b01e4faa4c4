//! What a sequencer is to be.

use rackweave_base::NodeId;
use rackweave_controller::SequencerSpec;
use rackweave_controller::connect::PairAttributes;
use rackweave_endpoint::rpc::{ClientConfig, ServerConfig};

/// Where numbers come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SequencerPlacement {
    /// A register of the switch, which answers fetch-and-adds in one pass.
    Switch,
    /// A word in a node's memory, whose NIC answers fetch-and-adds.
    Memory(NodeId),
    /// A counter in a server, which answers requests.
    Server(CounterServerSpec),
}

/// A server with a counter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CounterServerSpec {
    /// Where it is.
    pub node: NodeId,
    /// NICs by which it is reached: that of `node`, and those of the nodes numbered after it.
    /// Threads are dealt to them in turn.
    pub ports: u16,
    /// Its threads, at least one. Clients are dealt to them in turn.
    pub threads: u16,
    /// What each thread is like. The incarnation is chosen by the sequencer.
    pub server: ServerConfig,
    /// What its clients' connections are like. Their longest request is the server's.
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

/// What a sequencer is to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SequencerOptions {
    /// Where numbers come from.
    pub placement: SequencerPlacement,
    /// The first number: 0, or what
    /// [`SequencerService::reserved`](super::SequencerService::reserved) said of the one before.
    pub first: u64,
    /// In the switch: as [`SequencerSpec::block`].
    pub block: u64,
    /// What connections are like.
    pub attributes: PairAttributes,
}

impl SequencerOptions {
    /// Numbers from zero on.
    pub fn new(placement: SequencerPlacement) -> Self {
        Self {
            placement,
            first: 0,
            block: SequencerSpec::default().block,
            attributes: PairAttributes::default(),
        }
    }
}
