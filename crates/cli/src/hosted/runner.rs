//! The jobs that a command runs on nodes of a hosted rack: started, monitored and ended together.
//! `flows` sets up the flows between them.

mod flows;

use crate::globals::Globals;
use crate::interrupt::Interrupt;
use crate::outcome::CliError;
use rackweave_base::NodeId;
use rackweave_rack::RackConfig;
use rackweave_rack::hosted::{HostedError, HostedFlow, HostedRack, JobStatus, RackStatus};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::time::{Duration, Instant};

/// How long nodes may take to join.
const JOIN_LIMIT: Duration = Duration::from_secs(10);

/// Minimum and maximum interval between two checks of the jobs.
const LOOK_MIN: Duration = Duration::from_millis(1);
const LOOK_MAX: Duration = Duration::from_millis(20);

/// How long to wait for a new switch process: less than nodes keep everything.
const RESTART_LIMIT: Duration = Duration::from_secs(10);

/// A job of a runner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TaskId(usize);

struct Task {
    node: NodeId,
    job: u64,
    /// Its progress, in its own units.
    done: u64,
    state: TaskState,
    /// Whether it ends by itself when others are stopped.
    spared: bool,
}

enum TaskState {
    Running,
    Ended(Value),
    /// Its result was taken, or it failed.
    Gone,
}

impl Task {
    fn runs(&self) -> bool {
        matches!(self.state, TaskState::Running)
    }
}

/// A hosted rack and the command's jobs and flows on it, all of which end when this is dropped.
pub struct JobRunner {
    rack: HostedRack,
    names: Vec<String>,
    /// The status of the rack at the start.
    found: RackStatus,
    flows: Vec<(HostedFlow, &'static str)>,
    /// How often another switch process has restored the flows.
    takeovers: u32,
    tasks: Vec<Task>,
    interrupt: Interrupt,
    stopped: bool,
    /// The deadline of the jobs, and the duration that it was set to.
    limit: Option<(Instant, Duration)>,
    /// Whether a job has exceeded the limit.
    hangs: bool,
    /// Whether to wait for a new switch process if this one is lost.
    holds_on: bool,
}

impl JobRunner {
    /// Connects to the rack of `config` and waits for its nodes.
    ///
    /// # Errors
    /// If no switch answers, or nodes are missing.
    pub fn gather(config: &RackConfig, globals: &Globals) -> Result<Self, CliError> {
        let mut rack = HostedRack::connect(config)?;
        let found = rack.wait_for_nodes(JOIN_LIMIT)?;
        Ok(Self {
            rack,
            names: config.node.iter().map(|node| node.name.clone()).collect(),
            found,
            flows: Vec::new(),
            takeovers: 0,
            tasks: Vec::new(),
            interrupt: globals.interrupt.clone(),
            stopped: false,
            limit: None,
            hangs: false,
            holds_on: true,
        })
    }

    /// Sets a limit, from now on, beyond which running jobs are an error.
    pub fn set_limit(&mut self, limit: Duration) {
        self.limit = Some((Instant::now() + limit, limit));
        self.hangs = false;
    }

    /// Whether a job has exceeded the limit.
    pub fn hangs(&self) -> bool {
        self.hangs
    }

    /// Makes the loss of the switch process an error, instead of waiting for a new one.
    pub fn give_up_early(&mut self) {
        self.holds_on = false;
    }

    /// The current status of the rack.
    ///
    /// # Errors
    /// If the switch process is gone.
    pub fn status(&mut self) -> Result<RackStatus, CliError> {
        self.rack.status().map_err(|error| lost(&error))
    }

    /// How often another switch process has restored the flows.
    pub fn takeovers(&self) -> u32 {
        self.takeovers
    }

    /// Handles the loss of the switch process: waits for a new one, which restores the flows.
    fn survive(&mut self, error: &HostedError) -> Result<(), CliError> {
        if !self.holds_on || self.interrupt.is_set() {
            return Err(lost(error));
        }
        match self.rack.reconnect(RESTART_LIMIT) {
            Ok(()) => {
                self.takeovers += 1;
                self.found = self.status()?;
                Ok(())
            }
            Err(next) => Err(CliError::run(format!("{}; then: {next}", lost(error)))),
        }
    }

    /// Starts a job.
    ///
    /// # Errors
    /// If its node is gone.
    pub fn start(
        &mut self,
        node: NodeId,
        name: &str,
        arguments: &impl Serialize,
    ) -> Result<TaskId, CliError> {
        let arguments = serde_json::to_value(arguments).map_err(CliError::run)?;
        match self.rack.start_job(node, name, arguments) {
            Ok(job) => {
                self.tasks.push(Task {
                    node,
                    job,
                    done: 0,
                    state: TaskState::Running,
                    spared: false,
                });
                Ok(TaskId(self.tasks.len() - 1))
            }
            Err(error) => Err(self.explain(&format!("{name} cannot start: {error}"))),
        }
    }

