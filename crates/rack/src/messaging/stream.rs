//! A TCP stream that never blocks.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};

/// Bytes read at a time: more than a peer may send before it must wait for a reply.
const CHUNK: usize = 2048;

/// A stream, and the bytes that could not be sent yet.
pub(super) struct Stream {
    socket: TcpStream,
    unsent: Vec<u8>,
    broken: bool,
}

/// The result of a read.
pub(super) enum Came {
    /// These bytes were received.
    Bytes(Vec<u8>),
    /// Nothing yet.
    Nothing,
    /// The peer sends no more, or the stream is broken.
    End,
}

impl Stream {
    /// Takes over a connected stream.
    pub fn new(socket: TcpStream) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        // The handshake is four short messages, and each side waits for the other's.
        socket.set_nodelay(true)?;
        Ok(Self {
            socket,
            unsent: Vec::new(),
            broken: false,
        })
    }

    /// The bytes that have arrived, at most one chunk.
    pub fn receive(&mut self) -> Came {
        let mut chunk = [0; CHUNK];
        loop {
            return match self.socket.read(&mut chunk) {
                Ok(0) => Came::End,
                Ok(len) => Came::Bytes(chunk[..len].to_vec()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => Came::Nothing,
                Err(_) => Came::End,
            };
        }
    }

    /// Sends these bytes after those that are queued.
    pub fn send(&mut self, bytes: &[u8]) {
        self.unsent.extend_from_slice(bytes);
        self.flush();
    }

    /// Sends queued bytes. Returns true if none are left, or none can be sent any more.
    pub fn flush(&mut self) -> bool {
        while !self.unsent.is_empty() && !self.broken {
            match self.socket.write(&self.unsent) {
                Ok(len) if len > 0 => drop(self.unsent.drain(..len)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
                _ => self.broken = true,
            }
        }
        true
    }

    /// Whether sending has failed.
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    /// Announces to the peer that nothing more will be sent.
    pub fn finish(&mut self) {
        // If the peer has left, there is nothing to announce.
        let _ = self.socket.shutdown(Shutdown::Write);
    }
}
