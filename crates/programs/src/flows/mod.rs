//! Zero-sided flows: the switch moves items from producers' rings to consumers' rings; neither
//! side posts a work request (zero-sided RDMA, sections 3 to 5.1).
//!
//! **Threads.** There is one *thread* per consumer ring. It serves the producer rings that send to
//! that consumer, in turn: one for a 1:1 flow, N for an N:M shuffle with N × M producer rings. The
//! paper's thread is a packet that recirculates for ever. Ours recirculates only while there is
//! something to do, and is woken by the events that can change that: a mirror that moved, a
//! transfer that ended. A lock register makes sure that a thread runs once.
//!
//! **One round.** *Scan* looks at the next producer and decides how many items to move: what is
//! there, what there is room for, what lies before either ring's end, at most `batch_bytes`
//! (adaptive batching). *Issue* takes them out of the books and starts the transfer. Each ring has
//! several data lanes, so that the link does not idle while an acknowledgement travels; a lane is
//! free as soon as its transfer is done. A done transfer waits in its *slot* to be *committed*,
//! strictly in the order of issue: the consumer's head is written (with the commit record), then
//! the producer's tail, then the slot is free. So items become visible in one order, and after a
//! restart of the switch the rings tell exactly what was delivered.
//!
//! **Mirrors.** Heads of producers and tails of consumers are mirrored by polling READs. The
//! interval is configurable; a ring that does not change is polled less and less often, down to a
//! configurable bound, and one whose mirror already shows a whole batch is not polled at all.
//!
//! **End.** A producer that says *finished* and whose items are all taken is *drained*. When all
//! producers of a thread are drained and all its transfers committed, the consumer's word says
//! *ended*.
//!
//! Files: `registers` the state by stage, `schedule` scan and issue, `commit`, `mirror`.

mod commit;
mod mirror;
mod registers;
mod schedule;
#[cfg(test)]
mod tests;

use crate::pipeline::{Digest, Task};
use rackweave_base::{Duration, Rkey};
use rackweave_switch::table::{Direct, TableError};
use rackweave_switch::transfer::{EngineEvent, FailReason, LaneId};
use rackweave_switch::{Ledger, Pass};
use rackweave_wire::fabric::ring::ByteOrder;
use registers::Registers;

/// A thread, which is a consumer ring.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ThreadId(pub u16);

/// A producer ring.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ProducerId(pub u16);

impl ThreadId {
    const fn index(self) -> usize {
        self.0 as usize
    }
}

impl ProducerId {
    const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Slots of a thread: transfers issued and not committed.
const SLOTS: usize = 8;

/// The most data lanes of a ring: transfers under way.
pub const LANES_MAX: usize = 4;

/// The sizes and intervals of the flows program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowConfig {
    /// Consumer rings.
    pub threads: u16,
    /// Producer rings.
    pub producers: u16,
    /// How often a ring is polled that changes.
    pub poll_interval: Duration,
    /// How often a ring is polled that has not changed for long.
    pub poll_interval_max: Duration,
}

/// Where a ring is, as the controller enters it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RingPlace {
    /// The address of slot zero.
    pub items: u64,
    /// The key of the ring's region.
    pub rkey: Rkey,
    /// Slots, a power of two.
    pub slots: u32,
    /// The byte order of its words.
    pub order: ByteOrder,
    /// The word lane that reads the unit word.
    pub poll: LaneId,
    /// The word lane that writes the switch word.
    pub publish: LaneId,
    /// The first of the data lanes; the others follow.
    pub lanes_first: LaneId,
    /// Data lanes, at most [`LANES_MAX`].
    pub lanes: u8,
}

/// A thread, as the controller enters it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ThreadEntry {
    /// The consumer's ring.
    pub ring: RingPlace,
    /// The size of an item in bytes.
    pub item_size: u32,
    /// Items in one transfer at most.
    pub batch_items: u32,
    /// The first of its producers; the others follow.
    pub producers_first: ProducerId,
    /// How many producers it has.
    pub producers: u16,
    /// Which of them it looks at first, below `producers`. Threads that begin with different ones
    /// do not all wait for the same node.
    pub first_turn: u16,
}

/// A producer, as the controller enters it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProducerEntry {
    /// Its ring.
    pub ring: RingPlace,
    /// The thread that serves it.
    pub thread: ThreadId,
}

/// Where counters stand when a thread is installed: zero for a new flow, read from the rings when
/// the switch has restarted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// The head published to the consumer, or the tail published to the producer.
    pub published: u32,
    /// The counter in the unit word.
    pub unit: u32,
}

/// What a lane means to the flows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Role {
    ProducerPoll(ProducerId),
    ProducerPublish(ProducerId),
    Source(ProducerId),
    ConsumerPoll(ThreadId),
    ConsumerPublish(ThreadId),
}

