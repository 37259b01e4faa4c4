//! Figure 10 of the Fat-B+Tree paper: client–server mode in an Ethernet. Its four parts are
//! "fat-btree-10" (size of the database), "-10b" (clients), "-10c" (reads and writes) and "-10d"
//! (skew).

use super::fat_btree::database::{Database, distinct};
use super::fat_btree::datagrams::Asks;
use super::fat_btree::ethernet::{Ethernet, Load, SERVERS};
use super::fat_btree::rdma::Limits;
use super::fat_btree::{PAPER, SKEW, limits, popularity, shrink};
use super::grid::{self, Curve};
use super::{ExperimentError, Run, Scale};
use crate::figure::{Axis, Figure};
use rackweave_base::{Duration, Rng};
use rackweave_sim::devices;

/// Keys of the default.
const KEYS: u64 = 100_000_000;

/// Bytes of a value.
const VALUE_BYTES: u32 = 64;

/// One x of a figure.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Point {
    x: f64,
    keys: u64,
    skew: f64,
    clients: u16,
    updates: f64,
}

impl Point {
    /// The default of section V-C: a tenth of all operations are updates.
    fn at(x: f64) -> Self {
        Self {
            x,
            keys: KEYS,
            skew: SKEW,
            clients: devices::FAT_BTREE_CLIENTS,
            updates: 0.1,
        }
    }
}

/// Operations of a client under way, and what the panel is called. The paper does not tell how many
/// its clients had: one leaves the servers idle most of the time, many keep them busy.
const UNDER_WAY: [(u16, &str); 2] = [(1, "one under way"), (BUSY, "16 under way")];

const BUSY: u16 = 16;

/// Whether the network leads, and what the curve is called.
const WAYS: [&str; 2] = ["in the network", "from the root"];

/// A part of the figure: its letter, its axis, its points, and what the paper says of some, in
/// thousands per second: x, its words, led by the network, and the baseline.
pub struct Part {
    letter: &'static str,
    x: (&'static str, &'static str),
    points: fn(Scale) -> Vec<Point>,
    claims: &'static [(f64, &'static str, f64, f64)],
}

