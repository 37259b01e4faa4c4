//! The ends of all channels of a connection at one node.

use super::receiver::Receiver;
use super::sender::Sender;
use super::shared::{Closed, Shared};
use rackweave_base::Instant;
use rackweave_verbs::Verbs;
use rackweave_wire::fabric::message::CloseReason;
use std::sync::{Arc, Weak};

/// One node's side of a connection. Take it apart to distribute the ends to threads.
#[derive(Debug)]
pub struct Connection {
    /// Of the channels to the peer.
    pub senders: Vec<Sender>,
    /// Of the channels from the peer.
    pub receivers: Vec<Receiver>,
}

/// Reports whether the memory of a connection is still in use, without keeping it alive.
#[derive(Clone, Debug)]
pub struct ConnectionWatch(Weak<Shared>);

impl ConnectionWatch {
    /// Whether all ends of the connection have been destroyed or dropped, and its memory with them.
    pub fn is_gone(&self) -> bool {
        self.0.strong_count() == 0
    }
}

impl Connection {
    /// Returns a watch on the release of the connection's memory, without keeping the memory alive.
    pub fn watch(&self) -> ConnectionWatch {
        let senders = self.senders.iter().map(Sender::shared);
        let shared = senders.chain(self.receivers.iter().map(Receiver::shared));
        let shared = shared.map(Arc::downgrade).next();
        ConnectionWatch(shared.unwrap_or_default())
    }

    /// Polls all ends. True if anything happened.
    ///
    /// # Errors
    /// If the connection is closed.
    pub fn poll(&mut self, now: Instant, verbs: &mut dyn Verbs) -> Result<bool, Closed> {
        let (mut any, mut closed) = (false, None);
        let senders = self
            .senders
            .iter_mut()
            .map(|sender| sender.poll(now, verbs));
        let mut note = |polled| match polled {
            Ok(happened) => any |= happened,
            Err(error) => closed = Some(error),
        };
        senders.for_each(&mut note);
        let receivers = self.receivers.iter_mut();
        receivers
            .map(|receiver| receiver.poll(now, verbs))
            .for_each(&mut note);
        closed.map_or(Ok(any), Err)
    }

    /// When [`Self::poll`] is due even if nothing happens.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let senders = self.senders.iter().filter_map(Sender::poll_timeout);
        let receivers = self.receivers.iter().filter_map(Receiver::poll_timeout);
        senders.chain(receivers).min()
    }

    /// Why it is closed, if it is.
    pub fn closed(&self) -> Option<Closed> {
        self.senders.first().and_then(Sender::closed)
    }

    /// Closes the connection for a reason, and notifies the peer. Call [`Self::poll`] until
    /// [`Self::is_settled`] to complete this.
    pub fn close(&mut self, now: Instant, verbs: &mut dyn Verbs, reason: CloseReason) {
        if let Some(sender) = self.senders.first_mut() {
            sender.close(now, verbs, reason);
        }
        // It returns that the connection is closed, which is known.
        let _ = self.poll(now, verbs);
    }

    /// Whether no work request of any end is in flight.
    pub fn is_settled(&self) -> bool {
        self.senders.iter().all(Sender::is_settled)
            && self.receivers.iter().all(Receiver::is_settled)
    }

    /// Releases everything at the NIC.
    pub fn destroy(self, verbs: &mut dyn Verbs) {
        for sender in self.senders {
            sender.destroy(verbs);
        }
        for receiver in self.receivers {
            receiver.destroy(verbs);
        }
    }
}
