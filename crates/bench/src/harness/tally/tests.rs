//! Windows with few operations, and with bursts.

use super::*;

#[test]
fn only_what_ends_within_the_window_counts() {
    let at = Instant::from_nanos;
    let (warm_up, counted) = (Duration::from_nanos(100), Duration::from_nanos(1000));
    let tally = Tally::new(at(50), Span { warm_up, counted });
    let mut tally = tally.borrow_mut();
    for (since, now) in [(0, 149), (100, 150), (150, 350), (200, 1149), (1000, 1150)] {
        tally.end(at(since), at(now));
    }
    assert_eq!(tally.ended, 3);
    assert_eq!(tally.per_second(), 3e6);
    assert_eq!(tally.latencies_ns, [200, 949]);
    assert_eq!(tally.mean_us(), 0.5745);
    assert_eq!(tally.quantile_us(0.0), 0.2);
    assert_eq!(tally.quantile_us(1.0), 0.949);
    tally.in_parts(at(0), Duration::from_nanos(100));
    for now in [10, 90, 250, 399, 420] {
        tally.end(at(0), at(now));
    }
    let rates: Vec<f64> = tally.course().iter().map(|point| point.1).collect();
    assert_eq!(rates, [2e7, 0.0, 1e7, 1e7]);
}

const SPAN: Span = Span {
    warm_up: Duration::from_nanos(1_000),
    counted: Duration::from_nanos(10_000),
};

/// The rate of `bytes` every `every` nanoseconds from `start` on, `burst` times each.
fn rate(start: u64, every: u64, bytes: u64, burst: u64) -> f64 {
    let tally = Tally::new(Instant::ZERO, SPAN);
    let mut tally = tally.borrow_mut();
    for at in (start..11_500).step_by(every as usize) {
        for part in 0..burst {
            tally.add(Instant::from_nanos(at + part), bytes);
        }
    }
    tally.bytes_per_second().unwrap()
}

#[test]
fn bursts_at_the_window_s_ends_do_not_count_for_more() {
    for start in [0, 37, 499, 501, 990] {
        let steady = rate(start, 10, 10, 1);
        assert!((steady / 1e9 - 1.0).abs() < 1e-4, "{steady} from {start}");
        let bursts = rate(start, 500, 125, 4);
        assert!((bursts / 1e9 - 1.0).abs() < 5e-3, "{bursts} from {start}");
    }
}

#[test]
fn too_little_is_no_rate() {
    let tally = Tally::new(Instant::ZERO, SPAN);
    let mut tally = tally.borrow_mut();
    tally.add(Instant::from_nanos(50), 1_000_000);
    tally.add(Instant::from_nanos(2_000), 500);
    assert!(tally.bytes_per_second().is_err(), "one arrival is no rate");
    for at in [3_000, 5_000, 6_000, 9_000] {
        tally.add(Instant::from_nanos(at), 500);
    }
    assert!(tally.bytes_per_second().is_ok());
}
