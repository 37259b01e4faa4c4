//! What can be wrong with messages.

use super::{ChannelEnd, ChannelName, Ended, Position, Unit, Wrong};

/// What is wrong with messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MessageViolation {
    /// A channel of which nobody said that it is there.
    #[error("{0} is not open")]
    NoChannel(ChannelName),
    /// Something on a channel.
    #[error("{0}: {1}")]
    Channel(ChannelName, ChannelFault),
    /// A unit says that a connection ended for a reason that did not exist.
    #[error(
        "connection {connection} ended for the {unit:?} unit with {how:?}, without reason; for its \
         peer: {peer:?}"
    )]
    NoReason {
        /// The connection.
        connection: u32,
        /// The unit.
        unit: Unit,
        /// What it says.
        how: Ended,
        /// What the peer says.
        peer: Option<Ended>,
    },
}

/// What is wrong with the messages of a channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ChannelFault {
    /// What the history was told contradicts itself.
    #[error("the history was told what cannot be")]
    Harness,
    /// There is a piece of a message that nobody has begun.
    #[error("there is a piece at {read}, which was never begun")]
    Invented {
        /// How far the receiver is.
        read: Position,
    },
    /// There is a piece behind the end.
    #[error("there is a piece at {read}, behind the end")]
    AfterFinish {
        /// How far the receiver is.
        read: Position,
    },
    /// Another piece than the next one.
    #[error(
        "opcode, number, length of message and offset are {got:?}; the next piece has \
         {expect:?}"
    )]
    OtherPiece {
        /// What there is.
        got: (u32, u32, u64, u64),
        /// What comes next.
        expect: (u32, u32, u64, u64),
    },
    /// An empty piece of a message that is not, or one with more than was written.
    #[error("a piece of {len} bytes at {read}, of which {written} bytes are written")]
    Length {
        /// How far the receiver is.
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
        /// Where the piece begins.
        read: Position,
        /// What is wrong.
        wrong: Wrong,
    },
    /// A sender was told that all was released, and it was not.
    #[error("all was said to be consumed up to {written}; released is up to {read}")]
    NotConsumed {
        /// How far the receiver is.
        read: Position,
        /// How far the sender is.
        written: Position,
    },
    /// The end came too early.
    #[error("the end at {read}; written is up to {written}, the sender finished: {said}")]
    EarlyFinish {
        /// How far the receiver is.
        read: Position,
        /// How far the sender is.
        written: Position,
        /// Whether the sender has said that nothing follows.
        said: bool,
    },
    /// What had arrived could not be read when the connection was closed.
    #[error("nothing left to read at {read}, but all up to {arrived} was said to be there")]
    LostArrived {
        /// How far the receiver is.
        read: Position,
        /// What the sender was told.
        arrived: Position,
    },
    /// An end says that all is well, and it is not.
    #[error("the {end:?} end takes all for well, but the receiver did not see the end")]
    NotWell {
        /// Which end.
        end: ChannelEnd,
    },
    /// A unit says one reason and then another.
    #[error("the {end:?} end ended with {how:?}; its unit said {before:?} before")]
    TwoReasons {
        /// Which end.
        end: ChannelEnd,
        /// The first reason.
        before: Ended,
        /// The other one.
        how: Ended,
    },
    /// An end waits for ever.
    #[error("the {end:?} end never ended")]
    NeverEnded {
        /// Which end.
        end: ChannelEnd,
    },
    /// An end of a channel to which nothing was done ended with an error.
    #[error("nothing was done to it, but the {end:?} end ended with {how:?}")]
    EndedIll {
        /// Which end.
        end: ChannelEnd,
        /// How.
        how: Ended,
    },
}
