//! Mirrors of heads and tails, kept up to date by polling.

use super::entries::Role;
use super::{
    ConsumerId, Digests, FlowDigest, FlowTask, Flows, ProducerId, RingPlace, Tasks, ThreadEntry,
    ThreadId, Whose,
};
use rackweave_base::Duration;
use rackweave_switch::Pass;
use rackweave_switch::transfer::{EngineTask, LaneId};
use rackweave_wire::fabric::ring::{NodeState, NodeWord};

/// Polls without a change after which a ring counts as quiet.
const QUIET: u32 = 6;

/// Maximum count of polls without a change: the interval has long reached its bound.
const QUIET_MAX: u32 = 20;

/// Marks the count of a ring whose poll is pending.
const ASKED: u32 = 1 << 31;

impl Flows {
    /// Polls the ring behind a lane, unless its mirror already shows work for all lanes. If less
    /// were enough, a flow that has items could appear to have none, and would be passed over by
    /// others.
    pub(super) fn poll<T: Tasks, D: Digests>(&mut self, pass: &mut Pass<'_, T, D>, lane: LaneId) {
        let Some(&role) = self.roles.lookup(lane.index()) else {
            return;
        };
        let thread_id = match role {
            Role::ProducerPoll(id) => self.producers.lookup(id.index()).map(|p| p.thread),
            Role::ConsumerPoll(id) => self.consumers.lookup(id.index()).map(|c| c.thread),
            _ => None,
        };
        let Some(thread_id) = thread_id else { return };
        let Some(thread) = self.threads.lookup(thread_id.index()) else {
            return;
        };
        let (at, registers, cursor) = (thread_id.index(), &mut self.registers, &mut pass.cursor);
        let (enough, over) = match role {
            Role::ProducerPoll(id) => {
                let head = registers.head.read(cursor, id.index());
                let finished = registers.finished.read(cursor, id.index()) != 0;
                let available = head.wrapping_sub(registers.taken.read(cursor, id.index()));
                // A finished producer's word does not change any more.
                let over = registers.ended.read(cursor, at) != 0 && thread.threads == 1;
                let all = thread.batch_items.saturating_mul(u32::from(thread.lanes));
                let slots = self
                    .producers
                    .lookup(id.index())
                    .map_or(0, |p| p.ring.slots);
                (available >= all.min(slots), over || finished)
            }
            Role::ConsumerPoll(id) => {
                let reserved = registers.reserved.read(cursor, at);
                let used = reserved.wrapping_sub(registers.tail.read(cursor, id.index()));
                let over = registers.ended.read(cursor, at) != 0;
                // With an empty ring there is no tail to wait for. This is the state of an idle
                // flow, which does not watch for a consumer's death.
                let all = u32::from(thread.lanes) + 1;
                let room = thread.slots.saturating_sub(used);
                let has_room = room >= thread.batch_items.saturating_mul(all);
                (used == 0 || (has_room && !thread.retain), over)
            }
            _ => return,
        };
        if over {
            return;
        }
        let (asked, polls) = registers.quiet.update(cursor, lane.index(), |quiet| {
            let asked = *quiet & ASKED != 0;
            if enough && !asked {
                *quiet = (*quiet + 1).min(QUIET_MAX);
            } else {
                *quiet |= ASKED;
            }
            (asked, *quiet & !ASKED)
        });
        let interval = thread.interval_after(polls);
        match (asked, enough) {
            // The pending answer schedules the next poll.
            (true, _) => {}
            (false, true) => self.arm_poll(pass, lane, polls, interval),
            (false, false) => pass.recirculate(EngineTask::ReadWord(lane)),
        }
    }

    /// Handles a producer's node word, read on `lane` or brought by a doorbell.
    pub(super) fn producer_word<T: Tasks, D: Digests>(
        &mut self,
        pass: &mut Pass<'_, T, D>,
        lane: Option<LaneId>,
        id: ProducerId,
        bytes: [u8; 8],
    ) {
        let Some(producer) = self.producers.lookup(id.index()).copied() else {
            return;
        };
        let bad = FlowDigest::BadRingWord {
            thread: producer.thread,
            whose: Whose::Producer(id),
            ring: producer.ring.rkey,
        };
        let Ok(word) = NodeWord::try_from(producer.ring.order.from_bytes(bytes)) else {
            return pass.digest(bad);
        };
        let finished = u32::from(word.state == NodeState::Finished);
        let (registers, cursor) = (&mut self.registers, &mut pass.cursor);
        let moved = registers.head.update(cursor, id.index(), |head| {
            Mirror::move_to(head, word.counter, &producer.ring)
        });
        let was = registers.finished.update(cursor, id.index(), |cell| {
            core::mem::replace(cell, *cell | finished)
        });
        // With a head further ahead than the ring has slots the switch would move bytes that were
        // never written.
        let taken = registers.taken.read(cursor, id.index());
        if moved != Mirror::Old && word.counter.wrapping_sub(taken) > producer.ring.slots {
            return pass.digest(bad);
        }
        let news = moved == Mirror::Moved || was | finished != was;
        let turn = ThreadId(registers.turn.read(cursor, id.index()) as u16);
        let Some(thread) = self.threads.lookup(producer.thread.index()) else {
            return;
        };
        let shares = |id: ThreadId| {
            let thread = self.threads.lookup(id.index());
            thread.is_some_and(|thread| thread.group == producer.group)
        };
        let first = if shares(turn) { turn } else { producer.thread };
        let wake = FlowTask::WakeRing {
            thread: first,
            left: thread.threads,
        };
        let poll = (producer.ring.poll, lane.is_none());
        self.polled(pass, poll, producer.thread, news, wake);
    }

