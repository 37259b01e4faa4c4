//! A small table, and a slow unit.

use super::*;

#[test]
fn balancing_gives_slow_units_less_and_all_end_together() {
    let table = Table::new(0.05).unwrap();
    let mut run = Run::quick(8);
    // One core is by far the slowest: with a third of the rows, it delays the whole query.
    let pair = pair(&mut run, &table, &units(1)).unwrap();
    assert!(pair.ratio() > 1.2, "{}", pair.ratio());
    let bytes: Vec<u64> = pair
        .balanced
        .units
        .iter()
        .map(|unit| unit.bytes())
        .collect();
    assert!(bytes[2] < bytes[0] && bytes[2] < bytes[1], "{bytes:?}");
    let end = pair.balanced.seconds;
    for unit in &pair.balanced.units {
        let seconds = (unit.finished() - Instant::ZERO).as_secs_f64();
        assert!(
            seconds > 0.8 * end,
            "{} ended at {seconds} of {end}",
            unit.name
        );
    }
}
