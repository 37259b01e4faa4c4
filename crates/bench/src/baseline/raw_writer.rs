//! A writer that fills a peer's receive buffers in turn, whether or not they are consumed: the
//! throughput test of the communication tier (section 4.1).
//!
//! A package is copied from memory into a part of the send buffer and written to the next receive
//! buffer. A separate WRITE after it carries a word that announces it, as in the protocols with a
//! consumer. The peer does not consume, acknowledge or release anything. The writer waits only for
//! the end of its own WRITE, before which it may not fill that part of the send buffer again.
//!
//! With one receive buffer and one part it is the single buffer's throughput test (figure 4a); one
//! per thread, each with a buffer of its own, is the multi-threaded one (section 4.1.1).

use super::requests::{Remote, ended};
use super::single_buffer::{HEADER_BYTES, PackageHeader};
use crate::harness::drive::Failure;
use rackweave_base::Qpn;
use rackweave_endpoint::messaging::KeyedAddress;
use rackweave_verbs::{Completion, CqId, Region, Verbs};

/// Bytes from one word to the next.
pub const WORD_SPACING: u64 = 64;

/// Requests of a package.
pub const REQUESTS_PER_PACKAGE: u32 = 2;

/// The peer's receive buffers: `buffers` of `buffer_bytes` each, one after the other, then a word
/// for each, every [`WORD_SPACING`] bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RawTarget {
    /// The first byte of all.
    pub at: KeyedAddress,
    /// The number of buffers.
    pub buffers: u64,
    /// Bytes of each.
    pub buffer_bytes: u64,
    /// The first of the buffers that this writer fills, and how many; it fills them in turn.
    pub own: (u64, u64),
}

impl RawTarget {
    /// Bytes of this many buffers and their words.
    pub fn bytes_of(buffers: u64, buffer_bytes: u64) -> u64 {
        buffers * (buffer_bytes + WORD_SPACING)
    }

    /// The buffer of a package, by number.
    pub fn buffer_of(&self, package: u64) -> u64 {
        self.own.0 + package % self.own.1
    }

    /// The offset of a buffer from the first byte.
    pub fn offset_of(&self, buffer: u64) -> u64 {
        buffer * self.buffer_bytes
    }

    fn word_of(&self, buffer: u64) -> u64 {
        self.buffers * self.buffer_bytes + buffer * WORD_SPACING
    }
}

/// The writer.
#[derive(Debug)]
pub struct RawWriter {
    /// The parts of the send buffer, then a word for each.
    region: Region,
    parts: u64,
    target: RawTarget,
    remote: Remote,
    cq: CqId,
    /// The numbers of the package to be filled next, to be posted next, and of the oldest in
    /// flight.
    filling: u64,
    posting: u64,
    ending: u64,
    /// Bytes of the package filled last.
    filled: u32,
    completions: Vec<Completion>,
}

impl RawWriter {
    /// A writer with a send buffer of `parts` parts as large as the target's buffers, and a queue
    /// pair that is connected with the target's and holds [`REQUESTS_PER_PACKAGE`] for each part.
    ///
    /// # Panics
    /// If the region is smaller than [`Self::region_bytes`], or there is no part, or no buffer to
    /// fill.
    pub fn new(region: Region, parts: u64, target: RawTarget, (qpn, cq): (Qpn, CqId)) -> Self {
        assert!(parts > 0 && target.own.1 > 0, "there is nothing to write");
        assert!(region.block.len() as u64 >= Self::region_bytes(parts, target.buffer_bytes));
        Self {
            region,
            parts,
            target,
            remote: Remote {
                qpn,
                address: target.at.address,
                rkey: target.at.rkey,
            },
            cq,
            filling: 0,
            posting: 0,
            ending: 0,
            filled: 0,
            completions: Vec::new(),
        }
    }

    /// Bytes of the region of a writer.
    pub fn region_bytes(parts: u64, buffer_bytes: u64) -> u64 {
        parts * (buffer_bytes + WORD_SPACING)
    }

    /// Maximum bytes of a message in one package.
    pub fn payload_max(&self) -> usize {
        self.target.buffer_bytes as usize - HEADER_BYTES
    }

    /// Packages filled so far.
    pub fn packages(&self) -> u64 {
        self.filling
    }

    /// The buffers that it writes to.
    pub fn target(&self) -> RawTarget {
        self.target
    }

    /// Whether a part of the send buffer is free and the filled package has been posted.
    pub fn has_room(&self) -> bool {
        self.posting == self.filling && self.filling - self.ending < self.parts
    }

    /// Whether a package is filled and not posted.
    pub fn is_filled(&self) -> bool {
        self.posting < self.filling
    }

    /// Whether everything has been written.
    pub fn is_idle(&self) -> bool {
        self.ending == self.filling
    }

    /// Copies a package into the send buffer, its pieces one after the other.
    ///
    /// # Panics
    /// If no part is free, or the pieces are not `header.length` bytes or do not fit.
    pub fn fill<'a>(&mut self, header: PackageHeader, pieces: impl IntoIterator<Item = &'a [u8]>) {
        assert!(self.has_room(), "no part is free");
        assert!(header.length <= self.payload_max() as u64);
        let (block, part) = (&self.region.block, self.filling % self.parts);
        let begin = (part * self.target.buffer_bytes) as usize;
        self.filled = header.write(block, begin, pieces) as u32;
        self.filling += 1;
        let word = self.filling << 32 | u64::from(self.filled);
        block.write(self.own_word(part) as usize, &word.to_le_bytes());
    }

    fn own_word(&self, part: u64) -> u64 {
        self.parts * self.target.buffer_bytes + part * WORD_SPACING
    }

    /// Posts the filled package.
    ///
    /// # Errors
    /// If the queue pair does not accept it.
    ///
    /// # Panics
    /// If none was filled since the last post.
    pub fn post(&mut self, verbs: &mut dyn Verbs) -> Result<(), Failure> {
        assert!(self.is_filled(), "a package is filled in");
        let (part, buffer) = (
            self.posting % self.parts,
            self.target.buffer_of(self.posting),
        );
        let write = |at: u64, from: u64, length: u32| {
            let segment = self.region.segment(from, length);
            self.remote.write(0, at, segment)
        };
        let from = part * self.target.buffer_bytes;
        let mut data = write(self.target.offset_of(buffer), from, self.filled);
        data.signaled = false;
        let word = write(self.target.word_of(buffer), self.own_word(part), 8);
        let posted = verbs.post_sends(self.remote.qpn, &[data, word]);
        posted.map_err(|(_, error)| error.to_string())?;
        self.posting += 1;
        Ok(())
    }

    /// Takes completions. True if there were any.
    ///
    /// # Errors
    /// If a WRITE failed.
    pub fn poll(&mut self, verbs: &mut dyn Verbs) -> Result<bool, Failure> {
        if self.ending == self.posting {
            return Ok(false);
        }
        let ended = ended(verbs, self.cq, &mut self.completions)
            .map_err(|status| format!("a WRITE failed: {status:?}"))?;
        self.ending += u64::from(ended);
        Ok(ended > 0)
    }
}

#[cfg(test)]
mod tests;
