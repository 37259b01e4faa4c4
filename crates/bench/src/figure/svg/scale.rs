//! Axes: from values to the unit interval, and where the ticks are.

use super::super::{Axis, number};

/// Ticks with a label on one axis, about.
const TICKS: f64 = 6.0;

/// An axis with its range.
#[derive(Clone, PartialEq, Debug)]
pub struct Scale {
    low: f64,
    high: f64,
    /// The base of a logarithmic axis.
    base: Option<f64>,
    /// Ticks and their labels, ascending.
    pub ticks: Vec<(f64, String)>,
}

impl Scale {
    /// A scale for `values`. A linear one contains zero if `from_zero`; a logarithmic one leaves
    /// out what is not above zero.
    pub fn new(axis: &Axis, values: impl Iterator<Item = f64>, from_zero: bool) -> Self {
        let values = values.filter(|value| value.is_finite() && (!axis.log || *value > 0.0));
        let values: Vec<f64> = values.collect();
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let is_empty = values.is_empty();
        if axis.log {
            let base = base_of(axis, &values);
            let range = if is_empty { (1.0, base) } else { (low, high) };
            Self::logarithmic(axis, range, base)
        } else {
            let range = match (is_empty, from_zero) {
                (true, _) => (0.0, 1.0),
                (_, true) => (low.min(0.0), high.max(0.0)),
                (_, false) => (low, high),
            };
            Self::linear(axis, range)
        }
    }

    fn linear(axis: &Axis, (low, mut high): (f64, f64)) -> Self {
        if high <= low {
            high = low + if low == 0.0 { 1.0 } else { low.abs() };
        }
        let step = step((high - low) / TICKS);
        let (first, last) = ((low / step).floor(), (high / step - 1e-9).ceil());
        let ticks = (first as i64..=last as i64).map(|at| at as f64 * step);
        Self {
            low: first * step,
            high: last * step,
            base: None,
            ticks: ticks
                .map(|value| (value, label(axis, value, None)))
                .collect(),
        }
    }

    fn logarithmic(axis: &Axis, (low, high): (f64, f64), base: f64) -> Self {
        let power = |value: f64| value.ln() / base.ln();
        let first = (power(low) + 1e-9).floor() as i32;
        let last = ((power(high) - 1e-9).ceil() as i32).max(first + 1);
        // A label at every power, every second, every fourth, ...
        let mut every = 1;
        while f64::from(last - first) / f64::from(every) > TICKS + 3.0 {
            every *= 2;
        }
        let ticks = (first..=last).step_by(every as usize);
        let ticks = ticks.map(|at| base.powi(at));
        Self {
            low: base.powi(first),
            high: base.powi(last),
            base: Some(base),
            ticks: ticks
                .map(|value| (value, label(axis, value, Some(base))))
                .collect(),
        }
    }

    /// Where a value lies, from 0 to 1; nothing if it has no place on the axis.
    pub fn place(&self, value: f64) -> Option<f64> {
        let map = |value: f64| {
            if self.base.is_some() {
                value.ln()
            } else {
                value
            }
        };
        let (low, high, at) = (map(self.low), map(self.high), map(value));
        at.is_finite().then(|| (at - low) / (high - low))
    }
}

/// Two for bytes and for powers of two, else ten.
fn base_of(axis: &Axis, values: &[f64]) -> f64 {
    let is_power = |value: &f64| value.log2().fract().abs() < 1e-9;
    if axis.unit == "B" || (!values.is_empty() && values.iter().all(is_power)) {
        2.0
    } else {
        10.0
    }
}

/// The least of 1, 2, 2.5, 5 times a power of ten that is not below `least`.
fn step(least: f64) -> f64 {
    let power = 10f64.powi(least.log10().floor() as i32);
    let factor = [1.0, 2.0, 2.5, 5.0, 10.0];
    let found = factor
        .iter()
        .find(|&&factor| factor * power >= least * 0.999);
    found.copied().unwrap_or(10.0) * power
}

/// Bytes with binary prefixes, large numbers with decimal ones.
fn label(axis: &Axis, value: f64, base: Option<f64>) -> String {
    let prefixed = |step: f64, prefixes: &[&str]| {
        let mut scaled = value;
        let mut at = 0;
        while scaled.abs() >= step && at + 1 < prefixes.len() {
            scaled /= step;
            at += 1;
        }
        format!("{}{}", number(scaled), prefixes[at])
    };
    match (axis.unit.as_str(), base) {
        ("B", Some(_)) => prefixed(1024.0, &[" B", " KiB", " MiB", " GiB", " TiB"]),
        (_, Some(2.0)) => number(value),
        _ => prefixed(1000.0, &["", "k", "M", "G", "T"]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(unit: &str, log: bool) -> Axis {
        Axis {
            label: "x".into(),
            unit: unit.into(),
            log,
        }
    }

    fn labels(axis: &Axis, values: &[f64]) -> String {
        let scale = Scale::new(axis, values.iter().copied(), true);
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
        check("", true, &[0.0], "1, 10");
    }

    #[test]
    fn values_have_their_place() {
        let bytes = Scale::new(&axis("B", true), [1024.0, 4096.0].into_iter(), false);
        assert_eq!(bytes.place(1024.0), Some(0.0));
        assert!((bytes.place(2048.0).unwrap() - 0.5).abs() < 1e-12);
        assert_eq!(bytes.place(0.0), None, "a logarithmic axis has no zero");
        let linear = Scale::new(&axis("s", false), [0.0, 10.0].into_iter(), true);
        assert_eq!(linear.place(5.0), Some(0.5));
        assert_eq!(linear.place(f64::NAN), None);
    }
}
