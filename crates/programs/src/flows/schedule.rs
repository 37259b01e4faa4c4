//! Scan: the next producer, and how many of its items move.

mod sight;

use super::{
    ConsumerId, Digests, FlowTask, Flows, ProducerId, SLOTS, Tasks, ThreadEntry, ThreadId,
};
use rackweave_base::canary::{Canary, planted};
use rackweave_switch::Pass;
use sight::Sight;

const ASLEEP: u32 = 0;
const RUNNING: u32 = 1;
const WOKEN: u32 = 2;

/// State of a shared producer: free to take from.
pub(super) const FREE: u32 = 0;
/// A thread is about to take from it.
const TAKING: u32 = 1;
/// Its items are not consumed yet.
pub(super) const HELD: u32 = 2;

/// What a scan carries from pass to pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scan {
    /// The thread.
    pub thread: ThreadId,
    /// The producer to look at.
    pub producer: ProducerId,
    /// Producers that had nothing to move.
    pub tried: u16,
    /// Slots in use at the fullest of several consumers; a single consumer is checked in the scan.
    pub used: u32,
    /// Whether another thread was about to take from one of these producers.
    pub contended: bool,
    /// Whether to take the lock of the producer. A first look does not, so that idle threads do not
    /// keep each other running.
    pub claim: bool,
}

/// The first of `lanes` lanes whose bit is not set. On hardware a table of sixteen entries.
pub(super) fn free_lane(busy: u32, lanes: u8) -> Option<u32> {
    let first = busy.trailing_ones();
    (first < u32::from(lanes)).then_some(first)
}

/// Looks at the lock of a producer and, with `claim`, takes it if it is free. Returns its previous
/// state.
fn look_at(claim: bool) -> impl FnOnce(&mut u32) -> u32 {
    move |taking| {
        let before = *taking;
        if claim {
            *taking = before.max(TAKING);
        }
        before
    }
}

/// Sets or clears a thread's bit among those of its account that wait for the network.
fn line_up(bit: u32, waits: bool, leaves: bool) -> impl FnOnce(&mut u32) {
    move |waiting| {
        if waits {
            *waiting |= bit;
        } else if leaves {
            *waiting &= !bit;
        }
    }
}

/// Releases the lock of a producer, then continues.
fn unlock(scan: Scan, then: Option<Scan>) -> FlowTask {
    FlowTask::Unlock {
        producer: scan.producer,
        then,
        thread: scan.thread,
    }
}

impl Flows {
    pub(super) fn wake<T: Tasks, D: Digests>(&mut self, pass: &mut Pass<'_, T, D>, id: ThreadId) {
        let Some(thread) = self.threads.lookup(id.index()) else {
            return;
        };
        let cursor = self.registers.cursor.read(&mut pass.cursor, id.index());
        let before = self
            .registers
            .lock
            .update(&mut pass.cursor, id.index(), |lock| {
                let before = *lock;
                *lock = if before == ASLEEP { RUNNING } else { WOKEN };
                before
            });
        if before == ASLEEP {
            pass.recirculate(self.begin(id, thread, cursor));
        }
    }

    /// Wakes one thread after the other, round the circle of those that share producers.
    pub(super) fn wake_ring<T: Tasks, D: Digests>(
        &mut self,
        pass: &mut Pass<'_, T, D>,
        id: ThreadId,
        left: u16,
    ) {
        let Some(thread) = self.threads.lookup(id.index()) else {
            return;
        };
        if left > 1 {
            pass.mirror(FlowTask::WakeRing {
                thread: thread.next,
                left: left - 1,
            });
        }
        self.wake(pass, id);
    }

    pub(super) fn park<T: Tasks, D: Digests>(&mut self, pass: &mut Pass<'_, T, D>, id: ThreadId) {
        let Some(thread) = self.threads.lookup(id.index()) else {
            return;
        };
        let cursor = self.registers.cursor.read(&mut pass.cursor, id.index());
        let again = self
            .registers
            .lock
            .update(&mut pass.cursor, id.index(), |lock| {
                *lock = lock.saturating_sub(1);
                *lock == RUNNING
            });
        if let Some(domain) = thread.weight.map(|weight| weight.domain) {
            pass.mirror(FlowTask::Level {
                domain,
                at: domain,
                least: u64::MAX,
            });
        }
        if again {
            pass.recirculate(self.begin(id, thread, cursor));
        } else {
            pass.recirculate(FlowTask::TryEnd(id));
        }
    }

    /// The first task of a round: a look at all consumers, if there are several, or at a producer.
    pub(super) fn begin(&self, id: ThreadId, thread: &ThreadEntry, cursor: u32) -> FlowTask {
        let at = ProducerId(cursor as u16);
        let known = self.producers.lookup(at.index());
        let known = known.is_some_and(|p| p.group == thread.group);
        let producer = if known { at } else { thread.first_producer };
        let scan = Scan {
            thread: id,
            producer,
            tried: 0,
            used: 0,
            contended: false,
            claim: false,
        };
        if thread.consumers > 1 {
            FlowTask::Room {
                scan,
                at: thread.first_consumer,
                left: thread.consumers,
            }
        } else {
            FlowTask::Scan(scan)
        }
    }

