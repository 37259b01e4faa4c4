//! A small table, and units that join and leave.

use super::*;

#[test]
fn units_come_and_go_and_producers_do_nothing() {
    let table = Table::new(0.1).unwrap();
    let mut run = Run::quick(6);
    let (outcome, phase) = measure(&mut run, &table).unwrap();
    assert!(outcome.is_right);
    assert_eq!(outcome.storage_communication, Duration::ZERO);
    assert_eq!(outcome.units.len(), UNITS_MAX);
    for (at, unit) in outcome.units.iter().enumerate() {
        let came = Instant::ZERO + phase * at as u64;
        let goes = Instant::ZERO + phase * (PHASES - at) as u64;
        let (first, _) = unit.batches[0];
        assert!(first > came, "unit {at} worked before it came");
        // It drains what it has already been offered; that is less than a ring.
        assert!(
            at == 0 || unit.finished() < goes + phase,
            "unit {at} stayed"
        );
        assert!(unit.ended.is_some(), "unit {at} did not see its end");
    }
    let rates = phases(&outcome, phase);
    assert!(rates[3] > 2.5 * rates[0], "{rates:?}");
}
