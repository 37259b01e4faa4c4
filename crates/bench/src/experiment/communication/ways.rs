//! The ends of all ways, as the threads of a transfer use them; and the data that is sent: bytes
//! that differ at all positions, generated from a short row of them, so that data of any size takes
//! little memory.

use crate::baseline::raw_writer::RawWriter;
use crate::baseline::single_buffer::{HEADER_BYTES, PackageHeader, SingleBuffer};
use crate::harness::prelude::*;
use rackweave_endpoint::messaging::{Arrived, Receiver, Sender};
use std::sync::Arc;

/// The sending end of a thread.
pub trait Outlet: Send {
    /// Begins a transfer of `_bytes` bytes.
    fn begin(&mut self, _bytes: u64) -> Result<(), String> {
        Ok(())
    }

    /// Posts the package that is `filled`, if there is one, and checks the progress of preceding
    /// ones. True if there was any.
    fn act(&mut self, now: Instant, verbs: &mut dyn Verbs, filled: bool) -> Result<bool, String>;

    /// Maximum bytes of data in the next package; 0 if no buffer part is free.
    fn free(&mut self) -> usize;

    /// Fills a package with the bytes `at` of `data`; `is_last` if they are the thread's last.
    fn fill(&mut self, data: &Data, at: Range<u64>, is_last: bool);

    /// Whether every WRITE has ended.
    fn is_written(&self) -> bool;

    /// Whether the other end, if there is one, has also done its part.
    fn is_over(&self) -> bool {
        self.is_written()
    }

    /// Whether the receive buffers hold the last of the part of `_data` that was just sent. Data
    /// that is consumed is compared then.
    fn holds(&self, _data: &Data, _part: &Range<u64>) -> bool {
        true
    }
}

/// The receiving end of a thread.
pub trait Inlet: Send {
    /// Appends the bytes of the next package to `target`, if one has arrived. Returns their offset
    /// in the received data, and its total bytes.
    fn take(
        &mut self,
        verbs: &mut dyn Verbs,
        target: &mut Vec<u8>,
    ) -> Result<Option<(u64, u64)>, String>;

    /// Returns the buffer of the package taken last.
    fn release(&mut self, now: Instant, verbs: &mut dyn Verbs) -> Result<(), String>;

    /// Whether the sender is being notified of all returned buffers.
    fn settle(&mut self, now: Instant, verbs: &mut dyn Verbs) -> Result<bool, String>;
}

fn text(error: impl core::fmt::Display) -> String {
    error.to_string()
}

/// The header of a package with the bytes `at` of `data`.
fn header(data: &Data, at: &Range<u64>) -> PackageHeader {
    PackageHeader {
        code: 1,
        length: at.end - at.start,
        total: data.bytes,
        offset: at.start,
    }
}

/// The bytes `at` of `data`, as consecutive pieces.
fn pieces<'a>(data: &'a Data, at: &Range<u64>) -> impl Iterator<Item = &'a [u8]> + use<'a> {
    data.pieces(at.start, (at.end - at.start) as usize)
}

impl Outlet for RawWriter {
    fn act(&mut self, _: Instant, verbs: &mut dyn Verbs, filled: bool) -> Result<bool, String> {
        let news = self.poll(verbs)?;
        if filled {
            self.post(verbs)?;
        }
        Ok(news)
    }

    fn free(&mut self) -> usize {
        let payload = self.payload_max();
        if self.has_space() { payload } else { 0 }
    }

    fn fill(&mut self, data: &Data, at: Range<u64>, _is_last: bool) {
        RawWriter::fill(self, header(data, &at), pieces(data, &at));
    }

    fn is_written(&self) -> bool {
        self.is_idle()
    }

    fn holds(&self, data: &Data, part: &Range<u64>) -> bool {
        let payload = self.payload_max() as u64;
        let packages = (part.end - part.start).div_ceil(payload);
        let first = self.filling - packages;
        let mut bytes = Vec::new();
        (packages.saturating_sub(self.own.1)..packages).all(|package| {
            let offset = part.start + package * payload;
            let len = payload.min(part.end - offset);
            bytes.resize(len as usize, 0);
            let buffer = self.buffer_of(first + package);
            let at = self.target.offset(buffer) as usize + HEADER_BYTES;
            self.target.region.block.read(at, &mut bytes);
            data.is(offset, &bytes)
        })
    }
}

impl Outlet for SingleBuffer {
    fn act(&mut self, _: Instant, verbs: &mut dyn Verbs, filled: bool) -> Result<bool, String> {
        match filled {
            true => self.post(verbs).map(|()| false).map_err(text),
            false => self.poll(verbs).map_err(text),
        }
    }

    fn free(&mut self) -> usize {
        let payload = self.payload_max();
        if self.is_free() { payload } else { 0 }
    }

    fn fill(&mut self, data: &Data, at: Range<u64>, _is_last: bool) {
        SingleBuffer::fill(self, header(data, &at), pieces(data, &at));
    }