    /// Looks at one of several consumers: the one with the least free space counts (zero-sided
    /// RDMA, section 6.1).
    pub(super) fn free_slots<T: Tasks, D: Digests>(
        &mut self,
        pass: &mut Pass<'_, T, D>,
        mut scan: Scan,
        at: ConsumerId,
        left: u16,
    ) {
        let (registers, cursor) = (&mut self.registers, &mut pass.cursor);
        let consumer = self.consumers.lookup(at.index());
        let next = consumer.map(|consumer| consumer.next);
        let reserved = registers.reserved.read(cursor, scan.thread.index());
        if let Some(poll) = consumer.map(|consumer| consumer.ring.poll) {
            let tail = registers.tail.read(cursor, at.index());
            let used = reserved.wrapping_sub(tail);
            scan.used = scan.used.max(used);
            let thread = self.threads.lookup(scan.thread.index());
            if let Some(interval) = thread.filter(|_| used > 0).map(|t| t.poll_interval) {
                pass.hasten(self.poll_key(poll), interval);
            }
        }
        let left = if planted(Canary::FlowsFirstRoom) {
            1
        } else {
            left
        };
        match next {
            Some(at) if left > 1 => pass.recirculate(FlowTask::Room {
                scan,
                at,
                left: left - 1,
            }),
            // It has left, and the free space of the others is not known.
            None => pass.recirculate(FlowTask::Park(scan.thread)),
            Some(_) => pass.recirculate(FlowTask::Scan(scan)),
        }
    }

    /// Looks at one producer: a pass can see only one cell of each array.
    pub(super) fn scan<T: Tasks, D: Digests>(&mut self, pass: &mut Pass<'_, T, D>, scan: Scan) {
        let (id, producer_id) = (scan.thread, scan.producer);
        let Some(thread) = self.threads.lookup(id.index()) else {
            return;
        };
        let Some(producer) = self.producers.lookup(producer_id.index()) else {
            return pass.recirculate(FlowTask::Park(id));
        };
        let (at, p) = (id.index(), producer_id.index());
        let (registers, cursor) = (&mut self.registers, &mut pass.cursor);
        let committed = registers.committed.read(cursor, at);
        let under_way = registers.issued.read(cursor, at).wrapping_sub(committed);
        if under_way >= SLOTS as u32 {
            return pass.recirculate(FlowTask::Park(id));
        }
        let mut next = Scan {
            producer: producer.next,
            tried: scan.tried + 1,
            claim: false,
            ..scan
        };
        let must_lock =
            (thread.threads > 1 || thread.retain) && !planted(Canary::FlowsNoProducerLock);
        if must_lock {
            let before = registers.taking.update(cursor, p, look_at(scan.claim));
            if before == HELD || (scan.claim && before == TAKING) {
                next.contended |= before == TAKING;
                return pass.recirculate(self.after(thread, next));
            }
        }
        let seen = Sight::new(registers, cursor, scan, (thread, producer));
        let Sight { items, lane, .. } = seen;
        let mut is_ahead = false;
        if let Some(weight) = thread.weight {
            let account = weight.account.index();
            let served = registers.served.read(cursor, account);
            is_ahead = items > 0 && served > seen.floor + weight.window;
            // A thread held back only by the network or its share is marked as waiting; other flows
            // do not wait for one that lacks anything else.
            let waits = items > 0 && (lane.is_none() || is_ahead);
            let leaves = items == 0 && scan.tried + 1 >= thread.producers;
            let line = line_up(1 << weight.bit, waits, leaves);
            registers.waiting.update(cursor, account, line);
        }
        let can_issue = items > 0 && seen.source.is_some();
        let task = if seen.has_ended || lane.is_none() || is_ahead {
            FlowTask::Park(id)
        } else if can_issue && must_lock && !scan.claim {
            let claim = true;
            return pass.recirculate(FlowTask::Scan(Scan { claim, ..scan }));
        } else if can_issue {
            return pass.recirculate(FlowTask::Issue {
                thread: id,
                producer: producer_id,
                items,
                first: seen.taken,
                is_cut: seen.is_cut,
                floor: seen.floor,
            });
        } else {
            self.after(thread, next)
        };
        if seen.newly_drained && thread.threads > 1 {
            pass.mirror(FlowTask::WakeRing {
                thread: thread.next,
                left: thread.threads - 1,
            });
        }
        pass.recirculate(match task {
            _ if !(must_lock && scan.claim) => task,
            FlowTask::Scan(next) => unlock(scan, Some(next)),
            _ => unlock(scan, None),
        });
    }

    /// The task after a producer with nothing to do: the next one, or the end of the round.
    fn after(&self, thread: &ThreadEntry, next: Scan) -> FlowTask {
        if next.tried < thread.producers {
            FlowTask::Scan(next)
        } else if next.contended {
            // A lock is released within a few passes; the remaining items are for this thread.
            FlowTask::Scan(Scan {
                tried: 0,
                contended: false,
                ..next
            })
        } else {
            FlowTask::Park(next.thread)
        }
    }

    /// Releases the lock of a producer that had nothing to do.
    pub(super) fn unlock<T: Tasks, D: Digests>(
        &mut self,
        pass: &mut Pass<'_, T, D>,
        producer: ProducerId,
        thread: ThreadId,
        then: Option<Scan>,
    ) {
        self.registers
            .taking
            .write(&mut pass.cursor, producer.index(), FREE);
        pass.recirculate(then.map_or(FlowTask::Park(thread), FlowTask::Scan));
    }

    /// Handles consumption of a producer's items: others may be taken.
    pub(super) fn reopen<T: Tasks, D: Digests>(
        &mut self,
        pass: &mut Pass<'_, T, D>,
        producer: ProducerId,
        thread: ThreadId,
    ) {
        self.registers
            .taking
            .write(&mut pass.cursor, producer.index(), FREE);
        // The thread may have left since; the producer names one that has not.
        let known = |id: &ThreadId| self.threads.lookup(id.index()).is_some();
        let other = self.producers.lookup(producer.index()).map(|p| p.thread);
        if let Some(thread) = Some(thread).filter(known).or(other.filter(known))
            && let Some(left) = self.threads.lookup(thread.index()).map(|t| t.threads)
        {
            pass.recirculate(FlowTask::WakeRing { thread, left });
        }
    }
}
