//! Small transfers in real time.

use super::*;

#[test]
fn every_way_delivers_in_real_time_too() {
    let source = source(1, 300_000);
    for (way, threads, buffers) in [
        (Way::Raw, 1, 2),
        (Way::Raw, 2, 2),
        (Way::Single, 1, 1),
        (Way::Multi, 1, 2),
        (Way::Multi, 2, 4),
    ] {
        let shape = Shape {
            way,
            threads,
            buffers,
            bytes: 8 << 10,
        };
        let points = curve(shape, 3, &source, &[8, 10_000, 300_000]);
        let points = points.unwrap_or_else(|error| panic!("{shape:?}: {error}"));
        assert_eq!(points.len(), 3);
        assert!(points.iter().all(|point| point.1 > 0.0), "{points:?}");
    }
}

#[test]
fn the_figures_of_the_communication_tier_can_be_measured() {
    for one in crate::experiment::ALL {
        let is_ours = one.name.starts_with("communication-");
        assert_eq!(row(one.name).is_some(), is_ours, "{}", one.name);
    }
}
