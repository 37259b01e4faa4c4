//! Figure 5 of the BlueField paper: lookups and updates by local threads of host or DPU.

use super::bluefield::PAPER;
use super::bluefield::rack::{self, failed};
use super::bluefield::tree::{self, PAPER_KEYS};
use super::bluefield_4::real_keys;
use super::tally::{Shared, Tally};
use super::{Experiment, ExperimentError, Run, Scale};
use crate::figure::{Axis, Claim, Drawing, Figure, PaperMark, Series};
use rackweave_base::{Duration, Rng};
use rackweave_endpoint::btree::Tree;
use rackweave_sim::Category;
use rackweave_sim::testbed::Server;
use rackweave_sim::world::{Actor, Context, Step};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "bluefield-5",
    about: "local lookups and updates on host and DPU",
    run,
};

/// Millions of lookups per second on the DPU, with the fewest and the most keys. Source: the
/// paper's figure 5.
const DPU_LOOKUPS: [f64; 2] = [9.9, 2.5];

/// Operations that a thread does at a step.
const AT_ONCE: u64 = 8;

/// Servers and what figures call them.
const SERVERS: [(Server, &str); 2] = [(Server::Host, "host"), (Server::Dpu, "DPU")];

const OPERATIONS: [(bool, &str); 2] = [(true, "updates"), (false, "lookups")];

struct Curve {
    server: Server,
    updates: bool,
    name: String,
    /// Operations per second, by keys.
    points: Vec<(u64, f64)>,
}

/// A thread that works on a tree without pause.
struct Local {
    tree: Tree,
    keys: u64,
    updates: bool,
    cost: Duration,
    rng: Rng,
    tally: Shared,
}

impl Local {
    fn operate(&mut self) -> Result<(), String> {
        let key = self.rng.below(self.keys);
        let value = tree::value_of(key);
        let right = match self.updates {
            true => self
                .tree
                .update(key, &value.to_le_bytes())
                .map_err(|error| format!("key {key}: {error}"))?,
            false => self.tree.lookup_word(key) == Some(value),
        };
        right.then_some(()).ok_or(format!("key {key} is wrong"))
    }
}

impl Actor for Local {
    fn step(&mut self, context: &mut Context<'_>) -> Step {
        let mut at = context.now();
        for _ in 0..AT_ONCE {
            let since = at;
            at += self.cost;
            if let Err(failure) = self.operate() {
                self.tally.borrow_mut().fail(failure);
                return Step::Done;
            }
            self.tally.borrow_mut().end(since, at);
        }
        context.charge(Category::Compute, self.cost * AT_ONCE);
        Step::Compute(Duration::ZERO)
    }
}

fn measure(
    run: &mut Run<'_>,
    share: f64,
    (server, updates): (Server, bool),
    keys: u64,
) -> Result<f64, ExperimentError> {
    let real = real_keys(run.scale, keys);
    let counted = match run.scale {
        Scale::Quick => Duration::from_micros(200),
        Scale::Full | Scale::Paper => Duration::from_millis(1),
    };
    let room = 8 * real * tree::ENTRY_BYTES + (64 << 20);
    let mut rack = rack::testbed(run.seed, room)?;
    let tree = tree::load(
        &rack.memory().clone(),
        tree::NODE_BYTES,
        (0, u64::MAX),
        (real, 0),
    )?;
    let cost = tree::cost(server, keys, tree::NODE_BYTES);
    let tally = Tally::new(rack.now(), Duration::from_micros(20), counted);
    let mut rng = Rng::new(run.seed).fork("local");
    for thread in 0..server.threads() {
        let actor = Local {
            tree: tree.clone(),
            keys: real,
            updates,
            cost: if updates { cost.update } else { cost.lookup },
            rng: rng.fork(&format!("thread {thread}")),
            tally: tally.clone(),
        };
        rack.spawn(server.of_thread(thread), Box::new(actor));
    }
    rack::drive(run, share, &mut rack, &tally)?;
    tree.check().map_err(|error| failed("the tree", error))?;
    let rate = tally.borrow().per_second();
    Ok(rate)
}

