//! Few tuples, moved by every system.

use super::*;

#[test]
fn every_system_delivers_every_tuple() {
    let mut run = Run::quick(5);
    for (system, name) in SYSTEMS {
        for size in [16, 4096] {
            let point = measure(&mut run, system, size, 4 << 20);
            let point = point.unwrap_or_else(|error| panic!("{name}: {error}"));
            let rate = point.rate;
            // This few bytes are less than one round of the collective shuffle.
            let has_rate = system != System::Collective;
            assert!(
                !has_rate || (0.1..12.5).contains(&rate),
                "{name}, {size} B: {rate} GB/s"
            );
        }
    }
}
