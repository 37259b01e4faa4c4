//! Zero-sided flows: the switch moves items from producers' rings to consumers' rings; neither
//! side posts a work request (zero-sided RDMA, sections 3.2 to 6.2).
//!
//! **Threads.** A *thread* moves items from its producers to its consumers, in turn. The paper's
//! thread is a packet that recirculates forever. Ours recirculates only while there is work, and is
//! woken by the events that can create some: a mirror that moved, a transfer that ended. A lock
//! register ensures that a thread runs only once at a time. The shapes of flows differ in what is
//! shared:
//!
//! | shape | threads | producer rings | consumers of a thread |
//! |---|---|---|---|
//! | 1:1, N:M shuffle | one per consumer | N per thread, its own | 1 |
//! | N:M load balancing | one per consumer | N, shared by all threads | 1 |
//! | N:M replication | one | N | M, by multicast transfers |
//!
//! The members of each kind form a circle in the tables: each entry names the next. So they can
//! join and leave while the flow runs, and a pass needs to see only one of them.
//!
//! **One round.** *Room* finds the least free space among several consumers. *Scan* looks at the
//! next producer and decides how many items to move: limited by the available items, the free
//! slots, the end of either ring, and `batch_bytes` (adaptive batching). A thread that shares its
//! producers takes the producer's lock and looks again, and releases it with the next pass. *Issue*
//! reserves the items and starts the transfer. Each ring has several data lanes, so that the link
//! does not idle while an acknowledgement travels; a lane is free as soon as its transfer is done.
//! A completed transfer waits in its *slot* to be *committed*, strictly in the order of issue, and
//! in the order of each producer's items: the consumers' heads are written (with the commit
//! record), then the producer's tail, then the slot is free; completed transfers of one producer
//! are committed together. So items become visible in one order, and after a restart of the switch
//! the rings show exactly what was delivered.
//!
//! **Mirrors.** Heads of producers and tails of consumers are mirrored by polling READs. The
//! interval is the flow's; a ring that does not change is polled less and less often, down to a
//! bound, and one whose mirror already shows work for all lanes is not polled at all. A node that
//! supports it may ring a doorbell instead.
//!
//! **Weights.** Flows with a weight that share a link, directly or through others, form a *domain*.
//! A flow that is more than a batch ahead of the one furthest behind, in proportion to their
//! weights, waits (`served`, `floor`: start-time fair queueing over whole transfers). Only flows
//! that could move items count, so that no bandwidth is wasted.
//!
//! **End.** A *finished* producer whose items are all taken is *drained*. When all producers of a
//! thread are drained and all its transfers committed, the consumers' switch words are set to
//! *ended*.
//!
//! Files: `entries` the tables, `registers` the state by stage, `schedule` scan, `issue`, `share`
//! the weights, `commit`, `end`, `mirror`, `task` the recirculated tasks, `control` the
//! control-plane changes while a flow runs.

mod commit;
mod control;
mod end;
mod entries;
mod issue;
mod mirror;
mod registers;
mod schedule;
mod share;
mod task;
#[cfg(test)]
mod tests;

use entries::Role;
use rackweave_switch::table::Direct;
use rackweave_switch::transfer::{EngineEvent, FailReason, LaneId};
use rackweave_switch::{Ledger, Pass};
use registers::Registers;

pub use commit::Batch;
pub use entries::{
    ConsumerEntry, ConsumerId, Counters, FlowConfig, ProducerEntry, ProducerId, RingPlace,
    ThreadEntry, ThreadId, Weight, Whose,
};
pub use schedule::Scan;
pub use task::{Digests, FlowDigest, FlowTask, Tasks};

/// In `ended`: the thread has announced the end, or cannot continue.
const ENDED: u32 = 1;
const FAILED: u32 = 2;

/// Slots of a thread: transfers issued but not committed.
const SLOTS: usize = 8;

