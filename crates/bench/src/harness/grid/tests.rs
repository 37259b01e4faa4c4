//! Small numbers in place of measurements.

use super::super::{ExperimentError, Scale};
use super::*;

#[test]
fn systems_are_measured_in_order_and_errors_say_where() {
    let mut shares = Vec::new();
    let mut progress = |share| {
        shares.push(share);
        true
    };
    let mut run = Run::new(Scale::Quick, 1, &mut progress);
    let grid = Grid::new(&[(1, "one"), (10, "ten")], &[2, 3]);
    let curves = grid.measure(&mut run, |_, of, point| Ok(of * point));
    let curves = curves.expect("nothing goes wrong");
    assert_eq!(curves[1].points, [(2, 20), (3, 30)]);
    assert_eq!(curves[0].value(3, |&seen| f64::from(seen)), 3.0);
    assert!(curves[0].value(4, |&seen| f64::from(seen)).is_nan());
    let fails = |_: &mut Run<'_>, _, point| match point {
        3 => Err(ExperimentError::Run("no".into())),
        point => Ok(point),
    };
    let error = grid
        .measure(&mut run, fails)
        .expect_err("it fails at three");
    assert_eq!(error, ExperimentError::Run("one at 3: no".into()));
    assert_eq!(shares[..4], [0.0, 0.25, 0.5, 0.75]);
}
