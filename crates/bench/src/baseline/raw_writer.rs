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

use super::single_buffer::{HEADER_BYTES, PackageHeader};
use super::verbs::{Remote, ended};
use crate::harness::prelude::*;

/// Bytes from one word to the next.
const WORD_SPACING: u64 = 64;

/// Requests of a package.
pub const REQUESTS_PER_PACKAGE: u32 = 2;

/// The peer's receive buffers, or the parts of a send buffer: `count` of `bytes` each, one after
/// the other, then a word for each, every [`WORD_SPACING`] bytes.
#[derive(Clone, Debug)]
pub struct Buffers {
    pub region: Region,
    pub count: u64,
    pub bytes: u64,
}

impl Buffers {
    /// Bytes of a region of `count` buffers.
    pub fn region_bytes(count: u64, bytes: u64) -> usize {
        (count * (bytes + WORD_SPACING)) as usize
    }

    /// The offset of a buffer.
    pub fn offset(&self, buffer: u64) -> u64 {
        buffer * self.bytes
    }

    fn word(&self, buffer: u64) -> u64 {
        self.count * self.bytes + buffer * WORD_SPACING
    }
}

/// The writer.
#[derive(Debug)]
pub struct RawWriter {
    parts: Buffers,
    pub target: Buffers,
    /// The first of the buffers that this writer fills, and how many; it fills them in turn.
    pub own: (u64, u64),
    remote: Remote,
    cq: CqId,
    /// The numbers of the package to be filled next, to be posted next, and of the oldest in
    /// flight.
    pub filling: u64,
    posting: u64,
    ending: u64,
    /// Bytes of the package filled last.
    filled: u32,
    completions: Vec<Completion>,
}

impl RawWriter {
    /// A writer with a send buffer of parts as large as the target's buffers, and a queue pair that
    /// is connected with the target's and holds [`REQUESTS_PER_PACKAGE`] for each part.
    ///
    /// # Panics
    /// If there is no part, or no buffer to fill.
    pub fn new(parts: Buffers, target: Buffers, own: (u64, u64), (qpn, cq): (Qpn, CqId)) -> Self {
        assert!(parts.count > 0 && own.1 > 0, "there is nothing to write");
        Self {
            remote: Remote::new(qpn, &target.region),
            parts,
            target,
            own,
            cq,
            filling: 0,
            posting: 0,
            ending: 0,
            filled: 0,
            completions: Vec::new(),
        }
    }

    /// Maximum bytes of a message in one package.
    pub fn payload_max(&self) -> usize {
        self.target.bytes as usize - HEADER_BYTES
    }

    /// The buffer of a package, by number.
    pub fn buffer_of(&self, package: u64) -> u64 {
        self.own.0 + package % self.own.1
    }

    /// Whether a part of the send buffer is free and the filled package has been posted.
    pub fn has_space(&self) -> bool {
        self.posting == self.filling && self.filling - self.ending < self.parts.count
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
        assert!(self.has_space(), "no part is free");
        assert!(header.length <= self.payload_max() as u64);
        let (block, part) = (&self.parts.region.block, self.filling % self.parts.count);
        let begin = self.parts.offset(part) as usize;
        self.filled = header.write(block, begin, pieces) as u32;
        self.filling += 1;
        let word = self.filling << 32 | u64::from(self.filled);
        block.write(self.parts.word(part) as usize, &word.to_le_bytes());
    }

    /// Posts the filled package.
    ///
    /// # Panics
    /// If none was filled since the last post.
    pub fn post(&mut self, verbs: &mut dyn Verbs) -> Result<(), Failure> {
        assert!(self.posting < self.filling, "a package is filled in");
        let (parts, target) = (&self.parts, &self.target);
        let (part, buffer) = (self.posting % parts.count, self.buffer_of(self.posting));
        let write = |at, from, length| {
            let segment = parts.region.segment(from, length);
            self.remote.write(0, at, segment)
        };
        let mut data = write(target.offset(buffer), parts.offset(part), self.filled);
        data.signaled = false;
        let word = write(target.word(buffer), parts.word(part), 8);
        let posted = verbs.post_sends(self.remote.qpn, &[data, word]);
        posted.map_err(|(_, error)| error.to_string())?;
        self.posting += 1;
        Ok(())
    }

    /// Takes completions. True if there were any.
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
