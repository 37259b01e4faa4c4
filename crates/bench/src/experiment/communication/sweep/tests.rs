//! Curves of few points, and the sizes of every scale.

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

#[test]
fn shares_are_whole_packages_and_leave_nothing_out() {
    for threads in 1..=7 {
        let shape = Shape {
            way: Way::Raw,
            threads,
            buffers: threads,
            bytes: 1024,
        };
        for data in [0, 1, 991, 992, 993, 10_000, 123_456] {
            let shares: Vec<_> = (0..threads).map(|at| shape.share(at, data)).collect();
            assert_eq!(
                (shares[0].start, shares[threads as usize - 1].end),
                (0, data)
            );
            for pair in shares.windows(2) {
                assert_eq!(pair[0].end, pair[1].start);
                let is_whole = pair[0].end.is_multiple_of(shape.payload());
                assert!(is_whole || pair[0].end == data);
            }
            let packages = |share: &Range<u64>| (share.end - share.start).div_ceil(992);
            let counts: Vec<_> = shares.iter().map(packages).collect();
            let (least, most) = (counts.iter().min(), counts.iter().max());
            assert!(most.unwrap() - least.unwrap() <= 1, "{counts:?}");
            if data <= 992 {
                assert_eq!(shares[0], 0..data, "one package is the first thread's");
            }
        }
    }
}

#[test]
fn bytes_are_told_in_the_largest_unit_that_divides_them() {
    let texts = [8, 1024, 1536, 3 << 20, 4 << 30].map(|bytes| Bytes(bytes).to_string());
    assert_eq!(texts, ["8 B", "1 KiB", "1536 B", "3 MiB", "4 GiB"]);
}
