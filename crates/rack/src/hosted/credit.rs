//! When a waiting thread stays awake, and how long it sleeps.
//!
//! Moving data earns credit: idle rounds to spend awake. Where much has moved, more is likely to
//! come soon; an occasional poll of an idle ring is no reason to stay awake.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration as Time;

/// Minimum and maximum idle sleep; work may arrive without a visible timer.
const NAP_MIN: Time = Time::from_micros(50);
const NAP_MAX: Time = Time::from_millis(2);

/// Naps of one length before the length increases.
const NAPS: u32 = 16;

/// Maximum credit, in idle rounds: about a millisecond.
const CREDIT_MAX: u32 = 2048;

/// Credit below this is not worth staying awake for.
const CREDIT_MIN: u32 = 16;

/// Rounds that a waiting thread always spends awake: a peer that answers at once takes some
/// microseconds. With fewer rounds, two threads that answer each other sleep in turn indefinitely.
const ROUNDS_AWAKE: u32 = 192;

/// Credit shared by all waiting threads.
#[derive(Default)]
pub(super) struct Credit {
    rounds: AtomicU32,
    /// Whether each idle round lets other threads run first.
    yields: AtomicBool,
}

impl Credit {
    /// Records that something has moved.
    pub fn earn(&self, moved: u32) {
        let before = self.rounds.load(Ordering::Relaxed);
        let credit = before.saturating_add(moved).min(CREDIT_MAX);
        self.rounds.store(credit, Ordering::Relaxed);
    }

    /// Spends a round of credit awake. Returns false if there is none.
    pub fn stay_awake(&self) -> bool {
        let credit = self.rounds.load(Ordering::Relaxed);
        if credit < CREDIT_MIN {
            self.rounds.store(0, Ordering::Relaxed);
            return false;
        }
        self.rounds.store(credit - 1, Ordering::Relaxed);
        // Another thread may have to take the next step.
        self.pass_round(credit.is_multiple_of(8));
        true
    }

    /// Has each idle round let other threads run first, where a round costs much: with as many
    /// threads that wait as there are cores, nobody else would be able to give them what they wait
    /// for.
    pub fn set_yields(&self, yields: bool) {
        self.yields.store(yields, Ordering::Relaxed);
    }

    fn pass_round(&self, yields: bool) {
        match yields || self.yields.load(Ordering::Relaxed) {
            true => std::thread::yield_now(),
            false => core::hint::spin_loop(),
        }
    }

    /// Called by a waiting thread after `idle_rounds` idle rounds: spends this round awake, or
    /// returns the maximum time to sleep.
    pub fn relax(&self, idle_rounds: u32) -> Option<Time> {
        if idle_rounds < ROUNDS_AWAKE {
            self.pass_round(false);
            return None;
        }
        if self.stay_awake() {
            return None;
        }
        let naps = (idle_rounds - ROUNDS_AWAKE) / NAPS;
        Some(NAP_MIN.saturating_mul(1 << naps.min(6)).min(NAP_MAX))
    }
}
