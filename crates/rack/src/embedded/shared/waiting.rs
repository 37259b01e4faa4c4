//! How threads wait for an embedded rack: awake for a while after something has happened where they
//! wait, then asleep until something happens there again.
//!
//! An event is never missed. A thread goes to sleep only if nothing has happened since its last
//! call, and it has looked for what it waits for since. It says so before it looks at the count of
//! events for the last time, and who counts an event looks for sleeping threads afterwards. The
//! limit of a sleep is for conditions that change without an event at the rack.

use core::cell::Cell;
use core::sync::atomic::{AtomicU32, Ordering};
use rackweave_base::{Duration, Instant};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::Thread;
use std::time::Duration as Time;

/// How long a thread stays awake after an event. A peer that answers takes some microseconds, and
/// to fall asleep and be woken takes tens.
const AWAKE: Duration = Duration::from_micros(50);

/// How long of this it does not let other threads run first: the one that has the next step to do
/// may need this core.
const SPINNING: Duration = Duration::from_micros(5);

/// Minimum and maximum time of a sleep that no event ends. In between, it is as long as the thread
/// has waited.
const NAP_MIN: Duration = Duration::from_micros(500);
const NAP_MAX: Duration = Duration::from_millis(5);

/// Where threads wait: at a node, or for anything that happens in the rack. On cache lines of its
/// own, because the threads that drive the nodes count events.
#[derive(Default)]
#[repr(align(128))]
struct WaitPoint {
    events: AtomicU32,
    sleeping: AtomicU32,
    threads: Mutex<Vec<Thread>>,
}

/// All places of a rack.
pub(super) struct Waiting {
    /// By node; the last one is for anything.
    places: Box<[WaitPoint]>,
    /// Threads that sleep at any of them.
    asleep: AtomicU32,
}

/// What a thread does next.
pub(super) enum Rest {
    /// It has waited here, awake.
    Awake,
    /// It sleeps, for this long at most, unless there have been more than so many events.
    Sleep(Time, u32),
}

/// The wait of a thread.
#[derive(Clone, Copy)]
struct Wait {
    /// The address of its place.
    place: usize,
    /// The number of the idle round.
    rounds: u32,
    events: u32,
    /// When the last event was seen, or the wait began.
    since: Instant,
}

thread_local! {
    static WAIT: Cell<Wait> = const {
        Cell::new(Wait { place: 0, rounds: 0, events: 0, since: Instant::ZERO })
    };
}

impl WaitPoint {
    fn threads(&self) -> MutexGuard<'_, Vec<Thread>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cold]
    fn wake(&self) {
        for thread in self.threads().drain(..) {
            thread.unpark();
        }
    }
}

impl Waiting {
    pub fn new(nodes: usize) -> Self {
        Self {
            places: (0..=nodes).map(|_| WaitPoint::default()).collect(),
            asleep: AtomicU32::new(0),
        }
    }

    /// The place of those that wait for anything.
    pub fn anywhere(&self) -> usize {
        self.places.len() - 1
    }

    /// Records that something has happened at a place, and wakes the threads there.
    #[inline]
    pub fn note(&self, place: usize) {
        let place = &self.places[place];
        place.events.fetch_add(1, Ordering::SeqCst);
        if place.sleeping.load(Ordering::SeqCst) > 0 {
            place.wake();
        }
    }

    /// Whether a thread sleeps.
    #[inline]
    pub fn any_asleep(&self) -> bool {
        self.asleep.load(Ordering::SeqCst) > 0
    }

    /// Wakes the sleeping threads of one place, if there are any: someone has to drive the rack.
    #[cold]
    pub fn wake_some(&self) {
        let asleep = |place: &&WaitPoint| place.sleeping.load(Ordering::SeqCst) > 0;
        if let Some(place) = self.places.iter().find(asleep) {
            place.wake();
        }
    }

