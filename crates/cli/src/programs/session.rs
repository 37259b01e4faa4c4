//! Programs on a rack of any kind, on this thread. In real time it takes their turns in rounds, and
//! drives the rack while nothing progresses.

use super::{Group, OwnRack, Port, Program, RealRack, RoundClock, Turn, WAITS};
use crate::outcome::CliError;
use crate::programs::{Patience, Wish};
use core::cell::RefCell;
use rackweave_base::{Duration, Instant, NodeId};
use rackweave_rack::{Node, Rack, RunEnd, SimulatedRack};
use rackweave_sim::world::{Actor, Context, Step};
use rackweave_verbs::Progress;
use std::collections::VecDeque;
use std::rc::Rc;

/// Rounds in real time between two progress reports.
const ROUNDS: u32 = 256;

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

/// A program and its node.
struct Slot<P> {
    node: NodeId,
    /// Taken out at the end of the session.
    program: Option<P>,
    is_server: bool,
    /// Whether it has ended, or never ends by itself.
    has_ended: bool,
}

type Slots<P> = Vec<Rc<RefCell<Slot<P>>>>;

/// A program in virtual time.
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

enum Kind<'r> {
    Real {
        rack: &'r RealRack,
        /// Those of the programs, in their order.
        nodes: Vec<Node>,
        clock: RoundClock,
        patience: Patience<'r>,
        /// Whether the thread has all programs of the rack. Then it drives the rack in every round;
        /// otherwise only when nothing else is to be done at once, because arrived data may fill
        /// all available space.
        is_alone: bool,
        rounds: u32,
    },
    Virtual {
        rack: &'r mut SimulatedRack,
        failure: Rc<RefCell<Option<CliError>>>,
    },
}

impl<'r> Kind<'r> {
    fn real(rack: &'r RealRack, driver: &'r dyn Progress, is_alone: bool) -> Self {
        Self::Real {
            rack,
            nodes: Vec::new(),
            clock: RoundClock::start(),
            patience: Patience::new(driver),
            is_alone,
            rounds: 0,
        }
    }
}

/// Programs on a rack, on this thread.
pub struct Session<'r, P> {
    kind: Kind<'r>,
    slots: Slots<P>,
    slice: Duration,
    /// Whether it has no programs but servers, and so ends only on a wish.
    only_serves: bool,
    /// Times of alarms in real time, in nanoseconds since the start.
    alarms: VecDeque<u64>,
}

