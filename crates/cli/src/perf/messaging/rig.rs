//! A storage node and a compute node of a rack, connected. `demo` uses them, too.

use super::source::{self, MessageBytes, SOURCE_BYTES};
use crate::globals::Interrupt;
use crate::outcome::CliError;
use core::time::Duration;
use rackweave_base::NodeId;
use rackweave_endpoint::flow::wait_until;
use rackweave_endpoint::messaging::{MessageReceiver, MessageSender, MessagingConfig};
use rackweave_rack::messaging::{Dialing, Listener, MessageConnection};
use rackweave_rack::{Node, Rack};
use rackweave_verbs::{Access, Verbs};
use std::net::{Ipv4Addr, SocketAddr};

/// How long the handshake may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// One node's ends of the connection.
pub struct ConnectionEnd {
    pub node: Node,
    pub sender: MessageSender,
    pub receiver: MessageReceiver,
}

/// The nodes of a rack, and what they need for every measurement.
pub struct Rig<'a> {
    /// Sends bulk data.
    pub storage: ConnectionEnd,
    /// Sends requests, and reads.
    pub compute: ConnectionEnd,
    /// The data that the storage node sends.
    pub source: MessageBytes,
    pub rack: &'a Rack,
    /// The storage node and the compute node.
    pub places: [NodeId; 2],
    /// Ends every measurement early.
    pub interrupt: &'a Interrupt,
}

impl ConnectionEnd {
    /// One node's ends of a connection with a channel each way.
    pub fn new(connection: MessageConnection) -> Result<Self, CliError> {
        let node = connection.node().clone();
        let (mut senders, mut receivers) = connection.split();
        let ends = senders.pop().zip(receivers.pop());
        let ends = ends.ok_or_else(|| CliError::run("a connection has a channel each way"));
        let (sender, receiver) = ends?;
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
        interrupt: &'a Interrupt,
    ) -> Result<Self, CliError> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let mut listener = Listener::bind(rack, places[0], address, messaging.clone())?;
        let address = listener.local_addr();
        let mut dialing = Dialing::start(rack, places[1], address, messaging.clone(), PATIENCE)?;
        let compute = wait_until(&rack.node_at(places[1]), || {
            listener.poll();
            dialing.poll()
        });
        let compute = ConnectionEnd::new(compute?)?;
        let mut storage = ConnectionEnd::new(listener.accept(PATIENCE)?)?;
        let bytes = source::random(rack.config().seed);
        let block = rack.memory().allocate(SOURCE_BYTES)?;
        block.write(0, &bytes);
        let pd = storage.sender.machine().pd();
        let registered = |nic: &mut dyn Verbs| nic.register(pd, block, Access::empty());
        let region = storage.node.with(registered)?;
        Ok(Self {
            storage,
            compute,
            source: MessageBytes::new(bytes, region),
            rack,
            places,
            interrupt,
        })
    }
}
