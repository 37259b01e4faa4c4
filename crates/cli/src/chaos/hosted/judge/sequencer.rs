//! Sequencers, by the history of their numbers.

use super::super::journal::{CAMPAIGN, Event, Fault, Life, SequencerEvent, System};
use super::super::report::SeedReport;
use super::{Journals, add};
use rackweave_sim::checkers::SequenceHistory;
use rackweave_sim::checkers::sequence::CallId;
use std::collections::{BTreeMap, BTreeSet};

/// The number of the sequencer in the switch.
const IN_SWITCH: u32 = 0;

pub fn judge(journals: &Journals, report: &mut SeedReport) {
    let mut history = SequenceHistory::new();
    let mut calls: BTreeMap<(Life, u32), CallId> = BTreeMap::new();
    let mut block = 0;
    let jumps = jumps(journals);
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
                calls.insert(call, id);
            }
            SequencerEvent::Got(start, end) => {
                if let Some(id) = calls.remove(&call) {
                    if jumps.contains(&(entry.life, call.1)) {
                        history.went_on(IN_SWITCH, *start, block + block / 2);
                    }
                    history.end(id, *start..*end);
                }
            }
            SequencerEvent::Failed => _ = calls.remove(&call),
        }
    }
    match history.finish() {
        Ok(summary) => report.count("numbers_handed_out", summary.numbers),
        Err(found) => add(report, System::Sequencer, found),
    }
}

/// The first calls to the sequencer in the switch that returned numbers after a switch process had
/// died. They are known only from what was returned: the widest gaps are there, because calls ask
/// for few numbers.
fn jumps(journals: &Journals) -> BTreeSet<(Life, u32)> {
    let mut asked = BTreeSet::new();
    // Perhaps nothing was returned before the first death.
    let mut returned = vec![(0, 0, (CAMPAIGN, 0))];
    for entry in &journals.0 {
        match entry.event {
            Event::Sequencer(call, SequencerEvent::Asked(IN_SWITCH, _)) => {
                asked.insert((entry.life, call));
            }
            Event::Sequencer(call, SequencerEvent::Got(start, end))
                if asked.contains(&(entry.life, call)) =>
            {
                returned.push((start, end, (entry.life, call)));
            }
            _ => {}
        }
    }
    returned.sort_unstable();
    let gap = |pair: &[(u64, u64, _)]| pair[1].0.saturating_sub(pair[0].1);
    let mut gaps: Vec<_> = returned
        .windows(2)
        .map(|pair| (gap(pair), pair[1].2))
        .collect();
    gaps.sort_unstable_by(|a, b| b.cmp(a));
    let deaths = journals
        .faults()
        .filter(|(_, fault)| *fault == Fault::SwitchDies);
    let jumps = gaps.into_iter().take(deaths.count());
    jumps
        .filter(|(gap, _)| *gap > 0)
        .map(|(_, call)| call)
        .collect()
}
