//! Violations by the numbers of a sequencer, and the calls that show them.

use core::fmt;
use core::ops::Range;

/// A request: client, count and time, the latter counted in events of the history.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Asked {
    /// The client.
    pub client: u32,
    /// The requested number of numbers.
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

/// A violation by the numbers of a sequencer.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SequenceViolation {
    /// A sequencer that was not reported to the history.
    #[error("{asked} asked sequencer {sequencer}, which does not exist")]
    NoSequencer {
        /// The sequencer.
        sequencer: u32,
        /// The request.
        asked: Asked,
    },
    /// A call returned another number of numbers than it requested.
    #[error("sequencer {sequencer}: {asked} was given {got:?}")]
    Length {
        /// The sequencer.
        sequencer: u32,
        /// The request.
        asked: Asked,
        /// The returned numbers.
        got: Range<u64>,
    },
    /// A call returned numbers below the sequencer's first.
    #[error("sequencer {sequencer}: {asked} was given {got:?}; the first number is {first}")]
    BelowFirst {
        /// The sequencer.
        sequencer: u32,
        /// The request.
        asked: Asked,
        /// The returned numbers.
        got: Range<u64>,
        /// The sequencer's first number.
        first: u64,
    },
    /// Two calls returned the same number.
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
        /// Its request.
        a: Asked,
        /// The other range.
        second: Range<u64>,
        /// Its request.
        b: Asked,
    },
    /// A call returned lower numbers than one that had ended before it began.
    #[error(
        "sequencer {sequencer}: {later} was given {low:?}, but {high} had been handed out before"
    )]
    Order {
        /// The sequencer.
        sequencer: u32,
        /// The request that got too low numbers.
        later: Asked,
        /// Its numbers.
        low: Range<u64>,
        /// The highest number handed out before it was begun.
        high: u64,
    },
    /// A sequencer is stated to have continued at numbers that had been handed out already.
    #[error("sequencer {sequencer} went on at {at}, but {high} had been handed out before")]
    WentBack {
        /// The sequencer.
        sequencer: u32,
        /// Where it continued.
        at: u64,
        /// The highest number handed out before.
        high: u64,
    },
    /// A call returned numbers that were stated to be lost before it began.
    #[error("sequencer {sequencer}: {asked} was given {got:?} after it had gone on at {at}")]
    Lost {
        /// The sequencer.
        sequencer: u32,
        /// The request.
        asked: Asked,
        /// The returned numbers.
        got: Range<u64>,
        /// Where the sequencer continued.
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
        /// Numbers that were not handed out, without those of stated gaps.
        missing: u64,
        /// The end of the highest range.
        below: u64,
        /// Numbers requested by calls without a result.
        unreturned: u64,
    },
}
