//! Waiting as those at the ends of a rack do: they drive it, and rest when nothing moves.

use rackweave_verbs::Progress;

/// One who waits.
pub struct Patience<'a> {
    driver: &'a dyn Progress,
    idle_rounds: u32,
}

/// What those who run a loop are wished to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wish {
    /// As before.
    GoOn,
    /// Begin nothing new, and bring what runs to its end.
    Finish,
    /// Leave everything as it is.
    Stop,
}

impl<'a> Patience<'a> {
    /// Nothing has been waited for yet.
    pub fn new(driver: &'a dyn Progress) -> Self {
        Self {
            driver,
            idle_rounds: 0,
        }
    }

    /// Drives the rack, and rests if nothing moved: neither there nor, as `moved` says, here.
    pub fn wait(&mut self, moved: bool) {
        // The rack is driven in any case.
        if self.driver.drive() | moved {
            self.idle_rounds = 0;
        } else {
            self.driver.relax(self.idle_rounds);
            self.idle_rounds = self.idle_rounds.saturating_add(1);
        }
    }

    /// Something was done here: the next to be waited for is new.
    pub fn reset(&mut self) {
        self.idle_rounds = 0;
    }
}
