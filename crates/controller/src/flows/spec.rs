//! The specification of a flow, and its checks.

use super::{FlowError, Ring};
use rackweave_base::{Duration, NodeId};
use rackweave_programs::flows::{LANES_MAX, REPLICAS_MAX};
use rackweave_verbs::Mtu;
use rackweave_wire::fabric::ring::SLOTS_MAX;
use serde::{Deserialize, Serialize};

rackweave_base::named! {
    /// How items are assigned to consumers (zero-sided RDMA, section 5).
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
    pub enum FlowShape {
        /// A producer has a ring for each consumer and chooses. With one of each it is a 1:1 flow.
        #[default]
        Shuffle = "shuffle",
        /// A producer has one ring; each item goes to one consumer that has free slots.
        Balance = "balance",
        /// A producer has one ring; each item goes to all consumers or to none, in the same order
        /// everywhere.
        Replicate = "replicate",
    }
}

/// What happens to a flow when the node of a producer or consumer dies, or a consumer leaves
/// without having been removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum LossPolicy {
    /// The flow is aborted. If the member was being removed, that is so only if it is a consumer of
    /// a balanced flow that has items in flight to it, and items that it had not confirmed as
    /// consumed.
    #[default]
    Abort,
    /// The others continue. The number of items that a dead consumer of a balanced flow had been
    /// given, and had not confirmed as consumed, is reported; no other consumer gets them.
    Report,
    /// The others continue, and get the items that a dead consumer had not confirmed as consumed.
    /// For that the producer keeps items until they are consumed, and at most one transfer of each
    /// producer ring is unconsumed at a time.
    Redeliver,
}

/// The largest weight.
pub const WEIGHT_MAX: u32 = 1 << 16;

/// The specification of a flow.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FlowSpec {
    /// How items are assigned to consumers.
    pub shape: FlowShape,
    /// The nodes of the producers. A node may appear more than once.
    pub producers: Vec<NodeId>,
    /// The nodes of the consumers. A node may appear more than once.
    pub consumers: Vec<NodeId>,
    /// The size of an item in bytes, a multiple of eight.
    pub item_size: u32,
    /// Slots of a producer ring, a power of two.
    pub producer_slots: u32,
    /// Slots of a consumer ring, a power of two.
    pub consumer_slots: u32,
    /// Maximum bytes of one transfer (zero-sided RDMA, section 7.1: no more than 4 MiB).
    pub batch_bytes: u32,
    /// Transfers of one consumer in flight at a time: 1, 2 or 4.
    pub transfers: u8,
    /// The path MTU.
    pub mtu: Mtu,
    /// Its share among the flows that have a weight and share a node, directly or through others,
    /// from 1 to [`WEIGHT_MAX`]. Without one, its share is not regulated.
    pub weight: Option<u32>,
    /// Interval of polling a ring that changes.
    pub poll_interval: Duration,
    /// Interval of polling a ring that has not changed for long.
    pub poll_interval_max: Duration,
    /// Whether nodes get queue pairs to ring doorbells with.
    pub doorbells: bool,
    /// What happens to it when a node dies.
    pub on_loss: LossPolicy,
}

impl FlowSpec {
    /// A shuffle of items of `item_size` bytes with rings of about `ring_bytes` bytes.
    pub fn new(
        producers: &[NodeId],
        consumers: &[NodeId],
        item_size: u32,
        ring_bytes: u32,
    ) -> Self {
        let slots = (ring_bytes / item_size.max(1)).max(2);
        let slots = 1 << slots.ilog2();
        Self {
            shape: FlowShape::Shuffle,
            producers: producers.to_vec(),
            consumers: consumers.to_vec(),
            item_size,
            producer_slots: slots,
            consumer_slots: slots,
            batch_bytes: 1 << 20,
            transfers: 4,
            mtu: Mtu::B4096,
            weight: None,
            poll_interval: Duration::from_micros(5),
            poll_interval_max: Duration::from_micros(200),
            doorbells: false,
            on_loss: LossPolicy::Abort,
        }
    }

