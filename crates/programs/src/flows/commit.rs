//! Commit: finished transfers become visible, strictly in the order of issue, and those of one
//! producer in the order of its items.
//!
//! Head first, then tail: if the switch loses its state in between, the commit record beside the
//! head contains the correct tail of the producer. In the other order items would be lost. With
//! several consumers the head goes to all of them, and the tail follows when all have it.

use super::issue::Cookie;
use super::{
    ConsumerId, Digests, FlowDigest, FlowTask, Flows, ProducerId, SLOTS, Tasks, ThreadId, Whose,
};
use rackweave_base::canary::{Canary, planted};
use rackweave_switch::Pass;
use rackweave_switch::transfer::EngineTask;
use rackweave_wire::fabric::ring::{CommitRecord, SwitchState, SwitchWord};

/// In `committing`: a batch is being assembled, and nothing of it is published. Otherwise the value
/// is the slots of the batch being published, or zero.
pub(super) const CLAIMED: u32 = 1 << 16;

/// Transfers of one producer that are committed together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Batch {
    /// The thread.
    pub thread: ThreadId,
    /// The producer.
    pub producer: ProducerId,
    /// Slots, from the oldest uncommitted one.
    pub slots: u32,
    /// Their items.
    pub items: u32,
    /// The producer's tail after them.
    pub tail: u32,
}

impl Flows {
    /// Handles a transfer whose bytes are all in the rings of all its consumers. Its lanes are free
    /// for the next one.
    pub(super) fn transfer_done<T: Tasks, D: Digests>(
        &mut self,
        pass: &mut Pass<'_, T, D>,
        cookie: u32,
        id: ProducerId,
    ) {
        let Cookie {
            thread,
            slot,
            source,
            target,
        } = Cookie::unpack(cookie);
        let Some(left) = self.threads.lookup(thread.index()).map(|t| t.threads) else {
            return;
        };
        let slot_at = thread.index() * SLOTS + slot as usize;
        self.registers.done.write(&mut pass.cursor, slot_at, 1);
        let (registers, cursor) = (&mut self.registers, &mut pass.cursor);
        registers
            .sources_busy
            .update(cursor, id.index(), |busy| *busy &= !(1 << source));
        registers
            .targets_busy
            .update(cursor, thread.index(), |busy| *busy &= !(1 << target));
        pass.mirror(FlowTask::WakeRing { thread, left });
        pass.recirculate(FlowTask::TryCommit {
            thread,
            left: 1,
            slot,
        });
    }

    /// Begins to commit, if the oldest transfer is done, if all earlier items of its producer are
    /// published, and if no commit is in progress.
    pub(super) fn try_commit<T: Tasks, D: Digests>(
        &mut self,
        pass: &mut Pass<'_, T, D>,
        id: ThreadId,
        left: u16,
        finished: u32,
    ) {
        let Some(thread) = self.threads.lookup(id.index()) else {
            return;
        };
        if left > 1 {
            pass.mirror(FlowTask::TryCommit {
                thread: thread.next,
                left: left - 1,
                slot: 0,
            });
        }
        let (at, registers, cursor) = (id.index(), &mut self.registers, &mut pass.cursor);
        let issued = registers.issued.read(cursor, at);
        let committed = registers.committed.read(cursor, at);
        let oldest = committed % SLOTS as u32;
        let slot = if planted(Canary::FlowsUnorderedCommit) {
            finished
        } else {
            oldest
        };
        let slot_at = at * SLOTS + slot as usize;
        let is_done = registers.done.read(cursor, slot_at) != 0;
        let p = registers.slot_producer.read(cursor, slot_at);
        let first = registers.slot_first.read(cursor, slot_at);
        let items = registers.slot_items.read(cursor, slot_at);
        let published = registers.tail_published.read(cursor, p as usize);
        let is_next = published == first
            || planted(Canary::FlowsAnyTurn)
            || planted(Canary::FlowsUnorderedCommit);
        let under_way = issued.wrapping_sub(committed);
        let ready = under_way != 0 && is_done && is_next;
        if !ready {
            return;
        }
        let batch = Batch {
            thread: id,
            producer: ProducerId(p as u16),
            slots: 1,
            items,
            tail: first.wrapping_add(items),
        };
        let before = registers.committing.update(cursor, at, |committing| {
            let before = *committing;
            if before == 0 {
                *committing = CLAIMED;
            }
            before
        });
        if before == 0 {
            let is_last = under_way == 1 || planted(Canary::FlowsUnorderedCommit);
            pass.recirculate(FlowTask::Commit { batch, is_last });
        }
    }

