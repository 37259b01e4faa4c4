//! Checks that a peer is at its address: a token is sent to that address, and the peer must return
//! it over another channel (return routability, as in RFC 4787 and QUIC, RFC 9000, section 8).
//!
//! A challenge is a VXLAN datagram whose packet has an experimental Ethernet type (IEEE 802) and
//! carries the token.

use super::{Hub, UdpError};
use rackweave_wire::ethernet;
use rackweave_wire::vxlan::{self, Vxlan};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Local Experimental Ethertype 1 (IEEE 802, clause 9.2.4).
const ETHERTYPE: [u8; 2] = [0x88, 0xb5];

/// The token that a peer is sent. It must be unpredictable.
pub type Token = [u8; 16];

/// Bytes of a challenge.
const LEN: usize = vxlan::LEN + ethernet::LEN + size_of::<Token>();

impl Hub {
    /// Sends a token to `peer`.
    ///
    /// # Errors
    /// If the address cannot be a peer of this hub. It is not an error if the system does not
    /// accept the datagram: it may be lost anyway.
    pub fn challenge(&self, peer: SocketAddr, token: &Token) -> Result<(), UdpError> {
        let to = self.peer(peer)?;
        let addresses = [0; ethernet::LEN - ETHERTYPE.len()];
        let frame = [&addresses[..], &ETHERTYPE, token].concat();
        let challenge = [&self.0.vxlan.emit()[..], &frame].concat();
        let _ = self.0.socket.send_to(&challenge, to);
        Ok(())
    }

    /// Waits up to `limit` for a token from `peer`. Everything else that arrives meanwhile is
    /// dropped, so use this only on a hub that has no ports yet.
    ///
    /// # Errors
    /// Errors of the socket reported by the system.
    pub fn hear_challenge(&self, peer: SocketAddr, limit: Duration) -> io::Result<Option<Token>> {
        let deadline = Instant::now() + limit;
        let mut came = [0; LEN + 1];
        loop {
            match self.0.socket.recv_from(&mut came) {
                Ok((len, from)) if is_same(from, peer) => {
                    if let Some(token) = self.token(&came[..len]) {
                        return Ok(Some(token));
                    }
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Ok(None);
                    }
                    wait(&self.0.socket, left)?;
                }
                // An earlier packet reached a closed port; the next datagram may still arrive.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn token(&self, came: &[u8]) -> Option<Token> {
        let (header, frame) = Vxlan::parse(came).ok()?;
        let (head, token) = frame.split_at_checked(ethernet::LEN)?;
        let sound = header == self.0.vxlan && head.ends_with(&ETHERTYPE);
        token.try_into().ok().filter(|_| sound)
    }
}

fn is_same(from: SocketAddr, peer: SocketAddr) -> bool {
    (from.ip().to_canonical(), from.port()) == (peer.ip().to_canonical(), peer.port())
}

fn wait(socket: &std::net::UdpSocket, limit: Duration) -> io::Result<()> {
    let timeout = Timespec {
        tv_sec: i64::try_from(limit.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: limit.subsec_nanos().into(),
    };
    let mut fds = [PollFd::new(socket, PollFlags::IN)];
    match poll(&mut fds, Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
