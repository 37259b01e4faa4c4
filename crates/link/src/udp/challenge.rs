//! Whether a peer is where it says: it is sent a token there, and must say by another way what it
//! was (return routability, as RFC 4787 and QUIC, RFC 9000, section 8, have it).
//!
//! A challenge is a VXLAN datagram whose packet has an Ethernet type for experiments (IEEE 802) and
//! the token.

use super::{Hub, UdpError};
use rackweave_wire::ethernet;
use rackweave_wire::vxlan::{self, Vxlan};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Local Experimental Ethertype 1 (IEEE 802, clause 9.2.4).
const ETHERTYPE: [u8; 2] = [0x88, 0xb5];

/// What a peer is sent. Nobody may be able to guess it.
pub type Token = [u8; 16];

/// Bytes of a challenge.
const LEN: usize = vxlan::LEN + ethernet::LEN + size_of::<Token>();

impl Hub {
    /// Sends `peer` a token.
    ///
    /// # Errors
    /// If the address can be no peer of this hub. That the system takes nothing is none: the
    /// datagram may be lost anyway.
    pub fn challenge(&self, peer: SocketAddr, token: &Token) -> Result<(), UdpError> {
        let to = self.peer(peer)?;
        let mut frame = [0; LEN - vxlan::LEN];
        frame[ethernet::LEN - 2..ethernet::LEN].copy_from_slice(&ETHERTYPE);
        frame[ethernet::LEN..].copy_from_slice(token);
        let _ = self.0.send_to(to, &frame, &[]);
        Ok(())
    }

    /// Waits up to `limit` for a token from `peer`. Whatever else comes meanwhile is dropped, so
    /// this is for a hub that has no ports yet.
    ///
    /// # Errors
    /// What the system says of the socket.
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
                // As when nobody listened where a packet went: the next may come.
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
