//! The checks of a scan's order, and of each key.

use super::*;

/// The origin of a call.
#[derive(Clone, Copy)]
enum CallSource {
    Point(usize),
    Scan(usize),
    Reset(usize),
}

impl IndexHistory {
    /// Checks that a scan's keys are in its range, in its order, and unique.
    pub(super) fn judge_order(&mut self, scan: &Scan) {
        let Some((_, scanned)) = &scan.ended else {
            return;
        };
        let what = scan.to_string();
        let keys = scanned.entries.iter().map(|&(key, _)| key);
        if let Some(key) = keys.clone().find(|key| !scan.range.contains(key)) {
            let what = what.clone();
            self.violations
                .push(IndexViolation::OutsideRange { what, key });
        }
        let in_order = |before, key| match scan.order {
            ScanOrder::Ascending => before < key,
            ScanOrder::Descending => before > key,
        };
        let mut pairs = keys.clone().zip(keys.skip(1));
        if let Some((before, key)) = pairs.find(|&(before, key)| !in_order(before, key)) {
            self.violations
                .push(IndexViolation::Order { what, key, before });
        }
    }

    /// The violation at a key, given the operations on it.
    pub(super) fn judge(&self, key: u64, points: &[usize]) -> Option<IndexViolation> {
        let (calls, sources) = self.calls(key, points);
        if let Some(violation) = self.never_written(key, &calls, &sources) {
            return Some(violation);
        }
        let first = self.loaded.get(&key).copied();
        let (call, states) = match search::search(first, &calls).err()? {
            Failure::TooHard { call } => {
                let what = self.describe(sources[call]);
                return Some(IndexViolation::TooHard { key, what });
            }
            Failure::Impossible { call, states } => (call, states),
        };
        let what = self.describe(sources[call]);
        let states = in_words(&states);
        let before = self.before(&calls, &sources, call);
        Some(match (sources[call], calls[call].needs) {
            (CallSource::Scan(_), Needs::Exactly(stamp)) => IndexViolation::ScannedWrong {
                key,
                what,
                stamp,
                states,
                before,
            },
            (CallSource::Scan(_), _) => IndexViolation::LeftOut {
                key,
                what,
                states,
                before,
            },
            _ => IndexViolation::OutOfLine {
                key,
                what,
                states,
                before,
            },
        })
    }

    /// All calls that concern a key.
    fn calls(&self, key: u64, points: &[usize]) -> (Vec<Call>, Vec<CallSource>) {
        let points = points.iter().filter_map(|&at| {
            let call = self.points[at].call()?;
            Some((call, CallSource::Point(at)))
        });
        let scans = self.scans.iter().enumerate();
        let scans = scans.filter_map(|(at, scan)| Some((scan.call(key)?, CallSource::Scan(at))));
        let resets = self.resets.iter().enumerate();
        let resets =
            resets.filter_map(|(at, reset)| Some((reset.call(key)?, CallSource::Reset(at))));
        points.chain(scans).chain(resets).unzip()
    }

    /// A value that was seen at a key but never written there.
    fn never_written(
        &self,
        key: u64,
        calls: &[Call],
        sources: &[CallSource],
    ) -> Option<IndexViolation> {
        let made = calls.iter().filter_map(|call| call.makes.flatten());
        let written: HashSet<ValueStamp> = made.chain(self.loaded.get(&key).copied()).collect();
        let mut seen = calls.iter().zip(sources);
        let found = seen.find_map(|(call, &source)| match call.needs {
            Needs::Exactly(stamp) if !written.contains(&stamp) => Some((stamp, source)),
            _ => None,
        });
        let (stamp, source) = found?;
        let what = self.describe(source);
        Some(IndexViolation::NeverWritten { key, what, stamp })
    }

    fn describe(&self, source: CallSource) -> String {
        match source {
            CallSource::Point(at) => self.points[at].to_string(),
            CallSource::Scan(at) => self.scans[at].to_string(),
            CallSource::Reset(at) => self.resets[at].to_string(),
        }
    }

    /// The last changes that had begun when a call ended.
    fn before(&self, calls: &[Call], sources: &[CallSource], call: usize) -> String {
        let ended = calls[call].ended.unwrap_or(u64::MAX);
        let mut others: Vec<usize> = (0..calls.len())
            .filter(|&at| at != call && calls[at].begun < ended && calls[at].makes.is_some())
            .collect();
        others.sort_unstable_by_key(|&at| calls[at].begun);
        let skipped = others.len().saturating_sub(BEFORE_MAX);
        let reported = others[skipped..]
            .iter()
            .map(|&at| self.describe(sources[at]));
        let reported: Vec<String> = reported.collect();
        if reported.is_empty() {
            return "nothing".into();
        }
        reported.join("; ")
    }
}

fn in_words(states: &[State]) -> String {
    let states = states.iter().map(|state| match state {
        None => "absent".to_owned(),
        Some(stamp) => stamp.to_string(),
    });
    states.collect::<Vec<_>>().join(" or ")
}
