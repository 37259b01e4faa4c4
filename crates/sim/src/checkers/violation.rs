//! What can be wrong with a flow.

use super::stamp::{Stamp, StampError};

/// What is wrong with a flow.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Violation {
    /// The harness itself pushed with a gap or twice.
    #[error("producer {producer} pushed {sequence} to ring {destination}, where {expect} is next")]
    PushOrder {
        /// Who pushed.
        producer: u16,
        /// The ring.
        destination: u16,
        /// What was pushed.
        sequence: u64,
        /// What was to be pushed.
        expect: u64,
    },
    /// The bytes popped are no item.
    #[error("consumer {consumer} popped, as number {index}, what is no item: {error}")]
    Content {
        /// Who popped.
        consumer: u16,
        /// How many items it had popped before.
        index: u64,
        /// What is wrong with the bytes.
        error: StampError,
    },
    /// The item is one that its stamp allows, but not the one that was pushed.
    #[error("consumer {consumer} popped {stamp:?} with other bytes than were pushed")]
    Changed {
        /// Who popped.
        consumer: u16,
        /// The item.
        stamp: Stamp,
    },
    /// Nobody pushed this item yet.
    #[error("consumer {consumer} popped {stamp:?}, which was never pushed")]
    NeverPushed {
        /// Who popped.
        consumer: u16,
        /// The item.
        stamp: Stamp,
    },
    /// The item was meant for another.
    #[error("consumer {consumer} popped {stamp:?}, which is for consumer {}", stamp.destination)]
    WrongConsumer {
        /// Who popped.
        consumer: u16,
        /// The item.
        stamp: Stamp,
    },
    /// The item came a second time.
    #[error("consumer {consumer} popped {stamp:?}, which had been popped before")]
    Duplicated {
        /// Who popped.
        consumer: u16,
        /// The item.
        stamp: Stamp,
    },
    /// The item came after a later one of its ring.
    #[error("consumer {consumer} popped {stamp:?} after number {after} of the same ring")]
    Reordered {
        /// Who popped.
        consumer: u16,
        /// The item.
        stamp: Stamp,
        /// The later item that came before.
        after: u64,
    },
    /// Two consumers saw replicated items in different orders.
    #[error("consumer {consumer} popped {got:?} as number {index}; others popped {expect:?}")]
    OrderDiffers {
        /// Who popped.
        consumer: u16,
        /// The place in its order.
        index: u64,
        /// What it popped.
        got: Stamp,
        /// What another consumer popped at that place.
        expect: Stamp,
    },
    /// A consumer popped a replicated item at a place where the order of the others, which have it,
    /// does not have it.
    #[error("consumer {consumer} popped {got:?}, which others popped at another place")]
    OrderMissed {
        /// Who popped.
        consumer: u16,
        /// What it popped.
        got: Stamp,
    },
    /// Two consumers saw parts of a replicated flow that do not overlap, and each saw an item of
    /// some ring that comes after what the other saw of that ring.
    #[error("consumers {consumer} and {other} each saw items before the other did")]
    OrdersCross {
        /// One of them.
        consumer: u16,
        /// The other.
        other: u16,
    },
    /// Two consumers saw a replicated flow to its end, but no item in common.
    #[error("consumers {consumer} and {other} saw the same flow to its end and no item in common")]
    OrdersApart {
        /// One of them.
        consumer: u16,
        /// The other.
        other: u16,
    },
    /// More is missing than went with dead consumers, as the flow reports.
    #[error("{missing} items never came to any consumer; only {reported} are reported lost")]
    LostUnreported {
        /// Items that nobody popped.
        missing: u64,
        /// Items that are reported to have gone with dead consumers.
        reported: u64,
    },
    /// Items are reported to have gone with a consumer that did not die.
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
        /// Who pushed.
        producer: u16,
        /// The ring.
        destination: u16,
        /// Which consumer misses it; none if any would do.
        whom: Option<u16>,
        /// The first that is missing.
        first: u64,
        /// How many are missing.
        count: u64,
        /// How many were pushed.
        pushed: u64,
    },
    /// The flow was aborted, but what came out is no prefix.
    #[error(
        "of producer {producer}, ring {destination}, number {first} never came to {}, but number \
         {later} did",
        name(*whom)
    )]
    NotPrefix {
        /// Who pushed.
        producer: u16,
        /// The ring.
        destination: u16,
        /// Which consumer misses it.
        whom: Option<u16>,
        /// The first that is missing.
        first: u64,
        /// The last that came.
        later: u64,
    },
    /// The end was announced too early.
    #[error(
        "consumer {consumer} saw the end while producer {producer} was open or {left} of its items \
         were missing"
    )]
    EarlyEnd {
        /// Who saw the end.
        consumer: u16,
        /// The producer.
        producer: u16,
        /// Items of its rings that the consumer had not popped.
        left: u64,
    },
    /// An item came after the end.
    #[error("consumer {consumer} popped {stamp:?} after the end of its stream")]
    AfterEnd {
        /// Who popped.
        consumer: u16,
        /// The item.
        stamp: Stamp,
    },
    /// An item came after the consumer had left.
    #[error("consumer {consumer} popped {stamp:?} after it had left")]
    AfterLeave {
        /// Who popped.
        consumer: u16,
        /// The item.
        stamp: Stamp,
    },
    /// The end never came.
    #[error("consumer {consumer} never saw the end of its stream")]
    NoEnd {
        /// Who waits for it.
        consumer: u16,
    },
    /// A consumer that the history was not told of.
    #[error("consumer {consumer} is none of {consumers}")]
    UnknownConsumer {
        /// Who popped.
        consumer: u16,
        /// How many there are.
        consumers: u16,
    },
}

fn name(whom: Option<u16>) -> String {
    whom.map_or_else(
        || "any consumer".to_owned(),
        |consumer| format!("consumer {consumer}"),
    )
}
