//! The test `sequencer`: ranges of numbers per second from a sequencer of each kind: a register of
//! the switch, a word in another node's memory, a counter in a server.
//!
//! One client, one thread that drives the rack and, for the server, the server: many calls under
//! way at a time, combined in few requests; the same calls with a request for each; one call at a
//! time, for its latency. Every range must begin where the one before it ends.

use super::report::{self, Latency, per_second, ratio};
use crate::globals::Globals;
use crate::mode::EMBEDDED;
use crate::outcome::{CliError, Verdict};
use crate::patience::Patience;
use crate::perf::args::PerfArgs;
use crate::progress::Progress;
use hdrhistogram::Histogram;
use rackweave_base::NodeId;
use rackweave_endpoint::sequencer::{Sequencer, SequencerConfig};
use rackweave_rack::services::{
    AttachedSequencer, CounterServerSpec, SequencerOptions, SequencerPlacement, SequencerService,
};
use rackweave_rack::{EmbeddedRack, Node, RackConfig};
use serde::Serialize;
use serde_json::json;
use std::time::{Duration, Instant};

/// Nanoseconds beyond which latencies are not told apart.
const LATENCY_MAX: u64 = 60_000_000_000;

/// Requests under way where calls are not combined: as many atomics as a queue pair may have.
const REQUESTS_MAX: u32 = 16;

/// Measurements of one kind.
const MEASUREMENTS: usize = 3;

/// The kinds of sequencers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    Switch,
    OneSided,
    Rpc,
}

const KINDS: [Kind; 3] = [Kind::Switch, Kind::OneSided, Kind::Rpc];

/// A rack with a sequencer and a client of it.
struct Rig {
    rack: EmbeddedRack,
    node: Node,
    sequencer: SequencerService,
    client: AttachedSequencer,
}

/// What a measurement found.
struct Found {
    ranges: u64,
    nanos: u64,
    is_sound: bool,
    histogram: Histogram<u64>,
}

impl Rig {
    fn new(config: &RackConfig, kind: Kind, shape: SequencerConfig) -> Result<Self, CliError> {
        let rack = EmbeddedRack::new(config)?;
        let (near, far) = (NodeId(0), NodeId(config.node.len() as u16 - 1));
        let placement = match kind {
            Kind::Switch => SequencerPlacement::Switch,
            Kind::OneSided => SequencerPlacement::Memory(far),
            Kind::Rpc => SequencerPlacement::Server(CounterServerSpec::new(far)),
        };
        let options = SequencerOptions::new(placement);
        let sequencer = SequencerService::with(&rack, &options).map_err(CliError::run)?;
        Ok(Self {
            node: rack.node_at(near),
            client: sequencer.client(near, shape).map_err(CliError::run)?,
            sequencer,
            rack,
        })
    }

    /// Keeps `calls` calls under way for `span`.
    fn run(&mut self, calls: u32, span: Duration, globals: &Globals) -> Result<Found, CliError> {
        let mut found = Found {
            ranges: 0,
            nanos: 0,
            is_sound: true,
            histogram: Histogram::new_with_bounds(1, LATENCY_MAX, 3).expect("sound bounds"),
        };
        let timed = calls == 1;
        let driver = self.rack.progress();
        let mut patience = Patience::new(&*driver);
        let (mut next, mut left) = (0, calls);
        let start = Instant::now();
        let mut begun = start;
        for round in 0u64.. {
            if round % 64 == 0 && (start.elapsed() >= span || globals.interrupt.is_set()) {
                break;
            }
            if timed && left > 0 {
                begun = Instant::now();
            }
            while left > 0 {
                self.client.begin(1).map_err(CliError::run)?;
                left -= 1;
            }
            // Time stands still: nothing is to time out.
            let (client, now) = (&mut self.client, rackweave_base::Instant::ZERO);
            let before = found.ranges;
            let mut failed = None;
            self.node.with(|nic| {
                while let Some(done) = client.poll(now, nic) {
                    match done.result {
                        Ok(range) => {
                            found.is_sound &= range == (next..next + 1);
                            next = range.end;
                            found.ranges += 1;
                            left += 1;
                        }
                        Err(error) => failed = Some(error),
                    }
                }
            });
            if let Some(error) = failed {
                return Err(CliError::run(error));
            }
            let mut moved = found.ranges > before;
            if timed && moved {
                found
                    .histogram
                    .saturating_record(begun.elapsed().as_nanos() as u64);
            }
            moved |= self.sequencer.serve();
            patience.wait(moved);
        }
        found.nanos = start.elapsed().as_nanos() as u64;
        Ok(found)
    }
}

/// Runs the test.
///
/// # Errors
/// If the rack cannot be built or a connection breaks.
pub fn run(args: &PerfArgs, globals: &Globals) -> Result<Verdict, CliError> {
    let mut config = globals.rack_config(&args.rack)?;
    // On a hardware switch they fit beside the engine alone.
    config.switch.consumer_rings = 0;
    config.switch.producer_rings = 0;
    config.switch.page_entries = 0;
    config.switch.sequencers = config.switch.sequencers.max(1);
    config.check()?;
    let calls = args.tx_depth.unwrap_or(64).clamp(1, 4096);
    let measurements = KINDS.len() * MEASUREMENTS;
    let span = Duration::from_secs_f64(args.duration.unwrap_or(4.5) / measurements as f64);
    let mut progress = Progress::new(globals, args.test.name);
    let (mut verified, mut steps) = (true, 0.0);
    let mut measure = |kind, calls, shape: SequencerConfig| -> Result<Found, CliError> {
        let mut rig = Rig::new(&config, kind, shape)?;
        globals.live.watch(rig.rack.observer());
        let found = rig.run(calls, span, globals)?;
        verified &= found.is_sound && found.ranges > 0;
        steps += 1.0;
        progress.set(|| steps / measurements as f64);
        Ok(found)
    };
    let mut kinds = Vec::new();
    for kind in KINDS {
        let rate = |found: &Found| per_second(found.ranges, found.nanos);
        let all = |found: &Found| {
            json!({
                "ranges": found.ranges,
                "elapsed_s": found.nanos as f64 / 1e9,
                "ranges_per_s": rate(found),
            })
        };
        let combined = measure(kind, calls, SequencerConfig::default())?;
        let alone = SequencerConfig {
            combine_max: 1,
            requests_max: REQUESTS_MAX,
            ..SequencerConfig::default()
        };
        let single = measure(kind, REQUESTS_MAX, alone)?;
        let one = measure(kind, 1, alone)?;
        kinds.push(json!({
            "kind": kind,
            "combined": all(&combined),
            "single": all(&single),
            "combined_to_single": ratio(rate(&combined), rate(&single)),
            "latency_ns": Latency::of(&one.histogram),
        }));
    }
    drop(progress);
    let found = json!({"calls": calls, "kinds": kinds});
    report::finish(globals, args.test, (EMBEDDED, &config), verified, &found)
}
