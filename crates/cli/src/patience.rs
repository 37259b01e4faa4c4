//! Waiting at the ends of a rack: a thread drives the rack, and rests without progress.

use rackweave_verbs::Progress;

/// The state of a waiting thread.
pub struct Patience<'a> {
    driver: &'a dyn Progress,
    idle_rounds: u32,
}

/// A request to the runner of a loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wish {
    /// Continue.
    GoOn,
    /// Begin nothing new, and complete pending operations.
    Finish,
    /// Stop at once.
    Stop,
}

impl<'a> Patience<'a> {
    /// A thread that has not waited yet.
    pub fn new(driver: &'a dyn Progress) -> Self {
        Self {
            driver,
            idle_rounds: 0,
        }
    }

    /// Drives the rack, and rests if neither the rack nor, as `moved` says, the caller progressed.
    pub fn wait(&mut self, moved: bool) {
        // The rack is driven in any case.
        if self.driver.drive() | moved {
            self.idle_rounds = 0;
        } else {
            self.driver.relax(self.idle_rounds);
            self.idle_rounds = self.idle_rounds.saturating_add(1);
        }
    }

    /// Resets the idle state, because the caller progressed.
    pub fn reset(&mut self) {
        self.idle_rounds = 0;
    }
}
