//! Violations in the history of an index.

use super::{TornValue, ValueStamp};

/// A violation by an index.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum IndexViolation {
    /// The operations on a key cannot be put in a sequence in which each has its result.
    #[error(
        "key {key:#x}: {what} cannot be, the key was {states} all the time; before it: {before}"
    )]
    OutOfLine {
        /// The key.
        key: u64,
        /// The operation that fits nowhere.
        what: String,
        /// The possible states of the key.
        states: String,
        /// The last operations on the key that had begun before this one ended.
        before: String,
    },
    /// A scan left out a key that was present throughout.
    #[error(
        "key {key:#x}: left out by {what}, the key was {states} all the time; before it: {before}"
    )]
    LeftOut {
        /// The key.
        key: u64,
        /// The scan.
        what: String,
        /// The possible states of the key.
        states: String,
        /// As above.
        before: String,
    },
    /// A scan returned a value that the key never had while it ran.
    #[error(
        "key {key:#x}: {what} returned {stamp}, the key was {states} all the time; before it: \
         {before}"
    )]
    ScannedWrong {
        /// The key.
        key: u64,
        /// The scan.
        what: String,
        /// The value that it returned.
        stamp: ValueStamp,
        /// The possible states of the key.
        states: String,
        /// As above.
        before: String,
    },
    /// A value was returned that was never written at this key.
    #[error("key {key:#x}: {what} got {stamp}, which nobody ever wrote there")]
    NeverWritten {
        /// The key.
        key: u64,
        /// The operation.
        what: String,
        /// The returned value.
        stamp: ValueStamp,
    },
    /// The bytes of a value are not those of one value of this key.
    #[error("key {key:#x}: {what} got a torn value: {error}")]
    Torn {
        /// The key.
        key: u64,
        /// The operation.
        what: String,
        /// What is wrong with the bytes.
        error: TornValue,
    },
    /// A scan returned a key twice, or keys out of order.
    #[error("{what} returned key {key:#x} after {before:#x}")]
    Order {
        /// The scan.
        what: String,
        /// The key out of order.
        key: u64,
        /// The key returned before it.
        before: u64,
    },
    /// A scan returned a key outside its range.
    #[error("{what} returned key {key:#x}, which is outside of its range")]
    OutsideRange {
        /// The scan.
        what: String,
        /// The key.
        key: u64,
    },
    /// Too many concurrent operations on a key to be checked. The checker has not passed them: make
    /// the workload narrower.
    #[error("key {key:#x}: too many operations at a time to judge, at {what}")]
    TooHard {
        /// The key.
        key: u64,
        /// The operation at which the limit was exceeded.
        what: String,
    },
}
