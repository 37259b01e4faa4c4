//! Operations start by a Poisson process, and their waiting time is counted.

use super::super::{LatencyRecorder, LatencySummary, PoissonSchedule, RateError};
use super::check_masses;
use rackweave_base::{Duration, Instant};

const DRAWS: u64 = 100_000;

fn schedule(worker: u32, per_second: f64) -> PoissonSchedule {
    PoissonSchedule::new(7, worker, per_second, Instant::ZERO).expect("a rate in range")
}

fn starts(mut schedule: PoissonSchedule) -> impl Iterator<Item = Instant> {
    std::iter::from_fn(move || schedule.take(Instant::FAR_FUTURE))
}

#[test]
fn gaps_are_exponential() {
    // Cells that are equally probable: gap >= -ln(1 - cell / cells) times the mean.
    let cells = 50;
    let mut counts = vec![0; cells];
    let mut last = Instant::ZERO;
    for start in starts(schedule(0, 1000.0)).take(DRAWS as usize) {
        let means = (start - last).as_nanos() as f64 / 1e6;
        counts[((1.0 - (-means).exp()) * cells as f64) as usize] += 1;
        last = start;
    }
    check_masses(&counts, &vec![1.0; cells], "gaps");
}

#[test]
fn rates_are_kept_to_the_nanosecond() {
    // At 5e8 per second a mean gap is two nanoseconds: rounding each would be off by a quarter.
    for per_second in [0.5, 1e3, 1e6, 5e8] {
        let end = starts(schedule(0, per_second)).nth(DRAWS as usize - 1);
        let expected_ns = DRAWS as f64 * 1e9 / per_second;
        let off = end.expect("it never ends").as_nanos() as f64 / expected_ns - 1.0;
        let deviation = 1.0 / (DRAWS as f64).sqrt();
        assert!(off.abs() < 4.0 * deviation, "{per_second}: {off}");
    }
}

#[test]
fn schedules_of_workers_are_independent_and_repeatable() {
    let first = |worker| starts(schedule(worker, 1e6)).take(100).collect::<Vec<_>>();
    assert_eq!(first(0), first(0));
    assert_ne!(first(0), first(1));
    let late = PoissonSchedule::new(7, 0, 1e6, Instant::from_nanos(500)).unwrap();
    assert_eq!(late.due(), first(0)[0] + Duration::from_nanos(500));
}

#[test]
fn nothing_starts_early_and_the_late_start_one_after_the_other() {
    let mut schedule = schedule(0, 1e6);
    let due = schedule.due();
    let before = Instant::from_nanos(due.as_nanos() - 1);
    assert_eq!(schedule.take(before), None);
    assert_eq!(schedule.take(due), Some(due));
    // A millisecond late: about a thousand operations are due, each with its intended start.
    let now = due + Duration::from_millis(1);
    let mut last = due;
    let mut late = 0;
    while let Some(start) = schedule.take(now) {
        assert!(last <= start && start <= now);
        last = start;
        late += 1;
    }
    assert!((850..1150).contains(&late), "{late}");
    assert!(schedule.due() > now);
}

#[test]
fn rates_that_are_none_are_refused() {
    for rate in [0.0, -1.0, 1e10, f64::INFINITY] {
        let refused = PoissonSchedule::new(7, 0, rate, Instant::ZERO).map(|_| ());
        assert_eq!(refused, Err(RateError(rate)));
    }
    assert!(PoissonSchedule::new(7, 0, f64::NAN, Instant::ZERO).is_err());
}

#[test]
fn a_stall_is_seen_by_all_that_waited() {
    // Operations take 1 us, but one in the middle takes 100 ms. At 10 000 per second a thousand
    // operations queue behind it: one in ten. Measured from the actual start, only one is slow.
    let service = |at| Duration::from_micros(if at == 5_000 { 100_000 } else { 1 });
    let (mut intended, mut actual) = (LatencyRecorder::new(), LatencyRecorder::new());
    let mut free = Instant::ZERO;
    for (at, due) in starts(schedule(0, 1e4)).take(10_000).enumerate() {
        let start = due.max(free);
        free = start + service(at);
        intended.record(due, free);
        actual.record(start, free);
    }
    assert!(intended.quantile(0.95) > Duration::from_millis(30));
    assert!(actual.quantile(0.999) < Duration::from_micros(2));
    assert!(intended.quantile(0.5) < Duration::from_micros(2));
}

#[test]
fn summaries_are_right_to_three_digits_and_add_up() {
    let (mut low, mut high) = (LatencyRecorder::new(), LatencyRecorder::default());
    for micros in 1..=10_000 {
        let recorder = if micros <= 5_000 { &mut low } else { &mut high };
        recorder.record_latency(Duration::from_micros(micros));
    }
    low.merge(&high);
    let summary = low.summary();
    assert_eq!(summary.count, 10_000);
    for (found, micros) in [
        (summary.p50_ns, 5_000.0),
        (summary.p90_ns, 9_000.0),
        (summary.p99_ns, 9_900.0),
        (summary.p99_9_ns, 9_990.0),
        (summary.max_ns, 10_000.0),
        (summary.mean_ns as u64, 5_000.5),
    ] {
        let off = found as f64 / (micros * 1e3) - 1.0;
        assert!(off.abs() < 1e-3, "{found} instead of {micros} us");
    }
    assert_eq!(LatencyRecorder::new().summary(), LatencySummary::default());
}

#[test]
fn what_is_out_of_range_is_counted_at_the_end() {
    let mut recorder = LatencyRecorder::new();
    recorder.record(Instant::from_nanos(9), Instant::ZERO);
    assert_eq!(recorder.summary().max_ns, 0);
    recorder.record(Instant::ZERO, Instant::FAR_FUTURE);
    let summary = recorder.summary();
    assert_eq!(summary.count, 2);
    let hour = Duration::from_secs(3600).as_nanos();
    assert!((hour..hour + hour / 100).contains(&summary.max_ns));
}
