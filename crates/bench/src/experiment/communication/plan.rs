//! What a figure goes through, in virtual and in real time alike.

use super::shape::{Bytes, Shape, Way};
use super::sweep::{Curve, best};
use crate::experiment::Scale;
use crate::figure::Series;

/// Which figure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Which {
    /// The single buffer, throughput test.
    Four(Test),
    /// Several buffers and one thread at each end.
    OneThread(Test),
    /// Several buffers and several threads.
    Threads(Test),
}

/// Whether somebody takes what was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Test {
    /// Nobody.
    Throughput,
    /// The receiver.
    Consuming,
}

/// Threads at each end, and receive buffers of all of them.
pub type Crew = (u8, u8);

/// What a figure goes through.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Which figure it is.
    pub which: Which,
    /// Threads and buffers, those of the paper's figure among them.
    pub crews: Vec<Crew>,
    /// Those of the paper's figure.
    pub paper: Crew,
}

impl Which {
    /// The test that it shows.
    pub fn test(self) -> Test {
        match self {
            Self::Four(test) | Self::OneThread(test) | Self::Threads(test) => test,
        }
    }

    /// How data goes.
    pub fn way(self) -> Way {
        match (self, self.test()) {
            (_, Test::Throughput) => Way::Raw,
            (Self::Four(_), Test::Consuming) => Way::Single,
            (_, Test::Consuming) => Way::Multi,
        }
    }

    /// A title in words.
    pub fn title(self) -> String {
        let what = match self {
            Self::Four(_) => "Messages through a single buffer",
            Self::OneThread(_) => "Messages through several receive buffers",
            Self::Threads(_) => "Messages of several threads",
        };
        match self.test() {
            Test::Throughput => format!("{what}, nobody consumes"),
            Test::Consuming => format!("{what}, consumed"),
        }
    }
}

impl Plan {
    /// The plan of a figure.
    pub fn new(which: Which, scale: Scale) -> Self {
        let one = |buffers: &[u8]| buffers.iter().map(|&buffers| (1, buffers)).collect();
        let (crews, paper): (Vec<Crew>, Crew) = match (which, scale) {
            (Which::Four(_), _) => (vec![(1, 1)], (1, 1)),
            (Which::OneThread(Test::Throughput), Scale::Quick) => (one(&[1, 2]), (1, 1)),
            (Which::OneThread(Test::Throughput), Scale::Full | Scale::Paper) => {
                (one(&[1, 2, 3, 4, 5, 6, 7]), (1, 1))
            }
            (Which::OneThread(Test::Consuming), Scale::Quick) => (one(&[1, 2, 3]), (1, 2)),
            (Which::OneThread(Test::Consuming), Scale::Full | Scale::Paper) => {
                (one(&[1, 2, 3, 4, 5, 6, 7]), (1, 2))
            }
            (Which::Threads(Test::Throughput), scale) => {
                let threads = match scale {
                    Scale::Quick => 2..=4,
                    Scale::Full | Scale::Paper => 1..=7,
                };
                // Each thread has one receive buffer (section 4.1.1).
                (threads.map(|threads| (threads, threads)).collect(), (3, 3))
            }
            (Which::Threads(Test::Consuming), scale) => {
                let threads = match scale {
                    Scale::Quick => 2..=3,
                    Scale::Full | Scale::Paper => 1..=3,
                };
                // Each thread has two (section 4.2.1), and there are seven at most.
                let crew = |threads| (threads, 2 * threads);
                (threads.map(crew).collect(), (3, 6))
            }
        };
        Self {
            which,
            crews,
            paper,
        }
    }

    /// The shapes with buffers of these sizes; the single buffer is halved.
    pub fn shapes(&self, buffers: &[u64]) -> Vec<Shape> {
        let bytes = |&size: &u64| match self.which {
            Which::Four(_) => size / 2,
            _ => size,
        };
        let of_crew = |&(threads, count): &Crew| {
            let shape = move |bytes| Shape {
                way: self.which.way(),
                threads,
                buffers: count,
                bytes,
            };
            buffers.iter().map(bytes).map(shape)
        };
        self.crews.iter().flat_map(of_crew).collect()
    }

