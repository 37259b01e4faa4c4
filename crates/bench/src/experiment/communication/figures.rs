//! The figures.

use super::claims::{self, Seen};
use super::plan::{Plan, Test, Which};
use super::shape::{Shape, Way};
use super::sweep::{self, Sizes};
use crate::experiment::{ExperimentError, Run};
use crate::figure::{Axis, Claim, Drawing, Figure, PaperMark};

pub fn figure_4a(run: &mut Run<'_>) -> Result<Figure, ExperimentError> {
    figure(
        run,
        "communication-4a",
        Which::Four(Test::Throughput),
        (claims::claims_4a, vec![PaperMark::level(5615.4)]),
    )
}

pub fn figure_4b(run: &mut Run<'_>) -> Result<Figure, ExperimentError> {
    figure(
        run,
        "communication-4b",
        Which::Four(Test::Consuming),
        (claims::claims_4b, Vec::new()),
    )
}

pub fn figure_5a(run: &mut Run<'_>) -> Result<Figure, ExperimentError> {
    let which = Which::OneThread(Test::Throughput);
    figure(
        run,
        "communication-5a",
        which,
        (
            claims::claims_5a,
            vec![PaperMark::level_in("1 receive buffer", 5250.0)],
        ),
    )
}

/// The panel of the paper's crew in figure 5b.
const THREE: &str = "3 threads with 3 receive buffers";

pub fn figure_5b(run: &mut Run<'_>) -> Result<Figure, ExperimentError> {
    let which = Which::Threads(Test::Throughput);
    figure(
        run,
        "communication-5b",
        which,
        (
            claims::claims_5b,
            vec![
                PaperMark::level_in(THREE, 7100.0),
                PaperMark::point_in(THREE, (f64::from(512 << 10), 3000.0)),
            ],
        ),
    )
}

pub fn figure_6a(run: &mut Run<'_>) -> Result<Figure, ExperimentError> {
    let which = Which::OneThread(Test::Consuming);
    figure(
        run,
        "communication-6a",
        which,
        (
            claims::claims_6a,
            vec![PaperMark::level_in("2 receive buffers", 5100.0)],
        ),
    )
}

pub fn figure_6b(run: &mut Run<'_>) -> Result<Figure, ExperimentError> {
    let which = Which::Threads(Test::Consuming);
    figure(
        run,
        "communication-6b",
        which,
        (
            claims::claims_6b,
            vec![PaperMark::level_in(
                "3 threads with 6 receive buffers",
                5900.0,
            )],
        ),
    )
}

/// The shape of one thread that a figure of threads is compared with: the paper's best.
fn beside(which: Which) -> Option<(Way, u8)> {
    match which {
        Which::Threads(Test::Throughput) => Some((Way::Raw, 1)),
        Which::Threads(Test::Consuming) => Some((Way::Multi, 2)),
        _ => None,
    }
}

/// What makes a figure's claims and notes.
type Claims = fn(&Seen<'_>) -> (Vec<Claim>, Vec<String>);

fn figure(
    run: &mut Run<'_>,
    name: &str,
    which: Which,
    (claims, paper): (Claims, Vec<PaperMark>),
) -> Result<Figure, ExperimentError> {
    let (plan, sizes) = (Plan::new(which, run.scale), Sizes::of(run.scale));
    let mut shapes = plan.shapes(&sizes.buffers);
    let own = shapes.len();
    if let Some((way, buffers)) = beside(which) {
        shapes.extend(sizes.buffers.iter().map(|&bytes| Shape {
            way,
            threads: 1,
            buffers,
            bytes,
        }));
    }
    let curves = sweep::measure(run, &shapes, &sizes.data)?;
    let (curves, beside) = curves.split_at(own);
    let seen = Seen {
        plan: &plan,
        curves,
        beside,
    };
    let (claims, mut notes) = claims(&seen);
    notes.insert(0, sizes.note());
    notes.push(seen.steadiness());
    notes.push(MODEL.into());
    Ok(Figure {
        name: name.into(),
        title: which.title(),
        x: Axis::log("data", "B"),
        y: Axis::linear("effective bandwidth", "MiB/s"),
        drawing: Drawing::Lines,
        y_per_panel: false,
        paper,
        x_names: Vec::new(),
        series: plan.drawn(curves),
        claims,
        notes,
        seed: run.seed,
    })
}

/// What all figures have in common.
const MODEL: &str = "Virtual time: ConnectX-4 at 100 Gbit/s without a switch; a core moves 12 GB/s \
    to and from memory (published STREAM of one thread), more where caches hold the buffers; \
    nothing was fitted to the paper's figures. Each point is one measurement, as a second one \
    would give the same.";
