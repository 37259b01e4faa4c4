//! One machine of a process, driven by waiting threads and by a driver thread that sleeps on the
//! machine's links while nothing is due.

use super::credit::Credit;
use crate::locked::{LockedMachine, span};
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use rackweave_base::{Duration, Instant};
use rackweave_link::{Link, wait};
use rackweave_verbs::Progress;
use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration as Time;

/// Maximum sleep of the driver thread. Whatever needs it wakes it; the limit bounds the damage of a
/// peer that does not.
const SLEEP_MAX: Time = Time::from_millis(500);

/// Interval at which links without a descriptor to sleep on are polled.
const BLIND_MAX: Time = Time::from_millis(1);

/// While a waiting thread has driven within this time, the driver thread leaves the machine to it.
const VISIT: Time = Time::from_micros(200);

/// How often the driver thread looks whether another thread still drives the machine.
const DRIVEN: Time = Time::from_millis(20);

/// How long the driver thread stays awake after something has moved while traffic flows: a peer
/// that answers takes some microseconds, and to fall asleep and be woken takes tens.
const AWAKE: Duration = Duration::from_micros(50);

/// Traffic flows when the thread was woken this often in a row, each time within this time after
/// something had moved. A poll of a ring in which nothing flows wakes it fewer times.
const WAKES: u32 = 4;
const FLOWING: Duration = Duration::from_millis(2);

/// A machine with links.
pub(super) trait LinkedMachine: Send {
    /// Moves what can be moved, and returns the work done.
    fn run(&mut self, now: Instant) -> u32;
    /// When the next timer expires.
    fn deadline(&self) -> Option<Instant>;
    /// Its links.
    fn links(&mut self) -> impl Iterator<Item = &mut dyn Link>;
}

/// What wakes a sleeping thread.
struct Wakers {
    /// The descriptors of the links, and that for posted work.
    fds: Vec<OwnedFd>,
    /// Whether one of them is missing.
    blind: bool,
}

impl Wakers {
    fn of(linked: &mut impl LinkedMachine, kick: &OwnedFd) -> Self {
        let owned = |fd: BorrowedFd<'_>| fd.try_clone_to_owned().ok();
        let (mut fds, mut blind) = (Vec::new(), false);
        for link in linked.links() {
            let fd = link.wake_fd().and_then(owned);
            // Nothing arrives on a link without a peer.
            blind |= fd.is_none() && !link.is_peer_gone();
            fds.extend(fd);
        }
        let kick = owned(kick.as_fd());
        blind |= kick.is_none();
        fds.extend(kick);
        Self { fds, blind }
    }
}

/// A machine and the state shared by the threads that drive it.
pub(super) struct Pump<S> {
    epoch: std::time::Instant,
    place: LockedMachine<S>,
    credit: Credit,
    wakers: Mutex<Arc<Wakers>>,
    /// Readable when work was posted while a thread slept.
    kick: OwnedFd,
    sleepers: AtomicUsize,
    /// Threads that want to act on the machine: driving threads let them go first, since the mutex
    /// is not fair.
    actors: AtomicUsize,
    /// When a waiting thread last drove, in nanoseconds.
    visited: AtomicU64,
    /// Other threads that drive the machine all the time.
    drivers: AtomicUsize,
    stop: AtomicBool,
}

impl<S: LinkedMachine> Pump<S> {
    /// A machine whose clock begins at `epoch`.
    pub fn new(linked: S, epoch: std::time::Instant) -> io::Result<Self> {
        let pump = Self {
            epoch,
            place: LockedMachine::new(linked),
            credit: Credit::default(),
            wakers: Mutex::new(Arc::new(Wakers {
                fds: Vec::new(),
                blind: false,
            })),
            kick: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            sleepers: AtomicUsize::new(0),
            actors: AtomicUsize::new(0),
            visited: AtomicU64::new(0),
            drivers: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
        };
        pump.relink(|_| {});
        Ok(pump)
    }

    /// The current time of this process.
    pub fn now(&self) -> Instant {
        Instant::from_nanos(self.epoch.elapsed().as_nanos() as u64)
    }

    /// Calls `act` with the machine and makes sure that posted work is processed.
    pub fn with<R>(&self, act: impl FnOnce(&mut S) -> R) -> R {
        let result = {
            self.actors.fetch_add(1, Ordering::Relaxed);
            let mut linked = self.place.lock();
            self.actors.fetch_sub(1, Ordering::Relaxed);
            let result = act(&mut linked);
            self.place.note_deadline(linked.deadline());
            result
        };
        self.kick();
        result
    }

    /// Calls `act` with the machine without waking a thread: for polling.
    pub fn peek<R>(&self, act: impl FnOnce(&mut S) -> R) -> R {
        act(&mut self.place.lock())
    }

    /// Calls `act` with the machine to change its links.
    pub fn relink<R>(&self, act: impl FnOnce(&mut S) -> R) -> R {
        let result = self.with(|linked| {
            let result = act(linked);
            *self.wakers() = Arc::new(Wakers::of(linked, &self.kick));
            self.credit
                .set_yields(linked.links().any(|link| link.asks_system()));
            result
        });
        self.kick();
        result
    }

