//! Keeps the processes of a hosted rack running: one that ends is restarted with growing delay; one
//! that is refused repeatedly ends all.

use super::child::Said;
use super::etcd;
use super::event::{Event, Speaker, What};
use super::processes::Processes;
use crate::outcome::CliError;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Minimum and maximum delay before a process is restarted.
const BACK_OFF_MIN: Duration = Duration::from_millis(200);
const BACK_OFF_MAX: Duration = Duration::from_secs(5);

/// A process that has run for this long is restarted with the minimum delay.
const SETTLED: Duration = Duration::from_secs(3);

/// Exit status of a process that cannot do what is requested, and its maximum number in a row.
const REFUSED: i32 = 2;
const REFUSALS_MAX: u32 = 3;

/// How long the start of nodes is delayed while the switch is not ready.
const SWITCH_LIMIT: Duration = Duration::from_secs(5);

/// How often the children are checked.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// How the rack ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// As requested.
    Stopped,
    /// A process ended, and restarts are off.
    Died,
}

/// A process that should run.
struct Child {
    /// When to start it, if it is not running.
    due: Instant,
    back_off: Duration,
    refusals: u32,
    /// The last line that it wrote to standard error.
    error: Option<String>,
}

/// The processes of a rack.
pub struct Supervisor {
    processes: Processes,
    /// By the numbers of the processes.
    places: Vec<Child>,
    speaker: Speaker,
    restart: bool,
    /// The text to report when all nodes have joined.
    usage: String,
    joined: BTreeSet<String>,
    ready_reported: bool,
    listens: bool,
}

impl Supervisor {
    /// A supervisor of these processes, of which none has been started yet.
    pub fn new(processes: Processes, restart: bool, usage: String, speaker: Speaker) -> Self {
        let now = Instant::now();
        let place = |at| Child {
            due: match processes.nodes().contains(&at) {
                true => now + SWITCH_LIMIT,
                false => now,
            },
            back_off: BACK_OFF_MIN,
            refusals: 0,
            error: None,
        };
        Self {
            places: processes.all().map(place).collect(),
            processes,
            speaker,
            restart,
            usage,
            joined: BTreeSet::new(),
            ready_reported: false,
            listens: false,
        }
    }

    /// Keeps them running until `stop`, then ends them.
    ///
    /// # Errors
    /// If a process is refused repeatedly: its error.
    pub fn run(&mut self, stop: &AtomicBool) -> Result<End, CliError> {
        let result = self.keep(stop);
        self.end()?;
        result
    }

    fn keep(&mut self, stop: &AtomicBool) -> Result<End, CliError> {
        while !stop.load(Ordering::Relaxed) {
            self.hear(LOOK_EVERY);
            for at in 0..self.places.len() {
                if self.start_if_due(at)? {
                    continue;
                }
                if self.bury(at)? && !self.restart {
                    return Ok(End::Died);
                }
            }
        }
        Ok(End::Stopped)
    }

    /// Starts a process if it is due. False if one runs.
    fn start_if_due(&mut self, at: usize) -> Result<bool, CliError> {
        if self.processes.child(at).is_some() {
            return Ok(false);
        }
        if Instant::now() >= self.places[at].due {
            let pid = self.processes.start(at)?;
            let child = self.processes.name(at).to_owned();
            self.speaker.say(What::Started { child, pid });
        }
        Ok(true)
    }

    /// Checks whether a process has ended, and schedules its restart. True if it has ended.
    fn bury(&mut self, at: usize) -> Result<bool, CliError> {
        let Some((status, age)) = self.processes.take_ended(at)? else {
            return Ok(false);
        };
        // Its last lines may still be in the pipe.
        self.hear(LOOK_EVERY);
        let place = &mut self.places[at];
        let (name, error) = (self.processes.name(at).to_owned(), place.error.take());
        self.joined.remove(&name);
        self.speaker.say(What::Died {
            child: name.clone(),
            status: status.to_string(),
            error: error.clone(),
        });
        place.refusals = if status.code() == Some(REFUSED) {
            place.refusals + 1
        } else {
            0
        };
        if place.refusals >= REFUSALS_MAX || (!self.restart && place.refusals > 0) {
            let text = error.unwrap_or_else(|| status.to_string());
            return Err(CliError::run(format!("{name}: {text}")));
        }
        if age >= SETTLED {
            place.back_off = BACK_OFF_MIN;
        }
        place.due = Instant::now() + place.back_off;
        if self.restart {
            self.speaker.say(What::StartsAgain {
                child: name,
                after_s: place.back_off.as_secs_f64(),
            });
        }
        place.back_off = (place.back_off * 2).min(BACK_OFF_MAX);
        Ok(true)
    }

    /// Forwards the output of the children, for this long.
    fn hear(&mut self, limit: Duration) {
        for (name, said) in self.processes.hear(limit) {
            match said {
                Said::Event(event) => self.note(&event),
                Said::Error(line) => {
                    self.speaker.pass_error(&name, &line);
                    let line = line.strip_prefix("error: ").unwrap_or(&line).to_owned();
                    let mut all = self.processes.all();
                    if let Some(at) = all.find(|&at| self.processes.name(at) == name) {
                        self.places[at].error = Some(line);
                    }
                }
            }
        }
    }

    fn note(&mut self, event: &Event) {
        self.speaker.pass(event);
        match &event.what {
            What::Listening { .. } => {
                // No node has joined this switch yet.
                self.joined.clear();
                if !std::mem::replace(&mut self.listens, true) {
                    let now = Instant::now();
                    self.places.iter_mut().for_each(|place| place.due = now);
                }
            }
            What::NodeJoined { node, .. } => {
                self.joined.insert(node.clone());
                let mut nodes = self.processes.nodes();
                let all = nodes.all(|at| self.joined.contains(self.processes.name(at)));
                if all && !std::mem::replace(&mut self.ready_reported, true) {
                    let nodes = self.processes.nodes().len();
                    let usage = self.usage.clone();
                    self.speaker.say(What::Ready { nodes, usage });
                }
            }
            What::NodeLeft { node, .. } => {
                self.joined.remove(node);
            }
            _ => {}
        }
    }

    /// Ends all processes: nodes first, so that they can leave in good order, then the switch and
    /// its standby, then what they use.
    fn end(&mut self) -> Result<(), CliError> {
        self.speaker.say(What::Ending);
        let nodes = self.processes.nodes();
        let others = self.processes.all().filter(|at| !nodes.contains(at));
        let is_server = |&at: &usize| self.processes.name(at) == etcd::NAME;
        let (servers, switches): (Vec<_>, Vec<_>) = others.partition(is_server);
        for group in [nodes.collect(), switches, servers] {
            let ends = self.processes.end(group)?;
            self.hear(LOOK_EVERY);
            for (child, ended) in ends {
                if ended.is_none() {
                    self.speaker.say(What::Killed { child });
                }
            }
        }
        Ok(())
    }
}
