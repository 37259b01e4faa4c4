//! Figure 7 of the Fat-B+Tree paper: lookups by the skew of what is asked for; its first part as
//! "fat-btree-7", the distributions as "fat-btree-7b".

use super::fat_btree::seen::{self, Curve, Of, Told};
use super::fat_btree::sweep::{self, Done, Point};
use super::fat_btree::{database, figure, limits, popularity};
use super::{Experiment, ExperimentError, Run};
use crate::figure::{Axis, Claim, Drawing, Figure, Series};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "fat-btree-7",
    about: "the same by the skew of the workload",
    run,
};

/// The distributions.
pub const EXPERIMENT_B: Experiment = Experiment {
    name: "fat-btree-7b",
    about: "how many round trips lookups take, by the skew of the workload",
    run: run_distributions,
};

const SKEWS: [f64; 3] = [0.9, 0.95, 0.99];

fn measure(run: &mut Run<'_>) -> Result<Vec<Curve>, ExperimentError> {
    let database = database(run.scale);
    let point = |&skew: &f64| {
        Ok(Point {
            x: skew,
            limits: limits(run.scale),
            popularity: popularity(&database, skew, 0.0, run.seed)?,
        })
    };
    let points: Result<Vec<Point>, ExperimentError> = SKEWS.iter().map(point).collect();
    let mut curves = sweep::curves();
    sweep::measure(run, Done::ALL, database, &points?, &mut curves)?;
    Ok(curves)
}

fn run(run: &mut Run<'_>) -> Result<Figure, ExperimentError> {
    let curves = measure(run)?;
    Ok(Figure {
        name: EXPERIMENT.name.into(),
        title: "Lookups by the skew of the workload".into(),
        x: Axis::linear("Zipfian skew", ""),
        claims: claims(&curves),
        ..figure(run, &curves)
    })
}

fn run_distributions(run: &mut Run<'_>) -> Result<Figure, ExperimentError> {
    let curves = measure(run)?;
    let series = SKEWS.iter().flat_map(|&skew| {
        let both = curves.iter().take(2);
        both.filter_map(move |curve| {
            let seen = curve.at(skew)?;
            Some(Series {
                name: format!("skew {skew} | {}", curve.name),
                points: seen.distribution(),
            })
        })
    });
    let mut notes = figure(run, &curves).notes;
    notes.push(
        "the paper draws latencies. Here nobody else is in the way, so that lookups of as many \
         round trips take equally long, and round trips say all"
            .into(),
    );
    Ok(Figure {
        name: EXPERIMENT_B.name.into(),
        title: "How many round trips lookups take".into(),
        x: Axis::linear("round trips", ""),
        y: Axis::linear("lookups", "%"),
        drawing: Drawing::Bars,
        series: series.collect(),
        claims: Vec::new(),
        notes,
        ..figure(run, &curves)
    })
}

fn claims(curves: &[Curve]) -> Vec<Claim> {
    let told = |x, point, network| Told {
        of: Of::Throughput,
        x,
        point,
        network,
        baseline: 8.7,
    };
    let told = [told(0.9, "skew 0.9", 25.8), told(0.99, "skew 0.99", 28.8)];
    seen::claims(curves, "7", &told)
}
