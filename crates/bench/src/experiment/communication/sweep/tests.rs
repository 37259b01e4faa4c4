//! Curves of few points, and the sizes of every scale.

use super::super::shape::Way;
use super::*;

fn curve(bytes: u64, points: &[(f64, f64)]) -> Curve {
    Curve {
        shape: Shape {
            way: Way::Raw,
            threads: 1,
            buffers: 1,
            bytes,
        },
        points: points.to_vec(),
        written: Vec::new(),
    }
}

#[test]
fn the_area_is_over_a_logarithmic_axis() {
    let flat = curve(1, &[(1.0, 10.0), (2.0, 10.0), (16.0, 10.0)]);
    assert_eq!(flat.area(), 40.0);
    let late = curve(2, &[(1.0, 0.0), (8.0, 0.0), (16.0, 80.0)]);
    assert_eq!(late.area(), 40.0);
    let early = curve(3, &[(1.0, 60.0), (2.0, 60.0), (16.0, 0.0)]);
    assert_eq!(early.area(), 150.0);
    let order: Vec<u64> = best(vec![&flat, &early, &late], 2)
        .iter()
        .map(|curve| curve.shape.bytes)
        .collect();
    assert_eq!(order, [3, 1]);
}

#[test]
fn the_sweeps_have_what_the_claims_speak_of() {
    for scale in Scale::ALL {
        let sizes = Sizes::of(scale);
        for data in [8, 1 << 19, 1 << 20, 1 << 26] {
            assert!(sizes.data.contains(&data), "{scale:?}: {}", Bytes(data));
        }
        assert!(sizes.data.is_sorted() && sizes.buffers.is_sorted());
    }
    assert!(Sizes::of(Scale::Quick).note().contains("8 B to 64 MiB"));
    assert!(Sizes::of(Scale::Full).note().contains("1 KiB to 64 MiB"));
}
