//! A TCP stream that never blocks.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};

/// Bytes read at a time: more than a peer may send before it must wait for an answer.
const CHUNK: usize = 2048;

/// A stream, and what could not be sent yet.
pub(super) struct Stream {
    socket: TcpStream,
    unsent: Vec<u8>,
    broken: bool,
}

/// What a stream has.
pub(super) enum Came {
    /// These bytes.
    Bytes(Vec<u8>),
    /// Nothing yet.
    Nothing,
    /// The peer sends no more, or the stream broke.
    End,
}

impl Stream {
    /// Takes over a stream that is connected.
    pub fn new(socket: TcpStream) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        // Four short messages, each of which the peer waits for.
        socket.set_nodelay(true)?;
        Ok(Self {
            socket,
            unsent: Vec::new(),
            broken: false,
        })
    }

    /// What has come, up to a chunk of it.
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

    /// Sends these bytes behind those that wait.
    pub fn send(&mut self, bytes: &[u8]) {
        self.unsent.extend_from_slice(bytes);
        self.flush();
    }

    /// Sends what waits. True if nothing is left to be sent, or nothing can be any more.
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

    /// Whether what was to be sent could not be.
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    /// Tells the peer that nothing more will be sent.
    pub fn finish(&mut self) {
        // If it is gone there is nobody to be told.
        let _ = self.socket.shutdown(Shutdown::Write);
    }
}
