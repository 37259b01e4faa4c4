//! Scan and issue: which producer is next, and how many of its items move.

use super::{FlowPass, FlowTask, Flows, ProducerId, SLOTS, ThreadId};
use rackweave_base::canary::{Canary, planted};
use rackweave_switch::transfer::{EngineTask, LaneId, Start};
use rackweave_wire::fabric::ring::{self, CommitRecord, SwitchState, SwitchWord};

const ASLEEP: u32 = 0;
const RUNNING: u32 = 1;
const WOKEN: u32 = 2;

/// What a transfer gives back when it is done: its slot, and its lanes within their rings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Cookie {
    pub slot: u32,
    pub source: u32,
    pub target: u32,
}

impl Cookie {
    const fn pack(self) -> u32 {
        self.slot | self.source << 8 | self.target << 16
    }

    pub const fn unpack(cookie: u32) -> Self {
        Self {
            slot: cookie & 0xff,
            source: cookie >> 8 & 0xff,
            target: cookie >> 16,
        }
    }
}

/// The first of `lanes` lanes whose bit is not set. On hardware a table of sixteen entries.
fn free_lane(busy: u32, lanes: u8) -> Option<u32> {
    let first = busy.trailing_ones();
    (first < u32::from(lanes)).then_some(first)
}

/// Sets the bit of the first free lane and says which it is.
fn take_lane(lanes: u8) -> impl FnOnce(&mut u32) -> u32 {
    move |busy| {
        let lane = free_lane(*busy, lanes);
        debug_assert!(
            lane.is_some(),
            "only one scan at a time takes a thread's lanes"
        );
        let lane = lane.unwrap_or(0);
        *busy |= 1 << lane;
        lane
    }
}

impl Flows {
    pub(super) fn wake(&mut self, pass: &mut FlowPass<'_>, id: ThreadId) {
        if self.threads.lookup(id.index()).is_none() {
            return;
        }
        let before = self
            .registers
            .lock
            .update(&mut pass.cursor, id.index(), |lock| {
                let before = *lock;
                *lock = if before == ASLEEP { RUNNING } else { WOKEN };
                before
            });
        if before == ASLEEP {
            pass.recirculate(FlowTask::Scan {
                thread: id,
                tried: 0,
            });
        }
    }

    pub(super) fn park(&mut self, pass: &mut FlowPass<'_>, id: ThreadId) {
        let again = self
            .registers
            .lock
            .update(&mut pass.cursor, id.index(), |lock| {
                *lock -= 1;
                *lock == RUNNING
            });
        if again {
            pass.recirculate(FlowTask::Scan {
                thread: id,
                tried: 0,
            });
        } else {
            pass.recirculate(FlowTask::TryEnd(id));
        }
    }

    /// Looks at one producer: a pass can see only one cell of each array.
    pub(super) fn scan(&mut self, pass: &mut FlowPass<'_>, id: ThreadId, tried: u16) {
        let Some(thread) = self.threads.lookup(id.index()) else {
            return;
        };
        let (at, registers, cursor) = (id.index(), &mut self.registers, &mut pass.cursor);
        let producers = u32::from(thread.producers);
        let turn = (registers.cursor.read(cursor, at) + u32::from(tried)) % producers;
        let producer_id = ProducerId(thread.producers_first.0 + turn as u16);
        let Some(producer) = self.producers.lookup(producer_id.index()) else {
            return;
        };
        let p = producer_id.index();
        let committed = registers.committed.read(cursor, at);
        let under_way = registers.issued.read(cursor, at).wrapping_sub(committed);
        let reserved = registers.reserved.read(cursor, at);
        if under_way >= SLOTS as u32 {
            return pass.recirculate(FlowTask::Park(id));
        }
        let head = registers.head.read(cursor, p);
        let finished = registers.finished.read(cursor, p) != 0;
        let taken = registers.taken.read(cursor, p);
        let sources_busy = registers.sources_busy.read(cursor, p);
        let targets_busy = registers.targets_busy.read(cursor, at);
        let is_finished = finished && (head == taken || planted(Canary::FlowsEarlyEnd));
        let newly_drained = is_finished && registers.drained.write(cursor, p, 1) == 0;
        let tail = registers.tail.read(cursor, at);
        let items = ring::run_length(
            head.wrapping_sub(taken),
            thread.ring.slots - reserved.wrapping_sub(tail),
            (taken, producer.ring.slots),
            (reserved, thread.ring.slots),
            thread.batch_items,
        );
        if newly_drained {
            registers
                .drained_count
                .update(cursor, at, |count| *count += 1);
        }
        if free_lane(targets_busy, thread.ring.lanes).is_none() {
            pass.recirculate(FlowTask::Park(id));
        } else if items > 0 && free_lane(sources_busy, producer.ring.lanes).is_some() {
            pass.recirculate(FlowTask::Issue {
                thread: id,
                producer: producer_id,
                items,
            });
        } else if tried + 1 < thread.producers {
            pass.recirculate(FlowTask::Scan {
                thread: id,
                tried: tried + 1,
            });
        } else {
            pass.recirculate(FlowTask::Park(id));
        }
    }

