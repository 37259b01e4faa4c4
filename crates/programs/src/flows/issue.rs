//! Issue: items are reserved, and their transfer starts.

use super::schedule::{FREE, HELD, free_lane};
use super::{
    Digests, FlowTask, Flows, ProducerEntry, ProducerId, SLOTS, Tasks, ThreadEntry, ThreadId,
};
use rackweave_base::canary::{Canary, planted};
use rackweave_switch::Pass;
use rackweave_switch::transfer::{EngineTask, LaneId, Start};

/// What a transfer returns when it is done: its thread and slot, and its lanes within their rings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Cookie {
    pub thread: ThreadId,
    pub slot: u32,
    pub source: u32,
    pub target: u32,
}

impl Cookie {
    const fn pack(self) -> u32 {
        (self.thread.0 as u32) << 16 | self.slot << 8 | self.source << 4 | self.target
    }

    pub const fn unpack(cookie: u32) -> Self {
        Self {
            thread: ThreadId((cookie >> 16) as u16),
            slot: cookie >> 8 & 0xff,
            source: cookie >> 4 & 0xf,
            target: cookie & 0xf,
        }
    }
}

/// Sets the bit of the first free lane and returns its index.
fn take_lane(lanes: u8) -> impl FnOnce(&mut u32) -> u32 {
    move |busy| {
        let lane = free_lane(*busy, lanes);
        debug_assert!(
            lane.is_some(),
            "only one scan at a time takes lanes of a thread or a producer"
        );
        let lane = lane.unwrap_or(0);
        *busy |= 1 << lane;
        lane
    }
}

/// The transfer of a thread's slot: each side with its lane and the counter of its first item.
fn transfer(
    (thread, slot): (ThreadId, u32),
    items: u32,
    (producer, source, taken): (&ProducerEntry, u32, u32),
    (to, target, reserved): (&ThreadEntry, u32, u32),
) -> Start {
    let place = |items: u64, slots: u32, counter: u32| {
        items + u64::from(counter & (slots - 1)) * u64::from(to.item_size)
    };
    Start {
        source: LaneId(producer.ring.lanes_first.0 + source as u16),
        target: LaneId(to.lanes_first.0 + target as u16),
        source_address: place(producer.ring.items, producer.ring.slots, taken),
        source_rkey: producer.ring.rkey,
        target_address: place(to.items, to.slots, reserved),
        target_rkey: to.rkey,
        length: items * to.item_size,
        cookie: Cookie {
            thread,
            slot,
            source,
            target,
        }
        .pack(),
        header: None,
    }
}

impl Flows {
    /// Reserves the items and starts their transfer.
    pub(super) fn issue<T: Tasks, D: Digests>(
        &mut self,
        pass: &mut Pass<'_, T, D>,
        id: ThreadId,
        producer_id: ProducerId,
        (items, first, is_cut): (u32, u32, bool),
        floor: u64,
    ) {
        let thread = self.threads.lookup(id.index());
        let producer = self.producers.lookup(producer_id.index());
        let (Some(thread), Some(producer)) = (thread, producer) else {
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
        let issued = registers.issued.update(cursor, at, post_add(1));
        // The producer served last is looked at last the next time.
        let next_producer = if is_cut { producer_id } else { producer.next };
        registers
            .cursor
            .write(cursor, at, u32::from(next_producer.0));
        let taking = if thread.retain { HELD } else { FREE };
        registers.taking.write(cursor, p, taking);
        let slot = issued % SLOTS as u32;
        let slot_at = at * SLOTS + slot as usize;
        registers
            .done
            .write(cursor, slot_at, u32::from(planted(Canary::FlowsEarlyHead)));
        registers
            .slot_producer
            .write(cursor, slot_at, u32::from(producer_id.0));
        registers.slot_first.write(cursor, slot_at, first);
        registers.slot_items.write(cursor, slot_at, items);
        let taken = registers.taken.update(cursor, p, post_add(items));
        let source = registers
            .sources_busy
            .update(cursor, p, take_lane(producer.ring.lanes));
        let reserved = registers.reserved.update(cursor, at, post_add(items));
        let target = registers
            .targets_busy
            .update(cursor, at, take_lane(thread.lanes));
        if let Some(weight) = thread.weight {
            let cost = weight.cost * u64::from(items);
            registers
                .served
                .update(cursor, weight.account.index(), |served| {
                    *served = (*served).max(floor) + cost;
                });
        }
        registers.turn.write(cursor, p, u32::from(thread.next.0));
        let (from, to) = ((producer, source, taken), (thread, target, reserved));
        let start = transfer((id, slot), items, from, to);
        let poll = producer.ring.poll;
        let consumer = self.consumers.lookup(thread.first_consumer.index());
        let polls = [Some(poll), consumer.map(|consumer| consumer.ring.poll)];
        let interval = thread.poll_interval;
        let next = self.begin(id, thread, u32::from(next_producer.0));
        pass.mirror(EngineTask::Start(start));
        if thread.threads > 1 {
            // Threads that share the producer come first, each in turn.
            pass.recirculate(FlowTask::Yield(id));
        } else {
            pass.recirculate(next);
        }
        // New values of these rings will be needed soon.
        for lane in polls.into_iter().flatten() {
            pass.hasten(self.poll_key(lane), interval);
        }
    }

    /// After taking from a shared producer: wakes the other threads before this one continues.
    pub(super) fn give_way<T: Tasks, D: Digests>(
        &mut self,
        pass: &mut Pass<'_, T, D>,
        id: ThreadId,
    ) {
        let Some(thread) = self.threads.lookup(id.index()) else {
            return;
        };
        pass.mirror(FlowTask::WakeRing {
            thread: thread.next,
            left: thread.threads,
        });
        pass.recirculate(FlowTask::Park(id));
    }
}