/// Maximum data lanes of a ring: transfers in flight.
pub const LANES_MAX: usize = 4;

/// Maximum consumers of one thread: each has a bit.
pub const REPLICAS_MAX: usize = 32;

/// The flows program.
pub struct Flows {
    registers: Registers,
    threads: Direct<ThreadEntry>,
    consumers: Direct<ConsumerEntry>,
    producers: Direct<ProducerEntry>,
    roles: Direct<Role>,
}

impl Flows {
    /// Flows without any thread, over an engine with `lanes` lanes.
    pub fn new(config: FlowConfig, lanes: u16) -> Self {
        let (threads, producers) = (usize::from(config.threads), usize::from(config.producers));
        Self {
            registers: Registers::new(threads, producers, usize::from(lanes)),
            threads: Direct::new("flows.threads", 0, threads),
            consumers: Direct::new("flows.consumers", 0, threads),
            producers: Direct::new("flows.producers", 0, producers),
            roles: Direct::new("flows.roles", 0, usize::from(lanes)),
        }
    }

    /// Declares tables and registers.
    pub fn declare(&self, ledger: &mut Ledger) {
        if self.threads.capacity() == 0 {
            return;
        }
        self.registers.declare(ledger);
        ledger.direct(&self.threads);
        ledger.direct(&self.consumers);
        ledger.direct(&self.producers);
        ledger.direct(&self.roles);
    }

    /// Packet generator entries: one per lane.
    pub fn generator_keys(&self) -> usize {
        self.roles.capacity()
    }

    /// Handles an event of the engine on a lane.
    #[inline]
    pub fn event<T: Tasks, D: Digests>(&mut self, pass: &mut Pass<'_, T, D>, event: EngineEvent) {
        let lane = event.lane();
        let Some(&role) = self.roles.lookup(lane.index()) else {
            return;
        };
        match (event, role) {
            (EngineEvent::Word { bytes, .. }, Role::ProducerPoll(id)) => {
                self.producer_word(pass, Some(lane), id, bytes);
            }
            (EngineEvent::Word { bytes, .. }, Role::ConsumerPoll(id)) => {
                self.consumer_word(pass, Some(lane), id, bytes);
            }
            (EngineEvent::Word { bytes, .. }, Role::ProducerBell(id)) => {
                self.producer_word(pass, None, id, bytes);
            }
            (EngineEvent::Word { bytes, .. }, Role::ConsumerBell(id)) => {
                self.consumer_word(pass, None, id, bytes);
            }
            (EngineEvent::Done { cookie, .. }, Role::Source(id)) => {
                self.transfer_done(pass, cookie, id)
            }
            (EngineEvent::Written { .. }, Role::ConsumerPublish(id)) => {
                self.head_written(pass, id);
            }
            (EngineEvent::Written { cookie, .. }, Role::ProducerPublish(_)) => {
                pass.recirculate(FlowTask::CommitEnd {
                    thread: ThreadId(cookie as u16),
                    slots: cookie >> 16,
                });
            }
            (EngineEvent::Failed { blame, reason, .. }, _) => self.failed(pass, blame, reason),
            (EngineEvent::Refused { .. }, _) => debug_assert!(false, "flows check no headers"),
            (event, role) => debug_assert!(false, "{event:?} cannot happen on {role:?}"),
        }
    }

