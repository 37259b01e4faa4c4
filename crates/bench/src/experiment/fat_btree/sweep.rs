//! Lookups of one database in all ways: in the network, and one-sided in trees of several shapes.

use super::database::{Database, Popularity, distinct};
use super::seen::{Curve, Seen};
use super::stage::{Limits, REGULAR, Shape, Stage};
use crate::experiment::{ExperimentError, Run, Scale};
use rackweave_base::Rng;
use rackweave_endpoint::index::Access;

/// Trees with full inner nodes: what the limit of 16 children costs the baseline.
const FULL: [Shape; 2] = [(512, 0), (1024, 0)];

/// What the curves are called: [`FULL`] comes last.
const NAMES: [&str; 2 + FULL.len()] = [
    "in the network",
    "one-sided, the same tree",
    "one-sided, 28 children",
    "one-sided, 60 children",
];

/// One x of a figure: what changes while the database stays.
#[derive(Clone, Debug)]
pub struct Point {
    /// Its x.
    pub x: f64,
    /// What the switches hold.
    pub limits: Limits,
    /// What is asked for.
    pub popularity: Popularity,
}

/// What is done of an experiment, in databases.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Done {
    /// Databases before this.
    pub before: usize,
    /// All of them.
    pub total: usize,
}

impl Done {
    /// An experiment of one database.
    pub const ALL: Self = Self {
        before: 0,
        total: 1,
    };
}

/// Curves with no point yet, the network's first, then the baseline's, then those of full nodes.
pub fn curves() -> Vec<Curve> {
    let curve = |name: &str| Curve {
        name: name.into(),
        points: Vec::new(),
    };
    NAMES.iter().copied().map(curve).collect()
}

/// Records that are looked up at a point.
pub fn asked(scale: Scale, popularity: &Popularity, seed: u64) -> Vec<u64> {
    let count = match scale {
        Scale::Quick => 600,
        Scale::Full | Scale::Paper => 10_000,
    };
    let mut rng = Rng::new(seed).fork("asked");
    (0..count).map(|_| popularity.asked(&mut rng)).collect()
}

/// Keys that were asked for when the network was loaded: what the controller knows of how often
/// which tree nodes are used.
fn samples(scale: Scale, database: &Database, point: &Point, seed: u64) -> Vec<u64> {
    let count = 1_000_000 / super::shrink(scale);
    let mut rng = Rng::new(seed).fork("known");
    let mut sample = || database.key(point.popularity.known(&mut rng));
    (0..count).map(|_| sample()).collect()
}

/// Measures all ways at `points`, and adds what was seen to `curves`.
///
/// # Errors
/// If something went wrong, or the user wishes to stop.
pub fn measure(
    run: &mut Run<'_>,
    done: Done,
    database: Database,
    points: &[Point],
    curves: &mut [Curve],
) -> Result<(), ExperimentError> {
    let (scale, seed) = (run.scale, run.seed);
    let all: Vec<Vec<u64>> = points
        .iter()
        .map(|point| asked(scale, &point.popularity, seed))
        .collect();
    let records = distinct(all.iter().flatten());
    let share = |at: usize, way: usize| {
        let here = (way * points.len() + at) as f64 / (NAMES.len() * points.len()) as f64;
        (done.before as f64 + here) / done.total as f64
    };
    let mut seen = |way: usize, at: usize, seen: Seen| {
        curves[way].points.push((points[at].x, seen));
    };
    for (at, point) in points.iter().enumerate() {
        let mut stage = Stage::new(seed, database, REGULAR, &records, Some(point.limits))?;
        stage.load(&samples(scale, &database, point, seed))?;
        let network = stage.look_up(run, share(2 * at, 0), Access::InNetwork, &all[at])?;
        seen(0, at, network);
        let baseline = stage.look_up(run, share(2 * at + 1, 0), Access::OneSided, &all[at])?;
        seen(1, at, baseline);
    }
    for (full, shape) in FULL.into_iter().enumerate() {
        let mut stage = Stage::new(seed, database, shape, &records, None)?;
        for (at, asked) in all.iter().enumerate() {
            let baseline = stage.look_up(run, share(at, 2 + full), Access::OneSided, asked)?;
            seen(2 + full, at, baseline);
        }
    }
    Ok(())
}
