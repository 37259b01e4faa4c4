//! Two consumers of every system.

use super::*;

#[test]
fn all_systems_replicate_and_only_sends_cost_cores() {
    let mut run = Run::quick(3);
    for (system, name) in SYSTEMS {
        let point = measure(&mut run, system, 2).unwrap();
        assert!(
            point.slowest > 1e9 && point.fastest < 12.5e9,
            "{name}: {} to {}",
            point.slowest,
            point.fastest
        );
        let is_zero_sided = system == System::ZeroSided;
        assert_eq!(
            point.communication == [0.0; 2],
            is_zero_sided,
            "{name}: {:?}",
            point.communication
        );
    }
}
