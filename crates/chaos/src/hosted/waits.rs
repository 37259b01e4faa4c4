//! Waiting, while the processes are monitored.

use super::drive::DriveError;
use super::report::SeedReport;
use super::running::HostedRackRun;
use rackweave_rack::hosted::HostedRack;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often the processes are checked.
pub const LOOK_EVERY: Duration = Duration::from_millis(10);

/// How long a rack may take to be complete again.
pub const WHOLE_LIMIT: Duration = Duration::from_secs(20);

/// Pause before the next attempt on a rack that is not running yet.
pub const AGAIN_AFTER: Duration = Duration::from_millis(50);

/// Waits until nothing `is_left`; reports a violation if it is after `limit`.
pub fn await_that(
    limit: Duration,
    is_left: impl Fn(&HostedRackRun) -> Option<String>,
    running: &mut HostedRackRun,
    report: &mut SeedReport,
    interrupt: &AtomicBool,
) -> Result<(), DriveError> {
    let deadline = Instant::now() + limit;
    while let Some(left) = is_left(running)
        && !interrupt.load(Ordering::Relaxed)
    {
        if Instant::now() >= deadline {
            let text = format!("after the faults, within {} s: {left}", limit.as_secs());
            report.violations.push(text);
            break;
        }
        sleep(LOOK_EVERY, running)?;
    }
    Ok(())
}

/// Sleeps, and monitors the processes meanwhile.
pub fn sleep(span: Duration, running: &mut HostedRackRun) -> Result<(), DriveError> {
    let deadline = Instant::now() + span;
    loop {
        running.look()?;
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(LOOK_EVERY));
    }
}

/// Waits until the current process of every node has joined, and a switch process that has taken
/// another's place has restored its state; reports a violation if it does not.
pub fn await_whole(
    running: &mut HostedRackRun,
    report: &mut SeedReport,
    interrupt: &AtomicBool,
) -> Result<(), DriveError> {
    let deadline = Instant::now() + WHOLE_LIMIT;
    while !interrupt.load(Ordering::Relaxed) {
        running.look()?;
        let status = HostedRack::connect(&running.config).and_then(|mut rack| rack.status());
        let why = match status {
            Ok(status) => {
                let expected = running.node_pids();
                // Places for guests are behind them.
                let nodes = || status.nodes.iter().take(expected.len());
                let pids: Vec<_> = nodes().map(|node| node.pid).collect();
                if pids == expected && running.is_restored() {
                    return Ok(());
                }
                let absent = nodes().filter(|node| !node.joined);
                let absent: Vec<&str> = absent.map(|node| node.name.as_str()).collect();
                match running.is_restored() {
                    true => format!("absent: {}", absent.join(", ")),
                    false => "the switch is restoring an earlier state".into(),
                }
            }
            Err(error) => error.to_string(),
        };
        if Instant::now() >= deadline {
            let limit = WHOLE_LIMIT.as_secs();
            let text = format!("the rack is not whole within {limit} s: {why}");
            report.violations.push(text);
            return Ok(());
        }
        std::thread::sleep(AGAIN_AFTER);
    }
    Ok(())
}
