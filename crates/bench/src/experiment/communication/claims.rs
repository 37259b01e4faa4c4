//! What the texts of the figures say of the results.

use super::figures::Row;
use super::shape::Bytes;
use super::sweep::{self, Curve, best};
use crate::figure::{Values, values};

/// The basis of a figure's claims: its row, its curves, and the single-thread curves that several
/// threads are compared with.
pub struct Seen<'a> {
    /// The row that was measured.
    pub row: &'a Row,
    /// The resulting curves.
    pub curves: &'a [Curve],
    /// Curves of one thread, by the size of its buffers.
    pub beside: &'a [Curve],
}

impl Seen<'_> {
    /// The best point of the paper's layout: bytes of data, MiB per second, and the curve.
    fn peak(&self) -> (f64, f64, Option<&Curve>) {
        peak(&self.row.papers(self.curves))
    }

    /// The best bandwidth of the three drawn curves with this much data.
    fn best_at(&self, data: u64) -> f64 {
        let drawn = self.row.best_of_paper(self.curves);
        most(drawn.iter().filter_map(|curve| curve.at(data)))
    }

    /// The best bandwidth of one thread with this much data, over its three best sizes.
    fn beside_at(&self, data: u64) -> f64 {
        let drawn = best(self.beside.iter().collect(), 3);
        most(drawn.iter().filter_map(|curve| curve.at(data)))
    }

    /// For each buffer, its bytes and the fraction by which the bandwidth falls with the last
    /// doubling before the data is half the buffer.
    fn falls(&self, of: fn(&Curve) -> &[(f64, f64)]) -> Vec<(u64, f64)> {
        let fall = |curve: &Curve| {
            let at = |data: u64| of(curve).iter().find(|point| point.0 == data as f64);
            let (half, before) = (curve.shape.bytes, curve.shape.bytes / 2);
            Some((2 * half, 1.0 - at(half)?.1 / at(before)?.1))
        };
        self.curves.iter().filter_map(fall).collect()
    }

    /// The data from which on threads are permanently better than one.
    fn better_from(&self) -> f64 {
        let points = self.curves.first().map_or(&[][..], |curve| &curve.points);
        let data = points.iter().map(|point| point.0 as u64);
        let is_worse = |&at: &u64| self.best_at(at) <= self.beside_at(at);
        let worse = data.clone().filter(is_worse).max().unwrap_or(0);
        let better = data.filter(|&at| at > worse).min();
        better.map_or(f64::NAN, |at| at as f64)
    }

    /// The most data of the sweep, and how much its last step still changes the bandwidth.
    pub fn steadiness(&self) -> (u64, f64) {
        let drawn = match self.row.is_single {
            true => best(self.curves.iter().collect(), 3),
            false => self.row.best_of_paper(self.curves),
        };
        let change = most(drawn.iter().map(|curve| curve.last_change().abs()));
        let last = drawn.first().and_then(|curve| curve.points.last());
        (last.map_or(0, |point| point.0 as u64), change)
    }

    /// The best sizes, and the best layouts.
    pub fn chosen(&self) -> String {
        let names = |curves: Vec<&Curve>| {
            let names = curves.into_iter().map(|curve| self.row.name(&curve.shape));
            names.collect::<Vec<_>>().join(", ")
        };
        let papers = names(self.row.best_of_paper(self.curves));
        let all = names(best(self.curves.iter().collect(), 3));
        format!(
            "By the area under the curve over the logarithm of the data, the best of the paper's \
             number are {papers}; of all that were tried, {all}."
        )
    }
}

fn most(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(f64::NAN, f64::max)
}

fn peak<'a>(curves: &[&'a Curve]) -> (f64, f64, Option<&'a Curve>) {
    let best = curves
        .iter()
        .max_by(|a, b| a.peak().1.total_cmp(&b.peak().1));
    best.map_or((f64::NAN, f64::NAN, None), |curve| {
        let (data, bandwidth) = curve.peak();
        (data, bandwidth, Some(curve))
    })
}

/// The share of falls that are some.
fn falling(falls: &[(u64, f64)]) -> f64 {
    falls.iter().filter(|fall| fall.1 > 0.0).count() as f64 / falls.len() as f64
}

fn listed(falls: &[(u64, f64)]) -> String {
    let parts = falls.iter().map(|&(buffer, fall)| {
        let (what, by) = (if fall > 0.0 { "-" } else { "+" }, 100.0 * fall.abs());
        format!("{} {what}{by:.0} %", Bytes(buffer))
    });
    parts.collect::<Vec<_>>().join(", ")
}

/// What the texts name; each of them needs a part of it.
pub fn values(seen: &Seen<'_>) -> Values {
    let (data, best, curve) = seen.peak();
    let (_, best_of_all, with) = peak(&seen.curves.iter().collect::<Vec<_>>());
    let (_, one, _) = peak(&seen.beside.iter().collect::<Vec<_>>());
    // The single buffer has two halves.
    let best_buffer = curve.map_or(f64::NAN, |curve| (2 * curve.shape.bytes) as f64);
    let is_small = |curve: &&Curve| 2 * curve.shape.bytes < 64 << 10;
    let small = seen.curves.iter().filter(is_small);
    let written = seen.falls(|curve| &curve.written);
    let consumed = seen.falls(|curve| &curve.points);
    let drawn = seen.row.best_of_paper(seen.curves);
    let is_good = |curve: &&&Curve| (256 << 10..=1 << 20).contains(&curve.shape.bytes);
    let until_written = drawn.iter().flat_map(|curve| &curve.written);
    let with_1_mib = until_written.filter(|point| point.0 == sweep::MIB);
    values! {
        best, best_of_all, one,
        best_kib: best_buffer / 1024.0,
        best_buffer: Bytes(best_buffer as u64).to_string(),
        best_data: Bytes(data as u64).to_string(),
        best_data_kib: data / 1024.0,
        small: most(small.map(|curve| curve.peak().1)),
        falls_written: falling(&written),
        falls_consumed: falling(&consumed),
        written: listed(&written),
        consumed: listed(&consumed),
        at_512_kib: seen.best_at(512 << 10),
        at_1_mib: seen.best_at(1 << 20),
        with: with.map_or_else(String::new, |curve| seen.row.name(&curve.shape)),
        better_mib: seen.better_from() / sweep::MIB,
        beside: seen.beside_at(512 << 10),
        written_at_1_mib: most(with_1_mib.map(|point| point.1)),
        good: drawn.iter().filter(is_good).count(),
        gain: best / one,
    }
}
