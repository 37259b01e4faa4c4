//! Control-plane operations while flows run.

use super::commit::CLAIMED;
use super::entries::Role;
use super::{
    ConsumerEntry, ConsumerId, Counters, ENDED, FAILED, Flows, ProducerEntry, ProducerId,
    RingPlace, ThreadEntry, ThreadId, Weight,
};
use rackweave_switch::table::TableError;

impl Flows {
    /// Enters a producer.
    ///
    /// # Errors
    /// If a number is beyond the tables.
    pub fn set_producer(
        &mut self,
        id: ProducerId,
        entry: ProducerEntry,
        counters: Counters,
    ) -> Result<(), TableError> {
        self.producers.set(id.index(), Some(entry))?;
        let roles = RingRoles {
            poll: Role::ProducerPoll(id),
            publish: Role::ProducerPublish(id),
            bell: Role::ProducerBell(id),
            data: Role::Source(id),
        };
        self.set_roles(&entry.ring, Some(roles))?;
        self.registers
            .reset_producer(id.index(), counters.node, counters.published);
        Ok(())
    }

    /// Enters a consumer, whose tail is known.
    ///
    /// # Errors
    /// If a number is beyond the tables.
    pub fn set_consumer(
        &mut self,
        id: ConsumerId,
        entry: ConsumerEntry,
        tail: u32,
    ) -> Result<(), TableError> {
        self.consumers.set(id.index(), Some(entry))?;
        let roles = RingRoles {
            poll: Role::ConsumerPoll(id),
            publish: Role::ConsumerPublish(id),
            bell: Role::ConsumerBell(id),
            data: Role::Target(id),
        };
        self.set_roles(&entry.ring, Some(roles))?;
        *self.registers.tail.control(id.index()) = tail;
        Ok(())
    }

    /// Enters a thread, or changes the entry of an existing one: then `head` is none. Injecting
    /// [`super::FlowTask::Poll`] for the poll lanes of all its rings starts it.
    ///
    /// # Errors
    /// If a number is beyond the tables.
    pub fn set_thread(
        &mut self,
        id: ThreadId,
        entry: ThreadEntry,
        head: Option<u32>,
    ) -> Result<(), TableError> {
        self.threads.set(id.index(), Some(entry))?;
        if let Some(head) = head {
            self.registers.reset_thread(id.index(), head);
            *self.registers.cursor.control(id.index()) = u32::from(entry.first_producer.0);
        }
        Ok(())
    }

    /// Changes the entry of a producer that stays.
    pub fn change_producer(&mut self, id: ProducerId, change: impl FnOnce(&mut ProducerEntry)) {
        if let Some(mut entry) = self.producer(id) {
            change(&mut entry);
            let known = self.producers.set(id.index(), Some(entry));
            debug_assert!(known.is_ok());
        }
    }

    /// Changes the entry of a consumer that stays.
    pub fn change_consumer(&mut self, id: ConsumerId, change: impl FnOnce(&mut ConsumerEntry)) {
        if let Some(mut entry) = self.consumer(id) {
            change(&mut entry);
            let known = self.consumers.set(id.index(), Some(entry));
            debug_assert!(known.is_ok());
        }
    }

    /// Changes the entry of a thread that stays.
    pub fn change_thread(&mut self, id: ThreadId, change: impl FnOnce(&mut ThreadEntry)) {
        if let Some(mut entry) = self.thread(id) {
            change(&mut entry);
            let known = self.threads.set(id.index(), Some(entry));
            debug_assert!(known.is_ok());
        }
    }

    /// Changes a thread's weight.
    pub fn set_weight(&mut self, id: ThreadId, weight: Option<Weight>) {
        let Some(entry) = self.threads.lookup(id.index()).copied() else {
            return;
        };
        let account = |weight: Weight| (weight.account, weight.bit);
        if let Some(before) = entry.weight
            && weight.map(account) != Some(account(before))
        {
            *self.registers.waiting.control(before.account.index()) &= !(1 << before.bit);
        }
        let known = self
            .threads
            .set(id.index(), Some(ThreadEntry { weight, ..entry }));
        debug_assert!(known.is_ok());
    }

    fn set_roles(&mut self, ring: &RingPlace, roles: Option<RingRoles>) -> Result<(), TableError> {
        let data = ring.lanes_first.0..ring.lanes_first.0 + u16::from(ring.lanes);
        for lane in data {
            self.roles
                .set(usize::from(lane), roles.as_ref().map(|r| r.data))?;
        }
        if let Some(bell) = ring.bell {
            self.roles
                .set(bell.index(), roles.as_ref().map(|r| r.bell))?;
        }
        self.roles
            .set(ring.publish.index(), roles.as_ref().map(|r| r.publish))?;
        self.roles
            .set(ring.poll.index(), roles.as_ref().map(|r| r.poll))?;
        *self.registers.quiet.control(ring.poll.index()) = 0;
        Ok(())
    }

    /// The entry of a thread.
    pub fn thread(&self, id: ThreadId) -> Option<ThreadEntry> {
        self.threads.lookup(id.index()).copied()
    }

