//! Checks everything when a run is over: trees, their records, the versions.

use super::table::Records;
use crate::ycsb::Run;
use rackweave_endpoint::btree::{Direction, Tree};
use rackweave_rack::Index;

/// Records all errors. A run that ended early may leave any state, so it is not checked.
pub(super) fn sweep(run: &Run, records: &Records, index: &Index) {
    if run.failure().is_some() {
        return;
    }
    // Endpoints, in order, hold consecutive records.
    let mut next = 0;
    for endpoint in index.endpoints() {
        if let Some(shard) = index.shard(endpoint) {
            match shard.tree().check() {
                Ok(_) => next = sweep_tree(run, records, shard.tree(), next),
                Err(error) => {
                    run.note(next, None, format!("the tree of {endpoint}: {error}"));
                }
            }
        }
    }
    let inserted = run.inserts.inserted();
    if next != inserted {
        let reason = format!("at the end there are {next} records and not {inserted}");
        run.note(next, None, reason);
    }
    run.check(0, None, run.expectations.settled());
}

/// Checks all entries of a tree; `next` must be the first. Returns the record after the last.
fn sweep_tree(run: &Run, records: &Records, tree: &Tree, mut next: u64) -> u64 {
    let (low, last) = tree.bounds();
    tree.scan(low..=last, Direction::Forward, &mut |key, value| {
        let Some(record) = records.keys.record(key) else {
            let reason = format!("the tree has key {key}, which no record has");
            run.note(next, None, reason);
            return true;
        };
        if record != next {
            let reason = format!("at the end it is not there, record {record} is");
            run.note(next, None, reason);
        }
        if let (Some(found), Some((version, _))) = (
            run.whole(record, None, value),
            records.turns.version(record),
        ) && found != version
        {
            let reason = format!("at the end it has version {found}, {version} was written last");
            run.note(record, None, reason);
        }
        next = record + 1;
        true
    });
    next
}
