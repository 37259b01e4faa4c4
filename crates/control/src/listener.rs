//! The server's side: listens, and separates clients from strangers without being blocked.

use crate::connection::{after, check_key, first_body, is_loopback};
use crate::hello::{Reply, one_line};
use crate::identity::{Credential, Security, certificate_names};
use crate::message::{MessageReader, encode};
use crate::stream::{Stream, Trouble, is_passing, wait_incoming};
use crate::{
    Connection, ControlError, HELLO_LEN_MAX, Hello, MESSAGE_LEN_MAX, PROTOCOL_VERSION,
    PROTOCOL_VERSION_MIN,
};
use rackweave_base::eviction::oldest_of_most;
use serde_json::Value;
use std::fmt::{self, Display};
use std::io;
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Maximum connections of one listener between accept and the end of their handshake. One more
/// replaces the oldest from the address that has most of them.
pub const HALF_OPEN_MAX: usize = 64;

/// How long a client may take to accept the answer to its hello.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);

/// The controller's end of control connections.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    security: Mutex<Security>,
    half_open: Arc<HalfOpen>,
}

impl Listener {
    /// Listens at `addr` (`host:port` or a socket address; port 0 chooses a free one). With keys,
    /// `security` must be the identity of [`CONTROLLER_NAME`](crate::CONTROLLER_NAME): clients
    /// refuse any other.
    ///
    /// # Errors
    /// The address is in use or not of this machine, or it is not a loopback address and there are
    /// no keys.
    pub fn bind(
        addr: impl ToSocketAddrs + Display,
        security: Security,
    ) -> Result<Listener, ControlError> {
        let failed = |error| ControlError::Listen {
            addr: addr.to_string(),
            error,
        };
        let candidates: Vec<_> = addr.to_socket_addrs().map_err(failed)?.collect();
        if let Security::Plain { .. } = security
            && let Some(addr) = candidates.iter().find(|addr| !is_loopback(addr))
        {
            return Err(ControlError::PlainNotLoopback { addr: *addr });
        }
        let socket = TcpListener::bind(&candidates[..]).map_err(failed)?;
        socket.set_nonblocking(true).map_err(failed)?;
        Ok(Listener {
            socket,
            security: Mutex::new(security),
            half_open: Arc::default(),
        })
    }

