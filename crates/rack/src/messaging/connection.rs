//! A connection between nodes of an embedded rack.

use crate::Node;
use rackweave_endpoint::flow::wait_until;
use rackweave_endpoint::messaging::{
    CloseReason, Connection, FAREWELL, MessageReceiver, MessageSender,
};
use rackweave_verbs::NodeAccess;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

/// One node's side of a connection, with access to the node. Dropping it before it is split closes
/// it.
pub struct MessageConnection {
    pub(super) node: Node,
    peer: SocketAddr,
    /// `Some` until it is taken apart.
    pub(super) connection: Option<Connection>,
}

impl MessageConnection {
    pub(super) fn new(node: Node, peer: SocketAddr, connection: Connection) -> Self {
        Self {
            node,
            peer,
            connection: Some(connection),
        }
    }

    /// The peer's address of the TCP stream used for the handshake, which is closed by now.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// The node of this end.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// The number of channels that send, and that receive.
    pub fn channels(&self) -> (usize, usize) {
        let connection = self.connection.as_ref().expect("it is taken apart once");
        (connection.senders.len(), connection.receivers.len())
    }

    /// The ends of all channels for blocking use, on separate threads if wanted: those that send,
    /// those that receive.
    pub fn split(self) -> (Vec<MessageSender>, Vec<MessageReceiver>) {
        let node: Arc<dyn NodeAccess> = Arc::new(self.node.clone());
        let Connection { senders, receivers } = self.into_machines();
        let senders = senders.into_iter();
        let receivers = receivers.into_iter();
        (
            senders
                .map(|sender| MessageSender::new(node.clone(), sender))
                .collect(),
            receivers
                .map(|receiver| MessageReceiver::new(node.clone(), receiver))
                .collect(),
        )
    }

    /// The same ends as plain machines, to be polled with the node's verbs. The caller frees them
    /// with [`Connection::destroy`].
    pub fn into_machines(mut self) -> Connection {
        self.connection.take().expect("it is taken apart once")
    }
}

impl Drop for MessageConnection {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            let node = self.node.clone();
            part(&node, vec![connection], CloseReason::Normal);
        }
    }
}

impl fmt::Debug for MessageConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MessageConnection")
            .field("peer", &self.peer)
            .finish_non_exhaustive()
    }
}

/// Closes connections for a reason, waits until all peers know, at most [`FAREWELL`], and frees
/// their resources.
pub(super) fn part(node: &Node, mut all: Vec<Connection>, reason: CloseReason) {
    if all.is_empty() {
        return;
    }
    let now = node.now();
    for connection in &mut all {
        node.with(|nic| connection.close(now, nic, reason));
    }
    let until = now + FAREWELL;
    wait_until(node, || {
        let now = node.now();
        for connection in &mut all {
            // That the connection is closed is known.
            let _ = node.with(|nic| connection.poll(now, nic));
        }
        let settled = all.iter().all(Connection::is_settled);
        (settled || now >= until).then_some(())
    });
    for connection in all {
        node.with(|nic| connection.destroy(nic));
    }
}
