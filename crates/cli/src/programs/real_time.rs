//! The loop of one thread in real time: it takes the turns of its programs in rounds, and drives
//! the rack while nothing progresses.

use super::{Port, Program, RoundClock, Turn};
use crate::outcome::CliError;
use crate::patience::Patience;
use rackweave_rack::Node;
use rackweave_verbs::Progress;

/// Nothing progressed, and nothing will before something arrives.
const WAITS: Turn = Turn::Waits { moved: false };

/// Rounds between two progress reports.
const ROUNDS: u32 = 256;

struct Slot<P> {
    node: Node,
    program: P,
    has_ended: bool,
}

/// The programs of one thread.
pub struct RealTime<'a, P> {
    slots: Vec<Slot<P>>,
    clock: RoundClock,
    patience: Patience<'a>,
    is_alone: bool,
    rounds: u32,
    /// Running programs, without those that serve others.
    running: usize,
}

impl<'a, P: Program> RealTime<'a, P> {
    /// A loop without programs. If the thread has all programs of a rack, it drives the rack in
    /// every round; otherwise only when nothing else is to be done at once, because arrived data
    /// may fill all available space.
    pub fn new(driver: &'a dyn Progress, is_alone: bool) -> Self {
        Self {
            slots: Vec::new(),
            clock: RoundClock::start(),
            patience: Patience::new(driver),
            is_alone,
            rounds: 0,
            running: 0,
        }
    }

    /// Adds a program on a node of a rack in this process.
    pub fn add(&mut self, node: Node, program: P) {
        self.running += usize::from(!program.is_server());
        self.slots.push(Slot {
            node,
            program,
            has_ended: false,
        });
    }

    /// Nanoseconds since the start, as read in this round.
    pub fn now(&self) -> u64 {
        self.clock.now()
    }

    /// Takes a turn of each program; returns the combined result.
    ///
    /// # Errors
    /// Those of the programs.
    pub fn round(&mut self) -> Result<Turn, CliError> {
        self.clock.next_round();
        let (mut has_more, mut moved) = (false, false);
        for slot in &mut self.slots {
            if slot.has_ended {
                continue;
            }
            match slot.turn(&self.clock)? {
                Turn::Moved | Turn::Worked(_) => has_more = true,
                Turn::Waits { moved: its } => moved |= its,
                Turn::Sleeps(_) => {}
                Turn::Ended => {
                    slot.has_ended = slot.program.is_settled();
                    self.running -= usize::from(slot.has_ended);
                }
            }
        }
        Ok(match has_more {
            true => Turn::Moved,
            false => Turn::Waits { moved },
        })
    }

    /// Whether all programs that do not serve others have ended.
    pub fn is_over(&self) -> bool {
        self.running == 0
    }

    /// Drives the rack after such a round, and rests if nothing progressed.
    pub fn rest(&mut self, round: Turn) {
        match round {
            Turn::Moved if !self.is_alone => self.patience.reset(),
            round => self.patience.wait(round != WAITS),
        }
    }

    /// True in one of many rounds, for work that takes time.
    pub fn is_due(&mut self) -> bool {
        self.rounds = self.rounds.wrapping_add(1);
        self.rounds.is_multiple_of(ROUNDS)
    }

    pub fn programs_mut(&mut self) -> impl Iterator<Item = &mut P> {
        self.slots.iter_mut().map(|slot| &mut slot.program)
    }

    /// The programs, in the order in which they were added.
    pub fn into_programs(self) -> Vec<P> {
        self.slots.into_iter().map(|slot| slot.program).collect()
    }

    /// Makes programs that serve others take what is left.
    ///
    /// # Errors
    /// Those of the programs.
    pub fn drain(&mut self) -> Result<(), CliError> {
        let servers = self.slots.iter_mut();
        for slot in servers.filter(|slot| slot.program.is_server()) {
            while slot.turn(&self.clock)? == (Turn::Waits { moved: true }) {}
        }
        Ok(())
    }
}

impl<P: Program> Slot<P> {
    fn turn(&mut self, clock: &RoundClock) -> Result<Turn, CliError> {
        self.program.turn(&mut Port::Node(&self.node, clock))
    }
}
