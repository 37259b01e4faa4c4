//! The judge of sequencers: no number twice, ranges of the right length, in real-time order, and no
//! number missing without a reason.
//!
//! It is told of every call when it is begun and when it ends, in the order in which that happens.
//! A call that ends in an error, or never, may have used up as many numbers as it asked for.
//! Beyond that, numbers may only be missing where somebody has stated that a sequencer went on at a
//! higher number, and no more of them than were stated.

mod judge;
#[cfg(test)]
mod tests;
mod violation;

use core::ops::Range;
use judge::Judge;
use std::collections::BTreeMap;
pub use violation::{Asked, SequenceViolation};

/// A call, by the order in which calls were begun.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct CallId(usize);

/// What a history without violations comes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SequenceSummary {
    /// Calls that were given numbers.
    pub ranges: u64,
    /// Numbers handed out.
    pub numbers: u64,
    /// Calls that ended in an error or never.
    pub unreturned: u64,
    /// Numbers below the highest ones that nobody has.
    pub missing: u64,
}

/// All that was asked of all sequencers, and what came of it.
#[derive(Debug, Default)]
pub struct SequenceHistory {
    sequencers: BTreeMap<u32, Sequence>,
    calls: Vec<(u32, Call)>,
    events: u64,
}

#[derive(Debug)]
struct Call {
    asked: Asked,
    /// When it ended with numbers, and with which.
    got: Option<(u64, Range<u64>)>,
}

#[derive(Debug)]
struct Sequence {
    first: u64,
    gaps: Vec<Gap>,
}

/// A sequencer went on at a higher number.
#[derive(Clone, Copy, Debug)]
struct Gap {
    when: u64,
    at: u64,
    /// Numbers below it that may be lost.
    lost_max: u64,
}

impl SequenceHistory {
    /// Nothing has happened yet.
    pub fn new() -> Self {
        Self::default()
    }

    fn tick(&mut self) -> u64 {
        self.events += 1;
        self.events
    }

    /// There is a sequencer now, and this is its first number. No two have the same name.
    pub fn create(&mut self, sequencer: u32, first: u64) {
        let gaps = Vec::new();
        self.sequencers.insert(sequencer, Sequence { first, gaps });
    }

    /// A sequencer has lost its place and goes on at `at`. Up to `lost_max` numbers below that may
    /// never have been handed out, and will not be.
    pub fn went_on(&mut self, sequencer: u32, at: u64, lost_max: u64) {
        let when = self.tick();
        if let Some(sequence) = self.sequencers.get_mut(&sequencer) {
            sequence.gaps.push(Gap { when, at, lost_max });
        }
    }

    /// A client asks for numbers.
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

    /// A call was given numbers. One that is never ended may have used its numbers up, as one
    /// that failed.
    pub fn end(&mut self, call: CallId, got: Range<u64>) {
        let now = self.tick();
        self.calls[call.0].1.got = Some((now, got));
    }

    /// All is over: what is to be said of it.
    ///
    /// # Errors
    /// Everything that must not be.
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