    /// Takes the items out of the books and starts their transfer.
    pub(super) fn issue(
        &mut self,
        pass: &mut FlowPass<'_>,
        id: ThreadId,
        producer_id: ProducerId,
        items: u32,
    ) {
        let Some(thread) = self.threads.lookup(id.index()) else {
            return;
        };
        let Some(producer) = self.producers.lookup(producer_id.index()) else {
            return;
        };
        let (at, p) = (id.index(), producer_id.index());
        let (registers, cursor) = (&mut self.registers, &mut pass.cursor);
        let post_add = |by: u32| {
            move |cell: &mut u32| {
                let before = *cell;
                *cell = before.wrapping_add(by);
                before
            }
        };
        // Whoever was served last is looked at last the next time.
        let turn = u32::from(producer_id.0 - thread.producers_first.0) + 1;
        registers
            .cursor
            .write(cursor, at, turn % u32::from(thread.producers));
        let issued = registers.issued.update(cursor, at, post_add(1));
        let reserved = registers.reserved.update(cursor, at, post_add(items));
        let slot = issued % SLOTS as u32;
        let slot_at = at * SLOTS + slot as usize;
        registers
            .done
            .write(cursor, slot_at, u32::from(planted(Canary::FlowsEarlyHead)));
        registers
            .slot_producer
            .write(cursor, slot_at, u32::from(producer_id.0));
        registers.slot_items.write(cursor, slot_at, items);
        let taken = registers.taken.update(cursor, p, post_add(items));
        let source = registers
            .sources_busy
            .update(cursor, p, take_lane(producer.ring.lanes));
        let target = registers
            .targets_busy
            .update(cursor, at, take_lane(thread.ring.lanes));
        let place = |ring: &super::RingPlace, counter: u32| {
            ring.items + u64::from(counter & (ring.slots - 1)) * u64::from(thread.item_size)
        };
        let start = Start {
            source: LaneId(producer.ring.lanes_first.0 + source as u16),
            target: LaneId(thread.ring.lanes_first.0 + target as u16),
            source_address: place(&producer.ring, taken),
            source_rkey: producer.ring.rkey,
            target_address: place(&thread.ring, reserved),
            target_rkey: thread.ring.rkey,
            length: items * thread.item_size,
            cookie: Cookie {
                slot,
                source,
                target,
            }
            .pack(),
        };
        let polls = [producer.ring.poll, thread.ring.poll];
        pass.mirror(EngineTask::Start(start));
        pass.recirculate(FlowTask::Scan {
            thread: id,
            tried: 0,
        });
        for lane in polls {
            self.poll_soon(pass, lane);
        }
    }

    /// Announces the end of the stream, once.
    pub(super) fn try_end(&mut self, pass: &mut FlowPass<'_>, id: ThreadId) {
        let Some(thread) = self.threads.lookup(id.index()) else {
            return;
        };
        let (at, registers, cursor) = (id.index(), &mut self.registers, &mut pass.cursor);
        let committed = registers.committed.read(cursor, at);
        let all_committed = registers.issued.read(cursor, at) == committed;
        let head = registers.head_published.read(cursor, at);
        let drained = registers.drained_count.read(cursor, at);
        if !all_committed || drained < u32::from(thread.producers) {
            return;
        }
        if registers.ended.write(cursor, at, 1) == 0 {
            let word = SwitchWord {
                counter: head,
                state: SwitchState::Ended,
            };
            // Nothing is under way any more, so the commit record has served its purpose.
            let order = thread.ring.order;
            pass.recirculate(EngineTask::WriteWords {
                lane: thread.ring.publish,
                first: order.to_bytes(CommitRecord::default().into()),
                second: Some(order.to_bytes(word.into())),
            });
        }
    }
}
