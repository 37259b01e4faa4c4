//! Programs on a rack of any kind, on this thread.

use super::{Group, OwnRack, Port, Program, RealRack, RealTime, RoundClock, Turn};
use crate::globals::Globals;
use crate::outcome::CliError;
use crate::patience::Wish;
use core::cell::RefCell;
use rackweave_base::{Duration, Instant, NodeId};
use rackweave_rack::{Rack, RunEnd, SimulatedRack};
use rackweave_sim::world::{Actor, Context, Step};
use rackweave_verbs::Progress;
use std::collections::VecDeque;
use std::rc::Rc;

/// What a run does besides its programs.
pub struct Watch<'a> {
    /// Has the user's interrupt flag.
    pub globals: &'a Globals,
    /// What to do on an interrupt.
    pub if_interrupted: Wish,
    /// Virtual time between two checks of the programs.
    pub slice: Duration,
    /// Virtual time in which programs must make progress; without it they may wait for ever.
    pub idle_max: Option<Duration>,
    /// Called periodically with the progress of the programs, and the time.
    pub progress: &'a mut dyn FnMut(u64, u64),
}

impl<'a> Watch<'a> {
    /// A watch of programs that may wait for ever.
    pub fn new(
        globals: &'a Globals,
        if_interrupted: Wish,
        slice: Duration,
        progress: &'a mut dyn FnMut(u64, u64),
    ) -> Self {
        Self {
            globals,
            if_interrupted,
            slice,
            idle_max: None,
            progress,
        }
    }
}

/// The result of an advance.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Advance {
    /// The run continues; whether a progress report is due.
    Went { is_due: bool },
    /// The time of the next alarm has come.
    Alarm,
    /// All programs have ended, and there are no alarms.
    Over,
    /// Nothing will ever happen again.
    Stalled,
}

/// A program in virtual time.
struct Slot<P> {
    node: NodeId,
    /// Taken out at the end of the session.
    program: Option<P>,
    has_ended: bool,
}

struct ProgramActor<P> {
    slot: Rc<RefCell<Slot<P>>>,
    failure: Rc<RefCell<Option<CliError>>>,
}

impl<P: Program> Actor for ProgramActor<P> {
    fn step(&mut self, context: &mut Context<'_>) -> Step {
        let mut slot = self.slot.borrow_mut();
        let Some(program) = &mut slot.program else {
            return Step::Done;
        };
        loop {
            match program.turn(&mut Port::Actor(context)) {
                Ok(Turn::Moved) => {}
                Ok(Turn::Waits { .. }) => return Step::WaitForPacket,
                Ok(Turn::Worked(time)) => return Step::Compute(time),
                Ok(Turn::Sleeps(until)) => {
                    let nanos = until.saturating_sub(context.now().as_nanos());
                    return Step::Sleep(Duration::from_nanos(nanos.max(1)));
                }
                Ok(Turn::Ended) => break,
                Err(error) => {
                    self.failure.borrow_mut().get_or_insert(error);
                    break;
                }
            }
        }
        slot.has_ended = true;
        Step::Done
    }
}

enum Kind<'r, P> {
    Real(&'r RealRack, RealTime<'r, P>),
    Virtual {
        rack: &'r mut SimulatedRack,
        slots: Vec<Rc<RefCell<Slot<P>>>>,
        failure: Rc<RefCell<Option<CliError>>>,
    },
}

/// Programs on a rack, on this thread.
pub struct Session<'r, P> {
    kind: Kind<'r, P>,
    slice: Duration,
    /// Whether it has no programs but servers, and so ends only on a wish.
    only_serves: bool,
    /// Times of alarms in real time, in nanoseconds since the start.
    alarms: VecDeque<u64>,
}

