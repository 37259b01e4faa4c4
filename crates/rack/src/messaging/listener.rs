//! The storage node's side of the handshake.

mod leaving;

use super::connection::{MessageConnection, part};
use super::counters::ListenerCounters;
use super::quota::{PeerName, PeerQuota, Quotas};
use super::stream::{Came, Stream};
use super::{ConnectError, Dialing, LocalNode, PATIENCE, PENDING_MAX};
use crate::Rack;
use core::time::Duration;
use leaving::Leaving;
use rackweave_base::eviction::oldest_of_most;
use rackweave_base::{Instant, NodeId};
use rackweave_endpoint::flow::wait_until;
use rackweave_endpoint::messaging::handshake::{Handshake, HandshakeError, RefusalCode, Step};
use rackweave_endpoint::messaging::{CloseReason, MessagingConfig, Prepared, Role};
use rackweave_wire::fabric::message::handshake::Refusal;
use std::collections::VecDeque;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};

/// Maximum streams accepted in one poll, so that a flood of them does not delay the others.
const ACCEPTS_PER_POLL: usize = 64;

/// Failures kept for [`Listener::take_failure`].
const FAILURES_MAX: usize = 32;

/// A handshake that did not lead to a connection.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The peer.
    pub peer: SocketAddr,
    /// The cause.
    pub error: HandshakeError,
}

/// A pending handshake.
struct Pending {
    stream: Stream,
    peer: SocketAddr,
    greeter: Handshake,
    /// The peer's name and how much of this node's memory it will take, once it has sent a valid
    /// Hello.
    share: Option<(PeerName, u64)>,
}

/// The state of a handshake after something has happened.
#[derive(PartialEq, Eq)]
enum Advanced {
    Waits,
    Over,
}

/// A storage node that accepts connections. Dropping it closes all that have not been accepted.
pub struct Listener {
    socket: TcpListener,
    address: SocketAddr,
    local: LocalNode,
    patience: Duration,
    /// In order of arrival.
    pending: Vec<Pending>,
    leaving: Vec<Leaving>,
    ready: VecDeque<MessageConnection>,
    quotas: Quotas,
    counters: ListenerCounters,
    failures: VecDeque<Failure>,
}

impl Listener {
    /// Has the storage node `node` listen at `address`; port 0 selects a free port.
    ///
    /// # Errors
    /// If the node's configuration is invalid, or the system refuses the address.
    pub fn bind(
        rack: &Rack,
        node: impl Into<NodeId>,
        address: SocketAddr,
        config: MessagingConfig,
    ) -> Result<Self, ConnectError> {
        let local = LocalNode::new(rack, node.into(), Role::Storage, config)?;
        let bound = TcpListener::bind(address).and_then(|socket| {
            socket.set_nonblocking(true)?;
            let address = socket.local_addr()?;
            Ok((socket, address))
        });
        let (socket, address) = bound.map_err(|error| ConnectError::Bind { address, error })?;
        Ok(Self {
            socket,
            address,
            local,
            patience: PATIENCE,
            pending: Vec::new(),
            leaving: Vec::new(),
            ready: VecDeque::new(),
            quotas: Quotas::new(PeerQuota::of(rack.config()), rack.config().node.len()),
            counters: ListenerCounters::default(),
            failures: VecDeque::new(),
        })
    }

    /// Sets the handshake timeout of compute nodes from now on, in place of [`PATIENCE`].
    pub fn set_patience(&mut self, patience: Duration) {
        self.patience = patience;
    }

    /// Sets the quota of each peer from now on, in place of [`PeerQuota::of`] this rack. Open
    /// connections are not affected.
    pub fn set_peer_quota(&mut self, quota: PeerQuota) {
        self.quotas.set_quota(quota);
    }

    /// Its address and port.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Outcomes of handshakes so far.
    pub fn counters(&self) -> ListenerCounters {
        self.counters
    }

    /// The oldest failure that has not been taken; the last 32 are kept.
    pub fn take_failure(&mut self) -> Option<Failure> {
        self.failures.pop_front()
    }

    /// The number of pending handshakes.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// A connection that has been made, if any: [`Self::poll`] makes them.
    pub fn try_accept(&mut self) -> Option<MessageConnection> {
        self.ready.pop_front()
    }

    /// Both ends of a connection, the compute node's and this one's, if one thread has both and no
    /// other peer dials.
    ///
    /// # Errors
    /// If the handshake fails.
    pub fn connect(
        &mut self,
        mut dialing: Dialing,
    ) -> Result<(MessageConnection, MessageConnection), ConnectError> {
        let mut dialed = None;
        let until = self.local.node.now() + self.patience.into();
        loop {
            self.poll();
            if dialed.is_none() {
                dialed = dialing.poll().transpose()?;
            }
            if dialed.is_some()
                && let Some(accepted) = self.try_accept()
            {
                return Ok((dialed.expect("it is some"), accepted));
            }
            if dialed.is_some() && self.local.node.now() > until {
                let (address, error) = (self.address, ErrorKind::TimedOut.into());
                return Err(ConnectError::Connect { address, error });
            }
            self.local.node.drive();
        }
    }

    /// Waits for a connection, and drives the rack meanwhile.
    ///
    /// # Errors
    /// If none was made in time.
    pub fn accept(&mut self, timeout: Duration) -> Result<MessageConnection, ConnectError> {
        let node = self.local.node.clone();
        let until = node.now() + timeout.into();
        wait_until(&node, || {
            self.poll();
            if let Some(connection) = self.try_accept() {
                return Some(Ok(connection));
            }
            let late = node.now() >= until;
            late.then_some(Err(ConnectError::TimedOut { after: timeout }))
        })
    }

