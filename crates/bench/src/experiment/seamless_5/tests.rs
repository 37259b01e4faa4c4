//! Small sweeps.

use super::*;

const PLAN: SweepPlan = SweepPlan {
    capacity: 64,
    sizes: &[],
    depths: &[1, 28],
    // Far more than the reads that are in flight when the window begins and ends.
    counted: 1500.0,
};

/// Reads per second with one read in flight and with many.
fn rates(fallback: Fallback, size: f64, indexed: bool) -> [f64; 2] {
    let mut run = Run::quick(3);
    let seen = measure(&mut run, &PLAN, fallback, (size, indexed));
    let seen = seen.unwrap_or_else(|error| panic!("{fallback:?}, {size}, seed 3: {error}"));
    [seen[0].per_second, seen[1].per_second]
}

#[test]
fn the_gain_shrinks_with_what_the_switch_cannot_index() {
    for (fallback, _) in FALLBACKS {
        let without = rates(fallback, 1.0, false);
        let whole = rates(fallback, 1.0, true);
        let half = rates(fallback, 2.0, true);
        let (gain, less) = (whole[0] / without[0], half[0] / without[0]);
        assert!(gain > 1.15, "{fallback:?}: {gain} with all pages indexed");
        assert!(
            1.02 < less && less < gain - 0.05,
            "{fallback:?}: {less} of {gain}"
        );
        // A full link hides round trips.
        let full = whole[1] / without[1];
        assert!(
            (0.95..1.05).contains(&full),
            "{fallback:?}: {full} at 28 reads"
        );
    }
}