    /// The address listened on, with its port.
    ///
    /// # Errors
    /// The error of the system.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Waits up to `timeout` for a connection. Returns `None` if there was none.
    ///
    /// # Errors
    /// The error of the system, such as too many open files; wait a while before the next call.
    pub fn accept(&self, timeout: Duration) -> io::Result<Option<Incoming>> {
        let deadline = after(timeout);
        if !wait_incoming(&self.socket, deadline)? {
            return Ok(None);
        }
        match self.socket.accept() {
            Ok((socket, addr)) => {
                let socket = Arc::new(socket);
                Ok(Some(Incoming {
                    _place: HalfOpen::enter(&self.half_open, &socket, addr.ip()),
                    socket,
                    addr,
                    security: self.security().clone(),
                }))
            }
            // The client gave up while it waited.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => Ok(None),
            Err(error) if is_passing(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Uses `security` for all later connections: after keys were renewed or revoked.
    pub fn set_security(&self, security: Security) {
        *self.security() = security;
    }

    /// Whether a presented credential is valid now.
    pub fn accepts(&self, shown: &Credential) -> bool {
        self.security().accepts(shown)
    }

    fn security(&self) -> MutexGuard<'_, Security> {
        self.security.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of connections that were closed before their handshake ended, because too many were
    /// half open.
    pub fn evicted(&self) -> u64 {
        self.half_open.lock().evicted
    }
}

/// A new connection from which nothing has been read yet.
#[derive(Debug)]
pub struct Incoming {
    socket: Arc<TcpStream>,
    addr: SocketAddr,
    security: Security,
    // Held until the end of `handshake`, even if that refuses the connection.
    _place: HalfOpenSlot,
}

impl Incoming {
    /// The client's address.
    pub fn peer_addr(&self) -> SocketAddr {
        self.addr
    }

    /// Performs TLS, reads the hello and checks it, all by `deadline`. Call it on a separate
    /// thread: a stranger may keep it busy until then. A client that fails gets the reason, if it
    /// can understand it, and is disconnected.
    ///
    /// # Errors
    /// Another protocol, keys that do not match, a name other than that of the certificate, no
    /// common version, or a timeout.
    pub fn handshake(self, deadline: Instant) -> Result<(Hello, Pending), ControlError> {
        let peer = format!("the client at {}", self.addr);
        let broken = |trouble: Trouble| trouble.about(&peer, "over the handshake", true);
        let tls = match &self.security {
            Security::Plain { .. } => None,
            Security::Tls(identity) => {
                let tls = rustls::ServerConnection::new(identity.server_config())
                    .map_err(|error| broken(Trouble::Tls(error)))?;
                Some(tls.into())
            }
        };
        let mut stream =
            Stream::new(self.socket, tls).map_err(|error| broken(Trouble::Io(error)))?;
        let mut inbound = MessageReader::new(HELLO_LEN_MAX);
        let hello = stream
            .handshake(deadline)
            .map_err(broken)
            .and_then(|()| first_body(&mut stream, &mut inbound, &peer, deadline))
            .and_then(|body| Hello::parse(&body, &peer))
            .and_then(|hello| {
                check_key(&stream, &self.security, &peer)?;
                check_name(&stream, &peer, hello)
            });
        match hello {
            Ok((hello, version)) => {
                inbound.set_limit(MESSAGE_LEN_MAX);
                let pending = Pending {
                    stream,
                    inbound,
                    name: hello.name.clone(),
                    addr: self.addr,
                    version,
                };
                Ok((hello, pending))
            }
            Err(error) => {
                turn_away(stream, &error);
                Err(error)
            }
        }
    }
}

/// A client whose hello has been read and not answered. If this is dropped, the connection is
/// closed.
pub struct Pending {
    stream: Stream,
    inbound: MessageReader,
    name: String,
    addr: SocketAddr,
    version: u16,
}

impl fmt::Debug for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending")
            .field("name", &self.name)
            .field("addr", &self.addr)
            .finish_non_exhaustive()
    }
}

impl Pending {
    /// The client's address.
    pub fn peer_addr(&self) -> SocketAddr {
        self.addr
    }

    /// Accepts the client, with `body` in the answer to its hello.
    ///
    /// # Errors
    /// The client has disconnected or is stuck, or `body` is too long.
    pub fn welcome(mut self, body: Value) -> Result<Connection, ControlError> {
        let peer = format!("`{}` at {}", one_line(&self.name), self.addr);
        let reply = Reply::Welcome {
            version: self.version,
            body,
        };
        let bytes = encode(&reply, MESSAGE_LEN_MAX, &peer)?;
        self.stream
            .write_all(&bytes, after(ANSWER_LIMIT))
            .map_err(|trouble| trouble.about(&peer, "to take our welcome", true))?;
        Ok(Connection::new(
            self.stream,
            self.inbound,
            self.name,
            self.addr,
            self.version,
        ))
    }

