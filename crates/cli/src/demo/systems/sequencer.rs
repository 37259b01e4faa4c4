//! Sequencers: several clients draw numbers, from a register of the switch and from a word in a
//! host's memory. Every number must be drawn exactly once.

use super::report::{Measure, SystemReport};
use super::{SystemName, SystemRun, yardstick};
use crate::outcome::CliError;
use crate::perf::sequencer::{Drawn, draw};
use crate::progress::Progress;
use rackweave_endpoint::sequencer::SequencerConfig;
use rackweave_rack::services::SequencerPlacement;
use serde_json::json;

/// Seconds of each kind of sequencer at scale factor 1.
const SECONDS: f64 = 4.0;

/// Calls of a client in flight; waiting calls are combined.
const CALLS: u32 = 64;

/// Clients, one thread each.
const CLIENTS: usize = 3;

/// Runs the system.
///
/// # Errors
/// If switch or nodes have no capacity, or a connection fails.
pub fn run(run: &SystemRun<'_>) -> Result<SystemReport, CliError> {
    // The last node has the word, others have clients; there are at least two nodes.
    let (&host, others) = run.rack.nodes().split_last().expect("there are nodes");
    let nodes: Vec<_> = others.iter().copied().cycle().take(CLIENTS).collect();
    let (on, span) = ((run.rack, run.globals), run.scale.span(SECONDS));
    let calls = (CALLS, SequencerConfig::default());
    let mut bar = Progress::new(run.globals, "sequencer");
    run.globals.live.phase("sequencer: in the switch");
    let switch = draw(on, &nodes, SequencerPlacement::Switch, calls, span)?;
    bar.set(|| 0.5);
    run.globals.live.phase("sequencer: in a host's memory");
    let hosted = draw(on, &nodes, SequencerPlacement::Memory(host), calls, span)?;
    let clients = nodes.len();
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
    system.verified = switch.count() > 0 && hosted.count() > 0;
    system.details = json!({
        "clients": clients,
        "calls": CALLS,
        "switch_numbers": switch.count(),
        "host_numbers": hosted.count(),
    });
    let problems = [switch.numbers, hosted.numbers].into_iter();
    system.problems = problems.filter_map(Result::err).collect();
    Ok(system)
}