    fn is_written(&self) -> bool {
        self.is_settled()
    }

    fn is_over(&self) -> bool {
        self.is_free()
    }
}

impl Outlet for Sender {
    fn begin(&mut self, bytes: u64) -> Result<(), String> {
        Sender::begin(self, 1, bytes).map_err(text)
    }

    fn act(&mut self, now: Instant, verbs: &mut dyn Verbs, _: bool) -> Result<bool, String> {
        self.poll(now, verbs).map_err(text)
    }

    fn free(&mut self) -> usize {
        self.space().len()
    }

    fn fill(&mut self, data: &Data, at: Range<u64>, is_last: bool) {
        let mut space = self.space();
        let mut filled = 0;
        for piece in pieces(data, &at) {
            space.write(filled, piece);
            filled += piece.len();
        }
        self.commit(filled);
        if is_last {
            self.flush();
        }
    }

    fn is_written(&self) -> bool {
        self.is_delivered()
    }

    fn is_over(&self) -> bool {
        self.is_consumed()
    }
}

impl Inlet for SingleBuffer {
    fn take(
        &mut self,
        verbs: &mut dyn Verbs,
        target: &mut Vec<u8>,
    ) -> Result<Option<(u64, u64)>, String> {
        self.poll(verbs).map_err(text)?;
        let Some(header) = self.look().map_err(text)? else {
            return Ok(None);
        };
        self.append_to(target);
        Ok(Some((header.offset, header.total)))
    }

    fn release(&mut self, _now: Instant, verbs: &mut dyn Verbs) -> Result<(), String> {
        SingleBuffer::release(self, verbs).map_err(text)
    }

    fn settle(&mut self, _now: Instant, verbs: &mut dyn Verbs) -> Result<bool, String> {
        self.poll(verbs).map_err(text)?;
        Ok(self.is_free())
    }
}

impl Inlet for Receiver {
    fn take(
        &mut self,
        _verbs: &mut dyn Verbs,
        target: &mut Vec<u8>,
    ) -> Result<Option<(u64, u64)>, String> {
        let Arrived::Piece(piece) = self.peek().map_err(text)? else {
            return Ok(None);
        };
        piece.bytes.append_to(target);
        Ok(Some((piece.offset, piece.total)))
    }

    fn release(&mut self, now: Instant, verbs: &mut dyn Verbs) -> Result<(), String> {
        Receiver::release(self);
        self.settle(now, verbs).map(|_| ())
    }

    fn settle(&mut self, now: Instant, verbs: &mut dyn Verbs) -> Result<bool, String> {
        self.poll(now, verbs).map_err(text)?;
        Ok(!self.owes())
    }
}

/// Bytes of the row. Not a multiple of any buffer's size, so that packages differ.
const ROW: usize = (1 << 20) + 8 * 1031;

/// Data whose byte `i` is byte `i + shift` of the row, which repeats.
#[derive(Clone, Debug)]
pub struct Data {
    row: Arc<[u8]>,
    shift: usize,
    pub bytes: u64,
}

impl Data {
    /// Empty data, with the row for later data.
    pub fn none(seed: u64) -> Self {
        let mut rng = Rng::new(seed).fork("data");
        let words = (0..ROW / 8).flat_map(|_| rng.next_u64().to_le_bytes());
        Self {
            row: words.collect(),
            shift: 0,
            bytes: 0,
        }
    }

    /// The `number`-th data of a series, of `bytes` bytes. Another number changes the byte at every
    /// position.
    pub fn series(&self, number: usize, bytes: u64) -> Self {
        Self {
            row: self.row.clone(),
            shift: number * 8 * 127 % ROW,
            bytes,
        }
    }

    /// Exactly these bytes.
    pub fn whole(bytes: &[u8]) -> Self {
        Self {
            row: bytes.into(),
            shift: 0,
            bytes: bytes.len() as u64,
        }
    }

    /// Part of the data, as consecutive pieces.
    ///
    /// # Panics
    /// If it extends beyond the data.
    pub fn pieces(&self, offset: u64, len: usize) -> impl Iterator<Item = &[u8]> {
        assert!(offset + len as u64 <= self.bytes, "beyond the data");
        let row = self.row.len().max(1);
        let mut at = ((offset + self.shift as u64) % row as u64) as usize;
        let mut left = len;
        core::iter::from_fn(move || {
            let piece = &self.row[at..row.min(at + left)];
            left -= piece.len();
            at = 0;
            (!piece.is_empty()).then_some(piece)
        })
    }

    /// Whether `bytes` equals the data from `offset` on.
    pub fn is(&self, offset: u64, bytes: &[u8]) -> bool {
        if offset + bytes.len() as u64 > self.bytes {
            return false;
        }
        let mut at = 0;
        self.pieces(offset, bytes.len()).all(|piece| {
            let begin = at;
            at += piece.len();
            bytes[begin..at] == *piece
        })
    }
}

#[cfg(test)]
mod tests;
