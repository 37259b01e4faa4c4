//! What a scan finds in the registers of a thread's ring.

use super::{Scan, free_lane};
use crate::flows::registers::Registers;
use crate::flows::{ProducerEntry, ThreadEntry};
use rackweave_base::canary::{Canary, planted};
use rackweave_switch::Cursor;
use rackweave_wire::fabric::ring;

/// A pass's view of a thread and of one of its producers.
pub(super) struct Sight {
    /// Items that can move now.
    pub(super) items: u32,
    /// The end of a ring limits the items: they are only part of the producer's turn.
    pub(super) is_cut: bool,
    /// The counter of the first of them.
    pub(super) taken: u32,
    /// The least service of an account of the domain.
    pub(super) floor: u64,
    /// The free lane to the consumer, and whether there is one from the producer.
    pub(super) lane: Option<u32>,
    pub(super) source: Option<u32>,
    /// The producer was found to be finished, for the first time.
    pub(super) newly_drained: bool,
    /// The flow has ended for the thread.
    pub(super) has_ended: bool,
}

impl Sight {
    pub(super) fn new(
        registers: &mut Registers,
        cursor: &mut Cursor,
        scan: Scan,
        (thread, producer): (&ThreadEntry, &ProducerEntry),
    ) -> Self {
        let (at, p) = (scan.thread.index(), scan.producer.index());
        let head = registers.head.read(cursor, p);
        let finished = registers.finished.read(cursor, p) != 0;
        let taken = registers.taken.read(cursor, p);
        let sources_busy = registers.sources_busy.read(cursor, p);
        let reserved = registers.reserved.read(cursor, at);
        let targets_busy = registers.targets_busy.read(cursor, at);
        let is_finished = finished && (head == taken || planted(Canary::FlowsEarlyEnd));
        let newly_drained = is_finished && registers.drained.write(cursor, p, 1) == 0;
        let used = if thread.consumers > 1 {
            scan.used
        } else {
            let tail = registers.tail.read(cursor, thread.first_consumer.index());
            reserved.wrapping_sub(tail)
        };
        let (available, room) = (head.wrapping_sub(taken), thread.slots.saturating_sub(used));
        let until_pause = thread.pause_at.map(|at| at.wrapping_sub(reserved));
        let limit = thread.batch_items.min(until_pause.unwrap_or(u32::MAX));
        let items = ring::run_length(
            available,
            room,
            (taken, producer.ring.slots),
            (reserved, thread.slots),
            limit,
        );
        let is_cut = items < available.min(room).min(limit);
        let floor = thread.weight.map_or(0, |weight| {
            registers.floor.read(cursor, weight.domain.index())
        });
        if newly_drained {
            let group = thread.group.index();
            registers
                .drained_count
                .update(cursor, group, |count| *count += 1);
        }
        let lane = free_lane(targets_busy, thread.lanes);
        let source = free_lane(sources_busy, producer.ring.lanes);
        let has_ended = registers.ended.read(cursor, at) != 0;
        Self {
            items,
            is_cut,
            taken,
            floor,
            lane,
            source,
            newly_drained,
            has_ended,
        }
    }
}
