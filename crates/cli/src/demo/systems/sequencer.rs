//! Sequencers: several clients draw numbers, from a register of the switch and from a word in a
//! host's memory. Every number must be drawn exactly once.

use super::SystemName;
use super::SystemRun;
use super::report::{Measure, SystemReport};
use super::yardstick;
use crate::outcome::CliError;
use crate::patience::Wish;
use crate::perf::report::per_second;
use crate::perf::sequencer::{Drawer, each_once};
use crate::programs::{self, Watch};
use crate::progress::Progress;
use rackweave_base::{Duration, NodeId};
use rackweave_endpoint::sequencer::SequencerConfig;
use rackweave_rack::services::{SequencerOptions, SequencerPlacement, SequencerService};
use serde_json::json;

/// Seconds of each kind of sequencer at scale factor 1.
const SECONDS: f64 = 4.0;

/// Calls of a client in flight; waiting calls are combined.
const CALLS: u32 = 64;

/// Clients, one thread each.
const CLIENTS: usize = 3;

/// Numbers drawn by clients.
struct Drawn {
    numbers: u64,
    nanos: u64,
    /// The error in them.
    problem: Option<String>,
}

impl Drawn {
    fn rate(&self) -> f64 {
        per_second(self.numbers, self.nanos)
    }
}

/// Runs the system.
///
/// # Errors
/// If switch or nodes have no capacity, or a connection fails.
pub fn run(run: &SystemRun<'_>) -> Result<SystemReport, CliError> {
    // The last node has the word, others have clients; there are at least two nodes.
    let (&host, others) = run.rack.nodes().split_last().expect("there are nodes");
    let nodes: Vec<_> = others.iter().copied().cycle().take(CLIENTS).collect();
    let mut bar = Progress::new(run.globals, "sequencer");
    run.live.phase("sequencer: in the switch");
    let switch = draw(run, &nodes, SequencerPlacement::Switch)?;
    bar.set(|| 0.5);
    run.live.phase("sequencer: in a host's memory");
    let hosted = draw(run, &nodes, SequencerPlacement::Memory(host))?;
    Ok(report(run, nodes.len(), switch, hosted))
}

fn report(run: &SystemRun<'_>, clients: usize, switch: Drawn, hosted: Drawn) -> SystemReport {
    let limit = yardstick::fetch_add(clients);
    let measure = |did: String, drawn: &Drawn| {
        let measure = Measure::alone(did, drawn.rate(), "/s");
        measure.beside("fetch_add", limit)
    };
    let rates = [
        measure(format!("{clients} clients, the switch"), &switch),
        measure("the same, a host's word".into(), &hosted),
    ];
    let mut system = SystemReport::found(SystemName::Sequencer, run, rates);
    let both = [&switch, &hosted];
    system.verified = both
        .iter()
        .all(|drawn| drawn.problem.is_none() && drawn.numbers > 0);
    system.details = json!({
        "clients": clients,
        "calls": CALLS,
        "switch_numbers": switch.numbers,
        "host_numbers": hosted.numbers,
    });
    let problems = [switch.problem, hosted.problem].into_iter();
    system.problems = problems.flatten().collect();
    system
}

/// Lets a client on each node draw numbers in its own thread for a while, and checks all of them.
fn draw(
    run: &SystemRun<'_>,
    nodes: &[NodeId],
    placement: SequencerPlacement,
) -> Result<Drawn, CliError> {
    let options = SequencerOptions::new(placement);
    let made = SequencerService::with(run.rack, &options).map_err(CliError::run)?;
    let span = run.scale.span(SECONDS);
    let group = |&at: &NodeId| {
        let client = made.client(at, SequencerConfig::default());
        let client = client.map_err(CliError::run)?;
        Ok::<_, CliError>(vec![(at, Drawer::new(client, CALLS, span))])
    };
    let groups = nodes.iter().map(group).collect::<Result<Vec<_>, _>>()?;
    let mut silent = |_, _| {};
    let mut watch = Watch::new(run.globals, Wish::Finish, Duration::ZERO, &mut silent);
    let (drawers, ran) = programs::run(&mut run.rack.clone().into(), groups, &mut watch);
    let (mut drawn, mut nanos) = (Vec::new(), 0);
    for drawer in drawers {
        let (client, its, ended) = drawer.into_parts();
        made.release(client);
        drawn.extend(its);
        nanos = nanos.max(ended);
    }
    ran?;
    let (numbers, problem) = match each_once(drawn) {
        Ok(numbers) => (numbers, None),
        Err(problem) => (0, Some(problem)),
    };
    Ok(Drawn {
        numbers,
        nanos,
        problem,
    })
}
