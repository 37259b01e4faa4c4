//! Driving the machines of an embedded rack: which thread advances which machine, and how idle
//! threads wait.

use super::Shared;
use super::waiting::Rest;
use crate::locked::{LockedMachine, NEVER, span, try_lock};
use core::cell::Cell;
use core::sync::atomic::Ordering;
use rackweave_base::{Duration, Instant};
use rackweave_verbs::Progress;
use std::thread::Thread;
use std::time::Duration as Time;

/// The work from which a node counts as busy in one burst: about so many KiB.
const MUCH: u32 = 64;

/// The work in one call from which a driver thread helps: more than a burst of small packets from
/// node to node, which two threads would not move faster than one.
const WORTH_HELP: u32 = 256;

/// A thread leaves what rings to the others if it does not ring any more after so many pauses of
/// the core: a waiting thread after some tenths of a microsecond, a driver thread after about two.
const PAUSES: u32 = 8;
const PAUSES_DRIVER: u32 = 64;

/// All threads take whatever there is for so long after much has moved in one call.
const HELPS: Duration = Duration::from_micros(50);

/// How long a driver thread stays awake after it has found something to do.
const STAYS: Duration = Duration::from_micros(100);

/// While another thread has driven within this time, a driver thread does not expect to be needed
/// for a small amount of work, and looks again after this time: so long may what a thread posts
/// wait that has just stopped driving.
const LEFT: Duration = Duration::from_micros(250);
const LEFT_NAP: Time = Time::from_micros(250);

/// Maximum steps of one call: so many that a request and its response arrive.
const STEPS: u32 = 8;

thread_local! {
    /// Whether this thread has posted something, or left something that it had begun to move.
    static GOES_ON: Cell<bool> = const { Cell::new(false) };
}

/// Spends so many pauses of the core.
pub(super) fn pause(pauses: u32) {
    (0..pauses).for_each(|_| core::hint::spin_loop());
}

/// Records that this thread has posted something.
pub(super) fn note_posted() {
    GOES_ON.set(true);
}

impl Shared {
    /// Wakes a thread that drives what was posted, if all sleep that would.
    #[inline]
    pub fn kick(&self) {
        let drivers_rest = self.sleeping.load(Ordering::SeqCst) > 0
            || self.tasks.wait() && self.napping.load(Ordering::SeqCst) > 0;
        if drivers_rest {
            self.wake_drivers();
        } else if self.waiting.any_asleep() && !self.has_drivers.load(Ordering::Relaxed) {
            self.waiting.wake_some();
        }
    }

    #[cold]
    fn wake_drivers(&self) {
        for thread in self.drivers.lock().expect("no holder panics").iter() {
            thread.unpark();
        }
    }

    pub fn register_driver(&self, thread: Thread) {
        self.has_drivers.store(true, Ordering::Relaxed);
        self.drivers.lock().expect("no holder panics").push(thread);
    }

    /// The time until something is due, at most `limit`. What rings and could not be done, such as
    /// a request to a node that another thread has, is looked at again before long.
    fn idle_span(&self, limit: Time) -> Time {
        let limit = match self.agenda.is_rung() {
            true => limit.min(LEFT_NAP),
            false => limit,
        };
        let next = self.nodes.iter().map(LockedMachine::deadline).min();
        let next = next.unwrap_or(NEVER).min(self.switches.deadline());
        span(next, self.time(), limit)
    }

    /// Drives the rack on a thread of its own, until it stops.
    ///
    /// Waiting threads drive the rack themselves, and a machine that changes threads costs more
    /// than it gains, unless there is much to do. So this thread helps where much moves, and takes
    /// what nobody has taken for a while or what comes while nobody waits.
    pub fn run_driver(&self, index: u32) {
        let mut helped = Instant::ZERO;
        while !self.stop.load(Ordering::Relaxed) {
            let much_moves = self.much_moves(self.time());
            let takes = much_moves || self.has_reports() || self.agenda.lingers(PAUSES_DRIVER);
            let now = self.time();
            if takes || self.agenda.is_due(now) {
                // Where much moves, a node has a thread of its own, which would wait for this one.
                let which = |at: usize| !(much_moves && self.nodes[at].is_attended(now));
                if self.drive_those(now, which) > 0 {
                    helped = now;
                    self.tasks.wake();
                    continue;
                }
                match much_moves {
                    true => pause(PAUSES_DRIVER),
                    false => std::thread::yield_now(),
                }
            }
            if now.since(helped) > STAYS {
                self.driver_rest(index, now);
                self.tasks.wake();
            }
        }
    }