impl<'r, P: Program + 'static> Session<'r, P> {
    /// A session without programs. An advance is `slice` of virtual time if simulated, otherwise a
    /// round.
    pub fn new(rack: &'r mut OwnRack, slice: Duration) -> Self {
        let kind = match rack {
            OwnRack::Real(rack) => Kind::Real(rack, RealTime::new(rack.driver(), true)),
            OwnRack::Simulated(rack) => Kind::Virtual {
                rack,
                slots: Vec::new(),
                failure: Rc::default(),
            },
        };
        Self {
            kind,
            slice,
            only_serves: false,
            alarms: VecDeque::new(),
        }
    }

    /// The programs of one of several threads of a rack.
    pub fn on_thread(rack: &'r RealRack, driver: &'r dyn Progress, group: Group<P>) -> Self {
        let mut session = Self {
            kind: Kind::Real(rack, RealTime::new(driver, false)),
            slice: Duration::ZERO,
            only_serves: group.iter().all(|(_, program)| program.is_server()),
            alarms: VecDeque::new(),
        };
        for (node, program) in group {
            session.add(node, program);
        }
        session
    }

    pub fn rack(&self) -> &Rack {
        match &self.kind {
            Kind::Real(rack, _) => rack,
            Kind::Virtual { rack, .. } => rack,
        }
    }

    /// Whether time is virtual.
    pub fn is_simulated(&self) -> bool {
        matches!(self.kind, Kind::Virtual { .. })
    }

    /// Nanoseconds since the start.
    pub fn now(&self) -> u64 {
        match &self.kind {
            Kind::Real(_, programs) => programs.now(),
            Kind::Virtual { rack, .. } => rack.now().as_nanos(),
        }
    }

    pub fn add(&mut self, node: NodeId, program: P) {
        match &mut self.kind {
            Kind::Real(rack, programs) => programs.add(rack.node_at(node), program),
            Kind::Virtual {
                rack,
                slots,
                failure,
            } => {
                let is_server = program.is_server();
                let slot = Rc::new(RefCell::new(Slot {
                    node,
                    program: Some(program),
                    has_ended: is_server,
                }));
                slots.push(slot.clone());
                let failure = failure.clone();
                let actor = Box::new(ProgramActor { slot, failure });
                match is_server {
                    true => rack.spawn_server(node, actor),
                    false => rack.spawn(node, actor),
                };
            }
        }
    }

    /// Makes [`Session::advance`] return at a time, in nanoseconds since the start. Alarms must be
    /// given in the order of their times.
    pub fn alarm(&mut self, at: u64) {
        if let Kind::Virtual { rack, .. } = &mut self.kind {
            rack.at(Instant::from_nanos(at), self.alarms.len() as u64);
        }
        self.alarms.push_back(at);
    }

    fn is_over(&self) -> bool {
        let have_ended = match &self.kind {
            Kind::Real(_, programs) => programs.is_over(),
            Kind::Virtual { slots, .. } => slots.iter().all(|slot| slot.borrow().has_ended),
        };
        have_ended && self.alarms.is_empty() && !self.only_serves
    }

    /// Advances by a round in real time, or a slice of virtual time.
    ///
    /// # Errors
    /// Those of the programs.
    pub fn advance(&mut self) -> Result<Advance, CliError> {
        if self.is_over() {
            return Ok(Advance::Over);
        }
        match &mut self.kind {
            Kind::Real(_, programs) => {
                let round = programs.round()?;
                if self.alarms.front().is_some_and(|&at| at <= programs.now()) {
                    self.alarms.pop_front();
                    return Ok(Advance::Alarm);
                }
                if !programs.is_over() || !self.alarms.is_empty() || self.only_serves {
                    programs.rest(round);
                }
                let is_due = programs.is_due();
                Ok(Advance::Went { is_due })
            }
            Kind::Virtual { rack, failure, .. } => {
                let end = rack.run(rack.now() + self.slice);
                if let Some(error) = failure.take() {
                    return Err(error);
                }
                if let RunEnd::Control(_) = end {
                    // Dropped alarms also fire.
                    let is_alarm = self.alarms.pop_front().is_some();
                    return Ok(match is_alarm {
                        true => Advance::Alarm,
                        false => Advance::Went { is_due: false },
                    });
                }
                match end == RunEnd::Stalled && !self.is_over() {
                    true => Ok(Advance::Stalled),
                    false => Ok(Advance::Went { is_due: true }),
                }
            }
        }
    }

    /// As `advance`, whether or not programs have ended: passes time for the rack only.
    pub fn pass(&mut self) {
        match &mut self.kind {
            Kind::Real(_, programs) => programs.rest(Turn::Waits { moved: false }),
            Kind::Virtual { rack, .. } => {
                rack.run(rack.now() + self.slice);
            }
        }
    }

    /// Drops the remaining alarms and makes all programs begin nothing new.
    pub fn finish(&mut self) {
        self.alarms.clear();
        self.each(Program::finish);
    }

    /// The total progress of all programs.
    pub fn done(&mut self) -> u64 {
        let mut done = 0;
        self.each(|program| done += program.done());
        done
    }

    fn each(&mut self, mut act: impl FnMut(&mut P)) {
        match &mut self.kind {
            Kind::Real(_, programs) => programs.programs_mut().for_each(act),
            Kind::Virtual { slots, .. } => {
                for slot in slots {
                    slot.borrow_mut().program.iter_mut().for_each(&mut act);
                }
            }
        }
    }

    /// Runs all programs to their ends, or as wished. `progress` is called periodically with the
    /// progress of the programs, and the time; `idle_max` is as in [`Watch`].
    ///
    /// # Errors
    /// Those of the programs, or if nothing progresses any more.
    pub fn run(
        &mut self,
        wish: impl Fn() -> Wish,
        idle_max: Option<Duration>,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<(), CliError> {
        let (mut most, mut since) = (0, self.now());
        loop {
            match self.advance()? {
                Advance::Over => break,
                Advance::Stalled => {
                    return Err(CliError::run(format!(
                        "nothing moves any more in the simulated rack; --seed {} replays it",
                        self.rack().config().seed
                    )));
                }
                Advance::Went { is_due: true } => {
                    let (done, now) = (self.done(), self.now());
                    progress(done, now);
                    if let Some(idle_max) = idle_max {
                        if done > most {
                            (most, since) = (done, now);
                        } else if now - since > idle_max.as_nanos() {
                            return Err(CliError::run(format!(
                                "nothing has moved for {idle_max} of virtual time"
                            )));
                        }
                    }
                }
                Advance::Went { is_due: false } | Advance::Alarm => {}
            }
            match wish() {
                Wish::GoOn => {}
                Wish::Finish => self.each(Program::finish),
                Wish::Stop => break,
            }
        }
        self.drain()
    }

    /// Makes programs that serve others take what is left.
    fn drain(&mut self) -> Result<(), CliError> {
        match &mut self.kind {
            Kind::Real(_, programs) => programs.drain(),
            Kind::Virtual { rack, slots, .. } => {
                let clock = RoundClock::start();
                for slot in slots {
                    let mut slot = slot.borrow_mut();
                    let node = rack.node_at(slot.node);
                    let server = slot.program.as_mut().filter(|it| it.is_server());
                    let Some(server) = server else { continue };
                    let mut port = Port::Node(&node, &clock);
                    while server.turn(&mut port)? == (Turn::Waits { moved: true }) {}
                }
                Ok(())
            }
        }
    }

    /// The programs, in the order in which they were added.
    pub fn into_programs(self) -> Vec<P> {
        match self.kind {
            Kind::Real(_, programs) => programs.into_programs(),
            Kind::Virtual { slots, .. } => {
                let programs = slots.iter().map(|slot| slot.borrow_mut().program.take());
                programs.flatten().collect()
            }
        }
    }
}
