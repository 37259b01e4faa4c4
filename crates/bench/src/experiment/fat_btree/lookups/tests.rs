//! Claims from curves of one point.

use super::super::client::tests::seen;
use super::*;

#[test]
fn claims_compare_ratios_with_ratios() {
    let curve = |latency| Course {
        name: "one".into(),
        of: (),
        points: vec![(2.0, seen(&[latency], &[1]))],
    };
    let claimed = [
        (Of::Mean, 30.0, 120.0),
        (Of::Tail, 60.0, 120.0),
        (Of::Throughput, 30.0, 10.0),
    ];
    let claimed = claimed.map(|(of, network, baseline)| PaperClaim {
        of,
        x: 2.0,
        what: "at two".into(),
        network,
        baseline,
    });
    let claims = claims(&claimed, &[curve(1000), curve(4000)]);
    let both = claims
        .iter()
        .map(|row| (row.number("paper"), row.number("ours")));
    let both: Vec<(f64, f64)> = both.collect();
    assert_eq!(both, [(75.0, 75.0), (50.0, 75.0), (3.0, 4.0)]);
}
