//! Figure 10 of the Fat-B+Tree paper: client–server mode in an Ethernet. Its four parts are
//! "fat-btree-10" (size of the database), "-10b" (clients), "-10c" (reads and writes) and "-10d"
//! (skew).

use super::fat_btree::database::{Database, distinct};
use super::fat_btree::datagrams::Asks;
use super::fat_btree::ethernet::{Ethernet, SERVERS};
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

/// Thousands of operations per second at a point: led by the network, and the baseline.
type Rates = (f64, [f64; 2]);

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
        Scale::Quick => (100_000, 10_000, Duration::from_millis(2)),
        Scale::Full => (1_000_000, 100_000, Duration::from_millis(20)),
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
    let mut rates = vec![[0.0; 2]; points.len()];
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
            let rate = rack.measure(run, share, (point.clients, counted), &asks);
            let rate = rate.map_err(|error| error.with(format!("{point:?}")))?;
            rates[at][way] = rate / 1e3;
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
        Scale::Full => &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
    };
    let point = |&tens: &u64| Point {
        keys: tens * 10_000_000,
        ..Point::at(tens as f64 * 10.0)
    };
    let points: Vec<Point> = tens.iter().map(point).collect();
    let rates = measure_each(run, &points)?;
    let most = rates.iter().map(|(_, [ours, base])| ours / base);
    let claims = vec![
        claim("most", "a", 1.35, most.fold(f64::NAN, f64::max)),
        at(&rates, 100.0, "100 M keys", "a", (583.1, 442.8)),
    ];
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
        Scale::Full => &[1, 2, 4, 6, 8, 10, 12, 14, 16],
    };
    let point = |&clients: &u16| Point {
        clients,
        ..Point::at(f64::from(clients))
    };
    let points: Vec<Point> = clients.iter().map(point).collect();
    let rates = measure(run, (0, 1), &points)?;
    let claims = vec![
        at(&rates, 1.0, "one client", "b", (52.0, 47.7)),
        at(&rates, 16.0, "16 clients", "b", (583.1, 442.8)),
    ];
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
    let claims = vec![
        at(&rates, 50.0, "half are reads", "c", (613.2, 451.9)),
        at(&rates, 100.0, "all are reads", "c", (413.7, 363.0)),
    ];
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
    let claims = vec![
        at(&rates, 0.9, "skew 0.9", "d", (521.0, 417.7)),
        at(&rates, 0.99, "skew 0.99", "d", (583.1, 442.8)),
    ];
    let axis = Axis::linear("Zipfian skew", "");
    Ok(figure(run, (&EXPERIMENT_D, axis), &rates, claims))
}

fn claim(what: &str, part: &str, paper: f64, ours: f64) -> Claim {
    Claim {
        what: format!("throughput over the baseline's, {what}"),
        source: format!("section V-C, figure 10({part})"),
        paper,
        ours,
        unit: "x".into(),
    }
}

/// What the paper says of a point, in thousands per second, beside ours.
fn at(rates: &[Rates], x: f64, what: &str, part: &str, (network, baseline): (f64, f64)) -> Claim {
    let found = rates.iter().find(|point| point.0 == x);
    let ours = found.map_or(f64::NAN, |(_, [ours, base])| ours / base);
    claim(what, part, network / baseline, ours)
}

fn figure(
    run: &Run<'_>,
    (experiment, x): (&Experiment, Axis),
    rates: &[Rates],
    claims: Vec<Claim>,
) -> Figure {
    let names = ["in the network", "from the root"];
    let series = names.into_iter().enumerate().map(|(way, name)| Series {
        name: name.into(),
        points: rates.iter().map(|(x, rates)| (*x, rates[way])).collect(),
    });
    Figure {
        name: experiment.name.into(),
        title: "Operations by UDP requests to four memory servers".into(),
        x,
        y: Axis::linear("operations", "k/s"),
        drawing: Drawing::Lines,
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
            "{PAPER}, section V-C: clients' threads at 2.1 GHz, one operation each under way, \
             {SERVERS} memory servers with {} thread each (assumed; the paper does not tell), \
             ConnectX-3s, cables of 40 Gbit/s, a fat tree of four pods with the client in one and \
             the servers in another",
            devices::FAT_BTREE_SERVER_THREADS
        ),
        "the switches fill in a tree node and the server walks on from there; the baseline is the \
         same server that begins at the root of the same tree. Updates begin at the root in both: \
         only reads are led"
            .into(),
        "what a walk costs the server's core is the model's word: caches by level of the tree and \
         by how popular its tree nodes are, one load at a time. The walks are really made, and \
         every answer is checked"
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
