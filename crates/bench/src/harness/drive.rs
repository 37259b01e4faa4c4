//! A simulated rack whose programs may fail, and the one loop that runs it, in slices between which
//! the user may stop it.

use super::{ExperimentError, Result, Run};
use core::cell::RefCell;
use core::ops::{Deref, DerefMut};
use rackweave_base::{Duration, Instant, NodeId};
use rackweave_controller::FlowSpec;
use rackweave_rack::config::{NodeConfig, Role};
use rackweave_rack::{Rack, RackConfig, RunEnd, SimulatedRack};
use rackweave_sim::world::{Actor, Context, Step, WorldConfig};
use std::rc::Rc;

/// Virtual time between two checks whether the user wants to stop.
const SLICE: Duration = Duration::from_micros(200);

/// The error for something that should not fail.
pub fn failed(what: &str, error: impl core::fmt::Display) -> ExperimentError {
    ExperimentError::Run(format!("{what}: {error}"))
}

/// Results that should not be errors.
pub trait OrFailed<T> {
    /// The value; or an error that says what failed.
    fn or_failed(self, what: &str) -> Result<T>;
}

impl<T, E: core::fmt::Display> OrFailed<T> for Result<T, E> {
    fn or_failed(self, what: &str) -> Result<T> {
        self.map_err(|error| failed(what, error))
    }
}

/// What a program or a baseline's machine found wrong.
pub type Failure = String;

/// What comes after a program's step; or what is wrong: the program ends, and so does the run.
pub type Turn = Result<Step, Failure>;

/// A program of a simulated core: a value with its state, or a closure that has captured it.
pub trait Program {
    /// Executes one step.
    fn turn(&mut self, context: &mut Context<'_>) -> Turn;
}

impl<F: FnMut(&mut Context<'_>) -> Turn> Program for F {
    fn turn(&mut self, context: &mut Context<'_>) -> Turn {
        self(context)
    }
}

/// When a run is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Until {
    /// At this time; it is an error if all programs end earlier.
    Time(Instant),
    /// At this time, or when all programs have ended.
    TimeOrDone(Instant),
    /// When all programs have ended, within this time.
    Done(Duration),
}

/// A simulated rack, and the first failure of its programs.
pub struct Testbed {
    rack: SimulatedRack,
    failure: Rc<RefCell<Option<Failure>>>,
}

struct ProgramActor<P> {
    program: P,
    failure: Rc<RefCell<Option<Failure>>>,
}

impl<P: Program> Actor for ProgramActor<P> {
    fn step(&mut self, context: &mut Context<'_>) -> Step {
        self.program.turn(context).unwrap_or_else(|failure| {
            self.failure.borrow_mut().get_or_insert(failure);
            Step::Done
        })
    }
}

impl Deref for Testbed {
    type Target = SimulatedRack;

    fn deref(&self) -> &SimulatedRack {
        &self.rack
    }
}

impl DerefMut for Testbed {
    fn deref_mut(&mut self) -> &mut SimulatedRack {
        &mut self.rack
    }
}

/// The configurations of `count` nodes: `name`0, `name`1, and so on.
pub fn nodes(name: &str, role: Role, count: usize) -> impl Iterator<Item = NodeConfig> {
    (0..count).map(move |at| NodeConfig::new(format!("{name}{at}"), role))
}

/// The settings of a flow between some nodes, of items and rings of this many bytes.
pub fn flow_spec(
    rack: &Rack,
    [producers, consumers]: [&[NodeId]; 2],
    item_bytes: u32,
    ring_bytes: u32,
) -> Result<FlowSpec> {
    let flow = rack.flow(producers, consumers).item_bytes(item_bytes);
    Ok(flow.ring_bytes(ring_bytes).spec()?)
}

impl Testbed {
    pub fn new(config: &RackConfig) -> Result<Self> {
        Self::with_models(config, |_| {})
    }

    /// The same with other models of hardware, which `change` sets.
    pub fn with_models(config: &RackConfig, change: impl FnOnce(&mut WorldConfig)) -> Result<Self> {
        Ok(Self {
            rack: SimulatedRack::with_models(config, change)?,
            failure: Rc::default(),
        })
    }

    fn actor(&self, program: impl Program + 'static) -> Box<dyn Actor> {
        let failure = self.failure.clone();
        Box::new(ProgramActor { program, failure })
    }

    pub fn spawn(&mut self, node: NodeId, program: impl Program + 'static) {
        let actor = self.actor(program);
        self.rack.spawn(node, actor);
    }

    /// The same for a program that serves others and never ends by itself.
    pub fn spawn_server(&mut self, node: NodeId, program: impl Program + 'static) {
        let actor = self.actor(program);
        self.rack.spawn_server(node, actor);
    }

    /// The first failure of a program.
    pub fn failure(&self) -> Option<Failure> {
        self.failure.borrow().clone()
    }

    /// Runs and ignores control events. Returns `Done` if all programs have ended, or `Deadline`.
    ///
    /// # Errors
    /// If a program failed, nothing happens any more, or the user wishes to stop.
    pub fn drive(&mut self, run: &mut Run<'_>, until: Until) -> Result<RunEnd> {
        loop {
            match self.drive_to_control(run, until)? {
                RunEnd::Control(_) => {}
                end => return Ok(end),
            }
        }
    }

    /// The same up to the next control event, which is returned.
    pub fn drive_to_control(&mut self, run: &mut Run<'_>, until: Until) -> Result<RunEnd> {
        let start = self.now();
        let (end, is_limit) = match until {
            Until::Time(end) | Until::TimeOrDone(end) => (end, false),
            Until::Done(most) => (start + most, true),
        };
        loop {
            let now = self.now();
            let share = match is_limit {
                true => 0.0,
                false => now.since(start).as_secs_f64() / end.since(start).as_secs_f64().max(1e-9),
            };
            run.at(share)?;
            if now >= end {
                return match is_limit {
                    true => Err(stuck("it takes too long", now)),
                    false => Ok(RunEnd::Deadline),
                };
            }
            let ended = self.run(end.min(now + SLICE));
            if let Some(failure) = self.failure() {
                return Err(ExperimentError::Run(failure));
            }
            match (ended, until) {
                (RunEnd::Deadline, _) => {}
                (RunEnd::Control(_), _) => return Ok(ended),
                (RunEnd::Stalled, _) => return Err(stuck("nothing moves any more", self.now())),
                (RunEnd::Done, Until::Time(_)) => {
                    return Err(stuck("all programs have ended early", self.now()));
                }
                (RunEnd::Done, _) => return Ok(ended),
            }
        }
    }
}

fn stuck(what: &str, now: Instant) -> ExperimentError {
    ExperimentError::Run(format!("{what} at {now:?}"))
}