impl<'r, P: Program + 'static> Session<'r, P> {
    fn of(kind: Kind<'r>, slice: Duration) -> Self {
        Self {
            kind,
            slots: Vec::new(),
            slice,
            only_serves: false,
            alarms: VecDeque::new(),
        }
    }

    /// A session without programs. An advance is `slice` of virtual time if simulated, otherwise a
    /// round.
    pub fn new(rack: &'r mut OwnRack, slice: Duration) -> Self {
        let kind = match rack {
            OwnRack::Real(rack) => Kind::real(rack, rack.driver(), true),
            OwnRack::Simulated(rack) => Kind::Virtual {
                rack,
                failure: Rc::default(),
            },
        };
        Self::of(kind, slice)
    }

    /// The programs of one of several threads of a rack.
    pub fn on_thread(rack: &'r RealRack, driver: &'r dyn Progress, group: Group<P>) -> Self {
        let mut session = Self::of(Kind::real(rack, driver, false), Duration::ZERO);
        session.only_serves = group.iter().all(|(_, program)| program.is_server());
        for (node, program) in group {
            session.add(node, program);
        }
        session
    }

    pub fn rack(&self) -> &Rack {
        match &self.kind {
            Kind::Real { rack, .. } => rack,
            Kind::Virtual { rack, .. } => rack,
        }
    }

    /// Whether time is virtual.
    pub fn is_simulated(&self) -> bool {
        matches!(self.kind, Kind::Virtual { .. })
    }

    /// Nanoseconds since the start; in real time as read in this round.
    pub fn now(&self) -> u64 {
        match &self.kind {
            Kind::Real { clock, .. } => clock.now(),
            Kind::Virtual { rack, .. } => rack.now().as_nanos(),
        }
    }

    pub fn add(&mut self, node: NodeId, program: P) {
        let is_server = program.is_server();
        let slot = Rc::new(RefCell::new(Slot {
            node,
            program: Some(program),
            is_server,
            has_ended: is_server,
        }));
        self.slots.push(slot.clone());
        match &mut self.kind {
            Kind::Real { rack, nodes, .. } => nodes.push(rack.node_at(node)),
            Kind::Virtual { rack, failure } => {
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
        let have_ended = self.slots.iter().all(|slot| slot.borrow().has_ended);
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
            Kind::Real { nodes, clock, .. } => {
                clock.next_round();
                let round = round(&self.slots, nodes, clock)?;
                if self.alarms.front().is_some_and(|&at| at <= clock.now()) {
                    self.alarms.pop_front();
                    return Ok(Advance::Alarm);
                }
                if !self.is_over() {
                    self.rest(round);
                }
                let is_due = self.is_due();
                Ok(Advance::Went { is_due })
            }
            Kind::Virtual { rack, failure } => {
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

    /// Drives the rack after such a round, and rests if nothing progressed; in virtual time, passes
    /// a slice of it.
    fn rest(&mut self, round: Turn) {
        match &mut self.kind {
            Kind::Real {
                patience, is_alone, ..
            } => match round {
                Turn::Moved if !*is_alone => patience.reset(),
                round => patience.wait(round != WAITS),
            },
            Kind::Virtual { rack, .. } => {
                rack.run(rack.now() + self.slice);
            }
        }
    }

    /// True in one of many rounds, for work that takes time.
    fn is_due(&mut self) -> bool {
        let Kind::Real { rounds, .. } = &mut self.kind else {
            return true;
        };
        *rounds = rounds.wrapping_add(1);
        rounds.is_multiple_of(ROUNDS)
    }

    /// As `advance`, whether or not programs have ended: passes time for the rack only.
    pub fn pass(&mut self) {
        self.rest(WAITS);
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

    fn each(&self, mut act: impl FnMut(&mut P)) {
        for slot in &self.slots {
            slot.borrow_mut().program.iter_mut().for_each(&mut act);
        }
    }

    /// Runs all programs to their ends, or as wished. `progress` is called periodically with the
    /// progress of the programs, and the time; `idle_max` is as in [`Watch`](super::Watch).
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

    /// Makes programs that serve others take what is left. They need no clock for that.
    fn drain(&mut self) -> Result<(), CliError> {
        let clock = RoundClock::start();
        for slot in &self.slots {
            let mut slot = slot.borrow_mut();
            let node = self.rack().node_at(slot.node);
            let mut port = Port::Node(&node, &clock);
            let server = slot.program.as_mut().filter(|program| program.is_server());
            if let Some(server) = server {
                while server.turn(&mut port)? == (Turn::Waits { moved: true }) {}
            }
        }
        Ok(())
    }

    /// The programs, in the order in which they were added.
    pub fn into_programs(self) -> Vec<P> {
        let programs = self
            .slots
            .iter()
            .map(|slot| slot.borrow_mut().program.take());
        programs.flatten().collect()
    }
}

/// Takes a turn of each program in real time; returns the combined result.
fn round<P: Program>(
    slots: &Slots<P>,
    nodes: &[Node],
    clock: &RoundClock,
) -> Result<Turn, CliError> {
    let (mut has_more, mut moved) = (false, false);
    for (slot, node) in slots.iter().zip(nodes) {
        let slot = &mut *slot.borrow_mut();
        let Some(program) = &mut slot.program else {
            continue;
        };
        if slot.has_ended && !slot.is_server {
            continue;
        }
        match program.turn(&mut Port::Node(node, clock))? {
            Turn::Moved | Turn::Worked(_) => has_more = true,
            Turn::Waits { moved: its } => moved |= its,
            Turn::Sleeps(_) => {}
            Turn::Ended => slot.has_ended = program.is_settled(),
        }
    }
    Ok(match has_more {
        true => Turn::Moved,
        false => Turn::Waits { moved },
    })
}
