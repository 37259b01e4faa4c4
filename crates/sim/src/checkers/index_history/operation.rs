//! Operations on an index and their results, as their callers see them.

use super::search::{Call, Needs, State};
use super::{Scanned, ValueStamp};
use core::fmt;
use core::ops::RangeInclusive;
use rackweave_base::Instant;

/// An operation on one key. Every value is written only once in a history.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Reads the value.
    Get,
    /// Writes the value if the key is absent.
    Insert(ValueStamp),
    /// Writes the value if the key is present.
    Update(ValueStamp),
    /// Writes the value.
    Put(ValueStamp),
    /// Makes the key absent.
    Remove,
}

/// The result of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Of a get: the value, or nothing.
    Found(Option<ValueStamp>),
    /// Of all others. Insert: whether it wrote. Update: whether it wrote. Put: whether the key was
    /// absent before. Remove: whether it was present.
    Done(bool),
}

/// Which way a scan goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScanOrder {
    /// From the lowest key upwards.
    Ascending,
    /// From the last key downwards.
    Descending,
}

/// When an event happened: its number, which alone counts, and the time, for display.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Moment {
    pub number: u64,
    pub time: Instant,
}

/// The state of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    /// Unknown: it may take effect at any later time, or never.
    Open,
    /// It has taken effect, with this result.
    Known(Moment, Outcome),
    /// It had taken effect by then, or never does.
    Lost(Moment),
    /// It did not take effect and will not.
    Refused,
}

/// An operation that was begun.
#[derive(Clone, Debug)]
pub(super) struct Point {
    pub who: u32,
    pub key: u64,
    pub operation: Operation,
    pub begun: Moment,
    pub end: End,
}

/// A scan that was begun.
#[derive(Clone, Debug)]
pub(super) struct Scan {
    pub who: u32,
    pub range: RangeInclusive<u64>,
    pub order: ScanOrder,
    pub begun: Moment,
    /// `None`: no result arrived.
    pub ended: Option<(Moment, Scanned)>,
}

/// All keys of a range were set at once by the index itself.
#[derive(Clone, Debug)]
pub(super) struct Reset {
    pub range: RangeInclusive<u64>,
    /// The keys present afterwards; other keys are absent.
    pub kept: Vec<(u64, ValueStamp)>,
    pub begun: Moment,
    pub ended: Moment,
    pub certain: bool,
}

impl Operation {
    /// The value that it writes, if any.
    pub(super) fn stamp(self) -> Option<ValueStamp> {
        match self {
            Operation::Insert(stamp) | Operation::Update(stamp) | Operation::Put(stamp) => {
                Some(stamp)
            }
            Operation::Get | Operation::Remove => None,
        }
    }

    /// The state required for this outcome and the resulting state; `None` if it cannot have such
    /// an outcome.
    fn meaning(self, outcome: Outcome) -> Option<(Needs, Option<State>)> {
        let meaning = match (self, outcome) {
            (Operation::Get, Outcome::Found(None)) => (Needs::Absent, None),
            (Operation::Get, Outcome::Found(Some(stamp))) => (Needs::Exactly(stamp), None),
            (Operation::Insert(stamp), Outcome::Done(true))
            | (Operation::Put(stamp), Outcome::Done(true)) => (Needs::Absent, Some(Some(stamp))),
            (Operation::Update(stamp), Outcome::Done(true))
            | (Operation::Put(stamp), Outcome::Done(false)) => (Needs::Present, Some(Some(stamp))),
            (Operation::Insert(_), Outcome::Done(false)) => (Needs::Present, None),
            (Operation::Update(_), Outcome::Done(false)) => (Needs::Absent, None),
            (Operation::Remove, Outcome::Done(true)) => (Needs::Present, Some(None)),
            (Operation::Remove, Outcome::Done(false)) => (Needs::Absent, None),
            (Operation::Get, Outcome::Done(_)) | (_, Outcome::Found(_)) => return None,
        };
        Some(meaning)
    }

    /// Whether it can have this outcome.
    pub(super) fn can_end(self, outcome: Outcome) -> bool {
        self.meaning(outcome).is_some()
    }

    /// Its effect, if it takes effect; `None` if it only observes.
    fn change(self) -> Option<(Needs, State)> {
        match self {
            Operation::Get => None,
            Operation::Insert(stamp) => Some((Needs::Absent, Some(stamp))),
            Operation::Update(stamp) => Some((Needs::Present, Some(stamp))),
            Operation::Put(stamp) => Some((Needs::Any, Some(stamp))),
            Operation::Remove => Some((Needs::Present, None)),
        }
    }
}

