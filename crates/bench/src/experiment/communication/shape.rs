//! What is measured: the protocol, the number of threads, and the number and size of buffers.

use crate::baseline::single_buffer::HEADER_BYTES;
use core::fmt;
use core::ops::Range;
use rackweave_wire::fabric::message::PIECE_HEADER_LEN;

/// How data is transferred from one node to the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// Written to receive buffers in turn, which are never read: the throughput test.
    Raw,
    /// Through the single buffer, consumed.
    Single,
    /// With the multi-buffer protocol, consumed.
    Multi,
}

/// A measurement without the size of the data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    pub way: Way,
    /// Threads of the sender, and as many of the receiver if the data is consumed.
    pub threads: u8,
    /// Receive buffers of all threads together.
    pub buffers: u8,
    /// Bytes of each buffer; for the single buffer, of a half.
    pub bytes: u64,
}

impl Shape {
    /// Parts of a thread's send buffer, one for each package in flight. With one thread the send
    /// buffer is as large as all receive buffers (section 3.1), with several it has a part for each
    /// (sections 4.1.1 and 4.2.1).
    pub fn parts(&self) -> u64 {
        match self.threads {
            1 => u64::from(self.buffers),
            _ => 1,
        }
    }

    /// Bytes of all receive buffers.
    pub fn receive_bytes(&self) -> u64 {
        u64::from(self.buffers) * self.bytes
    }

    /// Bytes of a package's header.
    pub fn header(&self) -> u64 {
        match self.way {
            Way::Raw | Way::Single => HEADER_BYTES as u64,
            Way::Multi => PIECE_HEADER_LEN as u64,
        }
    }

    /// Bytes of data in one package.
    pub fn payload(&self) -> u64 {
        self.bytes - self.header()
    }

    /// The part of `data` bytes that a thread sends: packages are distributed over threads as
    /// evenly as possible. Data that fits one package is the first thread's.
    pub fn share(&self, thread: u8, data: u64) -> Range<u64> {
        let packages = data.div_ceil(self.payload()).max(1);
        let cut = |thread: u8| {
            let packages = (packages * u64::from(thread)).div_ceil(u64::from(self.threads));
            (packages * self.payload()).min(data)
        };
        cut(thread)..cut(thread + 1)
    }
}

/// A number of bytes, displayed as in figures.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, unit) = match self.0 {
            bytes if bytes >= 1 << 30 && bytes.is_multiple_of(1 << 30) => (bytes >> 30, "GiB"),
            bytes if bytes >= 1 << 20 && bytes.is_multiple_of(1 << 20) => (bytes >> 20, "MiB"),
            bytes if bytes >= 1 << 10 && bytes.is_multiple_of(1 << 10) => (bytes >> 10, "KiB"),
            bytes => (bytes, "B"),
        };
        write!(f, "{value} {unit}")
    }
}

#[cfg(test)]
mod tests;
