//! Jobs: programs that a node runs at a command's request.

use super::shared::NodeCore;
use crate::hosted::RingName;
use crate::hosted::messages::JobStatus;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use rackweave_base::{Memory, NodeId};
use rackweave_endpoint::flow::{Consumer, Producer};
use rackweave_nic::Nic;
use rackweave_verbs::Progress;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The programs of a node, by name.
pub trait Jobs: Send + Sync {
    /// Runs a program, on a thread of its own, until it is done or [`Job::is_stopped`].
    ///
    /// # Errors
    /// In words, for the user of the command.
    fn run(&self, name: &str, arguments: Value, job: &Job) -> Result<Value, String>;
}

/// The programs of a node that runs none.
pub struct NoJobs;

impl Jobs for NoJobs {
    fn run(&self, _: &str, _: Value, _: &Job) -> Result<Value, String> {
        Err("this node runs no jobs".into())
    }
}

/// A job's view of its node.
pub struct Job {
    core: Arc<NodeCore>,
    state: Arc<State>,
}

struct State {
    stop: AtomicBool,
    done: AtomicU64,
    outcome: Mutex<Option<Result<Value, String>>>,
    /// When its command last polled it.
    asked: Mutex<Instant>,
}

impl State {
    fn new() -> Self {
        Self {
            stop: AtomicBool::new(false),
            done: AtomicU64::new(0),
            outcome: Mutex::new(None),
            asked: Mutex::new(Instant::now()),
        }
    }
}

/// A job that its command has not polled for so long is stopped and forgotten.
const LEASE: Duration = Duration::from_secs(30);

impl Job {
    /// The node.
    pub fn node(&self) -> NodeId {
        self.core.id
    }

    /// The node's arena.
    pub fn memory(&self) -> &Memory {
        &self.core.memory
    }

    /// The object by which waiting threads drive the rack.
    pub fn progress(&self) -> &dyn Progress {
        &self.core.pump
    }

    /// Calls `act` with the node's NIC and makes sure that posted work is processed. `None` if the
    /// node has lost the rack.
    pub fn with_nic<R>(&self, act: impl FnOnce(&mut Nic) -> R) -> Option<R> {
        self.core.pump.with(|machine| machine.nic().map(act))
    }

    /// The producing end of a ring of this node.
    ///
    /// # Errors
    /// If there is no such ring here.
    pub fn producer(&self, ring: &RingName) -> Result<Producer, String> {
        let block = self.core.open_region(ring.rkey).ok_or(NO_RING)?;
        Producer::new(&block, ring.layout()).map_err(|error| error.to_string())
    }

    /// The consuming end of a ring of this node.
    ///
    /// # Errors
    /// As for [`Job::producer`].
    pub fn consumer(&self, ring: &RingName) -> Result<Consumer, String> {
        let block = self.core.open_region(ring.rkey).ok_or(NO_RING)?;
        Consumer::new(&block, ring.layout()).map_err(|error| error.to_string())
    }

    /// Whether the job should end: a command requested it, or the node has lost the rack.
    pub fn is_stopped(&self) -> bool {
        self.state.stop.load(Ordering::Relaxed)
    }

    /// Reports the progress, in units known to the command.
    pub fn report(&self, done: u64) {
        self.state.done.store(done, Ordering::Relaxed);
    }
}

const NO_RING: &str = "the flow was broken off: its rings are gone from this node";

/// The jobs of a node whose end has not been reported yet.
#[derive(Default)]
pub(in crate::hosted) struct JobTable {
    jobs: Mutex<BTreeMap<u64, Arc<State>>>,
}

impl JobTable {
    pub fn start(&self, core: &Arc<NodeCore>, number: u64, name: String, arguments: Value) {
        let state = Arc::new(State::new());
        self.jobs().insert(number, state.clone());
        let job = Job {
            core: core.clone(),
            state: state.clone(),
        };
        let run = move || {
            let act = || job.core.jobs.run(&name, arguments, &job);
            let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(act));
            let ended = ended.unwrap_or_else(|_| Err(format!("the job {name} panicked")));
            let mut outcome = job.state.outcome.lock().expect("no holder panics");
            *outcome = Some(ended);
        };
        let spawned = std::thread::Builder::new()
            .name(format!("job-{number}"))
            .spawn(run);
        if let Err(error) = spawned {
            let text = format!("no thread for the job: {error}");
            *state.outcome.lock().expect("no holder panics") = Some(Err(text));
        }
    }

    /// The state of a job. One that has ended is forgotten with the reply.
    pub fn poll(&self, number: u64) -> JobStatus {
        let mut jobs = self.jobs();
        let Some(state) = jobs.get(&number) else {
            return JobStatus::Unknown;
        };
        *state.asked.lock().expect("no holder panics") = Instant::now();
        let outcome = state.outcome.lock().expect("no holder panics").take();
        let Some(outcome) = outcome else {
            let done = state.done.load(Ordering::Relaxed);
            return JobStatus::Running { done };
        };
        jobs.remove(&number);
        match outcome {
            Ok(result) => JobStatus::Done { result },
            Err(error) => JobStatus::Failed { error },
        }
    }

    /// Requests a job to end.
    pub fn stop(&self, number: u64) {
        if let Some(state) = self.jobs().get(&number) {
            state.stop.store(true, Ordering::Relaxed);
        }
    }

    /// Ends jobs that are no longer polled.
    pub fn forget_unasked(&self) {
        self.jobs().retain(|_, state| {
            let asked = *state.asked.lock().expect("no holder panics");
            let wanted = asked.elapsed() < LEASE;
            state.stop.fetch_or(!wanted, Ordering::Relaxed);
            wanted
        });
    }

    /// Requests all jobs to end and forgets them.
    pub fn stop_all(&self) {
        for state in std::mem::take(&mut *self.jobs()).into_values() {
            state.stop.store(true, Ordering::Relaxed);
        }
    }

    fn jobs(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, Arc<State>>> {
        self.jobs.lock().expect("no holder of this lock panics")
    }
}
