//! The end of a movement: what it means for the directory, and the completion for the node.

use super::registers::{KEEP, MOVES_AT, WAITING, WORD_BUSY, operation};
use super::request::command;
use super::{End, PagePass, PageTask, Pages, sources};
use rackweave_base::Psn;
use rackweave_base::canary::{Canary, planted};
use rackweave_switch::transfer::EngineTask;
use rackweave_wire::fabric::page::{
    LatchWord, Operation, Outcome, PageId, Place, Source, request::FRAMES_MAX,
};

impl Pages {
    /// The engine has moved a page out of a node's memory.
    pub(super) fn transfer_done(
        &mut self,
        pass: &mut PagePass<'_>,
        slot: u16,
        (node, bit): (u16, u8),
    ) {
        self.release_source(pass, node, bit);
        let end = End::new(Outcome::Done, Source::Memory);
        pass.recirculate(PageTask::Complete { slot, end });
    }

    fn release_source(&mut self, pass: &mut PagePass<'_>, node: u16, bit: u8) {
        let sources = &mut self.registers.sources;
        sources.update(&mut pass.cursor, usize::from(node), |cell| {
            sources::release(cell, bit);
        });
    }

    /// The buffer frame holds another page, or none: its node has dropped the page, which must
    /// then be at home.
    pub(super) fn transfer_refused(
        &mut self,
        pass: &mut PagePass<'_>,
        slot: u16,
        (node, bit): (u16, u8),
    ) {
        let s = usize::from(slot);
        let (registers, cursor) = (&mut self.registers, &mut pass.cursor);
        let page = PageId::from_number(registers.page.read(cursor, s)).unwrap_or_default();
        let kind = registers.frame.read(cursor, s);
        let operation = operation(kind);
        let is_explicit = operation == Some(Operation::ReadFrame);
        let entry = self.index.lookup(page).filter(|_| !is_explicit);
        let place = entry.map(|entry| {
            registers.place.update(cursor, entry, |place| {
                let before = Place(*place);
                *place = before.dropped_by(node).0;
                before
            })
        });
        self.counters.dropped_meanwhile += 1;
        self.release_source(pass, node, bit);
        let complete = |outcome| PageTask::Complete {
            slot,
            end: End::new(outcome, Source::Memory),
        };
        let elsewhere = |place: Place| place.is_dirty() || place.is_lost();
        pass.recirculate(match place {
            None if is_explicit => complete(Outcome::WrongHeader),
            None => complete(Outcome::NotIndexed),
            // It has been changed meanwhile, or is lost: the node shall ask again.
            Some(place) if elsewhere(place) => complete(Outcome::SourceGone),
            Some(_) => PageTask::Command {
                slot,
                store: page.store(),
            },
        });
    }

    /// A slot's movement has ended.
    pub(super) fn complete(&mut self, pass: &mut PagePass<'_>, slot: u16, end: End) {
        let s = usize::from(slot);
        let Some(&lanes) = self.slots.lookup(s) else {
            return;
        };
        let (registers, cursor) = (&mut self.registers, &mut pass.cursor);
        let waits = registers.phase.update(cursor, s, |phase| {
            let is_busy = *phase & WORD_BUSY != 0;
            *phase |= if is_busy { WAITING } else { WORD_BUSY };
            is_busy
        });
        let page = PageId::from_number(registers.page.read(cursor, s)).unwrap_or_default();
        let kind = registers.frame.read(cursor, s);
        let psn = Psn::new(registers.command.read(cursor, s));
        if waits {
            // The node has the last completion already, or this slot would not be in use again;
            // only its acknowledgement was lost.
            registers.outcome.write(cursor, s, end.0);
            return;
        }
        let frame = kind & (FRAMES_MAX - 1);
        let keep = kind & KEEP != 0;
        let operation = operation(kind);
        let indexed = operation.is_some_and(Operation::needs_entry);
        let entry = self.index.lookup(page).filter(|_| indexed);
        let mut end = end;
        let latch = match entry {
            None if indexed => {
                end = end.with_outcome(Outcome::NotIndexed);
                LatchWord::default()
            }
            None => LatchWord::default(),
            Some(entry) => {
                let now = registers
                    .latch
                    .update(cursor, entry, |latch| LatchWord(*latch));
                let then = LatchWord(registers.since.read(cursor, s));
                let moves = registers.place.update(cursor, entry, |place| {
                    let before = Place(*place);
                    let after = match operation {
                        Some(Operation::Evict) => {
                            before.written(lanes.node, frame, end.is_done(), keep)
                        }
                        _ if end.is_done()
                            && end.is_storage()
                            && now.version() == then.version() =>
                        {
                            before.read(lanes.node, frame)
                        }
                        _ => before,
                    };
                    *place = after.0;
                    before.moves()
                });
                // The buffer frame that was read may have been dropped and filled again meanwhile.
                let asked_at = registers.result.read(cursor, s) >> MOVES_AT;
                if !end.is_storage() && end.is_done() && asked_at != moves {
                    end = end.with_outcome(Outcome::SourceGone);
                }
                if planted(Canary::PagesStaleCompletion) {
                    then
                } else {
                    now
                }
            }
        };
        let first = u64::from(end.0) | u64::from(command(psn)) << 32;
        pass.recirculate(EngineTask::WriteWords {
            lane: lanes.word,
            first: first.to_le_bytes(),
            second: Some(latch.0.to_le_bytes()),
            cookie: u32::from(slot),
        });
    }

    /// A completion is in the node's memory.
    pub(super) fn completion_written(&mut self, pass: &mut PagePass<'_>, slot: u16) {
        let s = usize::from(slot);
        let (registers, cursor) = (&mut self.registers, &mut pass.cursor);
        let waits = registers.phase.update(cursor, s, |phase| {
            core::mem::replace(phase, 0) & WAITING != 0
        });
        if waits {
            let end = End(registers.outcome.read(cursor, s));
            pass.recirculate(PageTask::Complete { slot, end });
        }
    }
}
