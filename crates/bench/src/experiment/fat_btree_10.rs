//! Figure 10 of the Fat-B+Tree paper: client–server mode in an Ethernet. Its four parts are
//! "fat-btree-10" (size of the database), "-10b" (clients), "-10c" (reads and writes) and "-10d"
//! (skew).

use super::fat_btree::database::{Database, distinct};
use super::fat_btree::datagrams::Asks;
use super::fat_btree::ethernet::{Ethernet, Load, SERVERS};
use super::fat_btree::stage::Limits;
use super::fat_btree::{PAPER, SKEW, limits, popularity, shrink};
use super::{Experiment, ExperimentError, Run, Scale};
use crate::figure::{Axis, Claim, Drawing, Figure, Series};
use rackweave_base::{Duration, Rng};
use rackweave_sim::devices;

/// The first part.
pub const EXPERIMENT: Experiment = Experiment {
    name: "fat-btree-10",
    about: "client-server mode: operations that switches lead half way, by the number of keys",
    run: run_keys,
};

/// The second part.
pub const EXPERIMENT_B: Experiment = Experiment {
    name: "fat-btree-10b",
    about: "the same by clients",
    run: run_clients,
};

/// The third part.
pub const EXPERIMENT_C: Experiment = Experiment {
    name: "fat-btree-10c",
    about: "the same by the part of reads",
    run: run_reads,
};

/// The fourth part.
pub const EXPERIMENT_D: Experiment = Experiment {
    name: "fat-btree-10d",
    about: "the same by the skew of the workload",
    run: run_skews,
};

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

/// Millions of operations per second at a point: led by the network, and the baseline; in the
/// order of [`UNDER_WAY`].
type Rates = (f64, [[f64; 2]; UNDER_WAY.len()]);

/// Runs points that have a database and a skew in common.
fn measure(
    run: &mut Run<'_>,
    (before, total): (usize, usize),
    points: &[Point],
) -> Result<Vec<Rates>, ExperimentError> {
    let Some(first) = points.first() else {
        return Ok(Vec::new());
    };
    let scale = run.scale;
    let database = Database {
        keys: first.keys / shrink(scale),
        value_bytes: VALUE_BYTES,
    };
    let (samples, drawn, counted) = match scale {
        Scale::Quick => (100_000, 20_000, Duration::from_millis(1)),
        Scale::Full | Scale::Paper => (1_000_000, 200_000, Duration::from_millis(5)),
    };
    let popularity = popularity(&database, first.skew, 0.0, run.seed)?;
    let mut rng = Rng::new(run.seed);
    let (mut known, mut asked) = (rng.fork("known"), rng.fork("asked"));
    let asked: Vec<u64> = (0..drawn).map(|_| popularity.asked(&mut asked)).collect();
    let records = distinct(&asked);
    let limits = Limits {
        layers: 4,
        ..limits(scale)
    };
    let mut rack = Ethernet::new(run.seed, database, &records, (first.skew, limits))?;
    let asked: std::rc::Rc<[u64]> = asked.into();
    let mut rates = vec![[[0.0; 2]; UNDER_WAY.len()]; points.len()];
    // First what nobody leads.
    for way in [1, 0] {
        if way == 0 {
            let sample = |_| database.key(popularity.known(&mut known));
            let keys: Vec<u64> = (0..samples).map(sample).collect();
            rack.load(&keys)?;
        }
        for (at, point) in points.iter().enumerate() {
            let here = ((1 - way) * points.len() + at) as f64 / (2 * points.len()) as f64;
            let share = (before as f64 + here) / total as f64;
            let asks = Asks {
                database,
                asked: asked.clone(),
                updates: point.updates,
            };
            for (panel, (operations, _)) in UNDER_WAY.into_iter().enumerate() {
                let load = Load {
                    clients: point.clients,
                    operations,
                    counted,
                };
                let rate = rack.measure(run, share, load, &asks);
                let rate = rate.map_err(|error| error.with(format!("{point:?}")))?;
                rates[at][panel][way] = rate / 1e6;
            }
        }
    }
    Ok(points.iter().map(|point| point.x).zip(rates).collect())
}

/// Runs points that have each a database of its own.
fn measure_each(run: &mut Run<'_>, points: &[Point]) -> Result<Vec<Rates>, ExperimentError> {
    let mut rates = Vec::new();
    for (before, point) in points.iter().enumerate() {
        rates.extend(measure(run, (before, points.len()), &[*point])?);
    }
    Ok(rates)
}