    /// Advances all handshakes without waiting. Returns true if anything happened.
    pub fn poll(&mut self) -> bool {
        let now = self.local.node.now();
        let mut happened = self.take_streams(now);
        let mut at = 0;
        while at < self.pending.len() {
            let advanced = self.advance(at, now);
            happened |= advanced.is_some();
            if advanced != Some(Advanced::Over) {
                at += 1;
            }
        }
        self.leaving.retain_mut(|leaving| !leaving.is_gone(now));
        happened
    }

    fn take_streams(&mut self, now: Instant) -> bool {
        let mut happened = false;
        for _ in 0..ACCEPTS_PER_POLL {
            let (socket, peer) = match self.socket.accept() {
                Ok(taken) => taken,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                // The peer gave up while it waited.
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => continue,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => {
                    self.counters.accept_failed += 1;
                    break;
                }
            };
            happened = true;
            self.counters.came += 1;
            let Ok(stream) = Stream::new(socket) else {
                // The peer has left by now.
                self.counters.ended += 1;
                continue;
            };
            let (config, terms) = (self.local.config.clone(), self.local.terms());
            let deadline = now + self.patience.into();
            let greeter = Handshake::new(now, Role::Storage, config, terms, deadline);
            if self.pending.len() + self.ready.len() < PENDING_MAX || self.evict(now) {
                self.pending.push(Pending {
                    stream,
                    peer,
                    greeter,
                    share: None,
                });
                continue;
            }
            self.turn_away(stream, greeter, now);
        }
        happened
    }

    /// Turns away a peer that has not proven that it is of this rack, if there is one.
    fn evict(&mut self, now: Instant) -> bool {
        let strangers = |pending: &(usize, &Pending)| !pending.1.greeter.is_known();
        let (places, addresses): (Vec<_>, Vec<_>) = (self.pending.iter().enumerate())
            .filter(strangers)
            .map(|(at, pending)| (at, pending.peer.ip()))
            .unzip();
        let oldest = oldest_of_most(&addresses);
        if let Some(at) = oldest {
            let Pending {
                stream, greeter, ..
            } = self.pending.remove(places[at]);
            self.turn_away(stream, greeter, now);
        }
        oldest.is_some()
    }

    /// Advances a handshake, if anything happened. When one ends, the next takes its index.
    fn advance(&mut self, at: usize, now: Instant) -> Option<Advanced> {
        let Pending {
            stream, greeter, ..
        } = &mut self.pending[at];
        stream.flush();
        match stream.receive() {
            Came::Bytes(bytes) => greeter.handle_bytes(now, &bytes),
            Came::End => greeter.handle_end(now),
            // Without input, nothing changes before its timeout.
            Came::Nothing if greeter.poll_timeout().is_some_and(|at| now < at) => return None,
            Came::Nothing => {}
        }
        let LocalNode {
            node, memory, keys, ..
        } = &mut self.local;
        let mut step = node.with(|nic| greeter.poll(now, nic, memory, keys));
        if matches!(step, Step::Waiting)
            && let Err(error) = self.admit(at)
        {
            step = Step::Failed(error);
        }
        let Pending {
            stream,
            greeter,
            peer,
            share,
        } = &mut self.pending[at];
        match step {
            Step::Waiting => {
                if let Some(bytes) = greeter.poll_send() {
                    stream.send(&bytes);
                }
                return Some(Advanced::Waits);
            }
            Step::Connected(connection) => {
                self.counters.connected += 1;
                if let Some((name, bytes)) = *share {
                    self.quotas.opened(name, bytes, connection.watch());
                }
                let node = self.local.node.clone();
                let connection = MessageConnection::new(node, *peer, connection);
                self.ready.push_back(connection);
            }
            Step::Failed(error) => {
                self.counters.count(&error);
                if self.failures.len() == FAILURES_MAX {
                    self.failures.pop_front();
                }
                self.failures.push_back(Failure { peer: *peer, error });
            }
        }
        let Pending {
            stream,
            mut greeter,
            ..
        } = self.pending.remove(at);
        self.leave(stream, &mut greeter, now);
        Some(Advanced::Over)
    }

    /// Whether a handshake continues: a peer that has just sent a valid Hello is refused if it
    /// would exceed its quota. Nothing has been allocated for it by then.
    fn admit(&mut self, at: usize) -> Result<(), HandshakeError> {
        let pending = &self.pending[at];
        let Some(agreed) = pending.greeter.agreed().filter(|_| pending.share.is_none()) else {
            return Ok(());
        };
        let name = self.quotas.name_of(pending.peer.ip(), agreed.theirs.ip);
        let bytes = Prepared::memory_bytes(&self.local.config, agreed);
        let others = self.pending.iter().filter_map(|pending| pending.share);
        let admitted = self.quotas.admit(name, bytes, others);
        let pending = &mut self.pending[at];
        pending.share = Some((name, bytes));
        admitted.map_err(|over| {
            let code = RefusalCode::OverQuota;
            let why = over.to_string();
            pending.greeter.refuse(code, &why);
            HandshakeError::NotAdmitted {
                peer: Role::Compute,
                refusal: Refusal::new(code, &why),
            }
        })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        for pending in &mut self.pending {
            let why = "the storage node listens no more";
            pending.greeter.refuse(RefusalCode::Stopping, why);
            if let Some(bytes) = pending.greeter.poll_send() {
                pending.stream.send(&bytes);
                pending.stream.finish();
            }
        }
        let ready = self.ready.drain(..);
        let ready = ready.map(MessageConnection::into_machines).collect();
        part(&self.local.node, ready, CloseReason::NodeStops);
    }
}
