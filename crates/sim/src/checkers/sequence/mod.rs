//! The checker of sequencers: no number twice, ranges of the right length, in real-time order, and
//! no number missing without a reason.
//!
//! Each call is reported when it begins and when it ends, in the order in which that happens. A
//! call that ends in an error, or never, may have used up as many numbers as it requested. Beyond
//! that, numbers may only be missing where a sequencer was stated to have continued at a higher
//! number, and no more of them than were stated.

mod judge;
#[cfg(test)]
mod tests;
mod violation;

use core::ops::Range;
use judge::Judge;
use std::collections::BTreeMap;
pub use violation::{Asked, SequenceViolation};

/// A call, numbered in the order in which calls were begun.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct CallId(usize);

/// The summary of a history without violations.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SequenceSummary {
    /// Calls that returned numbers.
    pub ranges: u64,
    /// Numbers handed out.
    pub numbers: u64,
    /// Calls that ended in an error or never.
    pub unreturned: u64,
    /// Numbers below the highest ones that were not handed out.
    pub missing: u64,
}

/// All calls to all sequencers, with their results.
#[derive(Debug, Default)]
pub struct SequenceHistory {
    sequencers: BTreeMap<u32, Sequence>,
    calls: Vec<(u32, Call)>,
    events: u64,
}

#[derive(Debug)]
struct Call {
    asked: Asked,
    /// When it ended with numbers, and the numbers.
    got: Option<(u64, Range<u64>)>,
}

#[derive(Debug)]
struct Sequence {
    first: u64,
    gaps: Vec<Gap>,
}

/// A sequencer continued at a higher number.
#[derive(Clone, Copy, Debug)]
struct Gap {
    when: u64,
    at: u64,
    /// Numbers below it that may be lost.
    lost_max: u64,
}

impl SequenceHistory {
    /// An empty history.
    pub fn new() -> Self {
        Self::default()
    }

    fn tick(&mut self) -> u64 {
        self.events += 1;
        self.events
    }

    /// Records a new sequencer and its first number. Names are unique.
    pub fn create(&mut self, sequencer: u32, first: u64) {
        let gaps = Vec::new();
        self.sequencers.insert(sequencer, Sequence { first, gaps });
    }

    /// Records that a sequencer has lost its position and continues at `at`. Up to `lost_max`
    /// numbers below that may never have been handed out, and will not be.
    pub fn went_on(&mut self, sequencer: u32, at: u64, lost_max: u64) {
        let when = self.tick();
        if let Some(sequence) = self.sequencers.get_mut(&sequencer) {
            sequence.gaps.push(Gap { when, at, lost_max });
        }
    }

    /// Records that a client requests numbers.
    pub fn begin(&mut self, sequencer: u32, client: u32, count: u64) -> CallId {
        let begun = self.tick();
        let asked = Asked {
            client,
            count,
            begun,
        };
        self.calls.push((sequencer, Call { asked, got: None }));
        CallId(self.calls.len() - 1)
    }

    /// Records that a call returned numbers. A call that is never ended may have used up its
    /// numbers, like a failed one.
    pub fn end(&mut self, call: CallId, got: Range<u64>) {
        let now = self.tick();
        self.calls[call.0].1.got = Some((now, got));
    }

    /// The verdict at the end of the run.
    ///
    /// # Errors
    /// All violations.
    pub fn finish(self) -> Result<SequenceSummary, Vec<SequenceViolation>> {
        let mut violations = Vec::new();
        let mut summary = SequenceSummary::default();
        let mut by_sequencer: BTreeMap<u32, Vec<Call>> = BTreeMap::new();
        for (sequencer, call) in self.calls {
            if self.sequencers.contains_key(&sequencer) {
                by_sequencer.entry(sequencer).or_default().push(call);
            } else {
                let asked = call.asked;
                violations.push(SequenceViolation::NoSequencer { sequencer, asked });
            }
        }
        for (name, calls) in &by_sequencer {
            let judge = Judge {
                name: *name,
                sequence: &self.sequencers[name],
            };
            judge.judge(calls, &mut summary, &mut violations);
        }
        if violations.is_empty() {
            Ok(summary)
        } else {
            Err(violations)
        }
    }
}
