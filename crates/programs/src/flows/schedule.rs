//! Scan and issue: which producer is next, and how many of its items move.

use super::{
    ConsumerId, ENDED, FlowPass, FlowTask, Flows, ProducerId, SLOTS, ThreadEntry, ThreadId,
};
use rackweave_base::canary::{Canary, planted};
use rackweave_switch::transfer::{EngineTask, LaneId, Start};
use rackweave_wire::fabric::ring::{self, CommitRecord, SwitchState, SwitchWord};

const ASLEEP: u32 = 0;
const RUNNING: u32 = 1;
const WOKEN: u32 = 2;

/// A producer that threads share may be taken from,
const FREE: u32 = 0;
/// a thread is about to,
const TAKING: u32 = 1;
/// or its items are not consumed yet.
const HELD: u32 = 2;

/// What a transfer gives back when it is done: its thread and slot, and its lanes within their
/// rings.
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

/// What a scan carries from pass to pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scan {
    /// The thread.
    pub thread: ThreadId,
    /// The producer to look at.
    pub producer: ProducerId,
    /// Producers looked at in vain.
    pub tried: u16,
    /// Slots in use at the fullest of several consumers; a single consumer is looked at on the way.
    pub used: u32,
    /// Whether another thread was about to take from one of them.
    pub contended: bool,
    /// Whether to take the lock of the producer. A look goes without, so that threads with nothing
    /// to do do not keep each other running.
    pub claim: bool,
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
            "only one scan at a time takes lanes of a thread or a producer"
        );
        let lane = lane.unwrap_or(0);
        *busy |= 1 << lane;
        lane
    }
}

