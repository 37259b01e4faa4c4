//! The test `failover`: kills the process of the switch that leads, again and again, and measures
//! when each system works again.
//!
//! One thread for each system calls it in a closed loop and verifies every result. A system works
//! again at the end of its first successful call that has begun after the death of the process. The
//! time counts from the signal. `rackweave up` starts the process again; with `[hosted.standby]`,
//! the other one takes over.

mod systems;

use super::args::PerfArgs;
use super::test_run::TestRun;
use crate::globals::Globals;
use crate::outcome::{CliError, Verdict};
use rackweave_rack::hosted::HostedRack;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde_json::{Value, json};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use systems::{Call, Systems};

/// Kills, unless the user names another number.
const KILLS: u64 = 20;

/// Time between two kills: `rackweave up` forgets the last death meanwhile, and starts the process
/// again without further delay.
const BETWEEN: Duration = Duration::from_millis(3500);

/// Longest time until every system works again.
const LIMIT: Duration = Duration::from_secs(30);

/// How often that is checked.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Longest time from the signal to the end of the process.
const DEATH_LIMIT: Timespec = Timespec {
    tv_sec: 5,
    tv_nsec: 0,
};

/// A system under load.
struct Load {
    name: &'static str,
    state: Mutex<LoadState>,
}

/// What a system has done so far.
#[derive(Default)]
struct LoadState {
    calls: u64,
    failed: u64,
    /// The last error.
    error: Option<String>,
    /// When the process died, until a call that has begun later has succeeded.
    died: Option<Instant>,
    /// When it has, since the last signal.
    works: Option<Instant>,
    /// How long that took, for each signal.
    times: Vec<Duration>,
}

impl Load {
    /// Calls the system until `stop`.
    fn run(&self, mut call: Call<'_>, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            let began = Instant::now();
            let result = call();
            let mut state = self.state.lock().expect("no holder panics");
            state.calls += 1;
            match result {
                Ok(()) if state.died.is_some_and(|died| died <= began) => {
                    state.works = Some(Instant::now());
                    state.died = None;
                }
                Ok(()) => {}
                Err(error) => {
                    state.failed += 1;
                    state.error = Some(error.to_string());
                }
            }
        }
    }

    fn with<R>(&self, act: impl FnOnce(&mut LoadState) -> R) -> R {
        act(&mut self.state.lock().expect("no holder panics"))
    }

    fn report(&self) -> Value {
        self.with(|state| {
            state.times.sort_unstable();
            let millis = |at: usize| Some(state.times.get(at)?.as_secs_f64() * 1e3);
            json!({
                "system": self.name,
                "median_ms": millis(state.times.len() / 2),
                "worst_ms": millis(state.times.len().saturating_sub(1)),
                "calls": state.calls,
                "failed_calls": state.failed,
                "last_error": state.error,
            })
        })
    }
}

/// Runs the test.
///
/// # Errors
/// If no rack of processes runs on this machine, or a system cannot be set up.
pub fn run(args: &PerfArgs, globals: &Globals) -> Result<Verdict, CliError> {
    let kills = args.iterations.unwrap_or(KILLS);
    let steps = u32::try_from(kills).unwrap_or(u32::MAX);
    let mut test = TestRun::on_any_rack(args, globals, steps)?;
    if !test.is_hosted() {
        return Err(CliError::usage(
            "failover kills a process of a running rack; start one with `rackweave up`, and give \
             --hosted or its configuration",
        ));
    }
    let rack = test.real_rack()?;
    let systems = Systems::new(&rack, &test.nodes)?;
    let calls = systems.calls(&globals.interrupt)?;
    let load = |name| Load {
        name,
        state: Mutex::default(),
    };
    let loads: Vec<Load> = calls.iter().map(|(name, _)| load(*name)).collect();
    let stop = AtomicBool::new(false);
    let result = std::thread::scope(|scope| {
        for (load, (_, call)) in loads.iter().zip(calls) {
            scope.spawn(|| load.run(call, &stop));
        }
        let result = (0..kills).try_for_each(|_| {
            let due = Instant::now() + BETWEEN;
            while Instant::now() < due && !test.is_interrupted() {
                std::thread::sleep(LOOK_EVERY);
            }
            match test.is_interrupted() {
                true => Ok(()),
                false => kill_once(&mut test, &loads),
            }
        });
        stop.store(true, Ordering::Relaxed);
        result
    });
    result?;
    let has_standby = test.config.hosted().standby.is_some();
    let systems: Vec<Value> = loads.iter().map(Load::report).collect();
    test.finish(&json!({"standby": has_standby, "kills": kills, "systems": systems}))
}

/// Kills the leader and waits until every system works again.
fn kill_once(test: &mut TestRun<'_>, loads: &[Load]) -> Result<(), CliError> {
    let pid = HostedRack::connect(&test.config)?.status()?.pid;
    let commands = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let mut words = commands.split(|&byte| byte == 0);
    let elsewhere = || CliError::run("the switch's process does not run on this machine");
    if !words.any(|word| word == b"switch") {
        return Err(elsewhere());
    }
    let pid = Pid::from_raw(pid.cast_signed()).ok_or_else(elsewhere)?;
    let process = pidfd_open(pid, PidfdFlags::empty()).map_err(|_| elsewhere())?;
    let signalled = Instant::now();
    pidfd_send_signal(&process, Signal::KILL).map_err(CliError::run)?;
    let mut ends = [PollFd::new(&process, PollFlags::IN)];
    poll(&mut ends, Some(&DEATH_LIMIT)).map_err(CliError::run)?;
    let died = Instant::now();
    for load in loads {
        load.with(|state| (state.died, state.works) = (Some(died), None));
    }
    let all_work = || {
        loads
            .iter()
            .all(|load| load.with(|state| state.works.is_some()))
    };
    while !all_work() && signalled.elapsed() < LIMIT && !test.is_interrupted() {
        std::thread::sleep(LOOK_EVERY);
    }
    for load in loads {
        load.with(|state| {
            state.died = None;
            let took = state.works.map(|works| works - signalled);
            state.times.extend(took);
        });
    }
    test.step(all_work() || test.is_interrupted());
    Ok(())
}
