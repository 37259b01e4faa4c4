//! The test `events`: what the simulator handles per second of real time.

use super::flow_bw::{plan, rack_config};
use super::flow_simulated;
use super::report::{Setting, per_second, scaled, verdict};
use crate::args::{PerfArgs, Test};
use crate::globals::Globals;
use crate::mode::{Mode, SIMULATED};
use crate::outcome::{CliError, Verdict};
use crate::progress::Progress;
use rackweave_base::NodeId;
use serde::Serialize;
use std::fmt;

#[derive(Clone, Debug, Serialize)]
struct EventsReport {
    #[serde(flatten)]
    setting: Setting,
    verified: bool,
    interrupted: bool,
    events: u64,
    elapsed_s: f64,
    events_per_s: f64,
}

/// Runs the test.
///
/// # Errors
/// If the configuration makes no sense.
pub fn run(args: &PerfArgs, globals: &Globals) -> Result<Verdict, CliError> {
    let config = rack_config(args, &Mode::Simulated, globals)?;
    let wanted = std::time::Duration::from_secs_f64(args.duration.unwrap_or(2.0));
    let nodes: Vec<NodeId> = (0..config.node.len()).map(|at| NodeId(at as u16)).collect();
    let simulated = PerfArgs {
        simulated: true,
        duration: None,
        ..args.clone()
    };
    // Long enough for the building of the rack not to count.
    let plan = plan(&simulated, &config, (nodes.clone(), nodes), 1 << 30)?;
    let mut progress = Progress::new(globals, super::name_of(Test::Events));
    let start = std::time::Instant::now();
    let (mut events, mut verified) = (0, true);
    let mut spent = std::time::Duration::ZERO;
    while (start.elapsed() < wanted || events == 0) && !globals.interrupt.is_set() {
        let begun = std::time::Instant::now();
        let mut quiet = Progress::new(globals, "");
        let (measured, _) = flow_simulated::run(&config, &plan, globals, None, &mut quiet)?;
        spent += begun.elapsed();
        events += measured.events;
        verified &= measured.verified || globals.interrupt.is_set();
        progress.set(|| start.elapsed().as_secs_f64() / wanted.as_secs_f64());
    }
    drop(progress);
    let report = EventsReport {
        setting: Setting::new(args.test, SIMULATED, &config),
        verified,
        interrupted: globals.interrupt.is_set(),
        events,
        elapsed_s: spent.as_secs_f64(),
        events_per_s: per_second(events, spent.as_nanos() as u64),
    };
    crate::output::print(globals, "perf", &report)?;
    Ok(Verdict::of(verified))
}

impl fmt::Display for EventsReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.setting)?;
        writeln!(
            f,
            "a shuffle from every node to every node, items of 64 KiB"
        )?;
        writeln!(
            f,
            "events: {} in {:.3} s of real time",
            self.events, self.elapsed_s
        )?;
        writeln!(f, "rate: {}events/s", scaled(self.events_per_s))?;
        verdict(f, self.verified, self.interrupted)
    }
}