    fn wakers(&self) -> MutexGuard<'_, Arc<Wakers>> {
        self.wakers.lock().expect("no holder of this lock panics")
    }

    fn kick(&self) {
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            // A full counter wakes as well.
            let _ = rustix::io::write(&self.kick, &1u64.to_ne_bytes());
        }
    }

    fn turn(&self) -> bool {
        if self.actors.load(Ordering::Relaxed) > 0 {
            std::thread::yield_now();
        }
        let Some(mut linked) = self.place.try_lock() else {
            return false;
        };
        let moved = linked.run(self.now());
        self.place.note_deadline(linked.deadline());
        drop(linked);
        if moved > 0 {
            self.credit.earn(moved);
        }
        moved > 0
    }

    /// Sleeps until a link has packets, something is due, work is posted, or `limit` expires.
    /// Returns false without sleeping if there is something to do.
    fn doze(&self, limit: Time) -> bool {
        let wakers = Arc::clone(&self.wakers());
        let may_sleep = self.begin_sleep();
        if may_sleep {
            let limit = if wakers.blind {
                limit.min(BLIND_MAX)
            } else {
                limit
            };
            let span = span(self.place.deadline(), self.now(), limit);
            if wait::sleep(&wakers.fds, span).is_err() {
                // Without descriptors to sleep on, only the time can be limited.
                std::thread::sleep(span.min(BLIND_MAX));
            }
            self.end_sleep();
        } else {
            std::thread::yield_now();
        }
        may_sleep
    }

    /// Announces that this thread is about to sleep. Returns false if there is something to do, or
    /// another thread drives the machine and sees what arrives.
    ///
    /// All that concerns sleeping threads happens while the machine is locked. So no thread that
    /// wakes undoes what another has just announced, and work that was posted before is found here.
    fn begin_sleep(&self) -> bool {
        let Some(mut linked) = self.place.try_lock() else {
            return false;
        };
        let moved = linked.run(self.now());
        self.place.note_deadline(linked.deadline());
        let is_idle = moved == 0 && !self.stop.load(Ordering::Relaxed);
        let may_sleep = is_idle && linked.links().all(|link| link.prepare_sleep());
        if may_sleep {
            self.sleepers.fetch_add(1, Ordering::SeqCst);
        } else if self.sleepers.load(Ordering::SeqCst) == 0 {
            linked.links().for_each(|link| link.end_sleep());
        }
        may_sleep
    }

    /// Announces that this thread is awake again.
    fn end_sleep(&self) {
        let mut linked = self.place.lock();
        if self.sleepers.fetch_sub(1, Ordering::SeqCst) == 1 {
            linked.links().for_each(|link| link.end_sleep());
            // What the kick was for is found by the next thread that is about to sleep.
            let _ = rustix::io::read(&self.kick, &mut [0u8; 8]);
        }
    }

    /// Drives the machine until [`Pump::stop`].
    pub fn run(&self) {
        self.run_within(SLEEP_MAX);
    }

    /// Drives the machine until [`Pump::stop`], and sleeps for up to `limit` at a time.
    fn run_within(&self, limit: Time) {
        let mut awake_until = Instant::ZERO;
        let (mut moved_at, mut slept, mut wakes) = (Instant::ZERO, false, 0u32);
        while !self.stop.load(Ordering::Relaxed) {
            let now = self.now();
            let visited = self.visited.load(Ordering::Relaxed);
            let since = now.as_nanos().saturating_sub(visited);
            if self.drivers.load(Ordering::Relaxed) > 0 {
                std::thread::sleep(DRIVEN);
            } else if since < VISIT.as_nanos() as u64 {
                std::thread::sleep(VISIT);
            } else if self.turn() {
                if core::mem::take(&mut slept) {
                    let flows = now < moved_at + FLOWING;
                    wakes = if flows { wakes.saturating_add(1) } else { 0 };
                }
                moved_at = now;
                if wakes >= WAKES {
                    awake_until = now + AWAKE;
                }
            } else if !self.credit.stay_awake() {
                match now < awake_until {
                    true => std::thread::yield_now(),
                    false => slept |= self.doze(limit),
                }
            }
        }
    }

    /// Ends [`Pump::run`].
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = rustix::io::write(&self.kick, &1u64.to_ne_bytes());
    }
}

impl<S: LinkedMachine> Progress for Pump<S> {
    fn drive(&self) -> bool {
        self.visited.store(self.now().as_nanos(), Ordering::Relaxed);
        self.turn()
    }

    fn relax(&self, idle_rounds: u32) {
        if let Some(nap) = self.credit.relax(idle_rounds) {
            self.doze(nap);
        }
    }

    fn set_driven(&self, is_driven: bool) {
        match is_driven {
            true => self.drivers.fetch_add(1, Ordering::Relaxed),
            false => self.drivers.fetch_sub(1, Ordering::Relaxed),
        };
    }

    fn sleep(&self, limit: Time) {
        self.doze(limit);
    }
}

#[cfg(test)]
mod tests;