    /// Refuses the client with a reason and a remedy, and closes the connection. Both texts are one
    /// line; the client sees "… refused: `reason`: `remedy`".
    pub fn refuse(self, reason: &str, remedy: &str) {
        refuse(self.stream, reason, remedy);
    }
}

/// Under TLS, checks that the name in the hello is that of the certificate.
fn check_name(
    stream: &Stream,
    peer: &str,
    (hello, version): (Hello, u16),
) -> Result<(Hello, u16), ControlError> {
    let is_named = stream
        .peer_certificate()
        .is_some_and(|certificate| certificate_names(certificate, &hello.name));
    if stream.is_tls() && !is_named {
        let name = one_line(&hello.name);
        return Err(ControlError::WrongKey {
            peer: peer.to_string(),
            detail: format!("says that it is `{name}`, but its certificate names somebody else"),
        });
    }
    Ok((hello, version))
}

/// Ends a connection after `error`, with a refusal if messages can be sent at all.
fn turn_away(stream: Stream, error: &ControlError) {
    match error {
        // The client has used all of its time.
        ControlError::TimedOut { .. } => {}
        // A TLS alert has reported the reason.
        _ if !stream.can_talk() => stream.close(),
        ControlError::Version { min, max, .. } => refuse(
            stream,
            &format!(
                "this client speaks version {min} to {max}, the controller versions \
                 {PROTOCOL_VERSION_MIN} to {PROTOCOL_VERSION}"
            ),
            "upgrade rackweave on the older side",
        ),
        ControlError::WrongKey { .. } => refuse(
            stream,
            "the certificate shown does not bear the name in the hello",
            "use the key that `rackweave keygen` made for this name",
        ),
        ControlError::Revoked { .. } => refuse(
            stream,
            "the key shown was revoked",
            "run `rackweave keygen`, and copy the new key of this name to where it runs",
        ),
        ControlError::Malformed { detail, .. } => refuse(
            stream,
            &format!("cannot read the message: {detail}"),
            "run the same release of rackweave on both sides",
        ),
        // A client that speaks TLS to a server without TLS can tell from any answer that the server
        // does not.
        ControlError::NotOurProtocol { .. } => refuse(
            stream,
            "this is the control port of a rack, and the first message is no hello",
            "check the address, and that both sides or neither use keys",
        ),
        _ => stream.close(),
    }
}

fn refuse(mut stream: Stream, reason: &str, remedy: &str) {
    let reply = Reply::Refused {
        reason: one_line(reason),
        remedy: one_line(remedy),
    };
    if let Ok(bytes) = encode(&reply, MESSAGE_LEN_MAX, "the client")
        && stream.write_all(&bytes, after(ANSWER_LIMIT)).is_ok()
    {
        stream.close();
    }
}

/// The half-open connections of a listener.
#[derive(Debug, Default)]
struct HalfOpen(Mutex<HalfOpenSlots>);

#[derive(Debug, Default)]
struct HalfOpenSlots {
    /// In the order of arrival.
    taken: Vec<Taken>,
    /// Number of connections so far.
    came: u64,
    evicted: u64,
}

#[derive(Debug)]
struct Taken {
    number: u64,
    ip: IpAddr,
    socket: Weak<TcpStream>,
}

/// The entry of one half-open connection.
#[derive(Debug)]
struct HalfOpenSlot {
    all: Arc<HalfOpen>,
    number: u64,
}

impl HalfOpen {
    fn lock(&self) -> MutexGuard<'_, HalfOpenSlots> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(all: &Arc<Self>, socket: &Arc<TcpStream>, ip: IpAddr) -> HalfOpenSlot {
        let mut places = all.lock();
        if places.taken.len() >= HALF_OPEN_MAX {
            places.evict();
        }
        let number = places.came;
        places.came += 1;
        places.taken.push(Taken {
            number,
            ip: ip.to_canonical(),
            socket: Arc::downgrade(socket),
        });
        HalfOpenSlot {
            all: all.clone(),
            number,
        }
    }
}

impl HalfOpenSlots {
    /// Disconnects the oldest connection of the address that has most.
    fn evict(&mut self) {
        let addresses: Vec<_> = self.taken.iter().map(|taken| taken.ip).collect();
        if let Some(at) = oldest_of_most(&addresses) {
            self.evicted += 1;
            if let Some(socket) = self.taken.remove(at).socket.upgrade() {
                // Its thread sees the end of the stream and returns.
                let _ = socket.shutdown(Shutdown::Both);
            }
        }
    }
}

impl Drop for HalfOpenSlot {
    fn drop(&mut self) {
        let number = self.number;
        self.all.lock().taken.retain(|taken| taken.number != number);
    }
}

#[cfg(test)]
mod tests;
