//! Recovery: batches that were in flight when the power failed are written home before anything is
//! accepted.
//!
//! Both halves of the area are read. A half whose header and data match their checksums has a
//! complete batch; its commands are written home, one after the other, the older batch first. A
//! half without a complete batch gets the header of an empty batch, so that its content is never
//! taken for a batch later. A flush follows. A power cut during recovery changes neither half's
//! batch, so recovery starts again with the same.
//!
//! If the target's process died rather than the power, the content read from the area may be in the
//! drive's cache only. So a flush precedes the writes to homes, too.
//!
//! The next batch uses the half that does not have the newest batch; otherwise, after another power
//! cut, the older batch would be written home over the newest.

use super::area::{DoubleWriteArea, Header};
use super::batch::flush;
use super::{Bug, DoubleWrite, State, Work};
use crate::backend::{Backend, Io, IoError, IoKind, RegionRange};
use rackweave_base::canary::{Canary, planted};
use rackweave_base::checksum::checksum;
use rackweave_base::{Block, Memory};
use std::collections::VecDeque;

/// Recovery in progress: one request after the other.
#[derive(Debug)]
pub(super) struct Recovery {
    /// The content of the halves.
    halves: [Block; 2],
    steps: VecDeque<Io>,
    /// Whether a request is in flight.
    running: bool,
    /// Whether the halves have been examined.
    planned: bool,
    error: Option<IoError>,
}

impl Recovery {
    pub(super) fn new(area: &DoubleWriteArea) -> Self {
        let bytes = area.half_bytes();
        let memory = Memory::new(2 * bytes.next_multiple_of(4096));
        let half = || {
            memory
                .allocate(bytes)
                .expect("the arena has space for both")
        };
        let halves = [half(), half()];
        let read = |half: usize| Io {
            tag: 0,
            kind: IoKind::Read,
            block: area.header_block(half),
            blocks: area.half_blocks,
            buffer: Some(RegionRange {
                block: halves[half].clone(),
                offset: 0,
            }),
        };
        Self {
            steps: VecDeque::from([read(0), read(1)]),
            halves,
            running: false,
            planned: false,
            error: None,
        }
    }

    pub(super) fn landed(&mut self, result: Result<(), IoError>) {
        self.running = false;
        self.error = self.error.or(result.err());
    }

    /// Whether it can continue at once.
    pub(super) fn is_due(&self) -> bool {
        !self.running
    }
}

impl<B: Backend> DoubleWrite<B> {
    /// Takes the next step of recovery if the previous one has completed.
    pub(super) fn recover(&mut self) {
        let State::Recovering(recovery) = &mut self.state else {
            return;
        };
        if recovery.running {
            return;
        }
        if recovery.error.is_some() {
            self.state = State::Lost(self.now);
            return;
        }
        if let Some(io) = recovery.steps.pop_front() {
            recovery.running = true;
            self.send(Work::Recover, io);
            return;
        }
        if recovery.planned {
            self.state = State::Open;
            return;
        }
        recovery.planned = true;
        let halves = recovery.halves.clone();
        let steps = self.plan(&halves);
        if let State::Recovering(recovery) = &mut self.state {
            recovery.steps = steps;
        }
        self.recover();
    }

    /// The requests that the halves require, in order.
    fn plan(&mut self, halves: &[Block; 2]) -> VecDeque<Io> {
        let mut steps = VecDeque::new();
        let mut complete = Vec::new();
        for (half, block) in halves.iter().enumerate() {
            let bytes = block.bytes(0, self.area.half_bytes()).to_vec();
            let header = self.area.parse(&bytes[..self.area.block_size as usize]);
            // An incomplete batch has used its number, too.
            let sequence = header.as_ref().map_or(0, |header| header.sequence);
            self.sequence = self.sequence.max(sequence + 1);
            let whole = |header: &Header| {
                self.has(Bug::NoChecksum) || is_complete(&self.area, header, &bytes)
            };
            match header.filter(whole) {
                Some(header) => complete.push((header, half)),
                None => {
                    let empty = self.area.emit(&Header::default());
                    steps.push_back(self.header_write(half, &empty));
                }
            }
        }
        complete.sort_by_key(|(header, _)| header.sequence);
        if let Some((_, newest)) = complete.last() {
            self.half = match self.has(Bug::NewestReplaced) {
                true => *newest,
                false => 1 - newest,
            };
        }
        if self.has(Bug::NewestFirst) {
            complete.reverse();
        }
        if planted(Canary::PagesNoRecovery) {
            complete.clear();
        }
        if !complete.is_empty() && !self.has(Bug::UnflushedCopies) {
            steps.push_back(flush());
        }
        for (header, half) in complete {
            steps.extend(homes(&self.area, &header, &halves[half]));
        }
        steps.push_back(flush());
        steps
    }
}

/// Whether a half has all the data that its header lists.
fn is_complete(area: &DoubleWriteArea, header: &Header, half: &[u8]) -> bool {
    let size = area.block_size as usize;
    let mut data = &half[size..];
    header.entries.iter().all(|entry| {
        let Some(sum) = entry.data else {
            return true;
        };
        let (own, rest) = data.split_at(entry.blocks as usize * size);
        data = rest;
        checksum(header.sequence, own) == sum
    })
}

/// The writes that apply a complete batch to its homes.
fn homes(area: &DoubleWriteArea, header: &Header, half: &Block) -> Vec<Io> {
    let mut offset = area.block_size as usize;
    let entries = header.entries.iter();
    let home = |entry: &super::area::Entry| {
        let mut io = Io {
            tag: 0,
            kind: IoKind::WriteZeroes,
            block: entry.home,
            blocks: entry.blocks,
            buffer: None,
        };
        if entry.data.is_some() {
            io.kind = IoKind::Write;
            io.buffer = Some(RegionRange {
                block: half.clone(),
                offset,
            });
            offset += entry.blocks as usize * area.block_size as usize;
        }
        io
    };
    entries.map(home).collect()
}
