//! The test `idle`: what a rack costs in which a flow stands open and nothing flows: left alone,
//! and while a consumer waits for an item.

use super::report::{Setting, ratio, verdict};
use crate::args::PerfArgs;
use crate::globals::Globals;
use crate::outcome::{CliError, Verdict};
use crate::progress::Progress;
use rackweave_base::NodeId;
use rackweave_endpoint::flow::Taken;
use rackweave_rack::EmbeddedRack;
use serde::Serialize;
use std::fmt;
use std::time::{Duration, Instant};

/// The rack comes to rest before it is measured.
const SETTLING: Duration = Duration::from_millis(500);

/// How long this thread sleeps while the rack is left alone.
const NAP: Duration = Duration::from_millis(100);

#[derive(Clone, Debug, Serialize)]
struct IdleReport {
    #[serde(flatten)]
    setting: Setting,
    verified: bool,
    interrupted: bool,
    /// Left alone: its driver threads are all there is.
    percent_of_a_core: f64,
    /// While a consumer waits.
    percent_of_a_core_waiting: f64,
    elapsed_s: f64,
}

/// CPU time of all threads of this process so far, in nanoseconds.
fn cpu_nanos() -> Result<u64, CliError> {
    let unreadable = |error: std::io::Error| {
        CliError::run(format!(
            "/proc/self/task cannot be read: {error}; idle needs Linux"
        ))
    };
    let mut nanos = 0;
    for task in std::fs::read_dir("/proc/self/task").map_err(unreadable)? {
        let path = task.map_err(unreadable)?.path().join("schedstat");
        let text = std::fs::read_to_string(path).map_err(unreadable)?;
        let first = text
            .split_whitespace()
            .next()
            .and_then(|word| word.parse::<u64>().ok());
        nanos +=
            first.ok_or_else(|| CliError::run("/proc/self/task/*/schedstat makes no sense"))?;
    }
    Ok(nanos)
}

/// Runs the test.
///
/// # Errors
/// If the rack cannot be built, or the system does not tell the time spent.
pub fn run(args: &PerfArgs, globals: &Globals) -> Result<Verdict, CliError> {
    let config = globals.rack_config(&args.rack)?;
    let span = Duration::from_secs_f64(args.duration.unwrap_or(2.0));
    let rack = EmbeddedRack::new(&config)?;
    let last = NodeId(config.node.len() as u16 - 1);
    let flow = rack.create_flow(rack.flow_spec(&[NodeId(0)], &[last], 1024, 1 << 20))?;
    let mut consumer = flow.consumer(0)?;
    let driver = rack.progress();
    let mut progress = Progress::new(globals, super::name_of(args.test));
    let start = Instant::now();
    let whole = 2 * (SETTLING + span);
    let mut tick = || progress.set(|| start.elapsed().as_secs_f64() / whole.as_secs_f64());
    let alone = measure(span, |until| {
        while Instant::now() < until && !globals.interrupt.is_set() {
            std::thread::sleep(NAP.min(until.saturating_duration_since(Instant::now())));
            tick();
        }
    })?;
    let mut is_silent = true;
    let waiting = measure(span, |until| {
        let mut idle_rounds = 0u32;
        while Instant::now() < until && !globals.interrupt.is_set() {
            is_silent &= consumer.peek(1) == Taken::Empty;
            if driver.drive() {
                idle_rounds = 0;
            } else {
                driver.relax(idle_rounds);
                idle_rounds = idle_rounds.saturating_add(1);
            }
            tick();
        }
    })?;
    drop(progress);
    let report = IdleReport {
        setting: Setting::new(args.test, false, &config),
        verified: is_silent,
        interrupted: globals.interrupt.is_set(),
        percent_of_a_core: alone,
        percent_of_a_core_waiting: waiting,
        elapsed_s: start.elapsed().as_secs_f64(),
    };
    crate::output::print(globals, "perf", &report)?;
    Ok(Verdict::of(report.verified))
}

/// Lets `pass` pass the time, first to settle, then for `span`; returns the percentage of a core
/// that the process took in the latter.
fn measure(span: Duration, mut pass: impl FnMut(Instant)) -> Result<f64, CliError> {
    pass(Instant::now() + SETTLING);
    let (before, begun) = (cpu_nanos()?, Instant::now());
    pass(begun + span);
    let (elapsed, after) = (begun.elapsed(), cpu_nanos()?);
    Ok(100.0
        * ratio(
            after.saturating_sub(before) as f64,
            elapsed.as_nanos() as f64,
        ))
}

impl fmt::Display for IdleReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.setting)?;
        writeln!(f, "a flow stands open and nothing flows")?;
        writeln!(f, "left alone: {:.2} % of a core", self.percent_of_a_core)?;
        writeln!(
            f,
            "while a consumer waits: {:.2} % of a core",
            self.percent_of_a_core_waiting
        )?;
        verdict(f, self.verified, self.interrupted)
    }
}