    /// Adds the next slot to the batch, if its transfer is done and continues the batch's items of
    /// its producer; otherwise publishes the head. So transfers that have finished during an
    /// earlier commit are committed together.
    pub(super) fn commit<T: Tasks, D: Digests>(
        &mut self,
        pass: &mut Pass<'_, T, D>,
        mut batch: Batch,
        is_last: bool,
    ) {
        let (id, at) = (batch.thread, batch.thread.index());
        let thread = self.threads.lookup(at);
        let producer = self.producers.lookup(batch.producer.index());
        let (Some(thread), Some(producer)) = (thread, producer) else {
            return;
        };
        let (registers, cursor) = (&mut self.registers, &mut pass.cursor);
        if !is_last {
            let issued = registers.issued.read(cursor, at);
            let committed = registers.committed.read(cursor, at);
            let next = committed.wrapping_add(batch.slots);
            let slot_at = at * SLOTS + (next % SLOTS as u32) as usize;
            let is_done = registers.done.read(cursor, slot_at) != 0;
            let p = registers.slot_producer.read(cursor, slot_at);
            let first = registers.slot_first.read(cursor, slot_at);
            let items = registers.slot_items.read(cursor, slot_at);
            let continues = (p, first) == (u32::from(batch.producer.0), batch.tail);
            if next != issued && is_done && continues {
                batch.slots += 1;
                batch.items += items;
                batch.tail = first.wrapping_add(items);
                let is_last = next.wrapping_add(1) == issued;
                return pass.recirculate(FlowTask::Commit { batch, is_last });
            }
        }
        registers.tail_next.write(cursor, at, batch.tail);
        registers.committing.write(cursor, at, batch.slots);
        let head = registers.head_published.update(cursor, at, |head| {
            *head = head.wrapping_add(batch.items);
            *head
        });
        registers.head_sent.write(cursor, at, !thread.members);
        pass.recirculate(FlowTask::Tell {
            thread: id,
            at: thread.first_consumer,
            left: thread.consumers,
            record: CommitRecord {
                producer: producer.place,
                tail: batch.tail,
            },
            word: SwitchWord {
                counter: head,
                state: SwitchState::Open,
            },
        });
    }

    /// Writes the words of one consumer, and continues with the next.
    pub(super) fn tell<T: Tasks, D: Digests>(
        &mut self,
        pass: &mut Pass<'_, T, D>,
        (thread, at, left): (ThreadId, ConsumerId, u16),
        record: CommitRecord,
        word: SwitchWord,
    ) {
        let Some(consumer) = self.consumers.lookup(at.index()) else {
            return;
        };
        if left > 1 && consumer.next != at {
            pass.mirror(FlowTask::Tell {
                thread,
                at: consumer.next,
                left: left - 1,
                record,
                word,
            });
        }
        let order = consumer.ring.order;
        pass.recirculate(EngineTask::WriteWords {
            lane: consumer.ring.publish,
            first: order.to_bytes(record.into()),
            second: Some(order.to_bytes(word.into())),
            cookie: 0,
        });
    }

