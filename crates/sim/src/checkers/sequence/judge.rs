//! Requirements on all calls for numbers of one sequencer.

use super::{Asked, Call, Gap, Sequence, SequenceSummary, SequenceViolation};
use core::ops::Range;

/// Maximum violations of each kind and sequencer that are reported; further ones are redundant.
const REPORTED_MAX: usize = 3;

/// A call that returned numbers.
#[derive(Clone, Copy)]
struct Given<'a> {
    asked: &'a Asked,
    ended: u64,
    range: &'a Range<u64>,
}

/// Checks one sequencer.
pub(super) struct Judge<'a> {
    pub name: u32,
    pub sequence: &'a Sequence,
}

impl Judge<'_> {
    /// Adds the results of its calls to `summary`, and violations to `violations`.
    pub fn judge(
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

    /// Ranges have the requested length, and are not below the first number.
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
        violations.extend(wrong.take(REPORTED_MAX));
    }

    /// A call that begins after another has ended gets higher numbers.
    fn order(&self, given: &[Given<'_>], violations: &mut Vec<SequenceViolation>) {
        let mut begun: Vec<_> = given.to_vec();
        begun.sort_by_key(|given| given.asked.begun);
        let mut ended: Vec<_> = given.to_vec();
        ended.sort_by_key(|given| given.ended);
        let mut ended = ended.iter().peekable();
        let (mut high, mut reported) = (0, 0);
        for later in begun {
            while let Some(before) = ended.next_if(|before| before.ended < later.asked.begun) {
                high = high.max(before.range.end);
            }
            if later.range.start < high && reported < REPORTED_MAX {
                reported += 1;
                violations.push(SequenceViolation::Order {
                    sequencer: self.name,
                    later: later.asked.clone(),
                    low: later.range.clone(),
                    high: high - 1,
                });
            }
        }
    }

    /// The stated restart positions are true.
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
            violations.extend(
                lost.take(REPORTED_MAX)
                    .map(|given| SequenceViolation::Lost {
                        sequencer,
                        asked: given.asked.clone(),
                        got: given.range.clone(),
                        at,
                    }),
            );
        }
    }

    /// No number is in two ranges. `given` is in the order of numbers.
    fn twice(&self, given: &[Given<'_>], violations: &mut Vec<SequenceViolation>) {
        let mut reported = 0;
        let mut reaches: Option<Given<'_>> = None;
        for next in given.iter().copied().filter(|next| !next.range.is_empty()) {
            if let Some(before) = reaches
                && before.range.end > next.range.start
                && reported < REPORTED_MAX
            {
                reported += 1;
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

    /// How many numbers were not handed out, including stated gaps. `given` is in the order of
    /// numbers.
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
