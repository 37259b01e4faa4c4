//! Few lookups.

use super::*;

pub fn seen(latencies_ns: &[u64], reads: &[u64]) -> Seen {
    Seen {
        latencies_ns: latencies_ns.to_vec(),
        reads: reads.to_vec(),
        span: Duration::from_nanos(latencies_ns.iter().sum()),
    }
}

#[test]
fn latencies_and_round_trips_are_summed_up() {
    let seen = seen(&[4000, 1000, 3000, 2000], &[4, 1, 3, 2]);
    assert_eq!(seen.mean_us(), 2.5);
    assert_eq!((seen.quantile_us(0.0), seen.quantile_us(1.0)), (1.0, 4.0));
    assert!((seen.per_second() / 4e5 - 1.0).abs() < 1e-9);
    assert_eq!(seen.round_trips(), 2.5);
    assert_eq!(seen.distribution()[1], (2.0, 25.0));
}