/// What recirculates for the flows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlowTask {
    /// Something changed: let the thread run, if it does not run yet.
    Wake(ThreadId),
    /// Look at the next producer; `tried` of them had nothing to do.
    Scan {
        /// The thread.
        thread: ThreadId,
        /// Producers looked at in vain.
        tried: u16,
    },
    /// Move `items` items of a producer.
    Issue {
        /// The thread.
        thread: ThreadId,
        /// The producer.
        producer: ProducerId,
        /// How many.
        items: u32,
    },
    /// Nothing to do: let the thread sleep, unless it was woken meanwhile.
    Park(ThreadId),
    /// If every producer is drained and everything committed, end the thread.
    TryEnd(ThreadId),
    /// The transfer of a slot is done; `slot` is only of use to a planted bug.
    TryCommit {
        /// The thread.
        thread: ThreadId,
        /// The slot whose transfer ended.
        slot: u32,
    },
    /// The consumer has the head; give the producer its tail.
    CommitTail(ThreadId),
    /// Both are told; the slot is free.
    CommitEnd(ThreadId),
    /// Poll a ring, if that is of use.
    Poll(LaneId),
    /// The thread cannot go on.
    Abort {
        /// The thread.
        thread: ThreadId,
        /// The producer whose lane failed, if it was one.
        producer: Option<ProducerId>,
        /// Why.
        reason: FailReason,
    },
}

/// The flows program.
pub struct Flows {
    config: FlowConfig,
    registers: Registers,
    threads: Direct<ThreadEntry>,
    producers: Direct<ProducerEntry>,
    roles: Direct<Role>,
}

type FlowPass<'a> = Pass<'a, Task, Digest>;

impl Flows {
    /// Flows without any thread, over an engine with `lanes` lanes.
    pub fn new(config: FlowConfig, lanes: u16) -> Self {
        let (threads, producers) = (usize::from(config.threads), usize::from(config.producers));
        Self {
            config,
            registers: Registers::new(threads, producers, usize::from(lanes)),
            threads: Direct::new("flows.threads", 0, threads),
            producers: Direct::new("flows.producers", 1, producers),
            roles: Direct::new("flows.roles", 0, usize::from(lanes)),
        }
    }

    /// Enters tables and registers.
    pub fn declare(&self, ledger: &mut Ledger) {
        self.registers.declare(ledger);
        ledger.direct(&self.threads);
        ledger.direct(&self.producers);
        ledger.direct(&self.roles);
    }

    /// Packet generator entries: one per lane.
    pub fn generator_keys(&self) -> usize {
        self.roles.capacity()
    }

    /// Enters a producer. Its thread must be installed afterwards.
    ///
    /// # Errors
    /// If a number is beyond the tables.
    pub fn install_producer(
        &mut self,
        id: ProducerId,
        entry: ProducerEntry,
        counters: Counters,
    ) -> Result<(), TableError> {
        self.producers.set(id.index(), Some(entry))?;
        self.roles
            .set(entry.ring.poll.index(), Some(Role::ProducerPoll(id)))?;
        self.roles
            .set(entry.ring.publish.index(), Some(Role::ProducerPublish(id)))?;
        for lane in 0..u16::from(entry.ring.lanes) {
            let lane = usize::from(entry.ring.lanes_first.0 + lane);
            self.roles.set(lane, Some(Role::Source(id)))?;
        }
        self.registers
            .reset_producer(id.index(), counters.unit, counters.published);
        *self.registers.quiet.control(entry.ring.poll.index()) = 0;
        Ok(())
    }

    /// Enters a thread. Injecting [`FlowTask::Poll`] for the poll lanes of all its rings starts it.
    ///
    /// # Errors
    /// If a number is beyond the tables.
    pub fn install_thread(
        &mut self,
        id: ThreadId,
        entry: ThreadEntry,
        counters: Counters,
    ) -> Result<(), TableError> {
        self.threads.set(id.index(), Some(entry))?;
        self.roles
            .set(entry.ring.poll.index(), Some(Role::ConsumerPoll(id)))?;
        self.roles
            .set(entry.ring.publish.index(), Some(Role::ConsumerPublish(id)))?;
        self.registers
            .reset_thread(id.index(), counters.unit, counters.published);
        *self.registers.quiet.control(entry.ring.poll.index()) = 0;
        *self.registers.cursor.control(id.index()) = u32::from(entry.first_turn);
        Ok(())
    }