    /// The entry of a producer ring.
    pub fn producer(&self, id: ProducerId) -> Option<ProducerEntry> {
        self.producers.lookup(id.index()).copied()
    }

    /// The entry of a consumer ring.
    pub fn consumer(&self, id: ConsumerId) -> Option<ConsumerEntry> {
        self.consumers.lookup(id.index()).copied()
    }

    /// Removes a thread. Its pending tasks have no effect.
    pub fn remove_thread(&mut self, id: ThreadId) {
        if let Some(weight) = self.threads.lookup(id.index()).and_then(|t| t.weight) {
            *self.registers.waiting.control(weight.account.index()) &= !(1 << weight.bit);
        }
        let known = self.threads.set(id.index(), None);
        debug_assert!(known.is_ok());
    }

    /// Removes a consumer ring.
    pub fn remove_consumer(&mut self, id: ConsumerId) {
        if let Some(entry) = self.consumers.lookup(id.index()).copied() {
            let known = self.set_roles(&entry.ring, None);
            debug_assert!(known.is_ok());
            let known = self.consumers.set(id.index(), None);
            debug_assert!(known.is_ok());
        }
    }

    /// Removes a producer ring. If it had been drained, its threads no longer count it.
    pub fn remove_producer(&mut self, id: ProducerId) {
        if let Some(entry) = self.producers.lookup(id.index()).copied() {
            if self.registers.drained.peek(id.index()) != 0 {
                let count = self.registers.drained_count.control(entry.group.index());
                *count = count.saturating_sub(1);
            }
            let known = self.set_roles(&entry.ring, None);
            debug_assert!(known.is_ok());
            let known = self.producers.set(id.index(), None);
            debug_assert!(known.is_ok());
        }
    }

    /// Whether a thread has announced the end of the stream to its consumers.
    pub fn has_ended(&self, id: ThreadId) -> bool {
        let (at, registers) = (id.index(), &self.registers);
        let all_sent =
            registers.committing.peek(at) == 0 && registers.head_sent.peek(at) == u32::MAX;
        registers.ended.peek(at) == ENDED && all_sent
    }

    /// Whether a thread has begun to announce the end of its stream, or cannot continue.
    pub fn is_over(&self, id: ThreadId) -> bool {
        self.registers.ended.peek(id.index()) != 0
    }

    /// The ring counter of a thread's consumers up to which transfers have been issued.
    pub fn reserved(&self, id: ThreadId) -> u32 {
        self.registers.reserved.peek(id.index())
    }

    /// Whether a thread has reached its pause: it is asleep, everything that it has issued is
    /// committed, and no end is being announced.
    pub fn is_paused(&self, id: ThreadId) -> bool {
        let (at, registers) = (id.index(), &self.registers);
        self.thread(id).is_some_and(|thread| {
            thread.pause_at == Some(registers.reserved.peek(at))
                && registers.issued.peek(at) == registers.committed.peek(at)
                && registers.committing.peek(at) == 0
                && registers.lock.peek(at) == 0
                && registers.ended.peek(at) == 0
        })
    }

    /// Whether everything up to ring counter `head` of a producer is taken and committed, and no
    /// transfer of its is in flight.
    pub fn is_quiet(&self, id: ProducerId, head: u32) -> bool {
        let (at, registers) = (id.index(), &self.registers);
        registers.taken.peek(at) == head
            && registers.tail_published.peek(at) == head
            && registers.sources_busy.peek(at) == 0
    }

    /// Whether a thread has reported that it cannot continue.
    pub fn has_failed(&self, id: ThreadId) -> bool {
        self.registers.ended.peek(id.index()) == FAILED
    }

    /// The head last sent to a thread's consumers.
    pub fn head(&self, id: ThreadId) -> u32 {
        self.registers.head_published.peek(id.index())
    }

    /// Items published to a consumer that it has not reported as taken, without those in flight to
    /// it.
    pub fn unconsumed(&self, thread: ThreadId, consumer: ConsumerId) -> u32 {
        let registers = &self.registers;
        let head = registers.head_published.peek(thread.index());
        head.wrapping_sub(registers.tail.peek(consumer.index()))
    }

    /// Whether all consumers have acknowledged the head of the pending commit.
    pub fn is_shown(&self, thread: ThreadId) -> bool {
        // It is zero again while the producer is notified.
        matches!(self.registers.head_sent.peek(thread.index()), 0 | u32::MAX)
    }

    /// The producer and its tail for which a thread is notifying its consumers but has not notified
    /// the producer; none if no such commit is pending.
    pub fn being_sent(&self, thread: ThreadId) -> Option<(ProducerId, u32)> {
        let (at, registers) = (thread.index(), &self.registers);
        // While a batch is assembled, tail and head are still those of the previous one.
        if matches!(registers.committing.peek(at), 0 | CLAIMED) {
            return None;
        }
        let slot = registers.committed.peek(at) as usize % super::SLOTS;
        let producer = registers.slot_producer.peek(at * super::SLOTS + slot) as u16;
        Some((ProducerId(producer), registers.tail_next.peek(at)))
    }
}

struct RingRoles {
    poll: Role,
    publish: Role,
    bell: Role,
    data: Role,
}
