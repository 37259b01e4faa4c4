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

/// The bytes of a curve's whole buffer, in KiB.
fn buffer_kib(curve: Option<&Curve>, halves: u64) -> f64 {
    curve.map_or(f64::NAN, |curve| {
        (halves * curve.shape.bytes) as f64 / 1024.0
    })
}

pub fn values_4a(seen: &Seen<'_>) -> Values {
    let (data, best, curve) = seen.peak();
    let small = seen
        .curves
        .iter()
        .filter(|curve| 2 * curve.shape.bytes < 64 << 10);
    values! {
        best,
        best_kib: buffer_kib(curve, 2),
        best_data: Bytes(data as u64).to_string(),
        small: most(small.map(|curve| curve.peak().1)),
    }
}

pub fn values_4b(seen: &Seen<'_>) -> Values {
    // The fraction by which a curve falls with its last doubling before the data is half the
    // buffer.
    let falls = |of: fn(&Curve) -> &[(f64, f64)]| -> Vec<(u64, f64)> {
        let fall = |curve: &Curve| {
            let at = |data: u64| of(curve).iter().find(|point| point.0 == data as f64);
            let (half, before) = (curve.shape.bytes, curve.shape.bytes / 2);
            Some((2 * half, 1.0 - at(half)?.1 / at(before)?.1))
        };
        seen.curves.iter().filter_map(fall).collect()
    };
    let consumed = falls(|curve| &curve.points);
    let written = falls(|curve| &curve.written);
    let falling = |falls: &[(u64, f64)]| falls.iter().filter(|fall| fall.1 > 0.0).count();
    let share = |falls: &[(u64, f64)]| falling(falls) as f64 / falls.len() as f64;
    let listed = |falls: &[(u64, f64)]| {
        let parts = falls.iter().map(|&(buffer, fall)| {
            let (what, by) = (if fall > 0.0 { "-" } else { "+" }, 100.0 * fall.abs());
            format!("{} {what}{by:.0} %", Bytes(buffer))
        });
        parts.collect::<Vec<_>>().join(", ")
    };
    let (_, best, curve) = seen.peak();
    values! {
        best,
        falls_written: share(&written),
        falls_consumed: share(&consumed),
        written: listed(&written),
        consumed: listed(&consumed),
        best_buffer: Bytes(buffer_kib(curve, 2) as u64 * 1024).to_string(),
    }
}

pub fn values_5a(seen: &Seen<'_>) -> Values {
    let (data, best, _) = seen.peak();
    let (_, best_of_all, curve) = peak(&seen.curves.iter().collect::<Vec<_>>());
    values! {
        best, best_of_all,
        best_data_kib: data / 1024.0,
        at_512_kib: seen.best_at(512 << 10),
        with: curve.map_or_else(String::new, |curve| seen.row.name(&curve.shape)),
    }
}

pub fn values_5b(seen: &Seen<'_>) -> Values {
    let (_, best, _) = seen.peak();
    let data = seen.curves.first().map_or(&[][..], |curve| &curve.points);
    let data = data.iter().map(|point| point.0 as u64);
    // The point from which threads are permanently better.
    let worse = data
        .clone()
        .filter(|&at| seen.best_at(at) <= seen.beside_at(at));
    let worse = worse.max().unwrap_or(0);
    let better = data
        .filter(|&at| at > worse)
        .min()
        .map_or(f64::NAN, |at| at as f64);
    values! {
        best,
        at_512_kib: seen.best_at(512 << 10),
        better_mib: better / sweep::MIB,
        beside: seen.beside_at(512 << 10),
    }
}

pub fn values_6a(seen: &Seen<'_>) -> Values {
    let (data, best, _) = seen.peak();
    let drawn = seen.row.best_of_paper(seen.curves);
    let good = |curve: &&&Curve| (256 << 10..=1 << 20).contains(&curve.shape.bytes);
    let written = drawn.iter().flat_map(|curve| &curve.written);
    let written = written.filter(|point| point.0 == sweep::MIB);
    values! {
        best,
        at_1_mib: seen.best_at(1 << 20),
        best_data_kib: data / 1024.0,
        written_at_1_mib: most(written.map(|point| point.1)),
        good: drawn.iter().filter(good).count(),
    }
}

pub fn values_6b(seen: &Seen<'_>) -> Values {
    let (_, best, _) = seen.peak();
    let (_, one, _) = peak(&seen.beside.iter().collect::<Vec<_>>());
    values! { best, one, gain: best / one }
}