    /// Handles a written consumer word: a head, or the end. When all are written, the commit
    /// continues.
    pub(super) fn head_written<T: Tasks, D: Digests>(
        &mut self,
        pass: &mut Pass<'_, T, D>,
        id: ConsumerId,
    ) {
        let Some(consumer) = self.consumers.lookup(id.index()) else {
            return;
        };
        let (thread, bit) = (consumer.thread, consumer.bit);
        let (registers, cursor) = (&mut self.registers, &mut pass.cursor);
        let committing = registers.committing.read(cursor, thread.index());
        let sent = registers.head_sent.update(cursor, thread.index(), |sent| {
            *sent |= 1 << bit;
            *sent
        });
        if sent != u32::MAX {
        } else if committing != 0 {
            pass.recirculate(FlowTask::CommitTail(thread));
        } else {
            pass.digest(FlowDigest::ThreadEnded(thread));
        }
    }

    /// Writes the producer's tail. Where items are retained, only when the consumer has taken
    /// everything published to it.
    pub(super) fn commit_tail<T: Tasks, D: Digests>(
        &mut self,
        pass: &mut Pass<'_, T, D>,
        id: ThreadId,
    ) {
        let Some(thread) = self.threads.lookup(id.index()) else {
            return;
        };
        let (at, registers, cursor) = (id.index(), &mut self.registers, &mut pass.cursor);
        let slot = registers.committed.read(cursor, at) % SLOTS as u32;
        let slot_at = at * SLOTS + slot as usize;
        let p = registers.slot_producer.read(cursor, slot_at) as usize;
        let tail_next = registers.tail_next.read(cursor, at);
        let tail = if planted(Canary::FlowsEarlyTail) {
            registers.taken.read(cursor, p)
        } else {
            tail_next
        };
        let slots = registers.committing.read(cursor, at);
        let Some(producer) = self.producers.lookup(p) else {
            return;
        };
        if thread.retain {
            let head = registers.head_published.read(cursor, at);
            let consumer = thread.first_consumer.index();
            // What a consumer that leaves has been shown counts as consumed.
            let is_consumed =
                registers.tail.read(cursor, consumer) == head || thread.pause_at.is_some();
            let is_next = registers.head_sent.update(cursor, at, |sent| {
                let all_sent = !matches!(slots, 0 | CLAIMED) && *sent == u32::MAX;
                let is_next = all_sent && is_consumed;
                if is_next {
                    *sent = 0;
                }
                is_next
            });
            if !is_next {
                return;
            }
        }
        let word = SwitchWord {
            counter: tail,
            state: SwitchState::Open,
        };
        pass.recirculate(EngineTask::WriteWords {
            lane: producer.ring.publish,
            first: producer.ring.order.to_bytes(word.into()),
            second: None,
            cookie: slots << 16 | u32::from(id.0),
        });
    }

    /// Frees the slots once consumers and producer have been notified.
    pub(super) fn commit_end<T: Tasks, D: Digests>(
        &mut self,
        pass: &mut Pass<'_, T, D>,
        id: ThreadId,
        slots: u32,
    ) {
        let Some(thread) = self.threads.lookup(id.index()) else {
            return;
        };
        let (threads, retain) = (thread.threads, thread.retain);
        let (at, registers, cursor) = (id.index(), &mut self.registers, &mut pass.cursor);
        let committed = registers.committed.update(cursor, at, |committed| {
            let before = *committed;
            *committed = before.wrapping_add(slots);
            before
        });
        let slot_at = at * SLOTS + (committed % SLOTS as u32) as usize;
        let p = registers.slot_producer.read(cursor, slot_at) as usize;
        let tail = registers.tail_next.read(cursor, at);
        registers.tail_published.write(cursor, p, tail);
        registers.committing.write(cursor, at, 0);
        let next = committed.wrapping_add(slots) % SLOTS as u32;
        let producer = ProducerId(p as u16);
        if self.producers.lookup(p).is_some_and(|it| it.leaves) {
            pass.digest(FlowDigest::Quiet(Whose::Producer(producer)));
        }
        pass.mirror(FlowTask::TryCommit {
            thread: id,
            left: threads,
            slot: next,
        });
        if retain {
            pass.recirculate(FlowTask::Reopen {
                producer,
                thread: id,
            });
        } else {
            pass.recirculate(FlowTask::Wake(id));
        }
    }
}
