//! The end of a movement: its effect on the directory, and the completion for the node.

use super::registers::{BUSY, KEEP, MOVES_AT, WAITING, WORD_BUSY, operation};
use super::request::command;
use super::{Digests, End, PageTask, Pages, SecondPlace, SlotEntry, Tasks, sources};
use rackweave_base::Psn;
use rackweave_base::canary::{Canary, planted};
use rackweave_switch::Pass;
use rackweave_switch::transfer::EngineTask;
use rackweave_wire::fabric::page::{
    LatchWord, Operation, Outcome, PageLocation, PageSource, request::FRAMES_MAX,
};

/// The movement that has ended.
struct Ended {
    /// The requested operation; `None` if it does not move data.
    operation: Option<Operation>,
    /// The requesting node.
    node: u16,
    /// The buffer frame at that node.
    frame: u32,
    /// Whether the node keeps the written page.
    keep: bool,
}

/// Whether a completion can be written.
enum Turn {
    Now,
    /// The previous completion is not confirmed.
    Waits,
    /// The slot's movement has ended already.
    Over,
}

/// The WRITE that reports the end of a movement to a slot's node.
fn completion(
    lanes: &SlotEntry,
    slot: u16,
    (end, psn): (End, Psn),
    latch: LatchWord,
) -> EngineTask {
    let first = u64::from(end.0) | u64::from(command(psn)) << 32;
    EngineTask::WriteWords {
        lane: lanes.word,
        first: first.to_le_bytes(),
        second: Some(latch.0.to_le_bytes()),
        cookie: u32::from(slot),
    }
}

impl Pages {
    /// Handles a page transfer from a node's memory that is done.
    pub(super) fn transfer_done<T: Tasks, D: Digests>(
        &mut self,
        pass: &mut Pass<'_, T, D>,
        slot: u16,
        (node, bit): (u16, u8),
    ) {
        self.release_source(pass, node, bit);
        let end = End::new(Outcome::Done, PageSource::Memory);
        pass.recirculate(PageTask::Complete { slot, end });
    }

    fn release_source<T: Tasks, D: Digests>(
        &mut self,
        pass: &mut Pass<'_, T, D>,
        node: u16,
        bit: u8,
    ) {
        let sources = &mut self.registers.sources;
        sources.update(&mut pass.cursor, usize::from(node), |cell| {
            sources::release(cell, bit);
        });
    }

    /// The buffer frame holds another page, or none: its node has dropped the page, which must then
    /// be at its other place, or at home.
    pub(super) fn transfer_refused<T: Tasks, D: Digests>(
        &mut self,
        pass: &mut Pass<'_, T, D>,
        slot: u16,
        (node, bit): (u16, u8),
    ) {
        let s = usize::from(slot);
        let (registers, cursor) = (&mut self.registers, &mut pass.cursor);
        let page = registers.page_of(cursor, s);
        let kind = registers.frame.read(cursor, s);
        let operation = operation(kind);
        let is_explicit = operation == Some(Operation::ReadFrame);
        let entry = self.index.lookup(page).filter(|_| !is_explicit);
        let places = entry.map(|entry| {
            let (second, was_second) = registers.second.update(cursor, entry, |cell| {
                let (second, was_second) = SecondPlace(*cell).without(node);
                *cell = second.0;
                (second, was_second)
            });
            let place = registers.place.update(cursor, entry, |place| {
                let after = PageLocation(*place).dropped_by(node);
                let after = if was_second { after.counted() } else { after };
                *place = after.0;
                after
            });
            registers.result.update(cursor, s, |result| {
                *result = *result & ((1 << MOVES_AT) - 1) | place.moves() << MOVES_AT;
            });
            (place, second)
        });
        self.counters.dropped_meanwhile += 1;
        self.release_source(pass, node, bit);
        let complete = |outcome| PageTask::Complete {
            slot,
            end: End::new(outcome, PageSource::Memory),
        };
        pass.recirculate(match places {
            None if is_explicit => complete(Outcome::WrongHeader),
            None => complete(Outcome::NotIndexed),
            Some(places) => self.elsewhere((slot, node), page, places),
        });
    }

    /// Ends a slot's movement.
    pub(super) fn complete<T: Tasks, D: Digests>(
        &mut self,
        pass: &mut Pass<'_, T, D>,
        slot: u16,
        end: End,
    ) {
        let s = usize::from(slot);
        let Some(&lanes) = self.slots.lookup(s) else {
            return;
        };
        let (registers, cursor) = (&mut self.registers, &mut pass.cursor);
        let turn = registers.phase.update(cursor, s, |phase| {
            if *phase & BUSY == 0 {
                return Turn::Over;
            }
            if *phase & WORD_BUSY != 0 {
                *phase |= WAITING;
                return Turn::Waits;
            }
            *phase = *phase & !BUSY | WORD_BUSY;
            Turn::Now
        });
        let page = registers.page_of(cursor, s);
        let kind = registers.frame.read(cursor, s);
        let psn = Psn::new(registers.command.read(cursor, s));
        match turn {
            // The movement was ended twice, once by the controller.
            Turn::Over => return,
            // The node already has the last completion, otherwise this slot would not be in use
            // again; only its acknowledgement was lost.
            Turn::Waits => {
                registers.outcome.write(cursor, s, end.0);
                return;
            }
            Turn::Now => {}
        }
        let frame = kind & (FRAMES_MAX - 1);
        let keep = kind & KEEP != 0;
        let operation = operation(kind);
        let indexed = operation.is_some_and(Operation::needs_entry);
        let entry = self.index.lookup(page).filter(|_| indexed);
        let mut end = match entry {
            None if indexed => end.with_outcome(Outcome::NotIndexed),
            _ => end,
        };
        let latch = match entry {
            None => {
                registers.outcome.write(cursor, s, end.0);
                LatchWord::default()
            }
            Some(entry) => {
                let ended = Ended {
                    operation,
                    node: lanes.node,
                    frame,
                    keep,
                };
                self.complete_indexed(pass, (s, entry), &ended, &mut end)
            }
        };
        pass.recirculate(completion(&lanes, slot, (end, psn), latch));
    }

