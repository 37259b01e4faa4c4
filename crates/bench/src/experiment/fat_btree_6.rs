//! Figure 6 of the Fat-B+Tree paper: lookups of other keys than those that the network was loaded
//! for.

use super::fat_btree::seen::{self, Curve, Of, Told};
use super::fat_btree::sweep::{self, Done, Point};
use super::fat_btree::{SKEW, database, figure, limits, popularity};
use super::{Experiment, ExperimentError, Run, Scale};
use crate::figure::{Axis, Claim, Figure};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "fat-btree-6",
    about: "the same by how much of the workload the network was not loaded for",
    run,
};

const PERCENT: &[u32] = &[0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100];
const PERCENT_QUICK: &[u32] = &[0, 25, 50, 75, 100];

fn run(run: &mut Run<'_>) -> Result<Figure, ExperimentError> {
    let percent = match run.scale {
        Scale::Quick => PERCENT_QUICK,
        Scale::Full | Scale::Paper => PERCENT,
    };
    let database = database(run.scale);
    let point = |&percent: &u32| {
        let variation = f64::from(percent) / 100.0;
        Ok(Point {
            x: f64::from(percent),
            limits: limits(run.scale),
            popularity: popularity(&database, SKEW, variation, run.seed)?,
        })
    };
    let points: Result<Vec<Point>, ExperimentError> = percent.iter().map(point).collect();
    let mut curves = sweep::curves();
    sweep::measure(run, Done::ALL, database, &points?, &mut curves)?;
    Ok(Figure {
        name: EXPERIMENT.name.into(),
        title: "Lookups in another distribution than the network was loaded for".into(),
        x: Axis::linear("queries of other popular keys", "%"),
        claims: claims(&curves),
        ..figure(run, &curves)
    })
}

fn claims(curves: &[Curve]) -> Vec<Claim> {
    let told = Told::new;
    let (none, all) = ((0.0, "no variation"), (100.0, "wholly other keys"));
    seen::claims(
        curves,
        "6",
        &[
            told(Of::Mean, none, 32.9, 113.0),
            told(Of::Mean, all, 44.9, 113.0),
            told(Of::Throughput, none, 28.8, 8.7),
            told(Of::Throughput, all, 21.3, 8.7),
        ],
    )
}
