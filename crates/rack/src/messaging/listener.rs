//! The storage unit's side.

use super::connection::{EmbeddedConnection, part};
use super::stream::{Came, Stream};
use super::{AcceptError, ListenError, PATIENCE, PENDING_MAX, Unit};
use crate::Rack;
use rackweave_base::{Duration, Instant, NodeId};
use rackweave_control::oldest_of_most;
use rackweave_endpoint::flow::wait_until;
use rackweave_endpoint::messaging::handshake::{Greeter, HandshakeError, RefusalCode, Step};
use rackweave_endpoint::messaging::{CloseReason, MessagingConfig, Role};
use rackweave_verbs::NodeAccess;
use std::collections::VecDeque;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};

/// Streams taken in one poll at most, so that a flood of them does not hold up the others.
const ACCEPTS_PER_POLL: usize = 64;

/// Failures that are kept for whoever asks.
const FAILURES_MAX: usize = 32;

/// Streams with a last word under way at most.
const LEAVING_MAX: usize = 64;

/// How long a stream is kept open for its last word to arrive: were it closed before the peer's
/// bytes are read, the system would throw the word away.
const LAST_WORD: Duration = Duration::from_millis(500);

/// A handshake that did not come to a connection.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Who wanted to connect.
    pub peer: SocketAddr,
    /// Why it did not.
    pub error: HandshakeError,
}

/// What became of those who came to a listener.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ListenerCounters {
    /// Streams that were opened.
    pub came: u64,
    /// Of these: became connections.
    pub connected: u64,
    /// Were turned away, as too many were there.
    pub busy: u64,
    /// Were refused by this unit, for what they are or sent, or for want of room.
    pub refused: u64,
    /// Refused this unit.
    pub refused_by_peer: u64,
    /// Ended before the handshake did.
    pub ended: u64,
    /// Took too long.
    pub timed_out: u64,
    /// Calls of the system that failed to take a stream, such as for want of file descriptors.
    pub accept_failed: u64,
    /// Refusals by this unit by code, in the order of [`RefusalCode::NAMED`].
    by_code: [u64; RefusalCode::NAMED.len()],
}

impl ListenerCounters {
    /// How often this unit has refused with a code, for being busy and for taking too long among
    /// them.
    pub fn refused_with(&self, code: RefusalCode) -> u64 {
        let at = RefusalCode::NAMED.iter().position(|&named| named == code);
        at.map_or(0, |at| self.by_code[at])
    }

    /// All codes that this unit has refused with, and how often.
    pub fn refusals(&self) -> impl Iterator<Item = (RefusalCode, u64)> {
        let all = RefusalCode::NAMED.into_iter().zip(self.by_code);
        all.filter(|&(_, count)| count > 0)
    }

    fn count(&mut self, error: &HandshakeError) {
        let by_this_unit = match error {
            HandshakeError::Refused { .. } => {
                self.refused_by_peer += 1;
                false
            }
            HandshakeError::Ended { .. } => {
                self.ended += 1;
                false
            }
            HandshakeError::TimedOut { .. } => {
                self.timed_out += 1;
                true
            }
            _ => {
                self.refused += 1;
                true
            }
        };
        if by_this_unit {
            self.count_code(error.code());
        }
    }

    fn count_code(&mut self, code: RefusalCode) {
        if let Some(at) = RefusalCode::NAMED.iter().position(|&named| named == code) {
            self.by_code[at] += 1;
        }
    }
}

/// A handshake under way.
struct Pending {
    stream: Stream,
    peer: SocketAddr,
    greeter: Greeter,
}

/// How a handshake is after something has happened.
#[derive(PartialEq, Eq)]
enum Advanced {
    Waits,
    Over,
}

/// A stream with a last word under way.
struct Leaving {
    stream: Stream,
    until: Instant,
    /// The word is out, and the peer knows that nothing follows.
    finished: bool,
}

/// A storage unit that takes connections. Dropped, it closes all that nobody has accepted.
pub struct Listener {
    socket: TcpListener,
    address: SocketAddr,
    unit: Unit,
    patience: Duration,
    /// In the order in which they came.
    pending: Vec<Pending>,
    leaving: Vec<Leaving>,
    ready: VecDeque<EmbeddedConnection>,
    counters: ListenerCounters,
    failures: VecDeque<Failure>,
}

impl Listener {
    /// Has a storage unit at `node` listen at `address`; port 0 takes a free one.
    ///
    /// # Errors
    /// If there can be no such unit, or the system does not let us listen there.
    pub fn bind(
        rack: &Rack,
        node: NodeId,
        address: SocketAddr,
        config: MessagingConfig,
    ) -> Result<Self, ListenError> {
        let unit = Unit::new(rack, node, Role::Storage, config)?;
        let bound = TcpListener::bind(address).and_then(|socket| {
            socket.set_nonblocking(true)?;
            let address = socket.local_addr()?;
            Ok((socket, address))
        });
        let (socket, address) = bound.map_err(|error| ListenError::Bind { address, error })?;
        Ok(Self {
            socket,
            address,
            unit,
            patience: PATIENCE,
            pending: Vec::new(),
            leaving: Vec::new(),
            ready: VecDeque::new(),
            counters: ListenerCounters::default(),
            failures: VecDeque::new(),
        })
    }

