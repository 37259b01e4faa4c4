//! Small tables, joined by every system.

use super::*;

#[test]
fn every_system_joins_right() {
    let tables = Tables {
        build: 500,
        probe: 100_000,
    };
    let mut run = Run::quick(9);
    for (system, name) in SYSTEMS {
        let point = measure(&mut run, system, 2, (tables, tables.expected()));
        point.unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}