/// Figure 10(a): the size of the database.
pub const BY_KEYS: Part = Part {
    letter: "a",
    x: ("keys", "M"),
    points: |scale| {
        let tens: &[u32] = scale.pick(&[1, 2, 4, 7, 10], &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
        let point = |&tens: &u32| Point {
            keys: u64::from(tens) * 10_000_000,
            ..Point::at(f64::from(tens) * 10.0)
        };
        tens.iter().map(point).collect()
    },
    claims: &[(100.0, "100 M keys", 583.1, 442.8)],
};

/// Figure 10(b): clients.
pub const BY_CLIENTS: Part = Part {
    letter: "b",
    x: ("clients", ""),
    points: |scale| {
        let clients: &[u16] = scale.pick(&[1, 4, 8, 12, 16], &[1, 2, 4, 6, 8, 10, 12, 14, 16]);
        let point = |&clients: &u16| Point {
            clients,
            ..Point::at(f64::from(clients))
        };
        clients.iter().map(point).collect()
    },
    claims: &[
        (1.0, "one client", 52.0, 47.7),
        (16.0, "16 clients", 583.1, 442.8),
    ],
};

/// Figure 10(c): the part of reads.
pub const BY_READS: Part = Part {
    letter: "c",
    x: ("reads", "%"),
    points: |_| {
        let point = |tenths: u32| Point {
            updates: 1.0 - f64::from(tenths) / 10.0,
            ..Point::at(f64::from(tenths) * 10.0)
        };
        (5..=10).map(point).collect()
    },
    claims: &[
        (50.0, "half are reads", 613.2, 451.9),
        (100.0, "all are reads", 413.7, 363.0),
    ],
};

/// Figure 10(d): the skew of the workload.
pub const BY_SKEW: Part = Part {
    letter: "d",
    x: ("Zipfian skew", ""),
    points: |_| {
        let point = |skew| Point {
            skew,
            ..Point::at(skew)
        };
        [0.9, 0.95, 0.99].map(point).into()
    },
    claims: &[
        (0.9, "skew 0.9", 521.0, 417.7),
        (0.99, "skew 0.99", 583.1, 442.8),
    ],
};

impl Part {
    /// Measures and draws it.
    pub fn figure(&self, run: &mut Run<'_>) -> Result<Figure, ExperimentError> {
        let names = UNDER_WAY
            .iter()
            .flat_map(|(_, panel)| WAYS.map(|way| (panel, way)));
        let curve = |(panel, way)| Curve::empty(format!("{panel} | {way}"), ());
        let mut curves: Vec<Curve<(), f64, f64>> = names.map(curve).collect();
        let points = (self.points)(run.scale);
        let same_database = |a: &Point, b: &Point| (a.keys, a.skew) == (b.keys, b.skew);
        let groups: Vec<&[Point]> = points.chunk_by(same_database).collect();
        for (at, group) in groups.iter().enumerate() {
            measure(&mut run.part(at, groups.len()), group, &mut curves)?;
        }
        let mut figure = Figure::new(
            "Operations by UDP requests to four memory servers",
            Axis::linear(self.x.0, self.x.1),
            Axis::linear("operations", "M/s"),
        );
        figure.series = grid::series(&curves, |x| x, |rate| *rate);
        let source = format!("section V-C, figure 10({})", self.letter);
        for &(x, what, network, baseline) in self.claims {
            for (curves, (_, panel)) in curves.chunks(WAYS.len()).zip(UNDER_WAY) {
                let rate = |way: usize| curves[way].value(x, |rate| *rate);
                let what = format!("throughput over the baseline's, {what}, {panel}");
                figure.claim(what, &source, network / baseline, rate(0) / rate(1), "x");
            }
        }
        figure.notes = notes(run.scale);
        Ok(figure)
    }
}

/// Runs points that have a database and a skew in common.
fn measure(
    run: &mut Run<'_>,
    points: &[Point],
    curves: &mut [Curve<(), f64, f64>],
) -> Result<(), ExperimentError> {
    let scale = run.scale;
    let database = Database {
        keys: points[0].keys / shrink(scale),
        value_bytes: VALUE_BYTES,
    };
    let (samples, drawn, millis) = scale.pick((100_000, 20_000, 1), (1_000_000, 200_000, 5));
    let popularity = popularity(&database, points[0].skew, 0.0, run.seed)?;
    let mut rng = Rng::new(run.seed);
    let (mut known, mut asked) = (rng.fork("known"), rng.fork("asked"));
    let asked: Vec<u64> = (0..drawn).map(|_| popularity.asked(&mut asked)).collect();
    let records = distinct(&asked);
    let limits = Limits {
        layers: 4,
        ..limits(scale)
    };
    let mut rack = Ethernet::new(run.seed, database, &records, (points[0].skew, limits))?;
    let asked: std::rc::Rc<[u64]> = asked.into();
    // First what nobody leads.
    for way in [1, 0] {
        if way == 0 {
            let sample = |_| database.key(popularity.known(&mut known));
            let keys: Vec<u64> = (0..samples).map(sample).collect();
            rack.load(&keys)?;
        }
        for (at, point) in points.iter().enumerate() {
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
                curves[panel * WAYS.len() + way]
                    .points
                    .push((point.x, rate / 1e6));
            }
        }
    }
    Ok(())
}

fn notes(scale: Scale) -> Vec<String> {
    let mut notes = vec![
        format!(
            "{PAPER}, section V-C: clients' threads at 2.1 GHz, {SERVERS} memory servers with {} \
             thread each, ConnectX-3s, cables of 40 Gbit/s, a fat tree of four pods with the \
             client in one and the servers in another. How many threads a server has and how many \
             operations of a client are under way, the paper does not tell: one thread is assumed, \
             and both one and {BUSY} operations are drawn",
            devices::FAT_BTREE_SERVER_THREADS
        ),
        "the switches fill in a tree node and the server walks on from there; the baseline is the \
         same server that begins at the root of the same tree. Updates begin at the root in both: \
         only reads are led. A client that waits for one answer at a time waits for the way there \
         and back, of which a walk is a small part; where servers are busy, what they save counts"
            .into(),
        "what a walk costs the server's core is the model's word: caches by level of the tree and \
         by how popular its tree nodes are, one load at a time. The walks are really made, and \
         every answer is checked. Nothing was fitted: our servers spend under a microsecond on a \
         request, the paper's seem to spend several"
            .into(),
        "all keys are in the trees; records that nobody asks for have eight bytes in place of 64, \
         which does not change the trees' shape"
            .into(),
    ];
    if shrink(scale) > 1 {
        notes.push(format!(
            "quick: keys, ranges and tree nodes of layers are a {}th of what the axis and the \
             paper say, which makes walks shorter and caches catch more of them",
            shrink(scale)
        ));
    }
    notes
}
