//! Curves that stop scaling.

use super::*;

fn curve(points: &[(f64, f64, f64)]) -> Course {
    let outcome = |achieved, median: f64| Outcome {
        items_per_second: achieved,
        round_trips_ns: vec![(median * 2e3).round() as u64],
    };
    let points = points.iter();
    Course {
        name: String::new(),
        of: (10, 0),
        points: points
            .map(|&(asked, achieved, median)| (asked, outcome(achieved, median)))
            .collect(),
    }
}

#[test]
fn a_curve_scales_up_to_where_rate_or_median_go_wrong() {
    let steps = curve(&[(1e6, 1e6, 8.0), (2e6, 1.995e6, 11.9), (3e6, 2.5e6, 11.9)]);
    assert_eq!(scales_to(&steps), 2e6);
    let at = |point: &(f64, Outcome)| drawn_at(point.0, &point.1);
    assert_eq!(at(&steps.points[2]), 2.5e6);
    assert_eq!(at(&steps.points[1]), 2e6);
    let late = curve(&[(1e6, 1e6, 8.0), (2e6, 2e6, 12.1)]);
    assert_eq!(scales_to(&late), 1e6);
    assert!(scales_to(&curve(&[])).is_nan());
}
