//! The steps of a batch: copy to the area, flush, write home.

use super::area::{Entry, Header};
use super::{Bug, DoubleWrite, State, Work};
use crate::backend::{Backend, Io, IoDone, IoError, IoKind, RegionRange};
use rackweave_base::checksum::checksum_shared;

/// Commands that share a half of the area and a flush.
#[derive(Debug)]
pub(super) struct Batch {
    sequence: u64,
    commands: Vec<Io>,
    /// Requests of its step that the inner backend has not completed.
    left: usize,
    /// The first error of its step.
    error: Option<IoError>,
    /// Whether its copy is written.
    flushing: bool,
}

impl Batch {
    /// Handles the completion of a request of steps 1 and 2.
    pub(super) fn landed(&mut self, result: Result<(), IoError>) {
        self.left -= 1;
        self.error = self.error.or(result.err());
    }
}

/// The checksum of the data of a write.
fn sum(sequence: u64, place: &RegionRange, len: usize) -> u64 {
    checksum_shared(sequence, place.block.bytes(place.offset, len))
}

fn overlap(a: &Io, b: &Io) -> bool {
    a.block < b.block + u64::from(b.blocks) && b.block < a.block + u64::from(a.blocks)
}

impl<B: Backend> DoubleWrite<B> {
    /// Takes all possible steps of batches.
    pub(super) fn advance_batches(&mut self) {
        let at_rest = |batch: &mut Batch| batch.left == 0;
        if let Some(mut batch) = self.copying.take_if(at_rest) {
            match batch.error {
                Some(error) => {
                    if batch.flushing {
                        self.state = State::Failed;
                    }
                    self.fail(batch.commands, error);
                    // No batch can replace their copies.
                    self.report_failed(u64::MAX);
                }
                None => {
                    let flushed = batch.flushing || self.has(Bug::NoFlush);
                    let homes_written = self.homing.is_none();
                    if flushed && homes_written {
                        // The batch before the last is no longer in the area.
                        self.report_failed(batch.sequence - 1);
                        self.go_home(batch);
                    } else {
                        if !flushed && (homes_written || self.has(Bug::EarlyFlush)) {
                            batch.flushing = true;
                            batch.left = 1;
                            self.send(Work::Flush, flush());
                        }
                        self.copying = Some(batch);
                    }
                }
            }
        }
        if matches!(self.state, State::Failed) {
            let waiting = self.waiting.drain(..).collect();
            self.fail(waiting, IoError::MediaError);
        } else if self.copying.is_none() && self.wants_batch() {
            self.begin();
        }
    }

    /// Whether a batch is needed. Failed writes usually need two: the halves are used alternately.
    pub(super) fn wants_batch(&self) -> bool {
        !self.waiting.is_empty() || self.homing.is_none() && !self.failed.is_empty()
    }

    /// Reports failed writes of batches before this one.
    fn report_failed(&mut self, sequence: u64) {
        let ended = &mut self.ended;
        self.failed.retain(|(of, done)| {
            let is_due = *of < sequence;
            ended.extend(is_due.then_some(*done));
            !is_due
        });
    }

    fn fail(&mut self, commands: Vec<Io>, error: IoError) {
        for io in commands {
            self.end(io.tag, Err(error));
        }
    }

    /// Makes a batch of as many waiting writes as fit, and copies it to the area.
    fn begin(&mut self) {
        let mut header = Header {
            sequence: self.sequence,
            entries: Vec::new(),
        };
        let mut commands: Vec<Io> = Vec::new();
        let mut copies = Vec::new();
        let first = self.area.header_block(self.half) + 1;
        let mut used = 0;
        while let Some(io) = self.waiting.front() {
            let place = io.buffer.as_ref().filter(|_| io.kind == IoKind::Write);
            let blocks = place.map_or(0, |_| io.blocks);
            if header.entries.len() == self.area.commands_max()
                || used + blocks > self.area.data_blocks()
                || commands.iter().any(|other| overlap(io, other))
            {
                break;
            }
            let len = io.blocks as usize * self.area.block_size as usize;
            header.entries.push(Entry {
                home: io.block,
                blocks: io.blocks,
                data: place.map(|place| sum(self.sequence, place, len)),
            });
            if let Some(place) = place {
                copies.push(Io {
                    tag: 0,
                    kind: IoKind::Write,
                    block: first + u64::from(used),
                    blocks,
                    buffer: Some(place.clone()),
                });
            }
            used += blocks;
            commands.extend(self.waiting.pop_front());
        }
        let bytes = self.area.emit(&header);
        copies.push(self.header_write(self.half, &bytes));
        self.copying = Some(Batch {
            sequence: self.sequence,
            commands,
            left: copies.len(),
            error: None,
            flushing: false,
        });
        self.sequence += 1;
        for copy in copies {
            self.send(Work::Copy, copy);
        }
    }

    /// A write of the header of a half. No other one is in flight.
    pub(super) fn header_write(&self, half: usize, bytes: &[u8]) -> Io {
        let header = &self.headers[half];
        header.write(0, bytes);
        Io {
            tag: 0,
            kind: IoKind::Write,
            block: self.area.header_block(half),
            blocks: 1,
            buffer: Some(RegionRange {
                block: header.clone(),
                offset: 0,
            }),
        }
    }

    /// Writes the homes of a batch whose copy is durable.
    fn go_home(&mut self, mut batch: Batch) {
        debug_assert!(self.homing.is_none());
        if !self.has(Bug::OneHalf) {
            self.half = 1 - self.half;
        }
        batch.left = batch.commands.len();
        if batch.left == 0 {
            return;
        }
        let homes = batch.commands.clone();
        self.homing = Some(batch);
        for (at, io) in (0..).zip(homes) {
            self.send(Work::Home(at), io);
        }
    }

    /// Handles the completion of a command's home write.
    pub(super) fn landed_home(&mut self, at: usize, result: Result<(), IoError>) {
        let batch = self.homing.as_mut().expect("it was sent for one");
        batch.left -= 1;
        let (tag, sequence, left) = (batch.commands[at].tag, batch.sequence, batch.left);
        if left == 0 {
            self.homing = None;
        }
        match result.is_err() && !self.has(Bug::KeptCopy) {
            true => self.failed.push((sequence, IoDone { tag, result })),
            false => self.end(tag, result),
        }
    }
}

pub(super) fn flush() -> Io {
    Io {
        tag: 0,
        kind: IoKind::Flush,
        block: 0,
        blocks: 0,
        buffer: None,
    }
}
