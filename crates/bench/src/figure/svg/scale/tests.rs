//! Ticks and positions.

use super::*;

fn axis(unit: &str, log: bool) -> Axis {
    Axis {
        label: "x".into(),
        unit: unit.into(),
        log,
    }
}

fn labels(axis: &Axis, values: &[f64]) -> String {
    let scale = Scale::upwards(axis, values.iter().copied());
    let labels: Vec<&str> = scale
        .ticks
        .iter()
        .map(|(_, label)| label.as_str())
        .collect();
    labels.join(", ")
}

#[test]
fn ticks_are_round() {
    let check = |unit, log, values: &[f64], expect| {
        assert_eq!(labels(&axis(unit, log), values), expect, "{values:?}");
    };
    check("GB/s", false, &[11.6, 3.0], "0, 2, 4, 6, 8, 10, 12");
    check("s", false, &[0.0031], "0, 0.001, 0.002, 0.003, 0.004");
    check("items/s", false, &[27e6], "0, 5M, 10M, 15M, 20M, 25M, 30M");
    check(
        "B",
        true,
        &[4096.0, 65_536.0],
        "4 KiB, 8 KiB, 16 KiB, 32 KiB, 64 KiB",
    );
    check(
        "B",
        true,
        &[64.0, 4_194_304.0],
        "64 B, 256 B, 1 KiB, 4 KiB, 16 KiB, 64 KiB, 256 KiB, 1 MiB, 4 MiB",
    );
    check("", true, &[1.0, 16.0], "1, 2, 4, 8, 16");
    check("items/s", true, &[3000.0, 2e6], "1k, 10k, 100k, 1M, 10M");
    check("", false, &[], "0, 0.2, 0.4, 0.6, 0.8, 1");
    check("", true, &[0.0], "1, 2, 5, 10");
    check("us", true, &[0.45, 4.4], "0.2, 0.5, 1, 2, 5");
}

#[test]
fn what_goes_across_begins_and_ends_with_its_values() {
    let across = |log, values: &[f64]| {
        let scale = Scale::across(&axis("", log), values.iter().copied());
        let labels: Vec<&str> = scale.ticks.iter().map(|tick| tick.1.as_str()).collect();
        let ends = values.first().zip(values.last()).expect("there are values");
        assert_eq!(scale.place(*ends.0), Some(0.0));
        assert_eq!(scale.place(*ends.1), Some(1.0));
        labels.join(", ")
    };
    assert_eq!(across(false, &[0.0, 1.3]), "0, 0.25, 0.5, 0.75, 1, 1.25");
    assert_eq!(across(true, &[3e4, 1e8]), "100k, 1M, 10M, 100M");
    assert_eq!(across(true, &[1.0, 1500.0]), "1, 10, 100, 1k");
}

#[test]
fn values_have_their_place() {
    let bytes = Scale::across(&axis("B", true), [1024.0, 4096.0].into_iter());
    assert_eq!(bytes.place(1024.0), Some(0.0));
    assert!((bytes.place(2048.0).unwrap() - 0.5).abs() < 1e-12);
    assert_eq!(bytes.place(0.0), None, "a logarithmic axis has no zero");
    let linear = Scale::upwards(&axis("s", false), [0.0, 10.0].into_iter());
    assert_eq!(linear.place(5.0), Some(0.5));
    assert_eq!(linear.place(f64::NAN), None);
}
