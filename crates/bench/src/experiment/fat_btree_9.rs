//! Figure 9 of the Fat-B+Tree paper: lookups by how many layers below the fat root are loaded.

use super::fat_btree::seen::{self, Curve, Of, Told};
use super::fat_btree::stage::Limits;
use super::fat_btree::sweep::{self, Done, Point};
use super::fat_btree::{SKEW, database, figure, limits, popularity};
use super::{Experiment, ExperimentError, Run};
use crate::figure::{Axis, Claim, Figure};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "fat-btree-9",
    about: "the same by the layers in the switches",
    run,
};

fn run(run: &mut Run<'_>) -> Result<Figure, ExperimentError> {
    let database = database(run.scale);
    let popularity = popularity(&database, SKEW, 0.0, run.seed)?;
    let point = |layers: u8| Point {
        x: f64::from(layers),
        limits: Limits {
            layers,
            ..limits(run.scale)
        },
        popularity: popularity.clone(),
    };
    let points: Vec<Point> = (0..=3).map(point).collect();
    let mut curves = sweep::curves();
    sweep::measure(run, Done::ALL, database, &points, &mut curves)?;
    Ok(Figure {
        name: EXPERIMENT.name.into(),
        title: "Lookups by the layers that the switches know".into(),
        x: Axis::linear("layers below the fat root", ""),
        claims: claims(&curves),
        ..figure(run, &curves)
    })
}

fn claims(curves: &[Curve]) -> Vec<Claim> {
    let told = Told::new;
    let (none, all) = ((0.0, "the fat root alone"), (3.0, "three layers"));
    seen::claims(
        curves,
        "9",
        &[
            told(Of::Mean, none, 74.1, 113.2),
            told(Of::Mean, all, 32.8, 113.2),
            told(Of::Tail, none, 88.4, 123.2),
            told(Of::Tail, all, 52.6, 123.2),
            told(Of::Throughput, none, 13.1, 8.7),
            told(Of::Throughput, all, 28.9, 8.7),
        ],
    )
}
