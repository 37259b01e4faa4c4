//! The report of `stat`.

use crate::live::words::ANSWERS;
use crate::live::{Change, Snapshot};
use crate::report::{Text, object};
use rackweave_rack::statistics::{Counters, RackStatistics};
use serde::Serialize;
use serde_json::{Value, json};
use std::fmt;

/// The counters of a command, and the activity since the preceding snapshot.
#[derive(Serialize, Clone, Debug)]
pub struct StatReport {
    pub pid: u32,
    pub version: String,
    pub command: String,
    pub phase: String,
    pub phase_seconds: f64,
    pub up_seconds: f64,
    pub rack: Option<RackStatistics>,
    /// None at the first snapshot.
    pub change: Option<Change>,
    /// The snapshot itself, for the next report.
    #[serde(skip)]
    pub snapshot: Snapshot,
}

impl StatReport {
    /// A report of two snapshots; without counters that are zero, unless `all`.
    pub fn new(before: Option<&Snapshot>, now: Snapshot, all: bool) -> Self {
        let change = before.and_then(|before| Change::between(Some(before), &now));
        let mut rack = now.rack.clone();
        if let (Some(rack), false) = (&mut rack, all) {
            hide_zeros(rack);
        }
        Self {
            pid: now.pid,
            version: now.version.clone(),
            command: now.command.clone(),
            phase: now.phase.clone(),
            phase_seconds: now.phase_seconds,
            up_seconds: now.up_seconds,
            rack,
            change,
            snapshot: now,
        }
    }
}

fn hide_zeros(rack: &mut RackStatistics) {
    let nodes = rack.nodes.iter_mut();
    let nodes = nodes.flat_map(|node| [&mut node.counters, &mut node.drops]);
    let switches = rack.switches.iter_mut();
    let switches = switches.flat_map(|switch| [&mut switch.counters, &mut switch.drops]);
    let pages = rack.pages.iter_mut().map(|pages| &mut pages.answers);
    let index = rack.index.iter_mut().map(|index| &mut index.other);
    let all = nodes.chain(switches).chain(pages).chain(index);
    all.for_each(|counters| counters.retain(|_, count| *count > 0));
}

impl fmt::Display for StatReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut found = object(self);
        match &self.rack {
            None => {
                found.insert("rack".into(), "none at the moment".into());
            }
            Some(rack) => {
                if let Some(pages) = &rack.pages {
                    found["rack"]["pages"]["answers"] = answers(&pages.answers);
                }
            }
        }
        write!(f, "{}", Text::new(found))
    }
}

/// The replies of the page directory, with their shares of all requests and what they mean.
fn answers(answers: &Counters) -> Value {
    let count = |kind: &str| answers.get(kind).copied();
    let one_each = ANSWERS.iter().filter(|(.., one)| *one);
    let whole: u64 = one_each.filter_map(|(kind, ..)| count(kind)).sum();
    let row = |&(kind, meaning, one): &(&str, &str, bool)| {
        let count = count(kind)?;
        let share = count as f64 / whole.max(1) as f64;
        let share = one.then_some(share);
        Some(json!({"answer": kind, "count": count, "share": share, "meaning": meaning}))
    };
    ANSWERS.iter().filter_map(row).collect()
}
