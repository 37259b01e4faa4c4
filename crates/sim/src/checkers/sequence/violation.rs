//! What is wrong with the numbers of a sequencer, and whose calls show it.

use core::fmt;
use core::ops::Range;

/// Who asked for what, and when, counted in events of the history.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Asked {
    /// Which client.
    pub client: u32,
    /// How many numbers.
    pub count: u64,
    /// When it was begun.
    pub begun: u64,
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            client,
            count,
            begun,
        } = self;
        write!(
            f,
            "client {client}'s call for {count} numbers, begun at event {begun},"
        )
    }
}

/// What is wrong with the numbers of a sequencer.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SequenceViolation {
    /// A sequencer that the history was not told of.
    #[error("{asked} asked sequencer {sequencer}, which does not exist")]
    NoSequencer {
        /// The sequencer.
        sequencer: u32,
        /// Who asked.
        asked: Asked,
    },
    /// A call was given another number of numbers than it asked for.
    #[error("sequencer {sequencer}: {asked} was given {got:?}")]
    Length {
        /// The sequencer.
        sequencer: u32,
        /// Who asked.
        asked: Asked,
        /// What it was given.
        got: Range<u64>,
    },
    /// A call was given numbers below the sequencer's first.
    #[error("sequencer {sequencer}: {asked} was given {got:?}; the first number is {first}")]
    BelowFirst {
        /// The sequencer.
        sequencer: u32,
        /// Who asked.
        asked: Asked,
        /// What it was given.
        got: Range<u64>,
        /// The first number that there is.
        first: u64,
    },
    /// Two calls were given the same number.
    #[error(
        "sequencer {sequencer}: {number} was handed out twice, with {first:?} to {a} and with \
         {second:?} to {b}"
    )]
    Twice {
        /// The sequencer.
        sequencer: u32,
        /// The number.
        number: u64,
        /// One of the two ranges.
        first: Range<u64>,
        /// Who was given it.
        a: Asked,
        /// The other range.
        second: Range<u64>,
        /// Who was given it.
        b: Asked,
    },
    /// A call was given lower numbers than one that had ended before it was begun.
    #[error(
        "sequencer {sequencer}: {later} was given {low:?}, but {high} had been handed out before"
    )]
    Order {
        /// The sequencer.
        sequencer: u32,
        /// Who was given too low numbers.
        later: Asked,
        /// Its numbers.
        low: Range<u64>,
        /// The highest number handed out before it was begun.
        high: u64,
    },
    /// A sequencer is said to have gone on where numbers had been handed out already.
    #[error("sequencer {sequencer} went on at {at}, but {high} had been handed out before")]
    WentBack {
        /// The sequencer.
        sequencer: u32,
        /// Where it went on.
        at: u64,
        /// The highest number handed out before.
        high: u64,
    },
    /// A call was given numbers that were said to be lost before it was begun.
    #[error("sequencer {sequencer}: {asked} was given {got:?} after it had gone on at {at}")]
    Lost {
        /// The sequencer.
        sequencer: u32,
        /// Who asked.
        asked: Asked,
        /// What it was given.
        got: Range<u64>,
        /// Where the sequencer went on.
        at: u64,
    },
    /// More numbers are missing than there are reasons for.
    #[error(
        "sequencer {sequencer}: {missing} numbers below {below} were given to nobody; calls that \
         failed or never ended asked for {unreturned}"
    )]
    Missing {
        /// The sequencer.
        sequencer: u32,
        /// Numbers that nobody has, without those of stated gaps.
        missing: u64,
        /// The end of the highest range.
        below: u64,
        /// Numbers that calls without a result asked for.
        unreturned: u64,
    },
}
