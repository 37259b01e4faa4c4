//! Sequencers, by the history of their numbers.

use super::super::journal::{Event, FaultEvent, Life, SequencerEvent, System};
use super::super::report::SeedReport;
use super::{Journals, add};
use rackweave_sim::checkers::SequenceHistory;
use rackweave_sim::checkers::sequence::CallId;
use std::collections::{BTreeMap, BTreeSet};

/// The number of the sequencer in the switch.
const IN_SWITCH: u32 = 0;

pub fn judge(journals: &Journals, report: &mut SeedReport) {
    let mut history = SequenceHistory::new();
    let mut calls: BTreeMap<(Life, u32), (u32, CallId, u64)> = BTreeMap::new();
    let mut block = 0;
    let mut jumps = jumps(journals);
    for entry in &journals.0 {
        let (call, event) = match &entry.event {
            Event::Sequencer(call, event) => ((entry.life, *call), event),
            _ => continue,
        };
        match event {
            SequencerEvent::Made(number, skips) => {
                history.create(*number, 0);
                block = *skips;
            }
            SequencerEvent::Asked(number, count) => {
                let id = history.begin(*number, entry.life.into(), *count);
                calls.insert(call, (*number, id, *count));
            }
            SequencerEvent::Got(start, end) => {
                if let Some((number, id, _)) = calls.remove(&call) {
                    // Numbers from behind a gap may be returned in another order.
                    let passed = |at: &u64| number == IN_SWITCH && *at <= *start;
                    while let Some(at) = jumps.first().copied().filter(passed) {
                        jumps.remove(&at);
                        history.went_on(IN_SWITCH, at, skipped_max(journals, block));
                    }
                    history.end(id, *start..*end);
                }
            }
            // What it has asked for before, it never got.
            SequencerEvent::Repeated => {
                if let Some(&(number, _, count)) = calls.get(&call) {
                    let _never_ends = history.begin(number, entry.life.into(), count);
                }
            }
            SequencerEvent::Failed => _ = calls.remove(&call),
        }
    }
    if let Some(summary) = add(report, System::Sequencer, history.finish()) {
        report.count("numbers_handed_out", summary.numbers);
    }
}

/// How many numbers may be skipped at once: a block and a half for each death of a switch process,
/// since nothing may have been returned between two of them.
fn skipped_max(journals: &Journals, block: u64) -> u64 {
    deaths(journals) as u64 * (block + block / 2)
}

fn deaths(journals: &Journals) -> usize {
    let deaths = journals
        .faults()
        .filter(|(_, fault)| *fault == FaultEvent::SwitchDies);
    deaths.count()
}

/// The numbers at which the sequencer in the switch went on after a switch process had died. They
/// are known only from what was returned: the widest gaps are below them, because calls ask for few
/// numbers.
fn jumps(journals: &Journals) -> BTreeSet<u64> {
    let mut asked = BTreeSet::new();
    // Perhaps nothing was returned before the first death.
    let mut returned = vec![(0, 0)];
    for entry in &journals.0 {
        match entry.event {
            Event::Sequencer(call, SequencerEvent::Asked(IN_SWITCH, _)) => {
                asked.insert((entry.life, call));
            }
            Event::Sequencer(call, SequencerEvent::Got(start, end))
                if asked.contains(&(entry.life, call)) =>
            {
                returned.push((start, end));
            }
            _ => {}
        }
    }
    returned.sort_unstable();
    let pairs = returned.windows(2);
    let mut gaps: Vec<_> = pairs
        .map(|pair| (pair[1].0.saturating_sub(pair[0].1), pair[1].0))
        .collect();
    gaps.sort_unstable_by(|a, b| b.cmp(a));
    let jumps = gaps.into_iter().take(deaths(journals));
    jumps
        .filter(|(gap, _)| *gap > 0)
        .map(|(_, at)| at)
        .collect()
}