    /// Waits until all jobs of `awaited` have ended; meanwhile no job of the runner may fail.
    /// `watch` is called periodically. If the user wants to stop, all jobs are stopped that are not
    /// spared.
    ///
    /// # Errors
    /// The cause: a job failed, a node died, a flow was aborted, the switch is gone, the limit is
    /// exceeded. A failed job is not waited for again.
    pub fn wait(
        &mut self,
        awaited: &[TaskId],
        mut watch: impl FnMut(&Self),
    ) -> Result<(), CliError> {
        let mut span = LOOK_MIN;
        loop {
            self.look()?;
            let tasks = awaited.iter().map(|task| &self.tasks[task.0]);
            let Some(task) = tasks.rev().find(|task| task.runs()) else {
                return Ok(());
            };
            if let Some((_, limit)) = self.limit.filter(|&(end, _)| Instant::now() >= end) {
                self.hangs = true;
                let (limit, name) = (limit.as_secs(), &self.names[usize::from(task.node.0)]);
                return Err(CliError::run(format!(
                    "not over after {limit} s: waits for {name}, which has {} items",
                    task.done
                )));
            }
            watch(self);
            if self.interrupt.is_set() && !self.stopped {
                self.stopped = true;
                self.stop_all();
            }
            std::thread::sleep(span);
            span = (span * 2).min(LOOK_MAX);
        }
    }

    /// Takes the result of a job, if it has ended and did not fail.
    ///
    /// # Errors
    /// If the result is malformed.
    pub fn take<T: DeserializeOwned>(&mut self, task: TaskId) -> Result<Option<T>, CliError> {
        let task = &mut self.tasks[task.0];
        let TaskState::Ended(found) = &mut task.state else {
            return Ok(None);
        };
        let found = serde_json::from_value(found.take());
        task.state = TaskState::Gone;
        found.map(Some).map_err(|error| {
            let name = &self.names[usize::from(task.node.0)];
            CliError::run(format!(
                "what {name} found makes no sense here ({error}); run the same release everywhere"
            ))
        })
    }

    /// Excludes jobs from being stopped when the user wants to stop: they end with others.
    pub fn spare(&mut self, tasks: &[TaskId]) {
        for task in tasks {
            self.tasks[task.0].spared = true;
        }
    }

    fn stop_all(&mut self) {
        for at in 0..self.tasks.len() {
            if !self.tasks[at].spared {
                self.stop(TaskId(at));
            }
        }
    }

    /// Requests a job to stop.
    pub fn stop(&mut self, task: TaskId) {
        let task = &self.tasks[task.0];
        if task.runs() {
            // A node that is gone has stopped.
            let _ = self.rack.stop_job(task.node, task.job);
        }
    }

    fn look(&mut self) -> Result<(), CliError> {
        for at in 0..self.tasks.len() {
            let task = &mut self.tasks[at];
            if !task.runs() {
                continue;
            }
            let name = self.names[usize::from(task.node.0)].as_str();
            let failed = match self.rack.poll_job(task.node, task.job) {
                Ok(JobStatus::Running { done }) => {
                    task.done = done;
                    continue;
                }
                Ok(JobStatus::Done { result }) => {
                    task.state = TaskState::Ended(result);
                    continue;
                }
                Ok(JobStatus::Failed { error }) => format!("{name}: {error}"),
                Ok(JobStatus::Unknown) => format!("{name} has joined anew and lost its work"),
                Err(error @ HostedError::Control(_)) => match self.survive(&error) {
                    Ok(()) => continue,
                    Err(error) => {
                        self.tasks[at].state = TaskState::Gone;
                        return Err(error);
                    }
                },
                Err(error) => error.to_string(),
            };
            self.tasks[at].state = TaskState::Gone;
            return Err(self.explain(&failed));
        }
        Ok(())
    }

    /// One line about `problem`, with what the controller knows about its cause.
    fn explain(&mut self, problem: &str) -> CliError {
        let now = match self.rack.status() {
            Ok(status) => status,
            Err(error) => return lost(&error),
        };
        let changed = self.found.nodes.iter().zip(&now.nodes);
        let changed =
            changed.filter(|(then, now)| then.joined && (!now.joined || now.joins != then.joins));
        let gone: Vec<&str> = changed.map(|(then, _)| then.name.as_str()).collect();
        let mut text = match gone.as_slice() {
            [] => problem.to_owned(),
            gone => format!("{} left the rack: {problem}", gone.join(" and ")),
        };
        if let Some(broken) = self.broken() {
            text = format!("{text} ({broken})");
        }
        CliError::run(text)
    }
}

/// The error if the switch process no longer answers.
fn lost(error: &HostedError) -> CliError {
    CliError::run(format!("the switch process has left the rack: {error}"))
}