    /// Handles a consumer's node word.
    pub(super) fn consumer_word<T: Tasks, D: Digests>(
        &mut self,
        pass: &mut Pass<'_, T, D>,
        lane: Option<LaneId>,
        id: ConsumerId,
        bytes: [u8; 8],
    ) {
        let Some(consumer) = self.consumers.lookup(id.index()).copied() else {
            return;
        };
        let thread = consumer.thread;
        let retain = self.threads.lookup(thread.index()).map(|t| t.retain);
        let Some(retain) = retain else { return };
        let whose = Whose::Consumer(id);
        let ring = consumer.ring.rkey;
        let bad = FlowDigest::BadRingWord {
            thread,
            whose,
            ring,
        };
        let Ok(word) = NodeWord::try_from(consumer.ring.order.from_bytes(bytes)) else {
            return pass.digest(bad);
        };
        let (registers, cursor) = (&mut self.registers, &mut pass.cursor);
        let reserved = registers.reserved.read(cursor, thread.index());
        let moved = registers.tail.update(cursor, id.index(), |tail| {
            Mirror::move_to(tail, word.counter, &consumer.ring)
        });
        if moved != Mirror::Old && reserved.wrapping_sub(word.counter) > consumer.ring.slots {
            return pass.digest(bad);
        }
        // What it took before it left is known by now.
        if word.state == NodeState::Finished {
            return pass.digest(FlowDigest::ConsumerLeft {
                thread,
                consumer: id,
                ring,
            });
        }
        if retain && moved == Mirror::Moved {
            pass.mirror(FlowTask::CommitTail(thread));
        }
        let wake = FlowTask::Wake(thread);
        let poll = (consumer.ring.poll, lane.is_none());
        self.polled(pass, poll, thread, moved == Mirror::Moved, wake);
    }

    /// Schedules the next poll and wakes the threads concerned if there was a change. A doorbell
    /// schedules none, but if it brings a change, the ring is not quiet any more.
    fn polled<T: Tasks, D: Digests>(
        &mut self,
        pass: &mut Pass<'_, T, D>,
        (lane, is_bell): (LaneId, bool),
        thread: ThreadId,
        news: bool,
        wake: FlowTask,
    ) {
        let polls = self
            .registers
            .quiet
            .update(&mut pass.cursor, lane.index(), |quiet| {
                let (asked, polls) = (*quiet & ASKED, *quiet & !ASKED);
                *quiet = match (is_bell, news) {
                    (false, true) => 0,
                    (false, false) => (polls + 1).min(QUIET_MAX),
                    (true, true) => asked,
                    (true, false) => *quiet,
                };
                *quiet & !ASKED
            });
        if let Some(thread) = self.threads.lookup(thread.index()) {
            match is_bell {
                false => self.arm_poll(pass, lane, polls, thread.interval_after(polls)),
                true if news => pass.hasten(self.poll_key(lane), thread.poll_interval),
                true => {}
            }
        }
        if news {
            pass.recirculate(wake);
        }
    }

    fn arm_poll<T: Tasks, D: Digests>(
        &self,
        pass: &mut Pass<'_, T, D>,
        lane: LaneId,
        polls: u32,
        interval: Duration,
    ) {
        // Quiet rings are polled together, so that the driver of an idle rack wakes once for all.
        let late = Duration::from_nanos(pass.now.as_nanos() % interval.as_nanos());
        let aligned = Duration::from_nanos(interval.as_nanos() - late.as_nanos());
        pass.arm(
            self.poll_key(lane),
            if polls < QUIET { interval } else { aligned },
        );
    }
}

impl ThreadEntry {
    /// The interval for a ring that has been quiet for `polls` polls.
    pub(super) fn interval_after(&self, polls: u32) -> Duration {
        (self.poll_interval * (1 << polls.min(QUIET_MAX))).min(self.poll_interval_max)
    }
}

/// The effect of a word on a mirror.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mirror {
    /// None: it equals the mirror.
    Same,
    /// The mirror moved forward.
    Moved,
    /// None: a doorbell has overtaken it.
    Old,
}

impl Mirror {
    /// Moves a mirror. With doorbells, an older word may come after a newer one.
    fn move_to(mirror: &mut u32, counter: u32, ring: &RingPlace) -> Self {
        let behind = mirror.wrapping_sub(counter);
        if behind == 0 {
            Mirror::Same
        } else if ring.bell.is_some() && behind < 1 << 31 {
            // However far behind: the answer to a poll may be late by many cycles of the ring.
            Mirror::Old
        } else {
            *mirror = counter;
            Mirror::Moved
        }
    }
}
