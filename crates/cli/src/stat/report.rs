//! The report of `stat`.

use crate::live::words::ANSWERS;
use crate::live::{Change, Snapshot};
use crate::report::{Text, object};
use rackweave_rack::statistics::RackStatistics;
use serde_json::{Value, json};

/// The counters of a command, and the activity since the snapshot `before`; without counters that
/// are zero, unless `all`.
pub fn report(before: Option<&Snapshot>, now: &Snapshot, all: bool) -> Value {
    let mut rack = now.rack.clone();
    if let (Some(rack), false) = (&mut rack, all) {
        hide_zeros(rack);
    }
    json!({
        "pid": now.pid,
        "version": now.version,
        "command": now.command,
        "phase": now.phase,
        "phase_seconds": now.phase_seconds,
        "up_seconds": now.up_seconds,
        "rack": rack,
        "change": before.and_then(|before| Change::between(Some(before), now)),
    })
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

/// The report as text.
pub fn text(report: &Value) -> String {
    let mut found = object(report);
    if found["rack"].is_null() {
        found["rack"] = "none at the moment".into();
    } else if found["rack"]["pages"].is_object() {
        found["rack"]["pages"]["answers"] = answers(&report["rack"]["pages"]["answers"]);
    }
    Text::new(found).to_string()
}

/// The replies of the page directory, with their shares of all requests and what they mean.
fn answers(answers: &Value) -> Value {
    let count = |kind: &str| answers[kind].as_u64();
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