fn run(run: &mut Run<'_>) -> Result<Figure, ExperimentError> {
    let total = (SERVERS.len() * OPERATIONS.len() * PAPER_KEYS.len()) as f64;
    let mut done = 0.0;
    let mut curves = Vec::new();
    for (updates, what) in OPERATIONS {
        for (server, name) in SERVERS {
            let mut points = Vec::new();
            for keys in PAPER_KEYS {
                let rate = measure(run, done / total, (server, updates), keys)
                    .map_err(|error| error.with(format!("{what} on the {name}, {keys} keys")))?;
                points.push((keys, rate));
                done += 1.0;
            }
            curves.push(Curve {
                server,
                updates,
                name: format!("{what} | {name}"),
                points,
            });
        }
    }
    Ok(figure(run.scale, &curves, run.seed))
}

fn figure(scale: Scale, curves: &[Curve], seed: u64) -> Figure {
    let series = curves.iter().map(|curve| Series {
        name: curve.name.clone(),
        points: curve
            .points
            .iter()
            .enumerate()
            .map(|(at, (_, rate))| (at as f64, rate / 1e6))
            .collect(),
    });
    Figure {
        name: EXPERIMENT.name.into(),
        title: "Local B+tree, 8 threads".into(),
        x: Axis::linear("keys", ""),
        y: Axis::linear("operations", "M/s"),
        y_per_panel: false,
        paper: vec![
            PaperMark::point_in("lookups", (0.0, DPU_LOOKUPS[0])).of_curve("DPU"),
            PaperMark::point_in("lookups", (2.0, DPU_LOOKUPS[1])).of_curve("DPU"),
        ],
        drawing: Drawing::Bars,
        x_names: PAPER_KEYS
            .iter()
            .map(|keys| format!("{} M", keys / 1_000_000))
            .collect(),
        series: series.collect(),
        claims: claims(curves),
        notes: notes(scale),
        seed,
    }
}

fn claims(curves: &[Curve]) -> Vec<Claim> {
    let on_dpu = |curve: &&Curve| curve.server == Server::Dpu && !curve.updates;
    let Some(curve) = curves.iter().find(on_dpu) else {
        return Vec::new();
    };
    let claim = |keys: u64, paper: f64| {
        let found = curve.points.iter().find(|point| point.0 == keys);
        Claim {
            what: format!("local lookups on the DPU, {}", tree::named(keys)),
            source: "section 4.1.3, figure 5".into(),
            paper,
            ours: found.map_or(f64::NAN, |point| point.1 / 1e6),
            unit: "M/s".into(),
        }
    };
    vec![
        claim(PAPER_KEYS[0], DPU_LOOKUPS[0]),
        claim(PAPER_KEYS[2], DPU_LOOKUPS[1]),
    ]
}

fn notes(scale: Scale) -> Vec<String> {
    vec![
        format!(
            "{PAPER}: the text gives the DPU's lookups for 1 M and 256 M keys; host and updates \
             are in its figure only"
        ),
        format!(
            "what an operation costs is the model's word (rackweave_sim::TreeCost): caches by \
             level of the tree, translation buffers without huge pages, one load at a time. The \
             operations are carried out on a real tree of {} keys at most and checked",
            real_keys(scale, PAPER_KEYS[2])
        ),
        "the host's last level cache is taken for 24 MB, one socket's (table 2); section 4.2.3 \
         speaks of 48 MiB, which is both"
            .into(),
        "the paper's tree is another: it may search with branches that a core guesses right half \
         of the time, so that loads of guessed tree nodes overlap, or cost more"
            .into(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_do_as_many_operations_as_their_cost_allows() {
        let mut progress = |_| true;
        let mut run = Run {
            scale: Scale::Quick,
            seed: 2,
            progress: &mut progress,
        };
        for (server, updates) in [(Server::Host, false), (Server::Dpu, true)] {
            let rate = measure(&mut run, 0.0, (server, updates), 20_000).expect("it runs");
            let cost = tree::cost(server, 20_000, tree::NODE_BYTES);
            let each = if updates { cost.update } else { cost.lookup };
            let expect = 8e9 / each.as_nanos() as f64;
            assert!((rate / expect - 1.0).abs() < 0.02, "{rate} {expect}");
        }
    }
}
