//! Violations by a flow.

use super::stamp::{Stamp, StampError};

/// A violation by a flow.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Violation {
    /// The harness itself pushed with a gap or twice.
    #[error("producer {producer} pushed {sequence} to ring {destination}, where {expect} is next")]
    PushOrder {
        /// The producer.
        producer: u16,
        /// The ring.
        destination: u16,
        /// The pushed sequence number.
        sequence: u64,
        /// The expected sequence number.
        expect: u64,
    },
    /// The popped bytes are not an item.
    #[error("consumer {consumer} popped, as number {index}, what is no item: {error}")]
    Content {
        /// The consumer.
        consumer: u16,
        /// How many items it had popped before.
        index: u64,
        /// What is wrong with the bytes.
        error: StampError,
    },
    /// The item matches its stamp, but is not the one that was pushed.
    #[error("consumer {consumer} popped {stamp:?} with other bytes than were pushed")]
    Changed {
        /// The consumer.
        consumer: u16,
        /// The item.
        stamp: Stamp,
    },
    /// This item was not pushed yet.
    #[error("consumer {consumer} popped {stamp:?}, which was never pushed")]
    NeverPushed {
        /// The consumer.
        consumer: u16,
        /// The item.
        stamp: Stamp,
    },
    /// The item was meant for another consumer.
    #[error("consumer {consumer} popped {stamp:?}, which is for consumer {}", stamp.destination)]
    WrongConsumer {
        /// The consumer.
        consumer: u16,
        /// The item.
        stamp: Stamp,
    },
    /// The item came a second time.
    #[error("consumer {consumer} popped {stamp:?}, which had been popped before")]
    Duplicated {
        /// The consumer.
        consumer: u16,
        /// The item.
        stamp: Stamp,
    },
    /// The item came after a later one of its ring.
    #[error("consumer {consumer} popped {stamp:?} after number {after} of the same ring")]
    Reordered {
        /// The consumer.
        consumer: u16,
        /// The item.
        stamp: Stamp,
        /// The later item that came before.
        after: u64,
    },
    /// Two consumers saw replicated items in different orders.
    #[error("consumer {consumer} popped {got:?} as number {index}; others popped {expect:?}")]
    OrderDiffers {
        /// The consumer.
        consumer: u16,
        /// The position in its order.
        index: u64,
        /// The popped item.
        got: Stamp,
        /// The item that another consumer popped at that position.
        expect: Stamp,
    },
    /// A consumer popped a replicated item at another position than the other consumers that popped
    /// it.
    #[error("consumer {consumer} popped {got:?}, which others popped at another place")]
    OrderMissed {
        /// The consumer.
        consumer: u16,
        /// The popped item.
        got: Stamp,
    },
    /// Two consumers saw parts of a replicated flow that do not overlap, and each saw an item of
    /// some ring that comes after what the other saw of that ring.
    #[error("consumers {consumer} and {other} each saw items before the other did")]
    OrdersCross {
        /// One of the two consumers.
        consumer: u16,
        /// The other consumer.
        other: u16,
    },
    /// Two consumers saw a replicated flow to its end, but no item in common.
    #[error("consumers {consumer} and {other} saw the same flow to its end and no item in common")]
    OrdersApart {
        /// One of the two consumers.
        consumer: u16,
        /// The other consumer.
        other: u16,
    },
    /// More items are missing than were reported lost with dead consumers.
    #[error("{missing} items never came to any consumer; only {reported} are reported lost")]
    LostUnreported {
        /// Items that were never popped.
        missing: u64,
        /// Items reported lost with dead consumers.
        reported: u64,
    },
    /// Items are reported lost with a consumer that did not die.
    #[error("{count} items are reported lost with consumer {consumer}, which did not die")]
    LossWithoutDeath {
        /// The consumer.
        consumer: u16,
        /// Items reported.
        count: u64,
    },
    /// An item never came.
    #[error(
        "{count} items of producer {producer}, ring {destination}, never came to {}; the first is \
         number {first} of {pushed}",
        name(*whom)
    )]
    Lost {
        /// The producer.
        producer: u16,
        /// The ring.
        destination: u16,
        /// The consumer that misses it; none if any would do.
        whom: Option<u16>,
        /// The first missing item.
        first: u64,
        /// The number of missing items.
        count: u64,
        /// The number of pushed items.
        pushed: u64,
    },
    /// The flow was aborted, but the items that came out are not a prefix.
    #[error(
        "of producer {producer}, ring {destination}, number {first} never came to {}, but number \
         {later} did",
        name(*whom)
    )]
    NotPrefix {
        /// The producer.
        producer: u16,
        /// The ring.
        destination: u16,
        /// The consumer that misses it.
        whom: Option<u16>,
        /// The first missing item.
        first: u64,
        /// The last item that came.
        later: u64,
    },
    /// The end was announced too early.
    #[error(
        "consumer {consumer} saw the end while producer {producer} was open or {left} of its items \
         were missing"
    )]
    EarlyEnd {
        /// The consumer that saw the end.
        consumer: u16,
        /// The producer.
        producer: u16,
        /// Items of its rings that the consumer had not popped.
        left: u64,
    },
    /// An item came after the end.
    #[error("consumer {consumer} popped {stamp:?} after the end of its stream")]
    AfterEnd {
        /// The consumer.
        consumer: u16,
        /// The item.
        stamp: Stamp,
    },
    /// An item came after the consumer had left.
    #[error("consumer {consumer} popped {stamp:?} after it had left")]
    AfterLeave {
        /// The consumer.
        consumer: u16,
        /// The item.
        stamp: Stamp,
    },
    /// The end never came.
    #[error("consumer {consumer} never saw the end of its stream")]
    NoEnd {
        /// The waiting consumer.
        consumer: u16,
    },
    /// A consumer that was not reported to the history.
    #[error("consumer {consumer} is none of {consumers}")]
    UnknownConsumer {
        /// The consumer.
        consumer: u16,
        /// The number of known consumers.
        consumers: u16,
    },
}

fn name(whom: Option<u16>) -> String {
    whom.map_or_else(
        || "any consumer".to_owned(),
        |consumer| format!("consumer {consumer}"),
    )
}
