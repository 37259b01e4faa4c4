//! Figure 10 of the Fat-B+Tree paper: client–server mode in an Ethernet. Its four parts are
//! "fat-btree-10" (size of the database), "-10b" (clients), "-10c" (reads and writes) and "-10d"
//! (skew).

use super::fat_btree::database::{Database, Popularity, distinct};
use super::fat_btree::ethernet::{Asks, Ethernet, SERVERS};
use super::fat_btree::rdma::{self, Limits};
use super::fat_btree::{SKEW, Sweep, limits, quick, shrink};
use crate::harness::prelude::*;

const VALUE_BYTES: u32 = 64;

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Point {
    keys: u64,
    skew: f64,
    clients: u16,
    updates: f64,
}

/// The default of section V-C: a tenth of all operations are updates.
const DEFAULT: Point = Point {
    keys: 100_000_000,
    skew: SKEW,
    clients: devices::FAT_BTREE_CLIENTS,
    updates: 0.1,
};

/// Operations of a client in flight, and the name of the panel. The paper does not say how many its
/// clients had: one leaves the servers idle most of the time, many keep them busy.
const UNDER_WAY: [(u16, &str); 2] = [(1, "one under way"), (BUSY, "16 under way")];

const BUSY: u16 = 16;

/// Names of the curves: led by the network, and the baseline.
const WAYS: [&str; 2] = ["in the network", "from the root"];

type Set = fn(&mut Point, f64);

/// The parts of the figure, and what each varies.
const PARTS: [(&str, Set); 4] = [
    ("fat-btree-10", |point, x| point.keys = x as u64 * 1_000_000),
    ("fat-btree-10b", |point, x| point.clients = x as u16),
    ("fat-btree-10c", |point, x| point.updates = 1.0 - x / 100.0),
    ("fat-btree-10d", |point, x| point.skew = x),
];

pub fn run<const PART: usize>(run: &mut Run<'_>) -> Result<Measured> {
    let (name, set) = PARTS[PART];
    let panels = UNDER_WAY.iter();
    let names = panels.flat_map(|(_, panel)| WAYS.map(|way| format!("{panel} | {way}")));
    let mut curves: Vec<Course> = names.map(|name| Curve::empty(name, ())).collect();
    let sweep = Sweep::of(name);
    let points = sweep.points(run.scale, DEFAULT, set);
    let database = |(_, point): &(f64, Point)| (point.keys, point.skew);
    let groups: Vec<_> = points.chunk_by(|a, b| database(a) == database(b)).collect();
    for (at, group) in groups.iter().enumerate() {
        measure(&mut run.part(at, groups.len()), group, &mut curves)?;
    }
    let mut claims = Vec::new();
    for claim in &sweep.claims {
        for (curves, (_, panel)) in curves.chunks(WAYS.len()).zip(UNDER_WAY) {
            let rate = |way: usize| curves[way].value(claim.x, |rate| *rate);
            let (paper, ours) = (claim.network / claim.baseline, rate(0) / rate(1));
            claims.push(values! { what: &claim.what, panel, paper, ours });
        }
    }
    let values = values! {
        claims,
        servers: SERVERS,
        threads: devices::FAT_BTREE_SERVER_THREADS,
        busy: BUSY,
        quick: quick(run.scale),
    };
    let series = grid::series(&curves, |x| x, |rate| *rate);
    Ok(Measured::new(series, values))
}

/// Millions of operations per second by x.
type Course = Curve<(), f64, f64>;

/// Measures points that share a database and a skew.
fn measure(run: &mut Run<'_>, points: &[(f64, Point)], curves: &mut [Course]) -> Result<()> {
    let scale = run.scale;
    let database = Database {
        keys: points[0].1.keys / shrink(scale),
        value_bytes: VALUE_BYTES,
    };
    let (samples, drawn, millis) = scale.pick((100_000, 20_000, 1), (1_000_000, 200_000, 5));
    let popularity = Popularity::new(&database, points[0].1.skew, 0.0, run.seed)?;
    let mut rng = Rng::new(run.seed);
    let (mut known, mut asked) = (rng.fork("known"), rng.fork("asked"));
    let asked: Vec<u64> = (0..drawn).map(|_| popularity.asked(&mut asked)).collect();
    let records = distinct(&asked);
    let limits = Limits {
        layers: 4,
        ..limits(scale)
    };
    let mut rack = Ethernet::new(run.seed, database, &records, (points[0].1.skew, limits))?;
    let asked: Rc<[u64]> = asked.into();
    // The baseline is measured first.
    for way in [1, 0] {
        if way == 0 {
            let sample = |_| database.key(popularity.known(&mut known));
            let keys: Vec<u64> = (0..samples).map(sample).collect();
            rdma::load(&rack.index, &keys)?;
        }
        for (at, (x, point)) in points.iter().enumerate() {
            let part = &mut run.part((1 - way) * points.len() + at, 2 * points.len());
            let asks = Asks {
                database,
                asked: asked.clone(),
                updates: point.updates,
            };
            for (panel, (operations, _)) in UNDER_WAY.into_iter().enumerate() {
                let (load, counted) = ((point.clients, operations), Duration::from_millis(millis));
                let part = &mut part.part(panel, UNDER_WAY.len());
                let rate = rack.measure(part, load, counted, &asks);
                let rate = rate.map_err(|error| error.with(format!("{point:?}")))?;
                let curve = &mut curves[panel * WAYS.len() + way];
                curve.points.push((*x, rate / 1e6));
            }
        }
    }
    Ok(())
}
