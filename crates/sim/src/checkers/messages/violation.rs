//! Violations in message histories.

use super::{ChannelEnd, ChannelName, Ended, Peer, Position, Wrong};

/// A violation by messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MessageViolation {
    /// A channel that was not reported as open.
    #[error("{0} is not open")]
    NoChannel(ChannelName),
    /// A violation on a channel.
    #[error("{0}: {1}")]
    Channel(ChannelName, ChannelFault),
    /// A node reports that a connection ended for a reason that did not exist.
    #[error(
        "connection {connection} ended for the {peer:?} node with {how:?}, without reason; for its \
         peer: {other:?}"
    )]
    NoReason {
        /// The connection.
        connection: u32,
        /// The node.
        peer: Peer,
        /// What it reports.
        how: Ended,
        /// What the peer reports.
        other: Option<Ended>,
    },
}

/// A violation on one channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ChannelFault {
    /// The reports to the history contradict each other.
    #[error("the history was told what cannot be")]
    Harness,
    /// There is a piece of a message that was not begun.
    #[error("there is a piece at {read}, which was never begun")]
    Invented {
        /// The position of the receiver.
        read: Position,
    },
    /// There is a piece after the end.
    #[error("there is a piece at {read}, behind the end")]
    AfterFinish {
        /// The position of the receiver.
        read: Position,
    },
    /// A piece other than the next one.
    #[error(
        "opcode, number, length of message and offset are {got:?}; the next piece has \
         {expect:?}"
    )]
    OtherPiece {
        /// The actual piece.
        got: (u32, u32, u64, u64),
        /// The expected piece.
        expect: (u32, u32, u64, u64),
    },
    /// An empty piece of a nonempty message, or a piece with more than was written.
    #[error("a piece of {len} bytes at {read}, of which {written} bytes are written")]
    Length {
        /// The position of the receiver.
        read: Position,
        /// Bytes of the piece.
        len: u64,
        /// Bytes of the message that were written.
        written: u64,
    },
    /// Wrong bytes.
    #[error(
        "in the piece from {read} on, byte {} of the message is {:#04x}, not {:#04x}",
        wrong.at, wrong.got, wrong.expect
    )]
    Content {
        /// The position at which the piece begins.
        read: Position,
        /// The first wrong byte.
        wrong: Wrong,
    },
    /// A sender was notified that all was released, but it was not.
    #[error("all was said to be consumed up to {written}; released is up to {read}")]
    NotConsumed {
        /// The position of the receiver.
        read: Position,
        /// The position of the sender.
        written: Position,
    },
    /// The end came too early.
    #[error("the end at {read}; written is up to {written}, the sender finished: {said}")]
    EarlyFinish {
        /// The position of the receiver.
        read: Position,
        /// The position of the sender.
        written: Position,
        /// Whether the sender has announced that nothing follows.
        said: bool,
    },
    /// Data that had arrived could not be read when the connection was closed.
    #[error("nothing left to read at {read}, but all up to {arrived} was said to be there")]
    LostArrived {
        /// The position of the receiver.
        read: Position,
        /// The position reported to the sender.
        arrived: Position,
    },
    /// An end reports that all is well, but it is not.
    #[error("the {end:?} end takes all for well, but the receiver did not see the end")]
    NotWell {
        /// Which end.
        end: ChannelEnd,
    },
    /// A node gives two different reasons.
    #[error("the {end:?} end ended with {how:?}; its node said {before:?} before")]
    TwoReasons {
        /// Which end.
        end: ChannelEnd,
        /// The first reason.
        before: Ended,
        /// The other one.
        how: Ended,
    },
    /// An end waits forever.
    #[error("the {end:?} end never ended")]
    NeverEnded {
        /// Which end.
        end: ChannelEnd,
    },
    /// An undisturbed channel ended with an error.
    #[error("nothing was done to it, but the {end:?} end ended with {how:?}")]
    EndedIll {
        /// Which end.
        end: ChannelEnd,
        /// How it ended.
        how: Ended,
    },
}