    /// Executes the pass of a flow task.
    #[inline]
    pub fn task<T: Tasks, D: Digests>(&mut self, pass: &mut Pass<'_, T, D>, task: FlowTask) {
        match task {
            FlowTask::Wake(id) => self.wake(pass, id),
            FlowTask::WakeRing { thread, left } => self.wake_ring(pass, thread, left),
            FlowTask::WakeDomain { domain, at } => self.wake_domain(pass, domain, at),
            FlowTask::Room { scan, at, left } => self.free_slots(pass, scan, at, left),
            FlowTask::Scan(scan) => self.scan(pass, scan),
            FlowTask::Unlock {
                producer,
                thread,
                then,
            } => self.unlock(pass, producer, thread, then),
            FlowTask::Issue {
                thread,
                producer,
                items,
                first,
                is_cut,
                floor,
            } => self.issue(pass, thread, producer, (items, first, is_cut), floor),
            FlowTask::Yield(id) => self.give_way(pass, id),
            FlowTask::Park(id) => self.park(pass, id),
            FlowTask::Level { domain, at, least } => self.level(pass, domain, at, least),
            FlowTask::Raise { domain, floor } => self.raise(pass, domain, floor),
            FlowTask::TryEnd(id) => self.try_end(pass, id),
            FlowTask::TellEnd { thread, word } => self.tell_end(pass, thread, word),
            FlowTask::TryCommit { thread, left, slot } => {
                self.try_commit(pass, thread, left, slot);
            }
            FlowTask::Tell {
                thread,
                at,
                left,
                record,
                word,
            } => self.tell(pass, (thread, at, left), record, word),
            FlowTask::Commit { batch, is_last } => self.commit(pass, batch, is_last),
            FlowTask::CommitTail(id) => self.commit_tail(pass, id),
            FlowTask::CommitEnd { thread, slots } => self.commit_end(pass, thread, slots),
            FlowTask::Reopen { producer, thread } => self.reopen(pass, producer, thread),
            FlowTask::Poll(lane) => self.poll(pass, lane),
            FlowTask::Abort {
                thread,
                whose,
                reason,
            } => self.abort(pass, thread, whose, reason),
        }
    }

    /// Handles a packet generator event: a ring is to be polled.
    pub fn generated<T: Tasks, D: Digests>(&mut self, pass: &mut Pass<'_, T, D>, key: u32) {
        pass.recirculate(FlowTask::Poll(LaneId(key as u16)));
    }

    fn poll_key(&self, lane: LaneId) -> u32 {
        // The engine's keys come first, one per lane.
        self.roles.capacity() as u32 + u32::from(lane.0)
    }

    /// Handles a transfer or word operation that failed.
    fn failed<T: Tasks, D: Digests>(
        &mut self,
        pass: &mut Pass<'_, T, D>,
        blame: LaneId,
        reason: FailReason,
    ) {
        let (whose, thread) = match self.roles.lookup(blame.index()) {
            Some(
                &Role::Target(id)
                | &Role::ConsumerPoll(id)
                | &Role::ConsumerPublish(id)
                | &Role::ConsumerBell(id),
            ) => {
                let consumer = self.consumers.lookup(id.index());
                (Whose::Consumer(id), consumer.map(|c| c.thread))
            }
            Some(
                &Role::ProducerPoll(id)
                | &Role::ProducerPublish(id)
                | &Role::Source(id)
                | &Role::ProducerBell(id),
            ) => {
                let producer = self.producers.lookup(id.index());
                (Whose::Producer(id), producer.map(|p| p.thread))
            }
            None => return,
        };
        if let Some(thread) = thread {
            pass.recirculate(FlowTask::Abort {
                thread,
                whose,
                reason,
            });
        }
    }

    fn abort<T: Tasks, D: Digests>(
        &mut self,
        pass: &mut Pass<'_, T, D>,
        thread: ThreadId,
        whose: Whose,
        reason: FailReason,
    ) {
        let ring = match whose {
            Whose::Consumer(id) => self.consumers.lookup(id.index()).map(|it| it.ring.rkey),
            Whose::Producer(id) => self.producers.lookup(id.index()).map(|it| it.ring.rkey),
        };
        let Some(ring) = ring else { return };
        let ended = &mut self.registers.ended;
        if ended.write(&mut pass.cursor, thread.index(), FAILED) != FAILED {
            pass.digest(FlowDigest::ThreadFailed {
                thread,
                whose,
                ring,
                reason,
            });
        }
    }
}
