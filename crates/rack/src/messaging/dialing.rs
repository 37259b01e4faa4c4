//! The compute node's side of the handshake.

use super::connection::MessageConnection;
use super::stream::{Came, Stream};
use super::{ConnectError, LocalNode};
use crate::Rack;
use core::time::Duration;
use rackweave_base::{Instant, NodeId};
use rackweave_endpoint::flow::wait_until;
use rackweave_endpoint::messaging::handshake::{Handshake, Step};
use rackweave_endpoint::messaging::{MessagingConfig, Role};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};
use std::io;
use std::net::{SocketAddr, TcpStream};

/// Connects the compute node `node` to the storage node that listens at `address`. Drives the rack
/// while it waits.
///
/// # Errors
/// If the node's configuration is invalid, no listener is at the address, or the handshake fails or
/// is not complete within `timeout`.
pub fn dial(
    rack: &Rack,
    node: impl Into<NodeId>,
    address: SocketAddr,
    config: MessagingConfig,
    timeout: Duration,
) -> Result<MessageConnection, ConnectError> {
    let mut dialing = Dialing::start(rack, node, address, config, timeout)?;
    let node = dialing.local.node.clone();
    wait_until(&node, || dialing.poll())
}

enum State {
    /// The system is connecting the stream.
    Connecting(TcpStream),
    Talking(Stream),
    Over,
}

/// A compute node that is being connected, for callers that do not block. Dropping it aborts the
/// handshake and frees everything.
pub struct Dialing {
    local: LocalNode,
    address: SocketAddr,
    deadline: Instant,
    dialer: Handshake,
    state: State,
}

impl Dialing {
    /// Begins to connect, as [`dial`] does.
    ///
    /// # Errors
    /// If the node's configuration is invalid, or no stream to this address can be opened.
    pub fn start(
        rack: &Rack,
        node: impl Into<NodeId>,
        address: SocketAddr,
        config: MessagingConfig,
        timeout: Duration,
    ) -> Result<Self, ConnectError> {
        let local = LocalNode::new(rack, node.into(), Role::Compute, config)?;
        let now = local.node.now();
        let deadline = now + timeout.into();
        let config = local.config.clone();
        let dialer = Handshake::new(now, Role::Compute, config, local.terms(), deadline);
        let socket = begin(address).map_err(|error| ConnectError::Connect {
            address,
            error: error.into(),
        })?;
        Ok(Self {
            local,
            address,
            deadline,
            dialer,
            state: State::Connecting(socket),
        })
    }

    /// Advances the handshake, and returns the end of the connection when it is made. After that,
    /// `None`.
    pub fn poll(&mut self) -> Option<Result<MessageConnection, ConnectError>> {
        let now = self.local.node.now();
        if let State::Connecting(socket) = &self.state {
            let connected = match is_connected(socket) {
                Ok(false) if now < self.deadline => return None,
                Ok(false) => Err(io::ErrorKind::TimedOut.into()),
                Ok(true) => Ok(()),
                Err(error) => Err(error),
            };
            let State::Connecting(socket) = core::mem::replace(&mut self.state, State::Over) else {
                unreachable!("it was so a moment ago");
            };
            match connected.and_then(|()| Stream::new(socket)) {
                Ok(stream) => self.state = State::Talking(stream),
                Err(error) => {
                    let address = self.address;
                    return Some(Err(ConnectError::Connect { address, error }));
                }
            }
        }
        let State::Talking(stream) = &mut self.state else {
            return None;
        };
        stream.flush();
        match stream.receive() {
            Came::Bytes(bytes) => self.dialer.handle_bytes(now, &bytes),
            Came::End => self.dialer.handle_end(now),
            Came::Nothing => {}
        }
        let LocalNode {
            node, memory, keys, ..
        } = &mut self.local;
        let step = node.with(|nic| self.dialer.poll(now, nic, memory, keys));
        if let Some(bytes) = self.dialer.poll_send() {
            stream.send(&bytes);
        }
        let address = self.address;
        let end = match step {
            Step::Waiting => return None,
            Step::Connected(connection) => {
                let node = self.local.node.clone();
                Ok(MessageConnection::new(node, address, connection))
            }
            Step::Failed(error) => Err(ConnectError::Handshake { address, error }),
        };
        stream.finish();
        self.state = State::Over;
        Some(end)
    }
}

impl Drop for Dialing {
    fn drop(&mut self) {
        if let State::Talking(stream) = &mut self.state {
            let LocalNode { node, .. } = &self.local;
            node.with(|nic| self.dialer.abandon(nic));
            if let Some(bytes) = self.dialer.poll_send() {
                stream.send(&bytes);
            }
            stream.finish();
        }
    }
}

/// A socket whose connection is in progress.
fn begin(address: SocketAddr) -> Result<TcpStream, Errno> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    match connect(&socket, &address) {
        Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => Ok(socket.into()),
        Err(error) => Err(error),
    }
}

/// Whether the system has connected the socket yet.
fn is_connected(socket: &TcpStream) -> io::Result<bool> {
    let mut fds = [PollFd::new(socket, PollFlags::OUT)];
    let at_once = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    match poll(&mut fds, Some(&at_once)) {
        Ok(0) | Err(Errno::INTR) => Ok(false),
        Ok(_) => match socket.take_error()? {
            Some(error) => Err(error),
            None => Ok(true),
        },
        Err(error) => Err(error.into()),
    }
}
