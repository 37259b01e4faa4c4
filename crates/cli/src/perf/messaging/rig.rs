//! A storage node and a compute node of a rack, connected. `demo` uses them, too.

use super::source::{self, MessageBytes, SOURCE_BYTES};
use crate::outcome::CliError;
use core::time::Duration;
use rackweave_base::NodeId;
use rackweave_endpoint::flow::wait_until;
use rackweave_endpoint::messaging::{MessageReceiver, MessageSender, MessagingConfig};
use rackweave_rack::messaging::{Dialing, Listener, MessageConnection};
use rackweave_rack::{Node, Rack};
use rackweave_verbs::Access;
use std::net::{Ipv4Addr, SocketAddr};

/// How long the handshake may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// One node's ends of the connection.
pub struct ConnectionEnd {
    pub node: Node,
    pub sender: MessageSender,
    pub receiver: MessageReceiver,
}

/// The nodes of a rack.
pub struct Rig<'a> {
    /// Sends bulk data.
    pub storage: ConnectionEnd,
    /// Sends requests, and reads.
    pub compute: ConnectionEnd,
    pub rack: &'a Rack,
    /// The storage node and the compute node.
    pub places: [NodeId; 2],
}

impl ConnectionEnd {
    fn new(connection: MessageConnection) -> Result<Self, CliError> {
        let node = connection.node().clone();
        let (mut senders, mut receivers) = connection.split();
        let ends = senders.pop().zip(receivers.pop());
        let (sender, receiver) =
            ends.ok_or_else(|| CliError::run("a connection has a channel each way"))?;
        Ok(Self {
            node,
            sender,
            receiver,
        })
    }
}

impl<'a> Rig<'a> {
    /// The first of `places` is the storage node, which listens; the other is the compute node,
    /// which dials.
    pub fn new(
        rack: &'a Rack,
        places: [NodeId; 2],
        messaging: &MessagingConfig,
    ) -> Result<Self, CliError> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let listener = Listener::bind(rack, places[0], address, messaging.clone());
        let mut listener = listener.map_err(CliError::run)?;
        let address = listener.local_addr();
        let dialing = Dialing::start(rack, places[1], address, messaging.clone(), PATIENCE);
        let mut dialing = dialing.map_err(CliError::run)?;
        let compute = wait_until(&rack.node_at(places[1]), || {
            listener.poll();
            dialing.poll()
        });
        let compute = compute.map_err(CliError::run)?;
        let storage = listener.accept(PATIENCE).map_err(CliError::run)?;
        Ok(Self {
            storage: ConnectionEnd::new(storage)?,
            compute: ConnectionEnd::new(compute)?,
            rack,
            places,
        })
    }

    /// The data that the storage node sends.
    pub fn source(&mut self, seed: u64) -> Result<MessageBytes, CliError> {
        let bytes = source::random(seed);
        let block = self.rack.memory().allocate(SOURCE_BYTES)?;
        block.write(0, &bytes);
        let pd = self.storage.sender.machine().pd();
        let region = self
            .storage
            .node
            .with(|nic| nic.register(pd, block, Access::empty()))?;
        Ok(MessageBytes::new(bytes, region))
    }
}
