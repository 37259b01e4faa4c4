//! What recirculates for the flows, and what the controller is to know of them.

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

/// What the switch reports of flows to the controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlowDigest {
    /// All producers of this thread have finished and its consumers know it.
    ThreadEnded(ThreadId),
    /// The thread cannot go on, or not with this consumer.
    ThreadFailed {
        /// The thread.
        thread: ThreadId,
        /// Whose lane failed.
        whose: Whose,
        /// The key of its ring: the number may be another member's when the report is read.
        ring: Rkey,
        /// Why.
        reason: FailReason,
    },
    /// The consumer has said that it takes no more items.
    ConsumerLeft {
        /// Its thread.
        thread: ThreadId,
        /// The consumer.
        consumer: ConsumerId,
        /// The key of its ring.
        ring: Rkey,
    },
    /// A node wrote nonsense into a ring word.
    BadRingWord {
        /// The thread.
        thread: ThreadId,
        /// Whose ring it is.
        whose: Whose,
        /// The key of its ring.
        ring: Rkey,
    },
}

/// What recirculates for the flows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlowTask {
    /// Something changed: let the thread run, if it does not run yet.
    Wake(ThreadId),
    /// The same for so many threads, round the circle of those that share producers.
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
    /// Look at the room of one of several consumers.
    Room {
        /// What is known so far.
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
        /// The thread that had it.
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
        /// How many.
        items: u32,
        /// The first.
        first: u32,
        /// Whether there would be more if no ring ended here.
        is_cut: bool,
        /// How far the domain is.
        floor: u64,
    },
    /// Let the other threads that share the producers go first.
    Yield(ThreadId),
    /// Nothing to do: let the thread sleep, unless it was woken meanwhile.
    Park(ThreadId),
    /// Look how far the flow of one thread of a domain is.
    Level {
        /// The domain.
        domain: ThreadId,
        /// The thread.
        at: ThreadId,
        /// The least so far.
        least: u64,
    },
    /// The flow furthest behind has been served so much.
    Raise {
        /// The domain.
        domain: ThreadId,
        /// How much, by weight.
        floor: u64,
    },
    /// If every producer is drained and everything committed, end the thread.
    TryEnd(ThreadId),
    /// Tell the consumers that it has ended.
    TellEnd {
        /// The thread.
        thread: ThreadId,
        /// The word.
        word: SwitchWord,
    },
    /// Commit the oldest transfer of so many threads, if it is done; `slot` is only of use to a
    /// planted bug.
    TryCommit {
        /// The thread.
        thread: ThreadId,
        /// How many threads, round the circle.
        left: u16,
        /// The slot whose transfer ended.
        slot: u32,
    },
    /// Look whether more can be committed at once, and publish.
    Commit {
        /// What is committed so far.
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
    /// The consumers have the head; give the producer its tail.
    CommitTail(ThreadId),
    /// Both are told; so many slots are free.
    CommitEnd {
        /// The thread.
        thread: ThreadId,
        /// How many.
        slots: u32,
    },
    /// What was taken from a producer is consumed: others may take from it.
    Reopen {
        /// The producer.
        producer: ProducerId,
        /// The thread that had taken.
        thread: ThreadId,
    },
    /// Poll a ring, if that is of use.
    Poll(LaneId),
    /// A thread cannot go on.
    Abort {
        /// The thread.
        thread: ThreadId,
        /// Whose lane failed.
        whose: Whose,
        /// Why.
        reason: FailReason,
    },
}

impl Flows {
    /// Whether the entries that a task is about are there.
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
            | FlowTask::Reopen { thread: id, .. }
            | FlowTask::WakeRing { thread: id, .. }
            | FlowTask::Issue { thread: id, .. }
            | FlowTask::TellEnd { thread: id, .. }
            | FlowTask::Tell { thread: id, .. }
            | FlowTask::TryCommit { thread: id, .. }
            | FlowTask::Abort { thread: id, .. } => thread(id),
            FlowTask::Poll(lane) => self.roles.lookup(lane.index()).is_some(),
        }
    }
}
