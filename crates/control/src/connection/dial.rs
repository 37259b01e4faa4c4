//! Dialing: the TCP connection, TLS, and the exchange of introductions.

use super::{first_body, is_loopback};
use crate::identity::{Security, server_name};
use crate::message::MessageReader;
use crate::stream::{Stream, Trouble};
use crate::{CONTROLLER_NAME, ControlError};
use std::fmt::Display;
use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Instant;

/// A TCP connection to the first of `addr`'s addresses that answers.
pub(super) fn dial(
    addr: &(impl ToSocketAddrs + Display),
    security: &Security,
    deadline: Instant,
) -> Result<TcpStream, ControlError> {
    let unreachable = |error| ControlError::Unreachable {
        addr: addr.to_string(),
        error,
    };
    let candidates: Vec<_> = addr.to_socket_addrs().map_err(unreachable)?.collect();
    if let Security::Plain { .. } = security
        && let Some(addr) = candidates.iter().find(|addr| !is_loopback(addr))
    {
        return Err(ControlError::PlainNotLoopback { addr: *addr });
    }
    let mut last_error = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for candidate in candidates {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            last_error = io::ErrorKind::TimedOut.into();
            break;
        }
        match TcpStream::connect_timeout(&candidate, left) {
            Ok(socket) => return Ok(socket),
            Err(error) => last_error = error,
        }
    }
    Err(unreachable(last_error))
}

pub(super) fn client_tls(
    security: &Security,
    peer: &str,
) -> Result<Option<rustls::Connection>, ControlError> {
    let Security::Tls(identity) = security else {
        return Ok(None);
    };
    let name = server_name(CONTROLLER_NAME).expect("the controller's name is a DNS name");
    let tls = rustls::ClientConnection::new(identity.client_config(), name)
        .map_err(|error| Trouble::Tls(error).about(peer, "", false))?;
    Ok(Some(tls.into()))
}

/// The client's handshake: performs TLS, sends the hello, and returns the body of the answer.
pub(super) fn exchange(
    stream: &mut Stream,
    inbound: &mut MessageReader,
    hello: &[u8],
    peer: &str,
    deadline: Instant,
) -> Result<Vec<u8>, ControlError> {
    let sent = stream
        .handshake(deadline)
        .and_then(|()| stream.write_all(hello, deadline));
    match sent {
        Ok(()) => first_body(stream, inbound, peer, deadline),
        // In TLS 1.3 a server that refuses the client's key reports it after the client's part of
        // the handshake is done: it may have closed before the hello, and its reason may still be
        // unread.
        Err(Trouble::Ended) => match first_body(stream, inbound, peer, deadline) {
            Err(ControlError::Closed { .. }) | Ok(_) => Err(Trouble::Ended.about(peer, "", true)),
            Err(error) => Err(error),
        },
        Err(trouble) => Err(trouble.about(peer, "over the handshake", true)),
    }
}
