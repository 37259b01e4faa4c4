//! Tests of `change`.

use super::*;
use crate::live::snapshot::SCHEMA;

fn snapshot(racks: u32, seconds: f64, bytes: u64) -> Snapshot {
    let node = NodeStatistics {
        name: "n".into(),
        bytes_in: bytes,
        ..NodeStatistics::default()
    };
    Snapshot {
        schema: SCHEMA.into(),
        version: String::new(),
        pid: 7,
        command: String::new(),
        phase: String::new(),
        phase_seconds: 0.0,
        up_seconds: 0.0,
        racks,
        rack: Some(RackStatistics {
            elapsed_seconds: seconds,
            nodes: vec![node],
            ..RackStatistics::default()
        }),
    }
}

fn check(before: Option<&Snapshot>, now: &Snapshot, expect: (bool, f64, f64)) {
    let change = Change::between(before, now).expect("there is a rack");
    let found = (
        change.is_since_start,
        change.seconds,
        change.nodes[0].bytes_in_per_s,
    );
    assert_eq!(found, expect);
}

#[test]
fn rates_are_of_one_rack_and_never_negative() {
    let (first, later) = (snapshot(1, 2.0, 1000), snapshot(1, 4.0, 5000));
    check(None, &first, (true, 2.0, 500.0));
    check(Some(&first), &later, (false, 2.0, 2000.0));
    // The same snapshot again, or an older one, has no information about the time between.
    check(Some(&later), &later, (true, 4.0, 1250.0));
    // Another rack of the same command.
    check(Some(&later), &snapshot(2, 8.0, 80), (true, 8.0, 10.0));
    // A counter restarted.
    check(Some(&later), &snapshot(1, 5.0, 1), (false, 1.0, 0.0));
    let without = Snapshot {
        rack: None,
        ..first.clone()
    };
    assert_eq!(Change::between(Some(&first), &without), None);
}
