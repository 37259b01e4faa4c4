//! Mirrors of heads and tails, kept up to date by polling.

use super::{FlowPass, FlowTask, Flows, ProducerId, Role, ThreadId};
use crate::pipeline::Digest;
use rackweave_base::Duration;
use rackweave_switch::transfer::{EngineTask, LaneId};
use rackweave_wire::fabric::ring::{UnitState, UnitWord};

/// Polls without news after which a ring counts as quiet.
const QUIET: u32 = 6;

/// Polls without news are counted up to here: the interval has long reached its bound.
const QUIET_MAX: u32 = 20;

/// Marks the count of a ring that has been asked and has not answered yet.
const ASKED: u32 = 1 << 31;

impl Flows {
    /// Polls the ring behind a lane, unless its mirror already shows a whole batch.
    pub(super) fn poll(&mut self, pass: &mut FlowPass<'_>, lane: LaneId) {
        let (registers, cursor) = (&mut self.registers, &mut pass.cursor);
        let (enough, over) = match self.roles.lookup(lane.index()) {
            Some(&Role::ProducerPoll(id)) => {
                let Some(producer) = self.producers.lookup(id.index()) else {
                    return;
                };
                let Some(thread) = self.threads.lookup(producer.thread.index()) else {
                    return;
                };
                let head = registers.head.read(cursor, id.index());
                let finished = registers.finished.read(cursor, id.index()) != 0;
                let available = head.wrapping_sub(registers.taken.read(cursor, id.index()));
                // What a finished producer has said was its last word.
                let over = registers.ended.read(cursor, producer.thread.index()) != 0 || finished;
                (available >= thread.batch_items, over)
            }
            Some(&Role::ConsumerPoll(id)) => {
                let Some(thread) = self.threads.lookup(id.index()) else {
                    return;
                };
                let reserved = registers.reserved.read(cursor, id.index());
                let used = reserved.wrapping_sub(registers.tail.read(cursor, id.index()));
                let over = registers.ended.read(cursor, id.index()) != 0;
                // With nothing in the ring there is no tail to wait for; without a consumer's
                // death in view, that is the state of an idle flow.
                (
                    used == 0 || thread.ring.slots - used >= thread.batch_items * 2,
                    over,
                )
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
        match (asked, enough) {
            // The answer is on its way and sets the next poll.
            (true, _) => {}
            (false, true) => self.arm_poll(pass, lane, polls),
            (false, false) => pass.recirculate(EngineTask::ReadWord(lane)),
        }
    }

    pub(super) fn producer_word(
        &mut self,
        pass: &mut FlowPass<'_>,
        lane: LaneId,
        id: ProducerId,
        bytes: [u8; 8],
    ) {
        let Some(producer) = self.producers.lookup(id.index()) else {
            return;
        };
        let thread = producer.thread;
        let Ok(word) = UnitWord::try_from(producer.ring.order.from_bytes(bytes)) else {
            return pass.digest(Digest::BadRingWord(thread));
        };
        // A head further ahead than the ring has slots would have the switch move bytes that nobody
        // has written.
        let finished = u32::from(word.state == UnitState::Finished);
        let before = self
            .registers
            .head
            .write(&mut pass.cursor, id.index(), word.counter);
        let was = self
            .registers
            .finished
            .write(&mut pass.cursor, id.index(), finished);
        let taken = self.registers.taken.read(&mut pass.cursor, id.index());
        if word.counter.wrapping_sub(taken) > producer.ring.slots {
            return pass.digest(Digest::BadRingWord(thread));
        }
        self.polled(
            pass,
            lane,
            thread,
            before != word.counter || was != finished,
        );
    }

    pub(super) fn consumer_word(
        &mut self,
        pass: &mut FlowPass<'_>,
        lane: LaneId,
        id: ThreadId,
        bytes: [u8; 8],
    ) {
        let Some(thread) = self.threads.lookup(id.index()) else {
            return;
        };
        let Ok(word) = UnitWord::try_from(thread.ring.order.from_bytes(bytes)) else {
            return pass.digest(Digest::BadRingWord(id));
        };
        if word.state == UnitState::Finished {
            return pass.digest(Digest::ConsumerLeft(id));
        }
        let (registers, cursor) = (&mut self.registers, &mut pass.cursor);
        let reserved = registers.reserved.read(cursor, id.index());
        let before = registers.tail.write(cursor, id.index(), word.counter);
        if reserved.wrapping_sub(word.counter) > thread.ring.slots {
            return pass.digest(Digest::BadRingWord(id));
        }
        self.polled(pass, lane, id, before != word.counter);
    }

    /// Sets the next poll and wakes the thread if there was news.
    fn polled(&mut self, pass: &mut FlowPass<'_>, lane: LaneId, thread: ThreadId, news: bool) {
        let polls = self
            .registers
            .quiet
            .update(&mut pass.cursor, lane.index(), |quiet| {
                let polls = *quiet & !ASKED;
                *quiet = if news { 0 } else { (polls + 1).min(QUIET_MAX) };
                *quiet
            });
        self.arm_poll(pass, lane, polls);
        if news {
            pass.recirculate(FlowTask::Wake(thread));
        }
    }

    fn arm_poll(&self, pass: &mut FlowPass<'_>, lane: LaneId, polls: u32) {
        let interval = self.interval_after(polls);
        // Quiet rings are polled together, so that whoever drives an idle rack wakes once for all.
        let late = Duration::from_nanos(pass.now.as_nanos() % interval.as_nanos());
        let aligned = Duration::from_nanos(interval.as_nanos() - late.as_nanos());
        pass.arm(
            self.poll_key(lane),
            if polls < QUIET { interval } else { aligned },
        );
    }

    /// Items are on the move: what the ring behind `lane` says will soon be of use.
    pub(super) fn poll_soon(&self, pass: &mut FlowPass<'_>, lane: LaneId) {
        pass.arm(self.poll_key(lane), self.config.poll_interval);
    }

    /// The interval for a ring that has been quiet for `polls` polls.
    pub(super) fn interval_after(&self, polls: u32) -> Duration {
        (self.config.poll_interval * (1 << polls.min(QUIET_MAX))).min(self.config.poll_interval_max)
    }
}
