//! Data movement of the fake rack, in pieces.

use super::{Event, Model, PAGE};
use rackweave_wire::fabric::page::{Completion, LatchWord, Outcome, PageId, PageSource};

const PIECES: usize = 4;

/// Why data is moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Fix { exclusive: bool },
    ReadHome,
    ReadFrame,
    Evict { keep: bool },
    WriteHome,
    Flush,
}

impl Kind {
    fn writes(self) -> bool {
        matches!(self, Kind::Evict { .. } | Kind::WriteHome)
    }
}

/// A page in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transfer {
    pub node: u16,
    pub slot: u8,
    pub command: u32,
    pub page: PageId,
    pub frame: u32,
    pub kind: Kind,
    /// A node's buffer frame, or home.
    pub source: Option<(u16, u32)>,
    /// The epoch of the source's node when it began.
    pub epoch: usize,
    /// The latch word when it began.
    pub asked: LatchWord,
    pub piece: usize,
}

impl Model {
    /// Counts a transfer out of a node's buffer frame.
    pub(super) fn take_off(&mut self, transfer: &mut Transfer) {
        if let Some((node, _)) = transfer.source {
            let node = &mut self.nodes[node as usize];
            transfer.epoch = node.epoch;
            node.flying[node.epoch] += 1;
        }
    }

    fn land(&mut self, transfer: &Transfer) {
        if let Some((node, _)) = transfer.source {
            self.nodes[node as usize].flying[transfer.epoch] -= 1;
        }
    }

    /// Moves a piece.
    pub(super) fn piece(&mut self, mut transfer: Transfer) {
        if transfer.kind == Kind::Flush {
            self.flushes += 1;
            return self.finish(transfer, Outcome::Done);
        }
        if transfer.piece == 0 && !transfer.kind.writes() && self.is_wrong(&transfer) {
            return self.wrong_header(transfer);
        }
        if self.rng.chance(self.faults.source_gone) {
            let outcome = match transfer.source {
                Some(_) => Outcome::SourceGone,
                None => Outcome::StorageGone,
            };
            return self.finish(transfer, outcome);
        }
        let len = PAGE / PIECES;
        let within = transfer.piece * len;
        let home = transfer.page.index() as usize * PAGE + within;
        let mut bytes = vec![0; len];
        match transfer.source {
            Some((node, frame)) => self.nodes[node as usize]
                .frames
                .read(frame as usize * PAGE + within, &mut bytes),
            None => bytes.copy_from_slice(&self.ssd[home..home + len]),
        }
        if transfer.kind.writes() {
            self.ssd[home..home + len].copy_from_slice(&bytes);
        } else {
            let at = transfer.frame as usize * PAGE + within;
            self.nodes[transfer.node as usize].frames.write(at, &bytes);
        }
        transfer.piece += 1;
        if transfer.piece == PIECES {
            return self.finish(transfer, Outcome::Done);
        }
        let at = self.now + self.rng.between(50, 3_000);
        self.push(at, Event::Piece(transfer));
    }

    fn is_wrong(&mut self, transfer: &Transfer) -> bool {
        let Some((node, frame)) = transfer.source else {
            return false;
        };
        let mut header = [0; 8];
        let frames = &self.nodes[node as usize].frames;
        frames.read(frame as usize * PAGE, &mut header);
        if u64::from_le_bytes(header) != transfer.page.tag() {
            return true;
        }
        let entry = self.entries.get(&transfer.page.number());
        let clean = entry.is_none_or(|entry| !entry.place.is_dirty());
        clean && transfer.kind == Kind::ReadFrame && self.rng.chance(self.faults.wrong_header)
    }

    /// The page is not where it was expected.
    fn wrong_header(&mut self, mut transfer: Transfer) {
        if transfer.kind == Kind::ReadFrame {
            return self.finish(transfer, Outcome::WrongHeader);
        }
        self.land(&transfer);
        let (node, frame) = transfer.source.unwrap();
        let number = transfer.page.number();
        if let Some(entry) = self.entries.get_mut(&number) {
            entry.place = entry.place.dropped(node, frame);
            transfer.source = entry.place.cached();
        } else {
            transfer.source = None;
        }
        self.take_off(&mut transfer);
        let at = self.now + self.rng.between(500, 5_000);
        self.push(at, Event::Piece(transfer));
    }

    /// Ends the transfer: updates the entry, then notifies the requester.
    fn finish(&mut self, transfer: Transfer, outcome: Outcome) {
        self.land(&transfer);
        let Transfer { node, frame, .. } = transfer;
        let mut completion = Completion {
            outcome,
            source: match transfer.source {
                Some(_) if !transfer.kind.writes() => PageSource::Memory,
                _ => PageSource::Storage,
            },
            nvme_status: 0,
            command: transfer.command,
            latch: LatchWord(0),
        };
        let indexed = matches!(transfer.kind, Kind::Fix { .. } | Kind::Evict { .. });
        match self.entries.get_mut(&transfer.page.number()) {
            _ if !indexed => {}
            None => completion.outcome = Outcome::NotIndexed,
            Some(entry) => {
                let done = outcome == Outcome::Done;
                if let Kind::Evict { keep } = transfer.kind {
                    entry.place = entry.place.written(node, frame, done, keep);
                } else if done && transfer.source.is_none() && entry.latch == transfer.asked {
                    entry.place = entry.place.read(node, frame);
                }
                completion.latch = entry.latch;
            }
        }
        let at = self.now + self.rng.between(200, 4_000);
        let words = completion.words();
        let slot = transfer.slot;
        self.push(at, Event::Ended { node, slot, words });
    }
}
