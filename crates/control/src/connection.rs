//! An established control connection, and how a client creates one.

mod dial;

use crate::hello::{MAGIC, Reply, one_line};
use crate::identity::{Credential, Security};
use crate::message::{MessageReader, decode, encode};
use crate::stream::{Stream, Trouble};
use crate::{
    CONTROLLER_NAME, ControlError, HELLO_LEN_MAX, Hello, MESSAGE_LEN_MAX, PROTOCOL_VERSION,
    PROTOCOL_VERSION_MIN,
};
use dial::{client_tls, dial, exchange};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fmt::{self, Display};
use std::net::{Shutdown, SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// How long a message may take from its first byte to its last, if the caller's limit is shorter. A
/// short limit, as for a poll, therefore does not end a connection whose message arrives in two
/// packets.
pub const MESSAGE_GRACE: Duration = Duration::from_secs(1);

/// How long the other side may block the sending of a message by not reading.
pub const SEND_LIMIT: Duration = Duration::from_secs(10);

/// A limit above any useful one; longer limits are reduced to it, because adding times may
/// overflow.
const FOR_EVER: Duration = Duration::from_secs(1 << 32);

/// The contents of a client's hello besides its name and versions.
#[derive(Debug, Clone, PartialEq)]
pub struct Introduction {
    /// The client's purpose, for the layer above.
    pub purpose: String,
    /// The rack that the client expects: a name or a hash of the configuration.
    pub rack: String,
    /// Further data for the layer above. The whole hello has at most [`HELLO_LEN_MAX`] bytes.
    pub body: Value,
}

/// A connection after hello and welcome, for either side. All calls block, within limits.
///
/// After an error other than [`ControlError::Malformed`], or [`ControlError::TooLong`] of a message
/// to be sent, the stream of messages is unusable: the connection is shut down, and every later
/// call returns [`ControlError::Closed`]. Dropping the connection closes it at once;
/// [`Connection::close`] closes it in an orderly way.
pub struct Connection {
    stream: Stream,
    inbound: MessageReader,
    peer_name: String,
    peer_addr: SocketAddr,
    version: u16,
    is_broken: bool,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("peer_name", &self.peer_name)
            .field("peer_addr", &self.peer_addr)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

/// Ends a [`Connection`] from another thread.
#[derive(Debug, Clone)]
pub struct Closer {
    // Weak: the socket closes when the connection is dropped, even if a closer still exists.
    socket: Weak<TcpStream>,
}

impl Closer {
    /// Shuts down the connection. A thread that waits in one of its methods gets
    /// [`ControlError::Closed`] at once. Has no effect if the connection has been dropped.
    pub fn close(&self) {
        if let Some(socket) = self.socket.upgrade() {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    /// Whether the connection has been dropped.
    pub fn is_gone(&self) -> bool {
        self.socket.strong_count() == 0
    }
}

impl Connection {
    /// Connects to the controller at `addr` (`host:port` or a socket address) within `timeout`, and
    /// sends the hello. Returns the connection and the body of the controller's welcome.
    ///
    /// Looking up a host name is done by the system and not bounded by `timeout`.
    ///
    /// # Errors
    /// No answer, another protocol, keys that do not match, no common version, a refusal, an
    /// address that is not loopback without keys, or a hello that is too long.
    pub fn connect(
        addr: impl ToSocketAddrs + Display,
        security: &Security,
        introduction: Introduction,
        timeout: Duration,
    ) -> Result<(Connection, Value), ControlError> {
        let deadline = after(timeout);
        let peer = format!("the controller at {addr}");
        let hello = Hello {
            magic: MAGIC.to_string(),
            version_min: PROTOCOL_VERSION_MIN,
            version_max: PROTOCOL_VERSION,
            name: security.name().to_string(),
            purpose: introduction.purpose,
            rack: introduction.rack,
            body: introduction.body,
        };
        let hello = encode(&hello, HELLO_LEN_MAX, &peer)?;
        let socket = dial(&addr, security, deadline)?;
        let unreachable = |error| ControlError::Unreachable {
            addr: addr.to_string(),
            error,
        };
        let peer_addr = socket.peer_addr().map_err(unreachable)?;
        let mut stream = Stream::new(socket, client_tls(security, &peer)?).map_err(unreachable)?;
        let mut inbound = MessageReader::new(MESSAGE_LEN_MAX);
        let reply = exchange(&mut stream, &mut inbound, &hello, &peer, deadline)?;
        check_key(&stream, security, &peer)?;
        let (version, body) = Reply::parse(&reply, &peer)?;
        let name = CONTROLLER_NAME.to_string();
        let connection = Connection::new(stream, inbound, name, peer_addr, version);
        Ok((connection, body))
    }

    pub(crate) fn new(
        stream: Stream,
        inbound: MessageReader,
        peer_name: String,
        peer_addr: SocketAddr,
        version: u16,
    ) -> Connection {
        Connection {
            stream,
            inbound,
            peer_name,
            peer_addr,
            version,
            is_broken: false,
        }
    }

    /// Sends a message. Returns once the system has accepted it, after [`SEND_LIMIT`] at the
    /// latest.
    ///
    /// # Errors
    /// The message is too long or has no JSON form (then nothing was sent), or the connection ended
    /// or is stuck.
    pub fn send<T: Serialize>(&mut self, message: &T) -> Result<(), ControlError> {
        self.check_whole()?;
        let bytes = encode(message, MESSAGE_LEN_MAX, &self.peer())?;
        self.stream
            .write_all(&bytes, after(SEND_LIMIT))
            .map_err(|trouble| self.broken(trouble, "to take a message", true))
    }

    /// Waits up to `limit` for a message. Returns `None` if no message began to arrive. A message
    /// that began must be complete by `limit`, or [`MESSAGE_GRACE`] after its first byte was read,
    /// if that is later.
    ///
    /// # Errors
    /// The connection ended, or a message is incomplete, too long, or not a `T` (then the next
    /// message can still be received).
    pub fn receive<T: DeserializeOwned>(
        &mut self,
        limit: Duration,
    ) -> Result<Option<T>, ControlError> {
        self.check_whole()?;
        let Some(body) = self.receive_body(after(limit))? else {
            return Ok(None);
        };
        decode(&body, &self.peer()).map(Some)
    }

    /// Sends `question` and waits up to `limit` for the next message, its answer. The other side
    /// must not send any other messages.
    ///
    /// # Errors
    /// As for [`Connection::send`] and [`Connection::receive`]. If there is no answer within
    /// `limit`, the connection is unusable, because a late answer would be taken for that to the
    /// next question.
    pub fn request<Q: Serialize, A: DeserializeOwned>(
        &mut self,
        question: &Q,
        limit: Duration,
    ) -> Result<A, ControlError> {
        self.send(question)?;
        match self.receive(limit)? {
            Some(answer) => Ok(answer),
            None => Err(self.broken(Trouble::TimedOut, "to answer", false)),
        }
    }

    /// The name that the other side has proved or, without keys, claimed.
    pub fn peer_name(&self) -> &str {
        &self.peer_name
    }

    /// The other side's address.
    pub fn peer_addr(&self) -> SocketAddr {
        self.peer_addr
    }

    /// The version of the protocol in use by both sides.
    pub fn version(&self) -> u16 {
        self.version
    }

    /// The credential that the other side has presented.
    pub fn credential(&self) -> Credential {
        Credential(self.stream.peer_certificate().cloned())
    }

    /// A handle that ends this connection from another thread.
    pub fn closer(&self) -> Closer {
        Closer {
            socket: Arc::downgrade(self.stream.socket()),
        }
    }

    /// Closes the connection in an orderly way: sent messages arrive, and the other side learns
    /// that the connection has ended. Waits briefly for the other side to close too.
    pub fn close(self) {
        if !self.is_broken {
            self.stream.close();
        }
    }

    /// The next body; `None` if no message has begun to arrive by `begin_by`.
    fn receive_body(&mut self, begin_by: Instant) -> Result<Option<Vec<u8>>, ControlError> {
        let mut deadline = begin_by;
        let mut had_begun = false;
        let mut chunk = [0; 16 << 10];
        loop {
            match self.inbound.poll_body() {
                Ok(Some(body)) => return Ok(Some(body)),
                Ok(None) => {}
                Err(error) => {
                    self.shut();
                    return Err(ControlError::TooLong {
                        peer: self.peer(),
                        len: error.len,
                        limit: error.limit,
                    });
                }
            }
            let has_begun = self.inbound.has_begun();
            if has_begun && !had_begun {
                had_begun = true;
                deadline = begin_by.max(after(MESSAGE_GRACE));
            }
            match self.stream.read(&mut chunk, deadline) {
                Ok(len) => self.inbound.handle_bytes(&chunk[..len]),
                Err(Trouble::TimedOut) if !has_begun => return Ok(None),
                Err(trouble) => return Err(self.broken(trouble, "to end a message", has_begun)),
            }
        }
    }

    fn peer(&self) -> String {
        format!("`{}` at {}", one_line(&self.peer_name), self.peer_addr)
    }

    fn check_whole(&self) -> Result<(), ControlError> {
        if self.is_broken {
            return Err(Trouble::Ended.about(&self.peer(), "", false));
        }
        Ok(())
    }

    fn broken(&mut self, trouble: Trouble, what: &'static str, midway: bool) -> ControlError {
        self.shut();
        trouble.about(&self.peer(), what, midway)
    }

    fn shut(&mut self) {
        self.is_broken = true;
        let _ = self.stream.socket().shutdown(Shutdown::Both);
    }
}

/// The time `limit` from now.
pub(crate) fn after(limit: Duration) -> Instant {
    Instant::now() + limit.min(FOR_EVER)
}

/// Whether only this machine can reach `addr`.
pub(crate) fn is_loopback(addr: &SocketAddr) -> bool {
    addr.ip().to_canonical().is_loopback()
}

/// Reads the first message of the other side.
pub(crate) fn first_body(
    stream: &mut Stream,
    inbound: &mut MessageReader,
    peer: &str,
    deadline: Instant,
) -> Result<Vec<u8>, ControlError> {
    let mut chunk = [0; 4096];
    loop {
        match inbound.poll_body() {
            Ok(Some(body)) => return Ok(body),
            Ok(None) => {}
            // An implausible length is the start of another protocol.
            Err(error) => {
                return Err(ControlError::NotOurProtocol {
                    peer: peer.to_string(),
                    detail: format!("it announces a first message of {} bytes", error.len),
                });
            }
        }
        let has_begun = inbound.has_begun();
        match stream.read(&mut chunk, deadline) {
            Ok(len) => inbound.handle_bytes(&chunk[..len]),
            Err(trouble) => return Err(trouble.about(peer, "over its first message", has_begun)),
        }
    }
}

/// Under TLS, checks that the presented key is still valid.
pub(crate) fn check_key(
    stream: &Stream,
    security: &Security,
    peer: &str,
) -> Result<(), ControlError> {
    let Security::Tls(identity) = security else {
        return Ok(());
    };
    match stream.peer_certificate() {
        Some(certificate) if !identity.has_revoked(certificate) => Ok(()),
        _ => Err(ControlError::Revoked {
            peer: peer.to_string(),
        }),
    }
}