    /// Removes a thread and its producers. What of theirs is still under way comes to nothing.
    pub fn remove(&mut self, id: ThreadId) {
        let Some(thread) = self.threads.lookup(id.index()).copied() else {
            return;
        };
        let mut rings = vec![thread.ring];
        for producer in 0..thread.producers {
            let index = usize::from(thread.producers_first.0 + producer);
            if let Some(entry) = self.producers.lookup(index) {
                rings.push(entry.ring);
            }
            let known = self.producers.set(index, None);
            debug_assert!(known.is_ok());
        }
        for ring in rings {
            let data = ring.lanes_first.0..ring.lanes_first.0 + u16::from(ring.lanes);
            for lane in data.chain([ring.poll.0, ring.publish.0]) {
                let known = self.roles.set(usize::from(lane), None);
                debug_assert!(known.is_ok());
            }
        }
        let known = self.threads.set(id.index(), None);
        debug_assert!(known.is_ok());
    }

    /// The engine has finished something for a lane.
    #[inline]
    pub fn event(&mut self, pass: &mut FlowPass<'_>, event: EngineEvent) {
        let lane = match event {
            EngineEvent::Done { lane, .. } | EngineEvent::Written(lane) => lane,
            EngineEvent::Word { lane, .. } | EngineEvent::Failed { lane, .. } => lane,
        };
        let Some(&role) = self.roles.lookup(lane.index()) else {
            return;
        };
        match (event, role) {
            (EngineEvent::Word { bytes, .. }, Role::ProducerPoll(id)) => {
                self.producer_word(pass, lane, id, bytes);
            }
            (EngineEvent::Word { bytes, .. }, Role::ConsumerPoll(id)) => {
                self.consumer_word(pass, lane, id, bytes);
            }
            (EngineEvent::Done { cookie, .. }, Role::Source(id)) => {
                self.transfer_done(pass, cookie, id)
            }
            (EngineEvent::Written(_), Role::ConsumerPublish(id)) => self.head_written(pass, id),
            (EngineEvent::Written(_), Role::ProducerPublish(id)) => {
                if let Some(entry) = self.producers.lookup(id.index()) {
                    pass.recirculate(FlowTask::CommitEnd(entry.thread));
                }
            }
            (EngineEvent::Failed { reason, .. }, role) => self.lane_failed(pass, role, reason),
            (event, role) => debug_assert!(false, "{event:?} cannot happen on {role:?}"),
        }
    }

    /// A task of the flows' takes its pass.
    #[inline]
    pub fn task(&mut self, pass: &mut FlowPass<'_>, task: FlowTask) {
        match task {
            FlowTask::Wake(id) => self.wake(pass, id),
            FlowTask::Scan { thread, tried } => self.scan(pass, thread, tried),
            FlowTask::Issue {
                thread,
                producer,
                items,
            } => self.issue(pass, thread, producer, items),
            FlowTask::Park(id) => self.park(pass, id),
            FlowTask::TryEnd(id) => self.try_end(pass, id),
            FlowTask::TryCommit { thread, slot } => self.try_commit(pass, thread, slot),
            FlowTask::CommitTail(id) => self.commit_tail(pass, id),
            FlowTask::CommitEnd(id) => self.commit_end(pass, id),
            FlowTask::Poll(lane) => self.poll(pass, lane),
            FlowTask::Abort {
                thread,
                producer,
                reason,
            } => {
                self.abort(pass, thread, producer, reason);
            }
        }
    }

    /// The packet generator says that a ring is to be polled.
    pub fn generated(&mut self, pass: &mut FlowPass<'_>, key: u32) {
        pass.recirculate(FlowTask::Poll(LaneId(key as u16)));
    }

    fn poll_key(&self, lane: LaneId) -> u32 {
        // The engine's keys come first, one per lane.
        self.roles.capacity() as u32 + u32::from(lane.0)
    }

    fn lane_failed(&mut self, pass: &mut FlowPass<'_>, role: Role, reason: FailReason) {
        let (thread, producer) = match role {
            Role::ProducerPoll(id) | Role::ProducerPublish(id) | Role::Source(id) => {
                let Some(entry) = self.producers.lookup(id.index()) else {
                    return;
                };
                (entry.thread, Some(id))
            }
            Role::ConsumerPoll(id) | Role::ConsumerPublish(id) => (id, None),
        };
        pass.recirculate(FlowTask::Abort {
            thread,
            producer,
            reason,
        });
    }

    fn abort(
        &mut self,
        pass: &mut FlowPass<'_>,
        thread: ThreadId,
        producer: Option<ProducerId>,
        reason: FailReason,
    ) {
        if self
            .registers
            .ended
            .write(&mut pass.cursor, thread.index(), 1)
            == 0
        {
            let producer = producer.map(|p| p.0);
            pass.digest(Digest::ThreadFailed {
                thread,
                producer,
                reason,
            });
        }
    }
}
