//! Messages through a single buffer (communication tier, section 2.2 and figure 2).
//!
//! Each node has one registered region, half of it to send from and half of it to receive into. A
//! half begins with the operation code, a word of which only the first byte is used:
//!
//! ```text
//!  | code, 8 bytes | length, 8 | total, 8 | offset, 8 | payload ... |
//! ```
//!
//! A sender copies a package into its send half and posts two WRITEs of it: first everything after
//! the code, then the code. The receiver polls the code. When one arrives, it copies the payload
//! out, clears the package's bytes in its half, and writes a zero to the code of the *sender's*
//! send half. Only then may the sender send the next package; a message that is longer than a
//! package is sent one package at a time.
//!
//! What the paper leaves open and is chosen here: the notice goes to the sender's own code, since
//! both halves have one; lengths and the offset are written out, 32 bytes with the code.
//!
//! It is a state machine over [`Verbs`]: it has no clock and never waits. Data written by the peer
//! is accepted as far as it is valid; otherwise a [`SingleBufferError`] names the fault.

use super::verbs::{Remote, ended};
use crate::harness::prelude::*;
use rackweave_endpoint::messaging::KeyedAddress;
use rackweave_verbs::PostError;

/// Bytes of code, length, total and offset.
pub const HEADER_BYTES: usize = 32;

/// The smallest region: two halves with a header and a word of payload each.
pub const REGION_BYTES_MIN: usize = 2 * (HEADER_BYTES + 8);

/// Requests of one package or notice, all of which the send queue must hold at a time.
pub const SEND_REQUESTS: u32 = 4;

/// Bytes that a region needs after its halves: the zero that is written as a notice.
pub const NOTICE_BYTES: usize = 64;

/// The header of a package.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PackageHeader {
    /// The kind of the message; never zero.
    pub code: u8,
    /// Bytes of the message in this package.
    pub length: u64,
    /// Bytes of the whole message.
    pub total: u64,
    /// Bytes of the message before this package.
    pub offset: u64,
}

impl PackageHeader {
    /// Writes a package: the header, then its pieces, one after the other. Returns its bytes.
    ///
    /// # Panics
    /// If the pieces are not `length` bytes, or do not fit.
    pub fn write<'a>(
        self,
        block: &Block,
        begin: usize,
        pieces: impl IntoIterator<Item = &'a [u8]>,
    ) -> usize {
        let words = [u64::from(self.code), self.length, self.total, self.offset];
        block.write(begin, words.map(u64::to_le_bytes).as_flattened());
        let mut at = begin + HEADER_BYTES;
        for piece in pieces {
            block.write(at, piece);
            at += piece.len();
        }
        let written = (at - begin - HEADER_BYTES) as u64;
        assert_eq!(written, self.length, "as announced");
        at - begin
    }
}

/// Why the connection has stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SingleBufferError {
    /// The peer wrote something that is not an operation code.
    #[error("the peer wrote {0:#x} as operation code; a code has one byte")]
    Code(u64),
    /// A package that does not fit.
    #[error("a package of {length} bytes; {max} fit the receive half")]
    Length {
        /// The length in its header.
        length: u64,
        /// The maximum.
        max: u64,
    },
    /// A package that does not continue where the one before ended, or exceeds its message.
    #[error(
        "a package with bytes {offset} to {offset} + {length} of {total}; expected byte {expected}"
    )]
    Place {
        /// The offset in its header.
        offset: u64,
        /// Its bytes.
        length: u64,
        /// The message's bytes.
        total: u64,
        /// The expected offset.
        expected: u64,
    },
    /// The peer gave notice of a package that was not sent, or wrote a value other than zero.
    #[error("the peer wrote {0:#x} as notice; a notice is zero")]
    Notice(u64),
    /// The queue pair accepts no request.
    #[error(transparent)]
    Post(#[from] PostError),
    /// A WRITE failed.
    #[error("a WRITE failed: {0:?}")]
    Broken(CompletionStatus),
}

/// One node's end.
#[derive(Debug)]
pub struct SingleBuffer {
    region: Region,
    half: usize,
    cq: CqId,
    /// The peer's region.
    peer: Remote,
    /// The package that has been filled or sent and is not known to be consumed.
    sent: Option<PackageHeader>,
    /// Whether it has been posted.
    posted: bool,
    /// Outstanding completions.
    pending: u32,
    /// The package that has been looked at and not been released.
    arrived: Option<PackageHeader>,
    /// Bytes of the current message that have arrived.
    received: u64,
    completions: Vec<Completion>,
}

impl SingleBuffer {
    /// An end with a region of two halves of `half` bytes and [`NOTICE_BYTES`], and a queue pair
    /// that is connected with the peer's and holds [`SEND_REQUESTS`]. The region is zeroed.
    ///
    /// # Panics
    /// If the region is smaller, or the half is no multiple of 8 with space for a payload.
    pub fn new(region: Region, half: usize, (qpn, cq): (Qpn, CqId), peer: KeyedAddress) -> Self {
        let is_sound = half.is_multiple_of(8) && 2 * half >= REGION_BYTES_MIN;
        assert!(is_sound, "halves of {half} bytes");
        let bytes = region.block.len();
        assert!(bytes >= 2 * half + NOTICE_BYTES, "a region of {bytes}");
        Self {
            region,
            half,
            cq,
            peer: Remote {
                qpn,
                address: peer.address,
                rkey: peer.rkey,
            },
            sent: None,
            posted: false,
            pending: 0,
            arrived: None,
            received: 0,
            completions: Vec::new(),
        }
    }

    /// Maximum bytes of a message in one package.
    pub fn payload_max(&self) -> usize {
        self.half - HEADER_BYTES
    }

    /// Whether the send half is free.
    pub fn is_free(&self) -> bool {
        self.sent.is_none() && self.pending == 0
    }

