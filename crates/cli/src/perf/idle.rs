//! The test `idle`: the CPU time of a rack with an open flow in which nothing flows: left alone,
//! and while a consumer waits for an item.

use super::report::ratio;
use super::test_run::TestRun;
use crate::globals::Globals;
use crate::outcome::{CliError, Verdict};
use crate::patience::Patience;
use crate::perf::args::PerfArgs;
use crate::programs::RealRack;
use rackweave_base::NodeId;
use rackweave_endpoint::flow::Taken;
use rackweave_rack::hosted::HostedRack;
use serde_json::json;
use std::time::{Duration, Instant};

/// Time for the rack to settle before it is measured.
const SETTLING: Duration = Duration::from_millis(500);

/// How long this thread sleeps while the rack is left alone.
const NAP: Duration = Duration::from_millis(100);

/// The parameters of the silent flow.
const ITEM_BYTES: u32 = 1024;
const RING_BYTES: u32 = 1 << 20;

/// The CPU time of a rack, of all its processes together.
#[derive(Clone, Debug)]
struct Idle {
    /// Left alone: only its own threads run.
    percent_of_a_core: f64,
    /// While a consumer waits.
    percent_of_a_core_waiting: f64,
    /// Whether the flow delivered nothing.
    is_silent: bool,
}

/// CPU time so far of all threads of a process, by its folder in /proc, in nanoseconds.
fn cpu_nanos(process: &str) -> Result<u64, CliError> {
    let tasks = format!("/proc/{process}/task");
    let unreadable = |error: std::io::Error| {
        CliError::run(format!(
            "{tasks} cannot be read: {error}; idle needs Linux, and the rack's processes on this \
             machine"
        ))
    };
    let mut nanos = 0;
    for task in std::fs::read_dir(&tasks).map_err(unreadable)? {
        let path = task.map_err(unreadable)?.path().join("schedstat");
        let text = match std::fs::read_to_string(path) {
            // A thread that has ended meanwhile.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            text => text.map_err(unreadable)?,
        };
        let first = text
            .split_whitespace()
            .next()
            .and_then(|word| word.parse::<u64>().ok());
        nanos +=
            first.ok_or_else(|| CliError::run(format!("{tasks}/*/schedstat makes no sense")))?;
    }
    Ok(nanos)
}

/// Runs the test.
///
/// # Errors
/// If the rack cannot be built, or the system does not report CPU time.
pub fn run(args: &PerfArgs, globals: &Globals) -> Result<Verdict, CliError> {
    let mut test = TestRun::on_any_rack(args, globals, 1)?;
    let span = test.part(2.0, 1);
    let start = Instant::now();
    let whole = 2 * (SETTLING + span);
    let rack = test.real_rack()?;
    let ends = (test.nodes[0], test.last());
    let processes = processes(&test)?;
    let progress = &mut test.progress;
    let mut tick = || progress.set(|| start.elapsed().as_secs_f64() / whole.as_secs_f64());
    let idle = measured((&rack, ends, &processes), span, globals, &mut tick)?;
    test.verified = idle.is_silent;
    test.finish(&json!({
        "percent_of_a_core": idle.percent_of_a_core,
        "percent_of_a_core_waiting": idle.percent_of_a_core_waiting,
        "elapsed_s": start.elapsed().as_secs_f64(),
    }))
}

/// The processes of the rack, as folders in /proc: this one, and those of a running rack.
fn processes(test: &TestRun<'_>) -> Result<Vec<String>, CliError> {
    let mut all = vec!["self".to_owned()];
    if test.is_hosted() {
        let status = HostedRack::connect(&test.config)?.status()?;
        let pids = status.nodes.iter().filter_map(|node| node.pid);
        let own = std::process::id();
        let others = pids.chain([status.pid]).filter(|&pid| pid != own);
        all.extend(others.map(|pid| pid.to_string()));
    }
    Ok(all)
}

fn measured(
    (rack, (from, to), processes): (&RealRack, (NodeId, NodeId), &[String]),
    span: Duration,
    globals: &Globals,
    tick: &mut dyn FnMut(),
) -> Result<Idle, CliError> {
    let flow = rack
        .flow(&[from], &[to])
        .item_bytes(ITEM_BYTES)
        .ring_bytes(RING_BYTES)
        .build()?;
    let mut consumer = flow.take_consumer(0)?;
    let percent_of_a_core = measure(processes, span, |until| nap(until, globals, tick))?;
    let mut is_silent = true;
    let percent_of_a_core_waiting = measure(processes, span, |until| {
        let mut patience = Patience::new(rack.driver());
        while Instant::now() < until && !globals.interrupt.is_set() {
            is_silent &= consumer.peek(1) == Taken::Empty;
            patience.wait(false);
            tick();
        }
    })?;
    Ok(Idle {
        percent_of_a_core,
        percent_of_a_core_waiting,
        is_silent,
    })
}

/// Sleeps until `until`.
fn nap(until: Instant, globals: &Globals, tick: &mut dyn FnMut()) {
    while Instant::now() < until && !globals.interrupt.is_set() {
        std::thread::sleep(NAP.min(until.saturating_duration_since(Instant::now())));
        tick();
    }
}

/// Calls `pass` to pass time, first to settle, then for `span`; returns the percentage of a core
/// that the processes (folders in /proc) used in `span`.
///
/// # Errors
/// If the system does not report their CPU time.
fn measure(
    processes: &[String],
    span: Duration,
    mut pass: impl FnMut(Instant),
) -> Result<f64, CliError> {
    let spent = || -> Result<u64, CliError> { processes.iter().map(|id| cpu_nanos(id)).sum() };
    pass(Instant::now() + SETTLING);
    let (before, begun) = (spent()?, Instant::now());
    pass(begun + span);
    let (elapsed, after) = (begun.elapsed(), spent()?);
    Ok(100.0
        * ratio(
            after.saturating_sub(before) as f64,
            elapsed.as_nanos() as f64,
        ))
}
