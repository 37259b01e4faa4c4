//! Systems, each measured at several points: the basis of nearly every figure.

use super::{Result, Run};
use crate::figure::Series;
use core::fmt::Debug;

/// Systems and the points at which each is measured.
#[derive(Clone, Debug)]
pub struct Grid<K, P>(Vec<(String, K, Vec<P>)>);

/// The measurements of one system, by point.
#[derive(Clone, PartialEq, Debug)]
pub struct Curve<K, P, T> {
    /// Its name in the legend, prefixed by its panel if it has one.
    pub name: String,
    pub of: K,
    pub points: Vec<(P, T)>,
}

impl<K: Copy, P: Copy + Debug> Grid<K, P> {
    /// Each system, with its name, at each point.
    pub fn new(systems: &[(K, &str)], points: &[P]) -> Self {
        Self::of_rows(systems.iter().map(|&(of, name)| (name, of, points)))
    }

    /// Each system has its own points.
    pub fn of_rows<N: Into<String>, Q: Into<Vec<P>>>(
        rows: impl IntoIterator<Item = (N, K, Q)>,
    ) -> Self {
        let rows = rows.into_iter();
        Self(
            rows.map(|(name, of, points)| (name.into(), of, points.into()))
                .collect(),
        )
    }

    /// The number of measurements.
    pub fn count(&self) -> usize {
        self.0.iter().map(|(_, _, points)| points.len()).sum()
    }

    /// Measures one system after another, each from its first point to its last.
    ///
    /// # Errors
    /// The first error of `measure`, with the system's name and the point.
    pub fn measure<T>(
        &self,
        run: &mut Run<'_>,
        mut measure: impl FnMut(&mut Run<'_>, K, P) -> Result<T>,
    ) -> Result<Vec<Curve<K, P, T>>> {
        let (mut done, total) = (0, self.count());
        let mut curves = Vec::new();
        for (name, of, places) in &self.0 {
            let mut curve = Curve::empty(name, *of);
            for &point in places {
                let mut part = run.part(done, total);
                part.at(0.0)?;
                let seen = measure(&mut part, *of, point);
                let seen = seen.map_err(|error| error.with(format_args!("{name} at {point:?}")))?;
                curve.points.push((point, seen));
                done += 1;
            }
            curves.push(curve);
        }
        Ok(curves)
    }
}

impl<K, P, T> Curve<K, P, T> {
    /// A curve without points.
    pub fn empty(name: impl Into<String>, of: K) -> Self {
        Self {
            name: name.into(),
            of,
            points: Vec::new(),
        }
    }
}

impl<K, P: Copy + PartialEq, T> Curve<K, P, T> {
    /// The measurement at a point, if there is one.
    pub fn at(&self, point: P) -> Option<&T> {
        let found = self.points.iter().find(|one| one.0 == point);
        found.map(|(_, seen)| seen)
    }

    /// A value of the measurement at a point; NaN if there is none.
    pub fn value(&self, point: P, value: impl FnOnce(&T) -> f64) -> f64 {
        self.at(point).map_or(f64::NAN, value)
    }

    /// A value of each measurement, in order.
    pub fn values(&self, value: impl Fn(&T) -> f64) -> impl Iterator<Item = f64> {
        self.points.iter().map(move |(_, seen)| value(seen))
    }

    /// The greatest value; NaN if there are no measurements.
    pub fn most(&self, value: impl Fn(&T) -> f64) -> f64 {
        self.values(value).fold(f64::NAN, f64::max)
    }

    /// The smallest ratio, over all points, of its values to those of `other`; NaN if there are no
    /// measurements.
    pub fn least_gain(&self, other: &Self, value: impl Fn(&T) -> f64 + Copy) -> f64 {
        let pairs = self.values(value).zip(other.values(value));
        let gains = pairs.map(|(own, other)| own / other);
        gains.fold(f64::NAN, f64::min)
    }

    /// The curve to draw, with its own name.
    pub fn series(&self, x: impl Fn(P) -> f64, y: impl Fn(&T) -> f64) -> Series {
        let points = self.points.iter();
        Series::new(&self.name, points.map(|(point, seen)| (x(*point), y(seen))))
    }
}

/// The curves to draw.
pub fn series<K, P: Copy + PartialEq, T>(
    curves: &[Curve<K, P, T>],
    x: impl Fn(P) -> f64,
    y: impl Fn(&T) -> f64,
) -> Vec<Series> {
    curves.iter().map(|curve| curve.series(&x, &y)).collect()
}

#[cfg(test)]
mod tests;