    /// Gives a compute unit so long for the handshake, from now on, in place of [`PATIENCE`].
    pub fn set_patience(&mut self, patience: Duration) {
        self.patience = patience;
    }

    /// Where it listens, with its port.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// What has become of those who came.
    pub fn counters(&self) -> ListenerCounters {
        self.counters
    }

    /// The oldest failure that nobody has taken; the last 32 are kept.
    pub fn take_failure(&mut self) -> Option<Failure> {
        self.failures.pop_front()
    }

    /// Handshakes under way.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// A connection that has been made, if there is one: [`Self::poll`] makes them.
    pub fn try_accept(&mut self) -> Option<EmbeddedConnection> {
        self.ready.pop_front()
    }

    /// Waits for a connection, and drives the rack meanwhile.
    ///
    /// # Errors
    /// If none was made in time.
    pub fn accept(&mut self, timeout: Duration) -> Result<EmbeddedConnection, AcceptError> {
        let node = self.unit.node.clone();
        let until = node.now() + timeout;
        wait_until(&node, || {
            self.poll();
            if let Some(connection) = self.try_accept() {
                return Some(Ok(connection));
            }
            let late = node.now() >= until;
            late.then_some(Err(AcceptError::TimedOut { after: timeout }))
        })
    }

    /// Does what there is to do, without waiting for anything. True if anything happened.
    pub fn poll(&mut self) -> bool {
        let now = self.unit.node.now();
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
                // It gave up while it waited.
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
                // It is gone by now.
                self.counters.ended += 1;
                continue;
            };
            let (config, terms) = (self.unit.config.clone(), self.unit.terms);
            let greeter = Greeter::new(now, config, terms, now + self.patience);
            if self.pending.len() + self.ready.len() < PENDING_MAX || self.evict(now) {
                self.pending.push(Pending {
                    stream,
                    peer,
                    greeter,
                });
                continue;
            }
            self.turn_away(stream, greeter, now);
        }
        happened
    }

    /// Turns away one who has not shown that he is of this rack, if there is such.
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

    fn turn_away(&mut self, stream: Stream, mut greeter: Greeter, now: Instant) {
        self.counters.busy += 1;
        self.counters.count_code(RefusalCode::Busy);
        let why = format!("{PENDING_MAX} are about to connect already");
        greeter.refuse(RefusalCode::Busy, &why);
        self.leave(stream, &mut greeter, now);
    }

    /// Goes on with a handshake, if anything happened. The next takes the place of one that ends.
    fn advance(&mut self, at: usize, now: Instant) -> Option<Advanced> {
        let Pending {
            stream,
            greeter,
            peer,
        } = &mut self.pending[at];
        stream.flush();
        match stream.receive() {
            Came::Bytes(bytes) => greeter.handle_bytes(now, &bytes),
            Came::End => greeter.handle_end(now),
            // Nothing changes without news before its time is over.
            Came::Nothing if greeter.poll_timeout().is_some_and(|at| now < at) => return None,
            Came::Nothing => {}
        }
        let Unit {
            node, memory, keys, ..
        } = &mut self.unit;
        let step = node.with(|nic| greeter.poll(now, nic, memory, keys));
        match step {
            Step::Waiting => {
                if let Some(bytes) = greeter.poll_send() {
                    stream.send(&bytes);
                }
                return Some(Advanced::Waits);
            }
            Step::Connected(connection) => {
                self.counters.connected += 1;
                let connection = EmbeddedConnection::new(node.clone(), *peer, connection);
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

    /// A stream has served its purpose, but for the last word.
    fn leave(&mut self, mut stream: Stream, greeter: &mut Greeter, now: Instant) {
        if let Some(bytes) = greeter.poll_send() {
            stream.send(&bytes);
        }
        let mut leaving = Leaving {
            stream,
            until: now + LAST_WORD,
            finished: false,
        };
        if !leaving.is_gone(now) && self.leaving.len() < LEAVING_MAX {
            self.leaving.push(leaving);
        }
    }
}

impl Leaving {
    /// Whether the last word has arrived, or never will.
    fn is_gone(&mut self, now: Instant) -> bool {
        if now >= self.until || self.stream.is_broken() {
            return true;
        }
        if !self.finished && self.stream.flush() {
            self.stream.finish();
            self.finished = true;
        }
        matches!(self.stream.receive(), Came::End)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        for pending in &mut self.pending {
            let why = "the storage unit listens no more";
            pending.greeter.refuse(RefusalCode::Stopping, why);
            if let Some(bytes) = pending.greeter.poll_send() {
                pending.stream.send(&bytes);
                pending.stream.finish();
            }
        }
        let ready = self.ready.drain(..);
        let ready = ready.map(EmbeddedConnection::into_machines).collect();
        part(&self.unit.node, ready, CloseReason::UnitStops);
    }
}