    /// Spends one idle round at a place awake, or says how long the thread may sleep.
    pub fn rest(&self, place: usize, idle_rounds: u32, now: Instant) -> Rest {
        let place = &self.places[place];
        let events = place.events.load(Ordering::SeqCst);
        let address = core::ptr::from_ref(place).addr();
        let before = WAIT.get();
        let goes_on = before.place == address
            && before.events == events
            && before.rounds < idle_rounds
            && before.since <= now;
        let since = if goes_on { before.since } else { now };
        WAIT.set(Wait {
            place: address,
            rounds: idle_rounds,
            events,
            since,
        });
        let waited = now.since(since);
        if waited < SPINNING {
            core::hint::spin_loop();
        } else if waited < AWAKE {
            std::thread::yield_now();
        } else {
            let nap = waited.max(NAP_MIN).min(NAP_MAX);
            return Rest::Sleep(Time::from_nanos(nap.as_nanos()), events);
        }
        Rest::Awake
    }

    /// Sleeps at a place until something happens there, unless there have been more than `events`
    /// events. `last_look` has the time to sleep, or `None` if there is something to do.
    pub fn sleep(&self, place: usize, events: u32, last_look: impl FnOnce() -> Option<Time>) {
        let place = &self.places[place];
        let this = std::thread::current();
        place.threads().push(this.clone());
        place.sleeping.fetch_add(1, Ordering::SeqCst);
        self.asleep.fetch_add(1, Ordering::SeqCst);
        if let Some(span) = last_look()
            && place.events.load(Ordering::SeqCst) == events
        {
            std::thread::park_timeout(span);
        }
        self.asleep.fetch_sub(1, Ordering::SeqCst);
        place.sleeping.fetch_sub(1, Ordering::SeqCst);
        place.threads().retain(|thread| thread.id() != this.id());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::AtomicU32;

    const LONG: Time = Time::from_secs(60);

    /// Two threads answer each other and sleep each time: if a wake-up were lost, both would sleep
    /// for a minute.
    #[test]
    fn no_event_is_missed_by_a_thread_that_falls_asleep() {
        let (waiting, number) = (&Waiting::new(2), &AtomicU32::new(0));
        let started = std::time::Instant::now();
        let play = |place: usize, other: usize, mine: u32| {
            for turn in (mine..2000).step_by(2) {
                loop {
                    let events = waiting.places[place].events.load(Ordering::SeqCst);
                    if number.load(Ordering::SeqCst) == turn {
                        break;
                    }
                    waiting.sleep(place, events, || Some(LONG));
                }
                number.store(turn + 1, Ordering::SeqCst);
                waiting.note(other);
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| play(0, 1, 0));
            scope.spawn(|| play(1, 0, 1));
        });
        assert!(started.elapsed() < LONG, "a thread was not woken");
        assert!(!waiting.any_asleep());
    }

    #[test]
    fn a_thread_sleeps_only_if_nothing_has_happened_for_a_while() {
        let waiting = Waiting::new(1);
        let at = |micros| Instant::ZERO + Duration::from_micros(micros);
        let sleeps = |round, micros| match waiting.rest(0, round, at(micros)) {
            Rest::Awake => None,
            Rest::Sleep(nap, _) => Some(nap),
        };
        assert_eq!(sleeps(0, 100), None);
        assert_eq!(sleeps(1, 149), None);
        assert_eq!(sleeps(2, 150), Some(Time::from_micros(500)));
        assert_eq!(sleeps(3, 1100), Some(Time::from_millis(1)));
        assert_eq!(sleeps(4, 99_000), Some(Time::from_millis(5)));
        waiting.note(0);
        assert_eq!(sleeps(5, 99_001), None);
        assert_eq!(sleeps(6, 99_060), Some(Time::from_micros(500)));
        // A new wait, at the same place or at another one.
        assert_eq!(sleeps(0, 99_070), None);
        assert!(matches!(waiting.rest(1, 9, at(99_130)), Rest::Awake));
    }
}
