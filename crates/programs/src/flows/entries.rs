//! What the controller enters: threads, consumers, producers, and the role of each lane.

use rackweave_base::{Duration, Rkey};
use rackweave_switch::transfer::LaneId;
use rackweave_wire::fabric::ring::ByteOrder;
use serde::{Deserialize, Serialize};

/// A thread. Its number is that of a consumer ring that belongs, or belonged, to it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ThreadId(pub u16);

/// A consumer ring.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub struct ConsumerId(pub u16);

/// A producer ring.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub struct ProducerId(pub u16);

impl ThreadId {
    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }
}

impl ConsumerId {
    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }
}

impl ProducerId {
    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The owner of a failed lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Whose {
    /// A consumer's.
    Consumer(ConsumerId),
    /// A producer's.
    Producer(ProducerId),
}

/// The sizes of the flows program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowConfig {
    /// Consumer rings.
    pub threads: u16,
    /// Producer rings.
    pub producers: u16,
}

/// The location of a ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RingPlace {
    /// The address of slot zero.
    pub items: u64,
    /// The key of the ring's region.
    pub rkey: Rkey,
    /// Slots, a power of two.
    pub slots: u32,
    /// The byte order of its words.
    pub order: ByteOrder,
    /// The word lane that reads the node word.
    pub poll: LaneId,
    /// The word lane that writes the switch word.
    pub publish: LaneId,
    /// The lane on which the node rings its doorbell, if it does.
    pub bell: Option<LaneId>,
    /// The first of the data lanes; the others follow.
    pub lanes_first: LaneId,
    /// Data lanes, at most [`super::LANES_MAX`].
    pub lanes: u8,
}

/// A flow's share of its domain's bandwidth.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Weight {
    /// The account of the service that the flow has received.
    pub account: ThreadId,
    /// The bit of the thread among those of its flow, below 32.
    pub bit: u8,
    /// The account of the service that the domain has received: the thread at which its circle
    /// begins.
    pub domain: ThreadId,
    /// The thread after this one, round the circle of all threads of the domain.
    pub next: ThreadId,
    /// The cost of one item: its bytes divided by the weight.
    pub cost: u64,
    /// Maximum lead of the flow over the others.
    pub window: u64,
}

/// The controller's entry of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ThreadEntry {
    /// The first of its target lanes or groups; the others follow.
    pub lanes_first: LaneId,
    /// Number of lanes.
    pub lanes: u8,
    /// The address of slot zero; zero if its lanes are groups.
    pub items: u64,
    /// The key of the consumer's region; unused if its lanes are groups.
    pub rkey: Rkey,
    /// Slots of each consumer, a power of two.
    pub slots: u32,
    /// One of its consumers; each names the next.
    pub first_consumer: ConsumerId,
    /// Number of consumers.
    pub consumers: u16,
    /// Their bits.
    pub members: u32,
    /// The size of an item in bytes.
    pub item_size: u32,
    /// Maximum items in one transfer.
    pub batch_items: u32,
    /// One of its producers; each names the next. Threads begin with different ones, so that they
    /// do not all wait for the same node.
    pub first_producer: ProducerId,
    /// Number of producers.
    pub producers: u16,
    /// The thread after this one, round the circle of those that share its producers.
    pub next: ThreadId,
    /// Number of threads that share them: one if they are its own.
    pub threads: u16,
    /// One number for all threads that share producers.
    pub group: ThreadId,
    /// Whether items stay with their producer until the consumer has taken them. Then a producer
    /// has at most one transfer that is not consumed.
    pub retain: bool,
    /// The ring counter of its consumers at which it stops, because one of them joins or leaves
    /// there.
    pub pause_at: Option<u32>,
    /// Its share of the link bandwidth; without a weight it is not regulated.
    pub weight: Option<Weight>,
    /// Poll interval of a ring that changes.
    pub poll_interval: Duration,
    /// Poll interval of a ring that has long been unchanged.
    pub poll_interval_max: Duration,
}

/// The controller's entry of a consumer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConsumerEntry {
    /// Its ring.
    pub ring: RingPlace,
    /// The thread that serves it.
    pub thread: ThreadId,
    /// Its bit among the consumers of the thread.
    pub bit: u8,
    /// The consumer after this one, round the circle of the thread's.
    pub next: ConsumerId,
}

/// The controller's entry of a producer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProducerEntry {
    /// Its ring.
    pub ring: RingPlace,
    /// The number of the threads that take from it: [`ThreadEntry::group`].
    pub group: ThreadId,
    /// The thread that changes of this producer wake: the only one, or any of those that share it.
    pub thread: ThreadId,
    /// The producer after this one, round the circle of the same threads' producers.
    pub next: ProducerId,
    /// Its number in the flow, counted from one, for commit records.
    pub place: u16,
    /// Whether it leaves once nothing of it is in flight.
    pub leaves: bool,
}

/// Counters of a newly entered ring: zero for a new one, read from the ring when the switch has
/// restarted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// The head published to the consumer, or the tail published to the producer.
    pub published: u32,
    /// The counter in the node word.
    pub node: u32,
}

/// The role of a lane in the flows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    ProducerPoll(ProducerId),
    ProducerPublish(ProducerId),
    ProducerBell(ProducerId),
    Source(ProducerId),
    ConsumerPoll(ConsumerId),
    ConsumerPublish(ConsumerId),
    ConsumerBell(ConsumerId),
    Target(ConsumerId),
}