fn run_keys(run: &mut Run<'_>) -> Result<Figure, ExperimentError> {
    let tens: &[u64] = match run.scale {
        Scale::Quick => &[1, 2, 4, 7, 10],
        Scale::Full | Scale::Paper => &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
    };
    let point = |&tens: &u64| Point {
        keys: tens * 10_000_000,
        ..Point::at(tens as f64 * 10.0)
    };
    let points: Vec<Point> = tens.iter().map(point).collect();
    let rates = measure_each(run, &points)?;
    let claims = at(&rates, 100.0, "100 M keys", "a", (583.1, 442.8));
    Ok(figure(
        run,
        (&EXPERIMENT, Axis::linear("keys", "M")),
        &rates,
        claims,
    ))
}

fn run_clients(run: &mut Run<'_>) -> Result<Figure, ExperimentError> {
    let clients: &[u16] = match run.scale {
        Scale::Quick => &[1, 4, 8, 12, 16],
        Scale::Full | Scale::Paper => &[1, 2, 4, 6, 8, 10, 12, 14, 16],
    };
    let point = |&clients: &u16| Point {
        clients,
        ..Point::at(f64::from(clients))
    };
    let points: Vec<Point> = clients.iter().map(point).collect();
    let rates = measure(run, (0, 1), &points)?;
    let claims = [
        at(&rates, 1.0, "one client", "b", (52.0, 47.7)),
        at(&rates, 16.0, "16 clients", "b", (583.1, 442.8)),
    ]
    .concat();
    let axis = Axis::linear("clients", "");
    Ok(figure(run, (&EXPERIMENT_B, axis), &rates, claims))
}

fn run_reads(run: &mut Run<'_>) -> Result<Figure, ExperimentError> {
    let point = |tenths: u32| Point {
        updates: 1.0 - f64::from(tenths) / 10.0,
        ..Point::at(f64::from(tenths) * 10.0)
    };
    let points: Vec<Point> = (5..=10).map(point).collect();
    let rates = measure(run, (0, 1), &points)?;
    let claims = [
        at(&rates, 50.0, "half are reads", "c", (613.2, 451.9)),
        at(&rates, 100.0, "all are reads", "c", (413.7, 363.0)),
    ]
    .concat();
    let axis = Axis::linear("reads", "%");
    Ok(figure(run, (&EXPERIMENT_C, axis), &rates, claims))
}

fn run_skews(run: &mut Run<'_>) -> Result<Figure, ExperimentError> {
    let point = |skew: f64| Point {
        skew,
        ..Point::at(skew)
    };
    let points = [0.9, 0.95, 0.99].map(point);
    let rates = measure_each(run, &points)?;
    let claims = [
        at(&rates, 0.9, "skew 0.9", "d", (521.0, 417.7)),
        at(&rates, 0.99, "skew 0.99", "d", (583.1, 442.8)),
    ]
    .concat();
    let axis = Axis::linear("Zipfian skew", "");
    Ok(figure(run, (&EXPERIMENT_D, axis), &rates, claims))
}

/// What the paper says of a point, in thousands per second, beside ours.
fn at(rates: &[Rates], x: f64, what: &str, part: &str, paper: (f64, f64)) -> Vec<Claim> {
    let found = rates.iter().find(|point| point.0 == x);
    let claim = |(panel, (_, name)): (usize, (u16, &str))| {
        let ours = found.map(|(_, rates)| rates[panel]);
        Claim {
            what: format!("throughput over the baseline's, {what}, {name}"),
            source: format!("section V-C, figure 10({part})"),
            paper: paper.0 / paper.1,
            ours: ours.map_or(f64::NAN, |[ours, base]| ours / base),
            unit: "x".into(),
        }
    };
    UNDER_WAY.into_iter().enumerate().map(claim).collect()
}

fn figure(
    run: &Run<'_>,
    (experiment, x): (&Experiment, Axis),
    rates: &[Rates],
    claims: Vec<Claim>,
) -> Figure {
    let names = ["in the network", "from the root"];
    let panels = UNDER_WAY.into_iter().enumerate();
    let series = panels.flat_map(|(panel, (_, title))| {
        names
            .into_iter()
            .enumerate()
            .map(move |(way, name)| Series {
                name: format!("{title} | {name}"),
                points: rates
                    .iter()
                    .map(|(x, rates)| (*x, rates[panel][way]))
                    .collect(),
            })
    });
    Figure {
        name: experiment.name.into(),
        title: "Operations by UDP requests to four memory servers".into(),
        x,
        y: Axis::linear("operations", "M/s"),
        drawing: Drawing::Lines,
        y_per_panel: false,
        paper: Vec::new(),
        x_names: Vec::new(),
        series: series.collect(),
        claims,
        notes: notes(run.scale),
        seed: run.seed,
    }
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
