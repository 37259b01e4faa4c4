//! The recirculated tasks of the flows, and their reports to the controller.

use super::{Batch, ConsumerId, Flows, ProducerId, Scan, ThreadId, Whose};
use rackweave_base::Rkey;
use rackweave_switch::transfer::{EngineTask, FailReason, LaneId};
use rackweave_wire::fabric::ring::{CommitRecord, SwitchWord};

/// Tasks of a switch that runs flows: their own and the transfer engine's.
pub trait Tasks: Copy + From<FlowTask> + From<EngineTask> {}

impl<T: Copy + From<FlowTask> + From<EngineTask>> Tasks for T {}

/// Digests of a switch that runs flows.
pub trait Digests: PartialEq + From<FlowDigest> {}

impl<D: PartialEq + From<FlowDigest>> Digests for D {}

/// A report about flows to the controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlowDigest {
    /// All producers of this thread have finished and its consumers have been notified.
    ThreadEnded(ThreadId),
    /// The thread cannot continue, or not with this consumer.
    ThreadFailed {
        /// The thread.
        thread: ThreadId,
        /// The owner of the failed lane.
        whose: Whose,
        /// The key of its ring: the number may have been reused for another member by the time the
        /// report is read.
        ring: Rkey,
        /// Why.
        reason: FailReason,
    },
    /// The consumer takes no more items.
    ConsumerLeft {
        /// Its thread.
        thread: ThreadId,
        /// The consumer.
        consumer: ConsumerId,
        /// The key of its ring.
        ring: Rkey,
    },
    /// Nothing is in flight at the pause of a thread, named by its consumer, or of a producer that
    /// leaves.
    Quiet(Whose),
    /// A node wrote an invalid ring word.
    BadRingWord {
        /// The thread.
        thread: ThreadId,
        /// The owner of the ring.
        whose: Whose,
        /// The key of its ring.
        ring: Rkey,
    },
}

/// A recirculated task of the flows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlowTask {
    /// Something changed: run the thread, if it is not running.
    Wake(ThreadId),
    /// The same for several threads, round the circle of those that share producers.
    WakeRing {
        /// The first.
        thread: ThreadId,
        /// How many.
        left: u16,
    },
    /// The same for the threads of a domain.
    WakeDomain {
        /// The domain.
        domain: ThreadId,
        /// The next to wake.
        at: ThreadId,
    },
    /// Check the free space of one of several consumers.
    Room {
        /// The scan so far.
        scan: Scan,
        /// The consumer.
        at: ConsumerId,
        /// Consumers that remain, this one included.
        left: u16,
    },
    /// Look at a producer.
    Scan(Scan),
    /// Give back the lock of a producer.
    Unlock {
        /// The producer.
        producer: ProducerId,
        /// The next producer to look at, if there is one.
        thread: ThreadId,
        /// The next producer to look at, if there is one.
        then: Option<Scan>,
    },
    /// Move `items` items of a producer, from ring counter `first` on.
    Issue {
        /// The thread.
        thread: ThreadId,
        /// The producer.
        producer: ProducerId,
        /// Number of items.
        items: u32,
        /// The ring counter of the first item.
        first: u32,
        /// Whether the end of a ring limited the items.
        is_cut: bool,
        /// The domain's floor.
        floor: u64,
    },
    /// Let the other threads that share the producers go first.
    Yield(ThreadId),
    /// Nothing to do: put the thread to sleep, unless it was woken meanwhile.
    Park(ThreadId),
    /// Check the service of the flow of one thread of a domain.
    Level {
        /// The domain.
        domain: ThreadId,
        /// The thread.
        at: ThreadId,
        /// The least service so far.
        least: u64,
    },
    /// Raise the floor to the service of the flow furthest behind.
    Raise {
        /// The domain.
        domain: ThreadId,
        /// Its service, by weight.
        floor: u64,
    },
    /// If every producer is drained and everything committed, end the thread.
    TryEnd(ThreadId),
    /// Notify the consumers of the end.
    TellEnd {
        /// The thread.
        thread: ThreadId,
        /// The word.
        word: SwitchWord,
    },
    /// Commit the oldest transfer of several threads, if it is done; `slot` is only used by a
    /// planted bug.
    TryCommit {
        /// The thread.
        thread: ThreadId,
        /// Number of threads, round the circle.
        left: u16,
        /// The slot whose transfer ended.
        slot: u32,
    },
    /// Check whether more can be committed together, then publish.
    Commit {
        /// The batch so far.
        batch: Batch,
        /// Whether nothing follows.
        is_last: bool,
    },
    /// Write the words of one consumer after the other.
    Tell {
        /// The thread.
        thread: ThreadId,
        /// The consumer.
        at: ConsumerId,
        /// Consumers that remain, this one included.
        left: u16,
        /// The commit record.
        record: CommitRecord,
        /// The switch word.
        word: SwitchWord,
    },
    /// The consumers have the head; write the producer's tail.
    CommitTail(ThreadId),
    /// Both sides are notified; free the slots.
    CommitEnd {
        /// The thread.
        thread: ThreadId,
        /// Number of slots.
        slots: u32,
    },
    /// What was taken from a producer is consumed: others may take from it.
    Reopen {
        /// The producer.
        producer: ProducerId,
        /// The thread that had taken.
        thread: ThreadId,
    },
    /// Poll a ring, if useful.
    Poll(LaneId),
    /// A thread cannot continue.
    Abort {
        /// The thread.
        thread: ThreadId,
        /// The owner of the failed lane.
        whose: Whose,
        /// Why.
        reason: FailReason,
    },
}

impl Flows {
    /// Whether the table entries of a task still exist.
    pub fn is_alive(&self, task: &FlowTask) -> bool {
        let thread = |id: ThreadId| self.threads.lookup(id.index()).is_some();
        match *task {
            FlowTask::Wake(id)
            | FlowTask::Yield(id)
            | FlowTask::Park(id)
            | FlowTask::TryEnd(id)
            | FlowTask::CommitTail(id)
            | FlowTask::CommitEnd { thread: id, .. }
            | FlowTask::Commit {
                batch: Batch { thread: id, .. },
                ..
            }
            | FlowTask::Level { at: id, .. }
            | FlowTask::WakeDomain { at: id, .. }
            | FlowTask::Raise { domain: id, .. }
            | FlowTask::Room {
                scan: Scan { thread: id, .. },
                ..
            }
            | FlowTask::Scan(Scan { thread: id, .. })
            | FlowTask::Unlock { thread: id, .. }
            | FlowTask::WakeRing { thread: id, .. }
            | FlowTask::Issue { thread: id, .. }
            | FlowTask::TellEnd { thread: id, .. }
            | FlowTask::Tell { thread: id, .. }
            | FlowTask::TryCommit { thread: id, .. }
            | FlowTask::Abort { thread: id, .. } => thread(id),
            // The lock of a producer is released, whichever thread has taken it.
            FlowTask::Reopen { producer, .. } => self.producers.lookup(producer.index()).is_some(),
            FlowTask::Poll(lane) => self.roles.lookup(lane.index()).is_some(),
        }
    }
}
