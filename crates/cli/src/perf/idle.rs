//! The test `idle`: the CPU time of a rack with an open flow in which nothing flows: left alone,
//! and while a consumer waits for an item.

use super::test_run::TestRun;
use crate::globals::Globals;
use crate::measure::ratio;
use crate::outcome::CliError;
use crate::programs::Patience;
use rackweave_endpoint::flow::Taken;
use rackweave_rack::hosted::HostedRack;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Time for the rack to settle before it is measured.
const SETTLING: Duration = Duration::from_millis(500);

/// How long this thread sleeps while the rack is left alone.
const NAP: Duration = Duration::from_millis(100);

/// The parameters of the silent flow.
const ITEM_BYTES: u32 = 1024;
const RING_BYTES: u32 = 1 << 20;

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
        let first = text.split_whitespace().next();
        let first = first.and_then(|word| word.parse::<u64>().ok());
        let unclear = || CliError::run(format!("{tasks}/*/schedstat makes no sense"));
        nanos += first.ok_or_else(unclear)?;
    }
    Ok(nanos)
}

/// Runs the test.
///
/// # Errors
/// If the rack cannot be built, or the system does not report CPU time.
pub fn measure(test: &mut TestRun<'_>) -> Result<Value, CliError> {
    let (span, globals) = (test.part(2.0, 1), test.globals);
    let start = Instant::now();
    let whole = 2 * (SETTLING + span);
    let rack = test.real_rack()?;
    let processes = processes(test)?;
    let [first, last] = test.ends();
    let flow = rack
        .flow(&[first], &[last])
        .item_bytes(ITEM_BYTES)
        .ring_bytes(RING_BYTES)
        .build()?;
    let mut consumer = flow.take_consumer(0)?;
    let progress = &mut test.progress;
    let mut tick = || progress.set(|| start.elapsed().as_secs_f64() / whole.as_secs_f64());
    // Left alone: only its own threads run.
    let alone = percent_of_a_core(&processes, span, |until| nap(until, globals, &mut tick))?;
    let mut is_silent = true;
    let waiting = percent_of_a_core(&processes, span, |until| {
        let mut patience = Patience::new(rack.driver());
        while Instant::now() < until && !globals.interrupt.is_set() {
            is_silent &= consumer.peek(1) == Taken::Empty;
            patience.wait(false);
            tick();
        }
    })?;
    test.verified = is_silent;
    Ok(json!({
        "percent_of_a_core": alone,
        "percent_of_a_core_waiting": waiting,
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
fn percent_of_a_core(
    processes: &[String],
    span: Duration,
    mut pass: impl FnMut(Instant),
) -> Result<f64, CliError> {
    let spent = || -> Result<u64, CliError> { processes.iter().map(|id| cpu_nanos(id)).sum() };
    pass(Instant::now() + SETTLING);
    let (before, begun) = (spent()?, Instant::now());
    pass(begun + span);
    let (elapsed, after) = (begun.elapsed(), spent()?);
    let used = after.saturating_sub(before) as f64;
    Ok(100.0 * ratio(used, elapsed.as_nanos() as f64))
}