    /// Called by a driver thread that has nothing to do. Only the first one watches the timers of
    /// an idle rack; it wakes the others when there is work for them.
    fn driver_rest(&self, index: u32, now: Instant) {
        let driven = Instant::from_nanos(self.driven.load(Ordering::Relaxed));
        // Tasks that wait have a thread that drives only now and then.
        if now.since(driven) < LEFT && !self.tasks.wait() {
            // The threads that drive say so if they have need of another one.
            self.napping.fetch_add(1, Ordering::SeqCst);
            std::thread::park_timeout(LEFT_NAP);
            self.napping.fetch_sub(1, Ordering::SeqCst);
            return;
        }
        self.sleeping.fetch_add(1, Ordering::SeqCst);
        // Work posted before the poster saw the count is found by this round.
        if self.drive_those(now, |_| true) == 0 && !self.stop.load(Ordering::SeqCst) {
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

    /// Waits for something to happen at a node, or anywhere.
    pub fn rest(&self, node: Option<usize>, idle_rounds: u32) {
        let place = node.unwrap_or_else(|| self.waiting.anywhere());
        if let Rest::Sleep(nap, events) = self.waiting.rest(place, idle_rounds, self.time()) {
            self.waiting.sleep(place, events, || {
                (!self.drive()).then(|| self.idle_span(nap))
            });
        }
    }

    /// Drives the rack a little on behalf of a node: other nodes whose own threads move much are
    /// left to them. Returns true if anything happened.
    pub fn drive_from(&self, node: usize) -> bool {
        self.drive_waiting(|now| {
            self.nodes[node].attend(now);
            move |at| at == node || !self.nodes[at].is_attended(now)
        })
    }

    /// Drives on a thread that waits. What it has posted it takes all the way; what another thread
    /// has begun is left to that one, unless it does not get on with it.
    fn drive_waiting<W: Fn(usize) -> bool>(&self, which: impl FnOnce(Instant) -> W) -> bool {
        let now = self.time();
        self.driven.store(now.as_nanos(), Ordering::Relaxed);
        let which = which(now);
        let takes = GOES_ON.replace(false)
            || self.agenda.is_due(now)
            || self.much_moves(now)
            || self.has_reports()
            || self.agenda.lingers(PAUSES);
        takes && self.drive_those(now, which) > 0
    }

    fn much_moves(&self, now: Instant) -> bool {
        now.since(Instant::from_nanos(self.much.load(Ordering::Relaxed))) < HELPS
    }

    /// Whether the controller has something to do, which no doorbell says.
    fn has_reports(&self) -> bool {
        self.news.load(Ordering::Relaxed) || self.page_alarm.load(Ordering::Relaxed)
    }

    /// Runs the machines that have something to do, and then those for which they had something.
    /// Returns the work done.
    fn drive_those(&self, now: Instant, which: impl Fn(usize) -> bool) -> u32 {
        if self.agenda.is_due(now) {
            self.agenda.ring_due(now, &self.nodes, &self.switches);
        }
        let mut moved = 0;
        for _ in 0..STEPS {
            let mut work = 0;
            for node in self.agenda.nodes().filter(|&node| which(node)) {
                work += self.run_node(now, node);
            }
            if self.agenda.has_switches() {
                work += self.run_switches(now);
            }
            moved += work;
            if work == 0 {
                break;
            }
            if moved >= MUCH {
                GOES_ON.set(true);
                break;
            }
        }
        if self.has_reports() {
            self.tell_controller();
        }
        if self.note_moved(moved) && moved >= WORTH_HELP {
            self.much.store(now.as_nanos(), Ordering::Relaxed);
            if self.napping.load(Ordering::Relaxed) > 0 {
                self.wake_drivers();
            }
        }
        moved
    }

    /// Informs those that wait for anything to happen in the rack that so much has been moved.
    /// Returns whether it is anything.
    #[inline]
    pub(super) fn note_moved(&self, moved: u32) -> bool {
        if moved > 0 {
            self.waiting.note(self.waiting.anywhere());
            self.tasks.wake();
        }
        moved > 0
    }

    /// Runs a node's NIC, unless another thread is driving it. Returns the work done.
    fn run_node(&self, now: Instant, node: usize) -> u32 {
        let place = &self.nodes[node];
        let Some(mut linked) = place.try_lock() else {
            return 0;
        };
        self.agenda.take_node(node);
        let moved = linked.run_with(now, |nic| self.cut_through(node, nic));
        if linked.has_more {
            self.agenda.ring_node(node);
        }
        if moved > 0 {
            self.waiting.note(node);
        }
        if moved >= MUCH {
            place.note_busy(now);
        }
        self.agenda.note_deadline(place, linked.deadline());
        moved
    }

    /// Runs the switches, unless another thread is driving them. Returns the work done.
    fn run_switches(&self, now: Instant) -> u32 {
        let Some(mut linked) = self.switches.try_lock() else {
            return 0;
        };
        let moved = linked.run(now);
        self.agenda.note_deadline(&self.switches, linked.deadline());
        // Only switch 0 has lanes, and so reports.
        if linked.0[0].switch.has_digest() {
            self.news.store(true, Ordering::Relaxed);
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
        self.drive_waiting(|_| |_| true)
    }

    fn relax(&self, idle_rounds: u32) {
        self.rest(None, idle_rounds);
    }
}
