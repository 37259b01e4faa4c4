//! Weights: shares follow them, unused shares go to other flows, and how shares are measured.

use super::*;

fn played(phases: Vec<Phase>, demands: [Option<f64>; 3]) -> History {
    play(&mut Run::quick(1), phases, demands).unwrap()
}

const ALL: [Option<f64>; 3] = [None; 3];

#[test]
fn shares_follow_the_weights_and_their_changes() {
    let length = Duration::from_millis(6);
    let history = played(WEIGHTS.map(|weights| phase(weights, length)).to_vec(), ALL);
    for (at, weights) in WEIGHTS.iter().enumerate() {
        let (from, to) = counted(&history, at);
        let off = history.deviation(at, from, to);
        assert!(off < KEPT, "{off} with {weights:?}");
        let all: f64 = (0..3).map(|flow| history.rate(flow, from, to)).sum();
        let share = all / crate::harness::one_to_one::line_rate();
        assert!(share > 0.95, "the link is used: {share}");
    }
}

#[test]
fn what_a_flow_leaves_goes_to_the_others() {
    let line_rate = crate::harness::one_to_one::line_rate();
    let little = Some(line_rate / 10.0);
    let weights = phase([4, 3, 1], Duration::from_millis(8));
    let history = played(vec![weights], [little, None, None]);
    let (from, to) = counted(&history, 0);
    let [first, second, third] = [0, 1, 2].map(|flow| history.rate(flow, from, to) / line_rate);
    assert!((first * 10.0 - 1.0).abs() < 0.05, "{first} of the link");
    assert!(second + third > 0.85, "{second} and {third} of the link");
    let ratio = second / third;
    assert!((ratio / 3.0 - 1.0).abs() < 0.1, "{ratio}");
}

#[test]
fn without_weights_nobody_starves() {
    let free = Phase {
        weights: [None; 3],
        length: Duration::from_millis(4),
    };
    let history = played(vec![phase([8, 1, 1], Duration::from_millis(4)), free], ALL);
    let (from, to) = counted(&history, 1);
    for flow in 0..3 {
        let share = history.rate(flow, from, to) / crate::harness::one_to_one::line_rate();
        assert!((0.2..0.5).contains(&share), "flow {flow} has {share}");
    }
}

#[test]
fn a_share_is_taken_over_a_window_and_a_batch_counts_evenly() {
    let at = |micros: u64| Instant::from_nanos(micros * 1000);
    let history = History {
        phases: vec![phase([1, 1, 2], Duration::from_micros(100))],
        arrived: [
            vec![(at(50), 100), (at(100), 200)],
            vec![(at(100), 200)],
            vec![(at(40), 100), (at(50), 200), (at(100), 400)],
        ],
    };
    let close = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-9;
    assert!(close(history.rate(0, at(25), at(75)), 2e6));
    assert!(close(history.rate(1, at(0), at(50)), 2e6));
    assert!(history.deviation(0, at(50), at(100)) < 1e-9);
    assert!(history.deviation(0, at(0), at(40)) > 0.1);
    // From 24 to 44 us the third flow has as much as the others together.
    let reached = history.reached(0, Duration::from_micros(20), 0.02);
    assert_eq!(reached, Some(Duration::from_micros(24)));
    let never = history.reached(0, Duration::from_micros(20), -1.0);
    assert_eq!(never, None);
}