    /// Whether every WRITE that was posted has ended.
    pub fn is_settled(&self) -> bool {
        self.pending == 0
    }

    /// Copies a package into the send half, its pieces one after the other.
    ///
    /// # Panics
    /// If the half is not free, the code is zero, or the pieces are not `header.length` bytes or do
    /// not fit.
    pub fn fill<'a>(&mut self, header: PackageHeader, pieces: impl IntoIterator<Item = &'a [u8]>) {
        assert!(self.is_free(), "the send half is in use");
        assert_ne!(header.code, 0, "zero is no operation code");
        let most = self.payload_max() as u64;
        assert!(header.length <= most, "{} bytes", header.length);
        // The code is written at once; the peer sees it when a WRITE copies it there.
        header.write(&self.region.block, 0, pieces);
        (self.sent, self.posted) = (Some(header), false);
    }

    /// Posts the filled package.
    ///
    /// # Errors
    /// If the queue pair does not accept it.
    ///
    /// # Panics
    /// If none was filled since the last post.
    pub fn post(&mut self, verbs: &mut dyn Verbs) -> Result<(), SingleBufferError> {
        let filled = self.sent.filter(|_| !self.posted);
        let filled = filled.expect("a package is filled in");
        let bytes = HEADER_BYTES as u64 - 8 + filled.length;
        let there = self.half as u64;
        let mut data = self.write(there + 8, 8, bytes as u32);
        data.signaled = false;
        let code = self.write(there, 0, 8);
        let posted = verbs.post_sends(self.peer.qpn, &[data, code]);
        posted.map_err(|(_, error)| error)?;
        self.pending += 1;
        self.posted = true;
        Ok(())
    }

    fn write(&self, there: u64, from: u64, length: u32) -> WorkRequest {
        self.peer.write(0, there, self.region.segment(from, length))
    }

    /// Takes completions, and notice of a consumed package. True if anything happened.
    ///
    /// # Errors
    /// If a WRITE failed, or the peer wrote invalid data.
    pub fn poll(&mut self, verbs: &mut dyn Verbs) -> Result<bool, SingleBufferError> {
        let mut any = false;
        if self.pending > 0 {
            let ended =
                ended(verbs, self.cq, &mut self.completions).map_err(SingleBufferError::Broken)?;
            self.pending -= ended;
            any = ended > 0;
        }
        let word = u64::from_le(self.region.block.word(0).load(Ordering::Acquire));
        match self.sent {
            Some(_) if word == 0 && self.posted => {
                self.sent = None;
                any = true;
            }
            sent => {
                let own = sent.map_or(0, |package| u64::from(package.code));
                if word != own {
                    return Err(SingleBufferError::Notice(word));
                }
            }
        }
        Ok(any)
    }

    /// The package in the receive half; `None` if there is none.
    ///
    /// # Errors
    /// If the peer wrote invalid data.
    pub fn look(&mut self) -> Result<Option<PackageHeader>, SingleBufferError> {
        if self.arrived.is_some() {
            return Ok(self.arrived);
        }
        let word = |at: usize| {
            let word = self.region.block.word(self.half + 8 * at);
            u64::from_le(word.load(Ordering::Acquire))
        };
        // Everything that was written before the code has arrived with it.
        let code = match word(0) {
            0 => return Ok(None),
            code => u8::try_from(code).map_err(|_| SingleBufferError::Code(code))?,
        };
        let [length, total, offset] = [1, 2, 3].map(word);
        let max = self.payload_max() as u64;
        if length > max {
            return Err(SingleBufferError::Length { length, max });
        }
        let expected = self.received;
        let ends = offset.checked_add(length);
        let is_progress = length > 0 || total == 0;
        if offset != expected || ends.is_none_or(|end| end > total) || !is_progress {
            return Err(SingleBufferError::Place {
                offset,
                length,
                total,
                expected,
            });
        }
        self.arrived = Some(PackageHeader {
            code,
            length,
            total,
            offset,
        });
        Ok(self.arrived)
    }

    /// Copies the payload of the package that was looked at.
    ///
    /// # Panics
    /// If there is none, or the target has another length.
    pub fn copy_out(&self, target: &mut [u8]) {
        let arrived = self.arrived.expect("a package was looked at");
        assert_eq!(target.len() as u64, arrived.length, "the whole payload");
        self.region.block.read(self.half + HEADER_BYTES, target);
    }

    /// Appends the payload of the package that was looked at.
    ///
    /// # Panics
    /// If there is none.
    pub fn append_to(&self, target: &mut Vec<u8>) {
        let arrived = self.arrived.expect("a package was looked at");
        let (at, len) = (self.half + HEADER_BYTES, arrived.length as usize);
        self.region.block.bytes(at, len).append_to(target);
    }

    /// Clears the bytes of the package that was looked at in the receive half, and gives the sender
    /// notice.
    ///
    /// # Errors
    /// If the queue pair does not accept the notice.
    ///
    /// # Panics
    /// If there is none.
    pub fn release(&mut self, verbs: &mut dyn Verbs) -> Result<(), SingleBufferError> {
        const ZEROS: [u8; 4096] = [0; 4096];
        let arrived = self.arrived.take().expect("a package was looked at");
        let mut at = self.half;
        let end = at + HEADER_BYTES + arrived.length as usize;
        while at < end {
            let len = ZEROS.len().min(end - at);
            self.region.block.write(at, &ZEROS[..len]);
            at += len;
        }
        self.received = arrived.offset + arrived.length;
        if self.received == arrived.total {
            self.received = 0;
        }
        let zero = 2 * self.half as u64;
        let notice = self.write(0, zero, 8);
        verbs.post_send(self.peer.qpn, notice)?;
        self.pending += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
