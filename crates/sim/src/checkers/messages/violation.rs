//! What can be wrong with messages.

use super::{ChannelEnd, ChannelName, Ended, Position, Unit, Wrong};

/// What is wrong with messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MessageViolation {
    /// A channel of which nobody said that it is there.
    #[error("{name} is not open")]
    NoChannel {
        /// The channel.
        name: ChannelName,
    },
    /// What the history was told contradicts itself.
    #[error("{name}: the history was told what cannot be")]
    Harness {
        /// The channel.
        name: ChannelName,
    },
    /// There is a piece of a message that nobody has begun.
    #[error("{name}: there is a piece at {read}, which was never begun")]
    Invented {
        /// The channel.
        name: ChannelName,
        /// How far the receiver is.
        read: Position,
    },
    /// There is a piece behind the end.
    #[error("{name}: there is a piece at {read}, behind the end")]
    AfterFinish {
        /// The channel.
        name: ChannelName,
        /// How far the receiver is.
        read: Position,
    },
    /// Another piece than the next one.
    #[error(
        "{name}: opcode, number, length of message and offset are {got:?}; the next piece has \
         {expect:?}"
    )]
    OtherPiece {
        /// The channel.
        name: ChannelName,
        /// What there is.
        got: (u32, u32, u64, u64),
        /// What comes next.
        expect: (u32, u32, u64, u64),
    },
    /// An empty piece of a message that is not, or one with more than was written.
    #[error("{name}: a piece of {len} bytes at {read}, of which {written} bytes are written")]
    Length {
        /// The channel.
        name: ChannelName,
        /// How far the receiver is.
        read: Position,
        /// Bytes of the piece.
        len: u64,
        /// Bytes of the message that were written.
        written: u64,
    },
    /// Wrong bytes.
    #[error(
        "{name}: in the piece from {read} on, byte {} of the message is {:#04x}, not {:#04x}",
        wrong.at, wrong.got, wrong.expect
    )]
    Content {
        /// The channel.
        name: ChannelName,
        /// Where the piece begins.
        read: Position,
        /// What is wrong.
        wrong: Wrong,
    },
    /// A sender was told that all was released, and it was not.
    #[error("{name}: all was said to be consumed up to {written}; released is up to {read}")]
    NotConsumed {
        /// The channel.
        name: ChannelName,
        /// How far the receiver is.
        read: Position,
        /// How far the sender is.
        written: Position,
    },
    /// The end came too early.
    #[error("{name}: the end at {read}; written is up to {written}, the sender finished: {said}")]
    EarlyFinish {
        /// The channel.
        name: ChannelName,
        /// How far the receiver is.
        read: Position,
        /// How far the sender is.
        written: Position,
        /// Whether the sender has said that nothing follows.
        said: bool,
    },
    /// What had arrived could not be read when the connection was closed.
    #[error("{name}: nothing left to read at {read}, but all up to {arrived} was said to be there")]
    LostArrived {
        /// The channel.
        name: ChannelName,
        /// How far the receiver is.
        read: Position,
        /// What the sender was told.
        arrived: Position,
    },
    /// An end says that all is well, and it is not.
    #[error("{name}: the {end:?} end takes all for well, but the receiver did not see the end")]
    NotWell {
        /// The channel.
        name: ChannelName,
        /// Which end.
        end: ChannelEnd,
    },
    /// A unit says one reason and then another.
    #[error("{name}: the {end:?} end ended with {how:?}; its unit said {before:?} before")]
    TwoReasons {
        /// The channel.
        name: ChannelName,
        /// Which end.
        end: ChannelEnd,
        /// The first reason.
        before: Ended,
        /// The other one.
        how: Ended,
    },
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
    /// An end waits for ever.
    #[error("{name}: the {end:?} end never ended")]
    NeverEnded {
        /// The channel.
        name: ChannelName,
        /// Which end.
        end: ChannelEnd,
    },
    /// An end of a channel to which nothing was done ended with an error.
    #[error("{name}: nothing was done to it, but the {end:?} end ended with {how:?}")]
    EndedIll {
        /// The channel.
        name: ChannelName,
        /// Which end.
        end: ChannelEnd,
        /// How.
        how: Ended,
    },
}
