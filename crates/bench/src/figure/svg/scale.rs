//! Axes: map values to the unit interval, and place the ticks.

use super::super::{Axis, number};

/// Approximate number of labelled ticks on an axis.
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
    /// A horizontal scale for `values`: from the smallest to the largest. A logarithmic scale
    /// ignores values that are not positive.
    pub fn across(axis: &Axis, values: impl Iterator<Item = f64>) -> Self {
        Self::new(axis, values, false)
    }

    /// A vertical scale for `values`: a linear one contains zero, and both end with ticks.
    pub fn upwards(axis: &Axis, values: impl Iterator<Item = f64>) -> Self {
        Self::new(axis, values, true)
    }

    fn new(axis: &Axis, values: impl Iterator<Item = f64>, upwards: bool) -> Self {
        let values = values.filter(|value| value.is_finite() && (!axis.log || *value > 0.0));
        let values: Vec<f64> = values.collect();
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if axis.log {
            let base = base_of(axis, &values);
            let (low, high) = match values.is_empty() {
                true => (1.0, base),
                false => (low, high),
            };
            // A range of one value is widened, because its width would be zero.
            let high = if high > low { high } else { low * base };
            Self::logarithmic(axis, (low, high), base, upwards)
        } else {
            let (low, high) = match (values.is_empty(), upwards) {
                (true, _) => (0.0, 1.0),
                (_, true) => (low.min(0.0), high.max(0.0)),
                // A range that begins near zero begins at zero.
                (_, false) if low > 0.0 && low < (high - low) / TICKS => (0.0, high),
                (_, false) => (low, high),
            };
            let widened = low + if low == 0.0 { 1.0 } else { low.abs() };
            let high = if high > low { high } else { widened };
            Self::linear(axis, (low, high), upwards)
        }
    }

    fn linear(axis: &Axis, (low, high): (f64, f64), upwards: bool) -> Self {
        let step = step((high - low) / TICKS);
        let (first, last) = match upwards {
            true => ((low / step).floor(), (high / step - 1e-9).ceil()),
            false => ((low / step - 1e-9).ceil(), (high / step + 1e-9).floor()),
        };
        let ticks = (first as i64..=last as i64).map(|at| at as f64 * step);
        let ticks = ticks.map(|value| (value, label(axis, value, None)));
        Self {
            low: if upwards { first * step } else { low },
            high: if upwards { last * step } else { high },
            base: None,
            ticks: ticks.collect(),
        }
    }

    fn logarithmic(axis: &Axis, (low, high): (f64, f64), base: f64, upwards: bool) -> Self {
        // Powers of the base; if there are few of them, also values between them.
        let power = |value: f64| value.ln() / base.ln();
        let powers = power(high) - power(low);
        let between: &[f64] = match base == 10.0 && powers < 2.0 {
            true => &[1.0, 2.0, 5.0],
            false => &[1.0],
        };
        let (first, last) = (power(low).floor() as i32 - 1, power(high).ceil() as i32 + 1);
        let all = (first..=last).flat_map(|at| between.iter().map(move |b| b * base.powi(at)));
        let all: Vec<f64> = all.collect();
        let (low, high) = match upwards {
            true => {
                let mut ticks = all.iter().copied();
                let below = ticks.clone().rfind(|tick| *tick <= low * 1.001);
                let above = ticks.find(|tick| *tick >= high * 0.999);
                (below.unwrap_or(low), above.unwrap_or(high))
            }
            false => (low, high),
        };
        let ticks = all.into_iter();
        let within = ticks.filter(|tick| *tick >= low * 0.999 && *tick <= high * 1.001);
        let within: Vec<f64> = within.collect();
        // A label at every power, or every second, fourth, ...
        let mut every = 1;
        while within.len() as f64 / f64::from(every) > TICKS + 4.0 {
            every *= 2;
        }
        let ticks = within.into_iter().step_by(every as usize);
        Self {
            low,
            high,
            base: Some(base),
            ticks: ticks
                .map(|value| (value, label(axis, value, Some(base))))
                .collect(),
        }
    }

    /// The position of a value, from 0 to 1; none if the axis cannot show it.
    pub fn place(&self, value: f64) -> Option<f64> {
        let map = |value: f64| self.base.map_or(value, |_| value.ln());
        let (low, high, at) = (map(self.low), map(self.high), map(value));
        at.is_finite().then(|| (at - low) / (high - low))
    }
}

/// Two for bytes and for powers of two, else ten.
fn base_of(axis: &Axis, values: &[f64]) -> f64 {
    let is_power = |value: &f64| value.log2().fract().abs() < 1e-9;
    let is_binary = axis.unit == "B" || (!values.is_empty() && values.iter().all(is_power));
    if is_binary { 2.0 } else { 10.0 }
}

/// The smallest of 1, 2, 2.5, 5 times a power of ten that is at least `least`.
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
mod tests;
