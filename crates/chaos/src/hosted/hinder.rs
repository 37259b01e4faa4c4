//! A node that is stopped, or slow in every reply, while another node is killed and restarted.
//!
//! The controller sends requests to nodes, and a node that does not reply, or replies late, must
//! not delay others for longer than it takes to declare it dead. A rack that was complete before is
//! judged by that: the other node joins within `dead_after` and a second from the start of its
//! process, and within as much time again a flow with it is created and closed.

use super::drive::DriveError;
use super::plan::{Bystander, Victim};
use super::report::{SeedReport, Slowest, WAIT_MS_LIMIT};
use super::running::HostedRackRun;
use super::waits::{AGAIN_AFTER, LOOK_EVERY, WHOLE_LIMIT, await_whole};
use rackweave_base::NodeId;
use rackweave_rack::RackConfig;
use rackweave_rack::hosted::{HostedError, HostedRack};
use rustix::process::Signal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a slow node runs between two stops.
const ANSWERS_FOR: Duration = Duration::from_millis(100);

/// Bytes of an item and of a ring of the flow that proves that the rack has recovered.
const ITEM_BYTES: u32 = 64;
const RING_BYTES: u32 = 4096;

/// Hinders the rack with `victim` until `other` has left, rejoined and been used. A slow victim is
/// `stopped` for this long at a time, a stalled one throughout.
///
/// # Errors
/// Errors of the system.
pub fn run(
    victim: Victim,
    other: Bystander,
    stopped: Option<Duration>,
    running: &mut HostedRackRun,
    report: &mut SeedReport,
    interrupt: &AtomicBool,
) -> Result<(), DriveError> {
    // Nodes that an earlier fault keeps away are not judged here.
    await_whole(running, report, interrupt)?;
    let config = running.config.clone();
    let (Victim::Node(slow), Bystander { node, absent }) = (victim, other) else {
        unreachable!("the switch hinders nobody");
    };
    running.note(victim, false);
    let mut hindrance = Hindrance::start(victim, stopped, running);
    running.note(Victim::Node(node), true);
    running.kill(Victim::Node(node));
    let until = Instant::now() + absent;
    hindrance.keep_up(running, || Instant::now() >= until)?;
    let started = Instant::now();
    running.revive(Victim::Node(node))?;
    let pid = running.node_pids()[node];
    // The other node and a third one, if it exists.
    let third = (0..config.residents().count()).find(|&at| at != slow && at != node);
    let ends = [node, third.unwrap_or(node)].map(|at| NodeId(at as u16));
    let (slowest, late) = std::thread::scope(|scope| {
        let watcher = scope.spawn(|| watch((&config, interrupt), (node, pid), started, ends));
        hindrance.keep_up(running, || watcher.is_finished())?;
        Ok::<_, DriveError>(watcher.join().expect("the watcher does not panic"))
    })?;
    running.signal(victim, Signal::CONT);
    report.slowest.merge(slowest);
    report.violations.extend(late);
    Ok(())
}

/// Stops a node, permanently or intermittently.
struct Hindrance {
    victim: Victim,
    stopped: Option<Duration>,
    is_stopped: bool,
    since: Instant,
}

impl Hindrance {
    fn start(victim: Victim, stopped: Option<Duration>, running: &mut HostedRackRun) -> Self {
        running.signal(victim, Signal::STOP);
        Self {
            victim,
            stopped,
            is_stopped: true,
            since: Instant::now(),
        }
    }

    /// Continues until it is `over`, and monitors the processes.
    fn keep_up(
        &mut self,
        running: &mut HostedRackRun,
        over: impl Fn() -> bool,
    ) -> Result<(), DriveError> {
        while !over() {
            running.look()?;
            if let Some(stopped) = self.stopped {
                let (span, next) = match self.is_stopped {
                    true => (stopped, Signal::CONT),
                    false => (ANSWERS_FOR, Signal::STOP),
                };
                if self.since.elapsed() >= span {
                    running.signal(self.victim, next);
                    self.is_stopped = !self.is_stopped;
                    self.since = Instant::now();
                }
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }
}

/// Measures how long a node takes to join with a process that was `started` then, and how long a
/// flow from the first of `ends` to the second takes after that; records violations of the limit.
fn watch(
    (config, interrupt): (&RackConfig, &AtomicBool),
    (node, pid): (usize, Option<u32>),
    started: Instant,
    [from, to]: [NodeId; 2],
) -> (Slowest, Vec<String>) {
    let mut late = Vec::new();
    let name = &config.node[node].name;
    let joined = measure(started, interrupt, || {
        let status = HostedRack::connect(config)?.status()?;
        if status.nodes[node].pid == pid {
            Ok(())
        } else {
            Err(HostedError::Failed("it has not joined".into()))
        }
    });
    let join_ms_max = judge(&format!("the join of {name}"), joined, &mut late);
    let recovery_ms_max = join_ms_max.and_then(|_| {
        let made = measure(Instant::now(), interrupt, || {
            let mut rack = HostedRack::connect(config)?;
            let flow = rack.create_flow(&[from], &[to], ITEM_BYTES, RING_BYTES)?;
            rack.close_flow(flow.id)
        });
        judge(&format!("a flow from {name}"), made, &mut late)
    });
    let slowest = Slowest {
        join_ms_max,
        recovery_ms_max,
    };
    (slowest, late)
}

/// Retries an operation until it succeeds. Returns how long after `since` it did, or the last
/// error; none after an interruption.
fn measure(
    since: Instant,
    interrupt: &AtomicBool,
    attempt: impl Fn() -> Result<(), HostedError>,
) -> Option<Result<Duration, String>> {
    loop {
        match attempt() {
            Ok(()) => return Some(Ok(since.elapsed())),
            Err(_) if interrupt.load(Ordering::Relaxed) => return None,
            Err(error) if since.elapsed() >= WHOLE_LIMIT => return Some(Err(error.to_string())),
            Err(_) => std::thread::sleep(AGAIN_AFTER),
        }
    }
}

/// The measured milliseconds, if the operation succeeded.
fn judge(
    what: &str,
    measured: Option<Result<Duration, String>>,
    late: &mut Vec<String>,
) -> Option<u64> {
    let measured = measured?.map(|took| took.as_millis() as u64);
    match &measured {
        Ok(took) if *took <= WAIT_MS_LIMIT => {}
        Ok(took) => late.push(format!(
            "{what} took {took} ms beside a node that hinders; the limit is {WAIT_MS_LIMIT} ms"
        )),
        Err(why) => {
            let limit = WHOLE_LIMIT.as_secs();
            late.push(format!(
                "{what} did not come about within {limit} s beside a node that hinders: {why}"
            ));
        }
    }
    measured.ok()
}
