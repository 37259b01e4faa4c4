//! The judge of sequencers: no number twice, ranges of the right length, in real-time order, and no
//! number missing without a reason.
//!
//! It is told of every call when it is begun and when it ends, in the order in which that happens.
//! A call that ends in an error, or never, may have used up as many numbers as it asked for.
//! Beyond that, numbers may only be missing where somebody has stated that a sequencer went on at a
//! higher number, and no more of them than were stated.

use core::fmt;
use core::ops::Range;
use std::collections::BTreeMap;

/// Violations of each kind and sequencer that are told; what is behind them is no news.
const TOLD_MAX: usize = 3;

/// A call, by the order in which calls were begun.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct CallId(usize);

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

/// A call that was given numbers.
#[derive(Clone, Copy)]
struct Given<'a> {
    asked: &'a Asked,
    ended: u64,
    range: &'a Range<u64>,
}

struct Judge<'a> {
    name: u32,
    sequence: &'a Sequence,
}

impl Judge<'_> {
    fn judge(
        &self,
        calls: &[Call],
        summary: &mut SequenceSummary,
        violations: &mut Vec<SequenceViolation>,
    ) {
        let mut given: Vec<Given<'_>> = calls
            .iter()
            .filter_map(|call| {
                let (ended, range) = call.got.as_ref()?;
                let asked = &call.asked;
                Some(Given {
                    asked,
                    ended: *ended,
                    range,
                })
            })
            .collect();
        let without = calls.iter().filter(|call| call.got.is_none());
        let unreturned: u64 = without.clone().map(|call| call.asked.count).sum();
        summary.ranges += given.len() as u64;
        summary.unreturned += without.count() as u64;
        self.shapes(&given, violations);
        self.order(&given, violations);
        self.statements(&given, violations);
        given.sort_by_key(|given| (given.range.start, given.range.end));
        self.twice(&given, violations);
        summary.numbers += given.iter().map(|given| given.asked.count).sum::<u64>();
        summary.missing += self.missing(&given, unreturned, violations);
    }

    /// Ranges are as long as was asked for, and not below the first number.
    fn shapes(&self, given: &[Given<'_>], violations: &mut Vec<SequenceViolation>) {
        let wrong = given.iter().filter_map(|given| {
            let (asked, got) = (given.asked.clone(), given.range.clone());
            let (sequencer, first) = (self.name, self.sequence.first);
            if got.end.checked_sub(got.start) != Some(asked.count) {
                Some(SequenceViolation::Length {
                    sequencer,
                    asked,
                    got,
                })
            } else if got.start < first {
                Some(SequenceViolation::BelowFirst {
                    sequencer,
                    asked,
                    got,
                    first,
                })
            } else {
                None
            }
        });
        violations.extend(wrong.take(TOLD_MAX));
    }

    /// Who begins after another has ended gets higher numbers.
    fn order(&self, given: &[Given<'_>], violations: &mut Vec<SequenceViolation>) {
        let mut begun: Vec<_> = given.to_vec();
        begun.sort_by_key(|given| given.asked.begun);
        let mut ended: Vec<_> = given.to_vec();
        ended.sort_by_key(|given| given.ended);
        let mut ended = ended.iter().peekable();
        let (mut high, mut told) = (0, 0);
        for later in begun {
            while let Some(before) = ended.next_if(|before| before.ended < later.asked.begun) {
                high = high.max(before.range.end);
            }
            if later.range.start < high && told < TOLD_MAX {
                told += 1;
                violations.push(SequenceViolation::Order {
                    sequencer: self.name,
                    later: later.asked.clone(),
                    low: later.range.clone(),
                    high: high - 1,
                });
            }
        }
    }

    /// What was said about places where it went on is true.
    fn statements(&self, given: &[Given<'_>], violations: &mut Vec<SequenceViolation>) {
        let sequencer = self.name;
        for &Gap { when, at, .. } in &self.sequence.gaps {
            let before = given.iter().filter(|given| given.ended < when);
            let high = before.map(|given| given.range.end).max();
            if let Some(high) = high.filter(|&high| high > at) {
                let high = high - 1;
                violations.push(SequenceViolation::WentBack {
                    sequencer,
                    at,
                    high,
                });
            }
            let lost = given
                .iter()
                .filter(|given| given.asked.begun > when && given.range.start < at);
            violations.extend(lost.take(TOLD_MAX).map(|given| SequenceViolation::Lost {
                sequencer,
                asked: given.asked.clone(),
                got: given.range.clone(),
                at,
            }));
        }
    }

    /// No number is in two ranges. `given` is in the order of numbers.
    fn twice(&self, given: &[Given<'_>], violations: &mut Vec<SequenceViolation>) {
        let mut told = 0;
        let mut reaches: Option<Given<'_>> = None;
        for next in given.iter().copied().filter(|next| !next.range.is_empty()) {
            if let Some(before) = reaches
                && before.range.end > next.range.start
                && told < TOLD_MAX
            {
                told += 1;
                violations.push(SequenceViolation::Twice {
                    sequencer: self.name,
                    number: next.range.start,
                    first: before.range.clone(),
                    a: before.asked.clone(),
                    second: next.range.clone(),
                    b: next.asked.clone(),
                });
            }
            if reaches.is_none_or(|before| next.range.end > before.range.end) {
                reaches = Some(next);
            }
        }
    }

    /// How many numbers nobody has, stated gaps included. `given` is in the order of numbers.
    fn missing(
        &self,
        given: &[Given<'_>],
        unreturned: u64,
        violations: &mut Vec<SequenceViolation>,
    ) -> u64 {
        let (mut all, mut without_reason) = (0, 0);
        let mut cursor = self.sequence.first;
        for given in given {
            let Range { start, end } = *given.range;
            let hole = start.saturating_sub(cursor);
            if hole > 0 {
                let gaps = self.sequence.gaps.iter();
                let within = gaps.filter(|gap| gap.at > cursor && gap.at <= start);
                let stated: u64 = within.map(|gap| gap.lost_max).sum();
                all += hole;
                without_reason += hole.saturating_sub(stated);
            }
            cursor = cursor.max(end);
        }
        if without_reason > unreturned {
            violations.push(SequenceViolation::Missing {
                sequencer: self.name,
                missing: without_reason,
                below: cursor,
                unreturned,
            });
        }
        all
    }
}

#[cfg(test)]
#[path = "sequence_tests.rs"]
mod tests;
