//! Figure 8 of the Fat-B+Tree paper: lookups by how many regular nodes a layer of the network has.

use super::fat_btree::seen::{self, Curve, Of, Told};
use super::fat_btree::stage::Limits;
use super::fat_btree::sweep::{self, Done, Point};
use super::fat_btree::{SKEW, database, figure, limits, popularity, shrink};
use super::{Experiment, ExperimentError, Run, Scale};
use crate::figure::{Axis, Claim, Figure};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "fat-btree-8",
    about: "the same by the tree nodes of each layer in the switches",
    run,
};

const NODES: &[u16] = &[
    300, 600, 900, 1200, 1500, 1800, 2100, 2400, 2700, 3000, 3300, 3600, 3900,
];
const NODES_QUICK: &[u16] = &[300, 1200, 2100, 3000, 3900];

fn run(run: &mut Run<'_>) -> Result<Figure, ExperimentError> {
    let nodes = match run.scale {
        Scale::Quick => NODES_QUICK,
        Scale::Full | Scale::Paper => NODES,
    };
    let database = database(run.scale);
    let popularity = popularity(&database, SKEW, 0.0, run.seed)?;
    let point = |&nodes: &u16| Point {
        x: f64::from(nodes),
        limits: Limits {
            nodes: nodes / shrink(run.scale) as u16,
            ..limits(run.scale)
        },
        popularity: popularity.clone(),
    };
    let points: Vec<Point> = nodes.iter().map(point).collect();
    let mut curves = sweep::curves();
    sweep::measure(run, Done::ALL, database, &points, &mut curves)?;
    Ok(Figure {
        name: EXPERIMENT.name.into(),
        title: "Lookups by the size of the switches' layers".into(),
        x: Axis::linear("tree nodes of a layer", ""),
        claims: claims(&curves),
        ..figure(run, &curves)
    })
}

fn claims(curves: &[Curve]) -> Vec<Claim> {
    let told = Told::new;
    let (few, many) = ((300.0, "300 tree nodes"), (3900.0, "3900 tree nodes"));
    seen::claims(
        curves,
        "8",
        &[
            told(Of::Mean, few, 45.6, 113.2),
            told(Of::Mean, many, 32.7, 113.2),
            told(Of::Tail, few, 72.5, 123.2),
            told(Of::Tail, many, 52.7, 123.2),
            told(Of::Throughput, few, 21.1, 8.7),
            told(Of::Throughput, many, 28.9, 8.7),
        ],
    )
}
