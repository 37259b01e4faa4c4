//! The ping-pong: every item returns, once and in order, at the requested rate.

use super::*;

fn ping_pong(course: Course) -> Outcome {
    let mut run = Run::quick(1);
    let span = Span::new(Duration::from_millis(1), Duration::from_millis(2));
    super::run(&mut run, course, span).unwrap()
}

#[test]
fn what_is_sent_at_a_rate_comes_back_at_it() {
    for item_size in [64, 1024] {
        for signal in [Signal::Polls(Duration::from_micros(20)), Signal::Doorbells] {
            let course = Course {
                item_size,
                items_per_second: 1e6,
                signal,
            };
            let outcome = ping_pong(course);
            let rate = outcome.items_per_second;
            assert!((rate / 1e6 - 1.0).abs() < 0.02, "{rate} for {course:?}");
            // Those of the last round trip have not returned yet.
            let count = outcome.round_trips_ns.len();
            assert!((1800..=2001).contains(&count), "{count} for {course:?}");
        }
    }
}

#[test]
fn polls_cost_half_their_interval_at_each_end_and_doorbells_less() {
    let median = |signal| {
        let course = Course {
            item_size: 64,
            items_per_second: 100e3,
            signal,
        };
        ping_pong(course).quantile(0.5)
    };
    let polls = [20, 100].map(|micros| (micros, Signal::Polls(Duration::from_micros(micros))));
    let polled = polls.map(|(micros, signal)| (micros as f64, median(signal)));
    for (interval, median) in polled {
        assert!(median > interval / 2.0, "{median} for {interval}");
        assert!(median < interval * 1.6, "{median} for {interval}");
    }
    let rung = median(Signal::Doorbells);
    assert!(rung < polled[0].1, "{rung} and {}", polled[0].1);
}