impl Point {
    /// The call for the search, if it carries information.
    pub fn call(&self) -> Option<Call> {
        let begun = self.begun.number;
        match self.end {
            End::Refused => None,
            End::Known(moment, outcome) => {
                let (needs, makes) = self.operation.meaning(outcome)?;
                Some(Call {
                    begun,
                    ended: Some(moment.number),
                    certain: true,
                    needs,
                    makes,
                })
            }
            End::Open | End::Lost(_) => {
                let (needs, state) = self.operation.change()?;
                let ended = match self.end {
                    End::Lost(moment) => Some(moment.number),
                    _ => None,
                };
                Some(Call {
                    begun,
                    ended,
                    certain: false,
                    needs,
                    makes: Some(state),
                })
            }
        }
    }
}

impl Scan {
    /// Whether its result shows if a key was present. A scan that was stopped early shows nothing
    /// about keys after its last one.
    pub fn covers(&self, key: u64) -> bool {
        let Some((_, scanned)) = &self.ended else {
            return false;
        };
        let reached = match (scanned.whole, scanned.entries.last(), self.order) {
            (true, ..) => true,
            (false, None, _) => false,
            (false, Some(&(last, _)), ScanOrder::Ascending) => key <= last,
            (false, Some(&(last, _)), ScanOrder::Descending) => key >= last,
        };
        reached && self.range.contains(&key)
    }

    /// What it shows about a key, as a get at some moment while it ran.
    pub fn call(&self, key: u64) -> Option<Call> {
        let (ended, scanned) = self.ended.as_ref()?;
        if !self.covers(key) {
            return None;
        }
        let mut entries = scanned.entries.iter();
        let needs = match entries.find(|(other, _)| *other == key) {
            Some(&(_, stamp)) => Needs::Exactly(stamp),
            None => Needs::Absent,
        };
        Some(Call {
            begun: self.begun.number,
            ended: Some(ended.number),
            certain: true,
            needs,
            makes: None,
        })
    }
}

impl Reset {
    pub fn call(&self, key: u64) -> Option<Call> {
        if !self.range.contains(&key) {
            return None;
        }
        let kept = self.kept.iter().find(|(other, _)| *other == key);
        Some(Call {
            begun: self.begun.number,
            ended: Some(self.ended.number),
            certain: self.certain,
            needs: Needs::Any,
            makes: Some(kept.map(|&(_, stamp)| stamp)),
        })
    }
}

fn nanos(moment: Moment) -> u64 {
    moment.time.as_nanos()
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (who, from) = (self.who, nanos(self.begun));
        write!(f, "{:?} by {who} at {from} ns", self.operation)?;
        match self.end {
            End::Open => write!(f, ", nobody knows with what result"),
            End::Known(to, Outcome::Found(None)) => write!(f, " to {}: absent", nanos(to)),
            End::Known(to, Outcome::Found(Some(stamp))) => write!(f, " to {}: {stamp}", nanos(to)),
            End::Known(to, Outcome::Done(done)) => write!(f, " to {}: {done}", nanos(to)),
            End::Lost(to) => write!(f, ", lost by {}", nanos(to)),
            End::Refused => write!(f, ", refused"),
        }
    }
}

impl fmt::Display for Scan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (low, last) = (self.range.start(), self.range.end());
        let (who, from) = (self.who, nanos(self.begun));
        let order = match self.order {
            ScanOrder::Ascending => "ascending",
            ScanOrder::Descending => "descending",
        };
        write!(
            f,
            "a scan of {low:#x} to {last:#x}, {order}, by {who} at {from} ns"
        )?;
        match &self.ended {
            Some((to, scanned)) => {
                let whole = if scanned.whole { "" } else { " and no further" };
                write!(
                    f,
                    " to {}: {} keys{whole}",
                    nanos(*to),
                    scanned.entries.len()
                )
            }
            None => write!(f, ", without a result"),
        }
    }
}

impl fmt::Display for Reset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let perhaps = if self.certain { "" } else { "perhaps " };
        let (low, last) = (self.range.start(), self.range.end());
        let (from, to) = (nanos(self.begun), nanos(self.ended));
        write!(
            f,
            "{perhaps}a restart of {low:#x} to {last:#x} at {from} to {to} ns"
        )
    }
}