    /// Ends the movement of a page with an entry in the directory. Returns the latch.
    fn complete_indexed<T: Tasks, D: Digests>(
        &mut self,
        pass: &mut Pass<'_, T, D>,
        (s, entry): (usize, usize),
        ended: &Ended,
        end: &mut End,
    ) -> LatchWord {
        let (registers, cursor) = (&mut self.registers, &mut pass.cursor);
        // Whether data from memory is valid is known only in the last stage. If this completion is
        // repeated, it reports that the source is gone, and the node retries.
        let moves_nothing = ended.operation == Some(Operation::Revoke);
        let is_checked = !end.is_storage() && end.is_done() && !moves_nothing;
        let repeated = match is_checked {
            true => end.with_outcome(Outcome::SourceGone),
            false => *end,
        };
        let now = registers
            .latch
            .update(cursor, entry, |latch| LatchWord(*latch));
        let then = LatchWord(registers.since.read(cursor, s));
        let (node, frame) = (ended.node, ended.frame);
        let before = registers.place.update(cursor, entry, |place| {
            let before = PageLocation(*place);
            let after = match ended.operation {
                Some(Operation::Evict) => before.written(node, frame, end.is_done(), ended.keep),
                _ if end.is_done() && end.is_storage() && now.version() == then.version() => {
                    before.read(node, frame)
                }
                _ => before,
            };
            *place = after.0;
            before
        });
        registers.outcome.write(cursor, s, repeated.0);
        // The buffer frame that was read may have been reused meanwhile.
        let asked_at = registers.result.read(cursor, s) >> MOVES_AT;
        if is_checked && asked_at != before.moves() {
            *end = end.with_outcome(Outcome::SourceGone);
        }
        let is_fetch = ended.operation.is_some_and(Operation::is_fix) && end.is_done();
        let is_other = is_checked || before.cached().is_some_and(|at| at != (node, frame));
        if is_fetch && is_other && now == then && !now.is_locked() {
            let (slot, latch) = (s as u16, now);
            pass.mirror(PageTask::Received { slot, latch });
        }
        if planted(Canary::PagesStaleCompletion) {
            then
        } else {
            now
        }
    }

    /// Frees a slot whose request was answered and moves nothing.
    pub(super) fn idle<T: Tasks, D: Digests>(&mut self, pass: &mut Pass<'_, T, D>, slot: u16) {
        let phase = &mut self.registers.phase;
        phase.update(&mut pass.cursor, usize::from(slot), |phase| *phase &= !BUSY);
    }

    /// Sends the slot's last completion again, with the current latch word. If the slot is in use
    /// again, its node has that completion.
    pub(super) fn repeat<T: Tasks, D: Digests>(&mut self, pass: &mut Pass<'_, T, D>, slot: u16) {
        let s = usize::from(slot);
        let Some(&lanes) = self.slots.lookup(s) else {
            return;
        };
        let (registers, cursor) = (&mut self.registers, &mut pass.cursor);
        let before = registers.phase.update(cursor, s, |phase| {
            let before = *phase;
            if before & BUSY != 0 {
                *phase = BUSY;
            }
            before
        });
        if before & BUSY != 0 {
            if before & WAITING != 0 {
                let end = End(registers.outcome.read(cursor, s));
                pass.recirculate(PageTask::Complete { slot, end });
            }
            return;
        }
        let page = registers.page_of(cursor, s);
        let kind = registers.frame.read(cursor, s);
        let psn = Psn::new(registers.command.read(cursor, s));
        let indexed = operation(kind).is_some_and(Operation::needs_entry);
        let entry = self.index.lookup(page).filter(|_| indexed);
        let latch = entry.map_or(LatchWord::default(), |entry| {
            registers
                .latch
                .update(cursor, entry, |latch| LatchWord(*latch))
        });
        let end = End(registers.outcome.read(cursor, s));
        pass.recirculate(completion(&lanes, slot, (end, psn), latch));
    }

    /// Handles a completion that is in the node's memory.
    pub(super) fn completion_written<T: Tasks, D: Digests>(
        &mut self,
        pass: &mut Pass<'_, T, D>,
        slot: u16,
    ) {
        let s = usize::from(slot);
        let (registers, cursor) = (&mut self.registers, &mut pass.cursor);
        let waits = registers.phase.update(cursor, s, |phase| {
            let before = *phase;
            *phase &= BUSY;
            before & WAITING != 0
        });
        if waits {
            let end = End(registers.outcome.read(cursor, s));
            pass.recirculate(PageTask::Complete { slot, end });
        }
    }
}
