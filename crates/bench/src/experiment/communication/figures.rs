//! The figures, each a row of parameters ([`Row`]) beside its text, for virtual and real time; and
//! what the texts say of the results.

use super::sweep::{self, Bytes, Curve, Shape, Sizes, Way, best};
use crate::experiment::text_of;
use crate::figure::FigureText;
use crate::harness::prelude::*;
use serde::Deserialize;

/// Threads at each end, and the total number of receive buffers.
pub type Layout = (u8, u8);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// Its name on the command line.
    #[serde(skip)]
    pub name: &'static str,
    /// How data is transferred; raw data is not consumed.
    pub way: Way,
    /// Whether it is a single buffer, which is halved.
    #[serde(default)]
    pub is_single: bool,
    /// The layouts of the quick form and of the other forms.
    quick: Vec<Layout>,
    layouts: Vec<Layout>,
    /// The paper's layout, which is among them.
    paper: Layout,
    /// Receive buffers of one thread, to compare threads with: the paper's best.
    beside: Option<u8>,
}

/// Figures 4a, 4b, 5a, 5b, 6a and 6b.
pub static ROWS: LazyLock<[Row; 6]> = LazyLock::new(|| {
    let names = [
        "communication-4a",
        "communication-4b",
        "communication-5a",
        "communication-5b",
        "communication-6a",
        "communication-6b",
    ];
    names.map(|name| Row {
        name,
        ..text_of(name).sweep()
    })
});

/// Measures the figure of a row in virtual time.
pub fn run<const ROW: usize>(run: &mut Run<'_>) -> Result<Measured> {
    ROWS[ROW].measured(run)
}

impl Row {
    /// Threads and buffers, including those of the paper's figure.
    pub fn layouts(&self, scale: Scale) -> &[Layout] {
        scale.pick(&self.quick, &self.layouts)
    }

    /// The shapes with buffers of these sizes; the single buffer is halved.
    pub fn shapes(&self, scale: Scale, buffers: &[u64]) -> Vec<Shape> {
        let of_layout = |&(threads, count): &Layout| {
            let shape = move |&size: &u64| Shape {
                way: self.way,
                threads,
                buffers: count,
                bytes: if self.is_single { size / 2 } else { size },
            };
            buffers.iter().map(shape)
        };
        self.layouts(scale).iter().flat_map(of_layout).collect()
    }

    pub fn papers<'a>(&self, curves: &'a [Curve]) -> Vec<&'a Curve> {
        let is_paper = |curve: &&Curve| (curve.shape.threads, curve.shape.buffers) == self.paper;
        curves.iter().filter(is_paper).collect()
    }

    pub fn best_of_paper<'a>(&self, curves: &'a [Curve]) -> Vec<&'a Curve> {
        best(self.papers(curves), 3)
    }

    /// The curves to draw. For the single buffer: every size, or every second one if there are
    /// many, until all is consumed and until all is written. Otherwise: the three best sizes of the
    /// paper's layout, and the three best of all layouts.
    pub fn drawn(&self, curves: &[Curve]) -> Vec<Series> {
        let mut drawn = Vec::new();
        let mut draw = |panel: &str, curve: &Curve, points: &[(f64, f64)]| {
            let name = format!("{panel}{}", self.name(&curve.shape));
            drawn.push(Series::new(name, points.to_vec()));
        };
        if self.is_single {
            let step = curves.len().div_ceil(9).max(1);
            // The largest size is always included.
            let first = curves.len().saturating_sub(1) % step;
            let few: Vec<&Curve> = curves.iter().skip(first).step_by(step).collect();
            // In the throughput test both are equal.
            let both = self.way != Way::Raw && few.iter().all(|curve| !curve.written.is_empty());
            let panels = if both {
                ["until consumed | ", "until written | "]
            } else {
                [""; 2]
            };
            few.iter()
                .for_each(|curve| draw(panels[0], curve, &curve.points));
            for curve in few.iter().filter(|_| both) {
                draw(panels[1], curve, &curve.written);
            }
            return drawn;
        }
        let (threads, buffers) = self.paper;
        let mut panel = format!("{} | ", plural(buffers, "receive buffer"));
        if threads > 1 {
            panel = format!("{} with {panel}", plural(threads, "thread"));
        }
        for curve in self.best_of_paper(curves) {
            draw(&panel, curve, &curve.points);
        }
        for curve in best(curves.iter().collect(), 3) {
            draw("best of all | ", curve, &curve.points);
        }
        drawn
    }

    /// A shape's name in the legend.
    pub fn name(&self, shape: &Shape) -> String {
        match self.is_single {
            true => Bytes(2 * shape.bytes).to_string(),
            false => format!("{} x {}", shape.buffers, Bytes(shape.bytes)),
        }
    }

    pub fn text(&self) -> &'static FigureText {
        text_of(self.name)
    }

    fn measured(&self, run: &mut Run<'_>) -> Result<Measured> {
        let sizes = Sizes::of(run.scale);
        let mut shapes = self.shapes(run.scale, &sizes.buffers);
        let own = shapes.len();
        if let Some(buffers) = self.beside {
            shapes.extend(sizes.buffers.iter().map(|&bytes| Shape {
                way: self.way,
                threads: 1,
                buffers,
                bytes,
            }));
        }
        let curves = sweep::measure(run, &shapes, &sizes.data)?;
        let (curves, beside) = curves.split_at(own);
        let seen = Seen {
            row: self,
            curves,
            beside,
        };
        let mut values = values(&seen);
        values.set("sizes", sizes.note());
        values.set("chosen", seen.chosen());
        let (last, change) = seen.steadiness();
        values.set("last_data", Bytes(last).to_string());
        values.set("change", 100.0 * change);
        Ok(Measured::new(self.drawn(curves), values))
    }
}

fn plural(count: u8, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        count => format!("{count} {what}s"),
    }
}

/// The basis of a figure's claims: its row, its curves, and the single-thread curves that several
/// threads are compared with.
struct Seen<'a> {
    row: &'a Row,
    curves: &'a [Curve],
    /// Curves of one thread, by the size of its buffers.
    beside: &'a [Curve],
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
    fn steadiness(&self) -> (u64, f64) {
        let drawn = match self.row.is_single {
            true => best(self.curves.iter().collect(), 3),
            false => self.row.best_of_paper(self.curves),
        };
        let change = most(drawn.iter().map(|curve| curve.last_change().abs()));
        let last = drawn.first().and_then(|curve| curve.points.last());
        (last.map_or(0, |point| point.0 as u64), change)
    }

    /// The best sizes, and the best layouts.
    fn chosen(&self) -> String {
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
fn values(seen: &Seen<'_>) -> Values {
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

#[cfg(test)]
mod tests;
