//! Commit: finished transfers become visible, strictly in the order of issue.
//!
//! Head first, then tail: if the switch forgets everything in between, the commit record beside
//! the head tells what the producer's tail should be. In the other order items would be lost.

use super::schedule::Cookie;
use super::{FlowPass, FlowTask, Flows, ProducerId, SLOTS, ThreadId};
use crate::pipeline::Digest;
use rackweave_base::canary::{Canary, planted};
use rackweave_switch::transfer::EngineTask;
use rackweave_wire::fabric::ring::{CommitRecord, SwitchState, SwitchWord};

impl Flows {
    /// All bytes of a transfer are in the consumer's ring. Its lanes are free for the next one.
    pub(super) fn transfer_done(&mut self, pass: &mut FlowPass<'_>, cookie: u32, id: ProducerId) {
        let Some(producer) = self.producers.lookup(id.index()) else {
            return;
        };
        let thread = producer.thread;
        let Cookie {
            slot,
            source,
            target,
        } = Cookie::unpack(cookie);
        let (registers, cursor) = (&mut self.registers, &mut pass.cursor);
        registers
            .done
            .write(cursor, thread.index() * SLOTS + slot as usize, 1);
        registers
            .sources_busy
            .update(cursor, id.index(), |busy| *busy &= !(1 << source));
        registers
            .targets_busy
            .update(cursor, thread.index(), |busy| *busy &= !(1 << target));
        pass.mirror(FlowTask::Wake(thread));
        pass.recirculate(FlowTask::TryCommit { thread, slot });
    }

    /// Publishes the head of the oldest transfer, if it is done and no commit is under way.
    pub(super) fn try_commit(&mut self, pass: &mut FlowPass<'_>, id: ThreadId, finished: u32) {
        let Some(thread) = self.threads.lookup(id.index()) else {
            return;
        };
        let (at, registers, cursor) = (id.index(), &mut self.registers, &mut pass.cursor);
        let committed = registers.committed.read(cursor, at);
        let oldest = committed % SLOTS as u32;
        let slot = if planted(Canary::FlowsUnorderedCommit) {
            finished
        } else {
            oldest
        };
        let slot_at = at * SLOTS + slot as usize;
        let is_done = registers.done.read(cursor, slot_at) != 0;
        let before = registers.committing.update(cursor, at, |committing| {
            let before = *committing;
            if is_done && before == 0 {
                *committing = slot + 1;
            }
            before
        });
        if !is_done || before != 0 {
            return;
        }
        let p = registers.slot_producer.read(cursor, slot_at);
        let items = registers.slot_items.read(cursor, slot_at);
        let add = |cell: &mut u32| {
            *cell = cell.wrapping_add(items);
            *cell
        };
        let head = registers.head_published.update(cursor, at, add);
        let tail = registers.tail_published.update(cursor, p as usize, add);
        let place = (p - u32::from(thread.producers_first.0)) as u16 + 1;
        let record = CommitRecord {
            producer: place,
            tail,
        };
        let word = SwitchWord {
            counter: head,
            state: SwitchState::Open,
        };
        let order = thread.ring.order;
        pass.recirculate(EngineTask::WriteWords {
            lane: thread.ring.publish,
            first: order.to_bytes(record.into()),
            second: Some(order.to_bytes(word.into())),
        });
    }

    /// The consumer's word is written: a head, or the end.
    pub(super) fn head_written(&mut self, pass: &mut FlowPass<'_>, id: ThreadId) {
        if self.registers.committing.read(&mut pass.cursor, id.index()) != 0 {
            pass.recirculate(FlowTask::CommitTail(id));
        } else {
            pass.digest(Digest::ThreadEnded(id));
        }
    }

    pub(super) fn commit_tail(&mut self, pass: &mut FlowPass<'_>, id: ThreadId) {
        let (at, registers, cursor) = (id.index(), &mut self.registers, &mut pass.cursor);
        let Some(slot) = registers.committing.read(cursor, at).checked_sub(1) else {
            return;
        };
        let p = registers
            .slot_producer
            .read(cursor, at * SLOTS + slot as usize) as usize;
        let tail = if planted(Canary::FlowsEarlyTail) {
            registers.taken.read(cursor, p)
        } else {
            registers.tail_published.read(cursor, p)
        };
        let Some(producer) = self.producers.lookup(p) else {
            return;
        };
        let word = SwitchWord {
            counter: tail,
            state: SwitchState::Open,
        };
        pass.recirculate(EngineTask::WriteWords {
            lane: producer.ring.publish,
            first: producer.ring.order.to_bytes(word.into()),
            second: None,
        });
    }

    /// Consumer and producer are told.
    pub(super) fn commit_end(&mut self, pass: &mut FlowPass<'_>, id: ThreadId) {
        if self.threads.lookup(id.index()).is_none() {
            return;
        }
        let (at, registers, cursor) = (id.index(), &mut self.registers, &mut pass.cursor);
        let committed = registers.committed.update(cursor, at, |committed| {
            let before = *committed;
            *committed = before.wrapping_add(1);
            before
        });
        let slot = committed % SLOTS as u32;
        let slot_at = at * SLOTS + slot as usize;
        registers.done.write(cursor, slot_at, 0);
        registers.committing.write(cursor, at, 0);
        let next = committed.wrapping_add(1) % SLOTS as u32;
        pass.mirror(FlowTask::TryCommit {
            thread: id,
            slot: next,
        });
        pass.recirculate(FlowTask::Wake(id));
    }
}
