//! The figures, each a row of parameters ([`Row`]) beside its text, for virtual and real time.

use super::claims::{self, Seen};
use super::shape::{Bytes, Shape, Way};
use super::sweep::{self, Curve, Sizes, best};
use crate::experiment::text_of;
use crate::figure::{FigureText, Measured, Series};
use crate::harness::{Result, Run, Scale};
use serde::Deserialize;
use std::sync::LazyLock;

/// Threads at each end, and the total number of receive buffers.
pub type Layout = (u8, u8);

/// The parameters of a figure.
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

    /// The curves of the paper's layout.
    pub fn papers<'a>(&self, curves: &'a [Curve]) -> Vec<&'a Curve> {
        let is_paper = |curve: &&Curve| (curve.shape.threads, curve.shape.buffers) == self.paper;
        curves.iter().filter(is_paper).collect()
    }

    /// The three best curves of the paper's layout.
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

    /// The text of the figure.
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
        let mut values = claims::values(&seen);
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

#[cfg(test)]
mod tests {
    use super::*;
    use rackweave_wire::fabric::message::RECEIVE_BUFFERS_MAX;

    #[test]
    fn every_layout_is_possible_and_the_papers_is_among_them() {
        for row in &*ROWS {
            for scale in Scale::ALL {
                let layouts = row.layouts(scale);
                assert!(layouts.contains(&row.paper), "{}", row.name);
                for &(threads, buffers) in layouts {
                    assert!(threads <= buffers && buffers <= RECEIVE_BUFFERS_MAX);
                }
                let shapes = row.shapes(scale, &[2048, 4096]);
                assert_eq!(shapes.len(), 2 * layouts.len());
            }
        }
    }

    #[test]
    fn a_single_buffer_is_halved() {
        let [shape] = ROWS[1]
            .shapes(Scale::Quick, &[2 << 20])
            .try_into()
            .expect("one");
        assert_eq!((shape.way, shape.bytes), (Way::Single, 1 << 20));
        assert_eq!(ROWS[1].name(&shape), "2 MiB");
    }
}
