//! Figure 5 of the Fat-B+Tree paper: lookups by the size of the database.

use super::fat_btree::database::Database;
use super::fat_btree::seen::{self, Curve, Of, Told};
use super::fat_btree::sweep::{self, Done, Point};
use super::fat_btree::{SKEW, VALUE_BYTES, figure, limits, popularity, shrink};
use super::{Experiment, ExperimentError, Run, Scale};
use crate::figure::{Axis, Claim, Figure};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "fat-btree-5",
    about: "lookups in a B+tree that the switches know in part, by its size",
    run,
};

const MILLIONS: &[u64] = &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10];
const MILLIONS_QUICK: &[u64] = &[1, 3, 5, 7, 10];

fn run(run: &mut Run<'_>) -> Result<Figure, ExperimentError> {
    let millions = match run.scale {
        Scale::Quick => MILLIONS_QUICK,
        Scale::Full | Scale::Paper => MILLIONS,
    };
    let mut curves = sweep::curves();
    for (before, &million) in millions.iter().enumerate() {
        let database = Database {
            keys: million * 1_000_000 / shrink(run.scale),
            value_bytes: VALUE_BYTES,
        };
        let point = Point {
            x: million as f64,
            limits: limits(run.scale),
            popularity: popularity(&database, SKEW, 0.0, run.seed)?,
        };
        let done = Done {
            before,
            total: millions.len(),
        };
        sweep::measure(run, done, database, &[point], &mut curves)
            .map_err(|error| error.with(format!("{million} M keys")))?;
    }
    Ok(Figure {
        name: EXPERIMENT.name.into(),
        title: "Lookups of records of 1000 bytes, one at a time".into(),
        x: Axis::linear("keys", "M"),
        claims: claims(&curves),
        ..figure(run, &curves)
    })
}

fn claims(curves: &[Curve]) -> Vec<Claim> {
    let told = |of, (x, point), (network, baseline)| Told {
        of,
        x,
        point,
        network,
        baseline,
    };
    let (least, most) = ((1.0, "1 M keys"), (10.0, "10 M keys"));
    seen::claims(
        curves,
        "5",
        &[
            told(Of::Mean, least, (27.5, 112.6)),
            told(Of::Mean, most, (46.7, 129.0)),
            told(Of::Tail, least, (51.1, 122.5)),
            told(Of::Tail, most, (71.0, 142.4)),
            told(Of::Throughput, least, (34.2, 8.7)),
            told(Of::Throughput, most, (20.5, 7.6)),
        ],
    )
}
