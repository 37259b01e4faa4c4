//! Figure 10 of the Fat-B+Tree paper: client–server mode in an Ethernet. Its four parts are
//! "fat-btree-10" (size of the database), "-10b" (clients), "-10c" (reads and writes) and "-10d"
//! (skew).

use super::fat_btree::database::{Database, distinct};
use super::fat_btree::datagrams::Asks;
use super::fat_btree::ethernet::{Ethernet, Load, SERVERS};
use super::fat_btree::rdma::{self, Limits};
use super::fat_btree::{SKEW, SKEWS, Sweep, limits, popularity, quick, shrink};
use crate::figure::{Measured, values};
use crate::harness::grid::{self, Curve};
use crate::harness::{Result, Run};
use rackweave_base::{Duration, Rng};
use rackweave_sim::devices;

/// Bytes of a value.
const VALUE_BYTES: u32 = 64;

/// The parameters of a measurement.
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

/// A part of the figure. A claim has an x, its words, and thousands of operations per second, in
/// the network and for the baseline.
pub type Part = Sweep<Point, (f64, &'static str, f64, f64)>;

/// Figure 10(a): the size of the database.
pub const BY_KEYS: Part = Sweep {
    xs: [
        &[10.0, 20.0, 40.0, 70.0, 100.0],
        &[10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 100.0],
    ],
    set: |point, millions| point.keys = millions as u64 * 1_000_000,
    claims: &[(100.0, "100 M keys", 583.1, 442.8)],
};

/// Figure 10(b): clients.
pub const BY_CLIENTS: Part = Sweep {
    xs: [
        &[1.0, 4.0, 8.0, 12.0, 16.0],
        &[1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0, 16.0],
    ],
    set: |point, clients| point.clients = clients as u16,
    claims: &[
        (1.0, "one client", 52.0, 47.7),
        (16.0, "16 clients", 583.1, 442.8),
    ],
};

/// Figure 10(c): the share of reads.
pub const BY_READS: Part = Sweep {
    xs: [&[50.0, 60.0, 70.0, 80.0, 90.0, 100.0]; 2],
    set: |point, percent| point.updates = 1.0 - percent / 100.0,
    claims: &[
        (50.0, "half are reads", 613.2, 451.9),
        (100.0, "all are reads", 413.7, 363.0),
    ],
};

/// Figure 10(d): the skew of the workload.
pub const BY_SKEW: Part = Sweep {
    xs: SKEWS,
    set: |point, skew| point.skew = skew,
    claims: &[
        (0.9, "skew 0.9", 521.0, 417.7),
        (0.99, "skew 0.99", 583.1, 442.8),
    ],
};

impl Part {
    /// Measures the part.
    pub fn measured(&self, run: &mut Run<'_>) -> Result<Measured> {
        let panels = UNDER_WAY.iter();
        let names = panels.flat_map(|(_, panel)| WAYS.map(|way| format!("{panel} | {way}")));
        let mut curves: Vec<Course> = names.map(|name| Curve::empty(name, ())).collect();
        let points = self.points(run.scale, DEFAULT);
        let database = |(_, point): &(f64, Point)| (point.keys, point.skew);
        let groups: Vec<_> = points.chunk_by(|a, b| database(a) == database(b)).collect();
        for (at, group) in groups.iter().enumerate() {
            measure(&mut run.part(at, groups.len()), group, &mut curves)?;
        }
        let mut claims = Vec::new();
        for &(x, what, network, baseline) in self.claims {
            for (curves, (_, panel)) in curves.chunks(WAYS.len()).zip(UNDER_WAY) {
                let rate = |way: usize| curves[way].value(x, |rate| *rate);
                let (paper, ours) = (network / baseline, rate(0) / rate(1));
                claims.push(values! { what, panel, paper, ours });
            }
        }
        let values = values! {
            claims,
            servers: SERVERS,
            threads: devices::FAT_BTREE_SERVER_THREADS,
            busy: BUSY,
            quick: quick(run.scale),
        };
        Ok(Measured::new(
            grid::series(&curves, |x| x, |rate| *rate),
            values,
        ))
    }
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
    let popularity = popularity(&database, points[0].1.skew, 0.0, run.seed)?;
    let mut rng = Rng::new(run.seed);
    let (mut known, mut asked) = (rng.fork("known"), rng.fork("asked"));
    let asked: Vec<u64> = (0..drawn).map(|_| popularity.asked(&mut asked)).collect();
    let records = distinct(&asked);
    let limits = Limits {
        layers: 4,
        ..limits(scale)
    };
    let mut rack = Ethernet::new(run.seed, database, &records, (points[0].1.skew, limits))?;
    let asked: std::rc::Rc<[u64]> = asked.into();
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
                let load = Load {
                    clients: point.clients,
                    operations,
                    counted: Duration::from_millis(millis),
                };
                let rate = rack.measure(&mut part.part(panel, UNDER_WAY.len()), load, &asks);
                let rate = rate.map_err(|error| error.with(format!("{point:?}")))?;
                let curve = &mut curves[panel * WAYS.len() + way];
                curve.points.push((*x, rate / 1e6));
            }
        }
    }
    Ok(())
}