    /// Producer rings of one producer: one per consumer in a shuffle.
    pub(super) fn rings_per_producer(&self) -> usize {
        match self.shape {
            FlowShape::Shuffle => self.consumers.len(),
            FlowShape::Balance | FlowShape::Replicate => 1,
        }
    }

    /// Maximum items of one transfer: all transfers can be in flight while the nodes work on the
    /// same amount. All transfers of a thread fill one consumer ring; they come from as many
    /// producer rings as the thread has.
    pub(super) fn batch_items(&self) -> u32 {
        let transfers = u32::from(self.transfers);
        let producers = self.producers.len().max(1) as u32;
        let under_way = match self.shape {
            FlowShape::Shuffle | FlowShape::Replicate => transfers,
            FlowShape::Balance => transfers * self.consumers.len() as u32,
        };
        let of_one = under_way.div_ceil(producers).min(transfers);
        let share = (self.producer_slots / (2 * of_one)).min(self.consumer_slots / (2 * transfers));
        (self.batch_bytes / self.item_size).min(share).max(1)
    }

    /// Checks everything that does not depend on the rack.
    ///
    /// # Errors
    /// The first value that is out of range.
    pub fn check(&self) -> Result<(), FlowError> {
        for (what, nodes) in [
            ("the number of producers", &self.producers),
            ("the number of consumers", &self.consumers),
        ] {
            rule(!nodes.is_empty(), what, 0u32, "at least one is needed")?;
        }
        let replicas = self.consumers.len();
        rule(
            self.shape != FlowShape::Replicate || replicas <= REPLICAS_MAX,
            "the number of consumers",
            replicas as u64,
            "at most 32 replicas are possible",
        )?;
        let item = self.item_size;
        rule(
            item > 0 && item.is_multiple_of(8),
            "item_size",
            item,
            "a multiple of 8 bytes is needed",
        )?;
        for (what, slots) in [
            ("producer_slots", self.producer_slots),
            ("consumer_slots", self.consumer_slots),
        ] {
            let fits = slots.is_power_of_two() && (2..=SLOTS_MAX).contains(&slots);
            rule(fits, what, slots, "a power of two from 2 to 2^30 is needed")?;
            let bytes = Ring::bytes(item, slots);
            rule(
                bytes <= 1 << 40,
                what,
                slots,
                "a ring may have 2^40 bytes at most",
            )?;
        }
        let batch = self.batch_bytes;
        rule(
            batch >= item,
            "batch_bytes",
            batch,
            "at least one item must fit a transfer",
        )?;
        rule(
            batch <= 1 << 30,
            "batch_bytes",
            batch,
            "at most 2^30 bytes are allowed",
        )?;
        let transfers = self.transfers;
        let fits = transfers.is_power_of_two() && usize::from(transfers) <= LANES_MAX;
        rule(fits, "transfers", transfers, "1, 2 or 4 are possible")?;
        let (interval, interval_max) = (self.poll_interval, self.poll_interval_max);
        rule(
            interval > Duration::ZERO && interval <= interval_max,
            "poll_interval",
            interval.as_nanos(),
            "a time above zero is needed, not above poll_interval_max",
        )?;
        check_weight(self.weight)
    }
}

/// Checks a weight.
pub(super) fn check_weight(weight: Option<u32>) -> Result<(), FlowError> {
    let value = weight.unwrap_or(1);
    rule(
        (1..=WEIGHT_MAX).contains(&value),
        "weight",
        value,
        "1 to 65536 are possible",
    )
}

fn rule(
    holds: bool,
    what: &'static str,
    value: impl Into<u64>,
    rule: &'static str,
) -> Result<(), FlowError> {
    if holds {
        Ok(())
    } else {
        Err(FlowError::BadSpec {
            what,
            value: value.into(),
            rule,
        })
    }
}
