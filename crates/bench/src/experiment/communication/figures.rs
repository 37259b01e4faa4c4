//! The figures, each a row of parameters ([`Row`]), shared by virtual and real time.

use super::claims::{self, Seen};
use super::shape::{Bytes, Shape, Way};
use super::sweep::{self, Curve, Sizes, best};
use crate::figure::{Axis, Figure, PaperMark, Series};
use crate::harness::{Result, Run, Scale};

/// Threads at each end, and the total number of receive buffers.
pub type Layout = (u8, u8);

/// The parameters of a figure.
pub struct Row {
    /// Its name on the command line.
    pub name: &'static str,
    /// A title in words.
    pub title: &'static str,
    /// Where the paper makes the claims.
    source: &'static str,
    /// How data is transferred; raw data is not consumed.
    pub way: Way,
    /// Whether it is a single buffer, which is halved.
    pub is_single: bool,
    /// The layouts of the quick form and of the other forms.
    layouts: [&'static [Layout]; 2],
    /// The paper's layout, which is among them.
    paper: Layout,
    /// Receive buffers of one thread, to compare threads with: the paper's best.
    beside: Option<u8>,
    /// The paper's values: panel, bytes of data or a level, and MiB per second.
    marks: &'static [(&'static str, Option<f64>, f64)],
    claims: fn(&mut Figure, &Seen<'_>),
}

const ONE: &[Layout] = &[(1, 1)];
const ONE_THREAD: &[Layout] = &[(1, 1), (1, 2), (1, 3), (1, 4), (1, 5), (1, 6), (1, 7)];

/// Each thread has one receive buffer (section 4.1.1).
const THREADS: &[Layout] = &[(1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 6), (7, 7)];

/// Each thread has two (section 4.2.1), and there are at most seven.
const THREADS_CONSUMING: &[Layout] = &[(1, 2), (2, 4), (3, 6)];

/// The panel of the paper's layout in figure 5b.
const THREE: &str = "3 threads with 3 receive buffers";

/// Figures 4a, 4b, 5a, 5b, 6a and 6b.
pub const ROWS: [Row; 6] = [
    Row {
        name: "communication-4a",
        title: "Messages through a single buffer, nobody consumes",
        source: "section 4.1, figure 4a",
        way: Way::Raw,
        is_single: true,
        layouts: [ONE, ONE],
        paper: (1, 1),
        beside: None,
        marks: &[("", None, 5615.4)],
        claims: claims::claims_4a,
    },
    Row {
        name: "communication-4b",
        title: "Messages through a single buffer, consumed",
        source: "section 4.2, figure 4b",
        way: Way::Single,
        is_single: true,
        layouts: [ONE, ONE],
        paper: (1, 1),
        beside: None,
        marks: &[],
        claims: claims::claims_4b,
    },
    Row {
        name: "communication-5a",
        title: "Messages through several receive buffers, nobody consumes",
        source: "section 4.1, figure 5a",
        way: Way::Raw,
        is_single: false,
        layouts: [ONE_THREAD.split_at(2).0, ONE_THREAD],
        paper: (1, 1),
        beside: None,
        marks: &[("1 receive buffer", None, 5250.0)],
        claims: claims::claims_5a,
    },
    Row {
        name: "communication-5b",
        title: "Messages of several threads, nobody consumes",
        source: "section 4.1.1, figure 5b",
        way: Way::Raw,
        is_single: false,
        layouts: [&[(2, 2), (3, 3), (4, 4)], THREADS],
        paper: (3, 3),
        beside: Some(1),
        marks: &[
            (THREE, None, 7100.0),
            (THREE, Some((512 << 10) as f64), 3000.0),
        ],
        claims: claims::claims_5b,
    },
    Row {
        name: "communication-6a",
        title: "Messages through several receive buffers, consumed",
        source: "section 4.2, figure 6a",
        way: Way::Multi,
        is_single: false,
        layouts: [ONE_THREAD.split_at(3).0, ONE_THREAD],
        paper: (1, 2),
        beside: None,
        marks: &[("2 receive buffers", None, 5100.0)],
        claims: claims::claims_6a,
    },
    Row {
        name: "communication-6b",
        title: "Messages of several threads, consumed",
        source: "section 4.2.1, figure 6b",
        way: Way::Multi,
        is_single: false,
        layouts: [THREADS_CONSUMING.split_at(1).1, THREADS_CONSUMING],
        paper: (3, 6),
        beside: Some(2),
        marks: &[("3 threads with 6 receive buffers", None, 5900.0)],
        claims: claims::claims_6b,
    },
];

/// Measures the figure of a row in virtual time.
pub fn run<const ROW: usize>(run: &mut Run<'_>) -> Result<Figure> {
    ROWS[ROW].figure(run)
}

impl Row {
    /// Threads and buffers, including those of the paper's figure.
    pub fn layouts(&self, scale: Scale) -> &'static [Layout] {
        scale.pick(self.layouts[0], self.layouts[1])
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

    /// Axes and title, without curves.
    pub fn empty_figure(&self) -> Figure {
        Figure::lines(self.title)
            .of(self.source)
            .x(Axis::log("data", "B"))
            .y(Axis::linear("effective bandwidth", "MiB/s"))
    }

    fn figure(&self, run: &mut Run<'_>) -> Result<Figure> {
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
        let mut figure = self.empty_figure();
        let marks = self.marks.iter().map(|&(panel, x, y)| PaperMark {
            x,
            ..PaperMark::level_in(panel, y)
        });
        figure.paper = marks.collect();
        figure.series = self.drawn(curves);
        figure.note(sizes.note());
        (self.claims)(&mut figure, &seen);
        figure.note(seen.steadiness());
        figure.note(MODEL);
        Ok(figure)
    }
}

fn plural(count: u8, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        count => format!("{count} {what}s"),
    }
}

/// The note that all figures share.
const MODEL: &str = "Virtual time: ConnectX-4 at 100 Gbit/s without a switch; a core moves 12 GB/s \
    to and from memory (published STREAM of one thread), more where caches hold the buffers; \
    nothing was fitted to the paper's figures. Each point is one measurement, as a second one \
    would give the same.";

#[cfg(test)]
mod tests {
    use super::*;
    use rackweave_wire::fabric::message::RECEIVE_BUFFERS_MAX;

    #[test]
    fn every_layout_is_possible_and_the_papers_is_among_them() {
        for row in ROWS {
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