impl Flows {
    pub(super) fn wake(&mut self, pass: &mut FlowPass<'_>, id: ThreadId) {
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
    pub(super) fn wake_ring(&mut self, pass: &mut FlowPass<'_>, id: ThreadId, left: u16) {
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

    pub(super) fn park(&mut self, pass: &mut FlowPass<'_>, id: ThreadId) {
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
    fn begin(&self, id: ThreadId, thread: &ThreadEntry, cursor: u32) -> FlowTask {
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

    /// Looks at one of several consumers: the one with the least room counts (zero-sided RDMA,
    /// section 6.1).
    pub(super) fn room(
        &mut self,
        pass: &mut FlowPass<'_>,
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
            _ => pass.recirculate(FlowTask::Scan(scan)),
        }
    }

    /// Looks at one producer: a pass can see only one cell of each array.
    pub(super) fn scan(&mut self, pass: &mut FlowPass<'_>, scan: Scan) {
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
            let before = registers.taking.update(cursor, p, |taking| {
                let before = *taking;
                if scan.claim {
                    *taking = before.max(TAKING);
                }
                before
            });
            if before == HELD || (scan.claim && before == TAKING) {
                next.contended |= before == TAKING;
                return pass.recirculate(self.after(thread, next));
            }
        }
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
        let items = ring::run_length(
            available,
            room,
            (taken, producer.ring.slots),
            (reserved, thread.slots),
            thread.batch_items,
        );
        // A run that ends with a ring takes only a part of the producer's turn.
        let is_cut = items < available.min(room).min(thread.batch_items);
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
        let mut is_ahead = false;
        if let Some(weight) = thread.weight {
            let served = registers.served.read(cursor, weight.account.index());
            is_ahead = items > 0 && served > floor + weight.window;
            // Whoever could move items but for the network stands in line; nobody waits for others.
            let waits = items > 0 && (lane.is_none() || is_ahead);
            let bit = 1 << weight.bit;
            let round_ends = waits || scan.tried + 1 >= thread.producers;
            registers
                .waiting
                .update(cursor, weight.account.index(), |waiting| {
                    if waits {
                        *waiting |= bit;
                    } else if round_ends && items == 0 {
                        *waiting &= !bit;
                    }
                });
        }
        let task = if has_ended || lane.is_none() || is_ahead {
            FlowTask::Park(id)
        } else if items > 0 && source.is_some() && must_lock && !scan.claim {
            return pass.recirculate(FlowTask::Scan(Scan {
                claim: true,
                ..scan
            }));
        } else if items > 0 && source.is_some() {
            return pass.recirculate(FlowTask::Issue {
                thread: id,
                producer: producer_id,
                items,
                first: taken,
                is_cut,
                floor,
            });
        } else {
            self.after(thread, next)
        };
        if newly_drained && thread.threads > 1 {
            pass.mirror(FlowTask::WakeRing {
                thread: thread.next,
                left: thread.threads - 1,
            });
        }
        if must_lock && scan.claim {
            pass.recirculate(FlowTask::Unlock {
                producer: producer_id,
                then: match task {
                    FlowTask::Scan(scan) => Some(scan),
                    _ => None,
                },
                thread: id,
            });
        } else {
            pass.recirculate(task);
        }
    }

    /// What comes after a producer with nothing to do: the next one, or the end of the round.
    fn after(&self, thread: &ThreadEntry, next: Scan) -> FlowTask {
        if next.tried < thread.producers {
            FlowTask::Scan(next)
        } else if next.contended {
            // Whoever holds a lock gives it back within a few passes; what it leaves is for us.
            FlowTask::Scan(Scan {
                tried: 0,
                contended: false,
                ..next
            })
        } else {
            FlowTask::Park(next.thread)
        }
    }

    /// Gives back the lock of a producer that had nothing to do.
    pub(super) fn unlock(
        &mut self,
        pass: &mut FlowPass<'_>,
        producer: ProducerId,
        thread: ThreadId,
        then: Option<Scan>,
    ) {
        self.registers
            .taking
            .write(&mut pass.cursor, producer.index(), FREE);
        pass.recirculate(then.map_or(FlowTask::Park(thread), FlowTask::Scan));
    }

    /// A producer's items are consumed: others may be taken.
    pub(super) fn reopen(
        &mut self,
        pass: &mut FlowPass<'_>,
        producer: ProducerId,
        thread: ThreadId,
    ) {
        self.registers
            .taking
            .write(&mut pass.cursor, producer.index(), FREE);
        if let Some(left) = self.threads.lookup(thread.index()).map(|t| t.threads) {
            pass.recirculate(FlowTask::WakeRing { thread, left });
        }
    }

    /// Takes the items out of the books and starts their transfer.
    pub(super) fn issue(
        &mut self,
        pass: &mut FlowPass<'_>,
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
        // Whoever was served last is looked at last the next time.
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
        let place = |items: u64, slots: u32, counter: u32| {
            items + u64::from(counter & (slots - 1)) * u64::from(thread.item_size)
        };
        let start = Start {
            source: LaneId(producer.ring.lanes_first.0 + source as u16),
            target: LaneId(thread.lanes_first.0 + target as u16),
            source_address: place(producer.ring.items, producer.ring.slots, taken),
            source_rkey: producer.ring.rkey,
            target_address: place(thread.items, thread.slots, reserved),
            target_rkey: thread.rkey,
            length: items * thread.item_size,
            cookie: Cookie {
                thread: id,
                slot,
                source,
                target,
            }
            .pack(),
        };
        let poll = producer.ring.poll;
        let consumer = self.consumers.lookup(thread.first_consumer.index());
        let polls = [Some(poll), consumer.map(|consumer| consumer.ring.poll)];
        let interval = thread.poll_interval;
        let next = self.begin(id, thread, u32::from(next_producer.0));
        pass.mirror(EngineTask::Start(start));
        if thread.threads > 1 {
            // Those that share the producer come first, each in turn.
            pass.recirculate(FlowTask::Yield(id));
        } else {
            pass.recirculate(next);
        }
        // What these rings say will soon be of use.
        for lane in polls.into_iter().flatten() {
            pass.hasten(self.poll_key(lane), interval);
        }
    }

    /// After taking from a shared producer: the other threads are woken before this one goes on.
    pub(super) fn give_way(&mut self, pass: &mut FlowPass<'_>, id: ThreadId) {
        let Some(thread) = self.threads.lookup(id.index()) else {
            return;
        };
        pass.mirror(FlowTask::WakeRing {
            thread: thread.next,
            left: thread.threads,
        });
        pass.recirculate(FlowTask::Park(id));
    }

    /// Finds out which flow of a domain is furthest behind, in proportion to its weight, among
    /// those that have items to move and must wait. The others may be one batch ahead of it.
    pub(super) fn level(
        &mut self,
        pass: &mut FlowPass<'_>,
        domain: ThreadId,
        at: ThreadId,
        least: u64,
    ) {
        let weight = self.threads.lookup(at.index()).and_then(|t| t.weight);
        // A domain that has changed meanwhile has other members, and this circle may not close.
        let Some(weight) = weight.filter(|weight| weight.domain == domain) else {
            return;
        };
        let (registers, cursor) = (&mut self.registers, &mut pass.cursor);
        let account = weight.account.index();
        let served = registers.served.read(cursor, account);
        let is_last = weight.next == domain;
        let waits = registers.waiting.read(cursor, account) != 0;
        let least = if waits { least.min(served) } else { least };
        if !is_last {
            pass.recirculate(FlowTask::Level {
                domain,
                at: weight.next,
                least,
            });
        } else if least != u64::MAX {
            pass.recirculate(FlowTask::Raise {
                domain,
                floor: least,
            });
        }
    }

    /// Enters the result of [`Flows::level`], and wakes the threads of the domain if that lets
    /// anybody go on.
    pub(super) fn raise(&mut self, pass: &mut FlowPass<'_>, domain: ThreadId, floor: u64) {
        let before = self
            .registers
            .floor
            .update(&mut pass.cursor, domain.index(), |cell| {
                let before = *cell;
                *cell = before.max(floor);
                before
            });
        if floor > before {
            pass.recirculate(FlowTask::WakeDomain { domain, at: domain });
        }
    }

    /// Wakes one thread after the other, round the circle of those whose flows share a link.
    pub(super) fn wake_domain(&mut self, pass: &mut FlowPass<'_>, domain: ThreadId, at: ThreadId) {
        let weight = self.threads.lookup(at.index()).and_then(|t| t.weight);
        let Some(weight) = weight.filter(|weight| weight.domain == domain) else {
            return;
        };
        if weight.next != domain {
            pass.mirror(FlowTask::WakeDomain {
                domain,
                at: weight.next,
            });
        }
        self.wake(pass, at);
    }

    /// Announces the end of the stream, once.
    pub(super) fn try_end(&mut self, pass: &mut FlowPass<'_>, id: ThreadId) {
        let Some(thread) = self.threads.lookup(id.index()) else {
            return;
        };
        let (at, registers, cursor) = (id.index(), &mut self.registers, &mut pass.cursor);
        let issued = registers.issued.read(cursor, at);
        if registers.committed.read(cursor, at) != issued {
            return;
        }
        let head = registers.head_published.read(cursor, at);
        let drained = registers.drained_count.read(cursor, thread.group.index());
        let end = |ended: &mut u32| {
            let before = *ended;
            *ended = before.max(ENDED);
            before
        };
        let is_over = drained >= u32::from(thread.producers);
        if !is_over || registers.ended.update(cursor, at, end) != 0 {
            return;
        }
        let word = SwitchWord {
            counter: head,
            state: SwitchState::Ended,
        };
        // Nothing is under way any more, so the commit record has served its purpose.
        pass.recirculate(FlowTask::TellEnd { thread: id, word });
    }

    /// The consumers are told that no more will come.
    pub(super) fn tell_end(&mut self, pass: &mut FlowPass<'_>, id: ThreadId, word: SwitchWord) {
        let Some(thread) = self.threads.lookup(id.index()) else {
            return;
        };
        self.registers
            .told
            .write(&mut pass.cursor, id.index(), !thread.members);
        pass.recirculate(FlowTask::Tell {
            thread: id,
            at: thread.first_consumer,
            left: thread.consumers,
            record: CommitRecord::default(),
            word,
        });
    }
}
