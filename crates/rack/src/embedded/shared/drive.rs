//! Driving the machines of an embedded rack: which thread advances which machine, and how idle
//! threads wait.

use super::Shared;
use crate::awake::{LockedMachine, NEVER, span, try_lock};
use crate::linked::LinkedNode;
use core::sync::atomic::Ordering;
use rackweave_base::Instant;
use rackweave_verbs::Progress;
use std::thread::Thread;
use std::time::Duration as Time;

/// The work from which a node counts as busy in one burst: about so many KiB.
const MUCH: u32 = 64;

impl Shared {
    /// Wakes sleeping driver threads.
    pub fn kick(&self) {
        if self.sleeping.load(Ordering::SeqCst) > 0 {
            for thread in self.sleepers.lock().expect("no holder panics").iter() {
                thread.unpark();
            }
        }
    }

    pub fn register_sleeper(&self, thread: Thread) {
        self.sleepers.lock().expect("no holder panics").push(thread);
    }

    /// The time until something is due, at most `limit`.
    fn idle_span(&self, limit: Time) -> Time {
        let next = self.nodes.iter().map(LockedMachine::deadline).min();
        let next = next.unwrap_or(NEVER).min(self.switches.deadline());
        span(next, self.time(), limit)
    }

    /// Called by a driver thread that has nothing to do. Only the first one watches the timers of
    /// an idle rack; it wakes the others when there is work for them.
    pub fn driver_rest(&self, index: u32) {
        if self.credit.stay_awake() {
            return;
        }
        self.sleeping.fetch_add(1, Ordering::SeqCst);
        // Work posted before the poster saw the count is found by this round.
        if !self.drive() && !self.stop.load(Ordering::SeqCst) {
            // A waiting task may have a timer of its own, which is unknown here.
            let limit = Time::from_millis(if self.tasks.wait() { 1 } else { 50 });
            let span = if index == 0 {
                self.idle_span(limit)
            } else {
                limit
            };
            std::thread::park_timeout(span);
        }
        self.sleeping.fetch_sub(1, Ordering::SeqCst);
    }

    /// Drives the rack a little on behalf of a node: other nodes whose own threads move much are
    /// left to them. Returns true if anything happened.
    pub fn drive_from(&self, node: usize) -> bool {
        let now = self.time();
        self.nodes[node].attend(now);
        let moved = self.drive_those(now, |at, place| at == node || !place.is_attended(now));
        if (1..MUCH).contains(&moved) {
            // The switch's replies are received at once. If much is moving, later rounds do it
            // anyway.
            self.run_node(now, &self.nodes[node]);
        }
        moved > 0
    }

    /// Runs a node's NIC, unless another thread is driving it. Returns the work done.
    fn run_node(&self, now: Instant, place: &LockedMachine<LinkedNode>) -> u32 {
        let Some(mut linked) = place.try_lock() else {
            return 0;
        };
        let moved = linked.run(now);
        if moved >= MUCH {
            place.note_busy(now);
        }
        place.note_deadline(linked.deadline());
        moved
    }

    fn drive_those(
        &self,
        now: Instant,
        which: impl Fn(usize, &LockedMachine<LinkedNode>) -> bool,
    ) -> u32 {
        let mut moved = 0;
        for (at, place) in self.nodes.iter().enumerate() {
            if !which(at, place) {
                continue;
            }
            moved += self.run_node(now, place);
        }
        if let Some(mut linked_switches) = self.switches.try_lock() {
            moved += linked_switches.run(now);
            self.switches.note_deadline(linked_switches.deadline());
            // Only switch 0 has lanes, and so reports.
            if linked_switches.0[0].switch.has_digest() {
                self.news.store(true, Ordering::Relaxed);
            }
        }
        if self.news.load(Ordering::Relaxed) || self.page_alarm.load(Ordering::Relaxed) {
            self.tell_controller();
        }
        if moved > 0 {
            self.tasks.wake();
            if self.credit.earn(moved) {
                self.kick();
            }
        }
        moved
    }

    fn tell_controller(&self) {
        if let Some(mut controller) = try_lock(&self.controller) {
            self.news.store(false, Ordering::Relaxed);
            controller.handle_digests(&mut &*self);
            if self.page_alarm.swap(false, Ordering::AcqRel) {
                controller.page_pleas(&mut &*self);
            }
        }
    }
}

impl Progress for Shared {
    fn drive(&self) -> bool {
        self.drive_those(self.time(), |_, _| true) > 0
    }

    fn relax(&self, idle_rounds: u32) {
        if let Some(nap) = self.credit.relax(idle_rounds) {
            std::thread::sleep(self.idle_span(nap));
        }
    }
}