    /// The curves of the paper's crew.
    pub fn papers<'a>(&self, curves: &'a [Curve]) -> Vec<&'a Curve> {
        let is_paper = |curve: &&Curve| (curve.shape.threads, curve.shape.buffers) == self.paper;
        curves.iter().filter(is_paper).collect()
    }

    /// The three best curves of the paper's crew.
    pub fn best_of_paper<'a>(&self, curves: &'a [Curve]) -> Vec<&'a Curve> {
        best(self.papers(curves), 3)
    }

    /// What is drawn: for the single buffer every size, or every second one if there are many,
    /// until all is consumed and until all is written; otherwise the three best sizes of the
    /// paper's crew, and the three best of all crews.
    pub fn drawn(&self, curves: &[Curve]) -> Vec<Series> {
        let series = |panel: &str, curve: &Curve, points: &[(f64, f64)]| Series {
            name: format!("{panel}{}", self.name(&curve.shape)),
            points: points.to_vec(),
        };
        if let Which::Four(test) = self.which {
            let step = curves.len().div_ceil(9).max(1);
            // The largest is always there.
            let first = curves.len().saturating_sub(1) % step;
            let few: Vec<&Curve> = curves.iter().skip(first).step_by(step).collect();
            let all = |panel: &'static str| {
                let of = few.iter();
                of.map(move |curve| series(panel, curve, &curve.points))
            };
            let is_told = few.iter().all(|curve| !curve.written.is_empty());
            if test == Test::Throughput || !is_told {
                return all("").collect();
            }
            // In the throughput test it is the same.
            let written = few.iter();
            let written = written.map(|curve| series("until written | ", curve, &curve.written));
            return all("until consumed | ").chain(written).collect();
        }
        let (threads, buffers) = self.paper;
        let paper = match threads {
            1 => format!("{} | ", plural(buffers, "receive buffer")),
            _ => format!(
                "{} with {} | ",
                plural(threads, "thread"),
                plural(buffers, "receive buffer")
            ),
        };
        let papers = self.best_of_paper(curves).into_iter();
        let mut drawn: Vec<Series> = papers
            .map(|curve| series(&paper, curve, &curve.points))
            .collect();
        if self.crews.len() > 1 {
            let all = best(curves.iter().collect(), 3).into_iter();
            drawn.extend(all.map(|curve| series("best of all | ", curve, &curve.points)));
        }
        drawn
    }

    /// A shape's name in the legend.
    pub fn name(&self, shape: &Shape) -> String {
        match self.which {
            Which::Four(_) => Bytes(2 * shape.bytes).to_string(),
            _ => format!("{} x {}", shape.buffers, Bytes(shape.bytes)),
        }
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
    fn every_crew_is_possible_and_the_papers_is_among_them() {
        for test in [Test::Throughput, Test::Consuming] {
            for which in [Which::Four, Which::OneThread, Which::Threads].map(|of| of(test)) {
                for scale in Scale::ALL {
                    let plan = Plan::new(which, scale);
                    assert!(plan.crews.contains(&plan.paper), "{plan:?}");
                    for &(threads, buffers) in &plan.crews {
                        assert!(threads <= buffers && buffers <= RECEIVE_BUFFERS_MAX);
                    }
                    let shapes = plan.shapes(&[2048, 4096]);
                    assert_eq!(shapes.len(), 2 * plan.crews.len());
                }
            }
        }
    }

    #[test]
    fn a_single_buffer_is_halved() {
        let plan = Plan::new(Which::Four(Test::Consuming), Scale::Quick);
        let [shape] = plan.shapes(&[2 << 20]).try_into().expect("one");
        assert_eq!((shape.way, shape.bytes), (Way::Single, 1 << 20));
        assert_eq!(plan.name(&shape), "2 MiB");
    }
}
