//! The run in real time: a thread per worker, housekeeper and handler, and memory for drives.

use super::cache::{Cache, CacheCounters};
use super::channel::Meter;
use super::drives::InMemory;
#[cfg(test)]
use super::server::Server;
use super::set_up::{self, Plant};
use super::worker::Worker;
use super::{Accesses, Config, Outcome, ScaleStoreError, Tally};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use rackweave_base::{Instant, NodeId};
use rackweave_controller::connect::PairAttributes;
use rackweave_rack::EmbeddedRack;
use rackweave_verbs::Verbs;
use std::sync::{Mutex, MutexGuard};

/// What all threads share.
struct Shared<'a> {
    rack: &'a EmbeddedRack,
    started: std::time::Instant,
    stop: AtomicBool,
    messages: AtomicU64,
    problem: Mutex<Option<ScaleStoreError>>,
}

/// What is left of a run.
pub(super) struct Remains {
    pub outcome: Outcome,
    #[cfg(test)]
    pub caches: Vec<Cache>,
    #[cfg(test)]
    pub server: Server,
}

/// Runs in real time; `accesses` gives what each of all workers accesses, by its number. What an
/// access and the CPUs cost is what they do cost.
///
/// # Errors
/// As for [`super::run_simulated`].
pub fn run_embedded(
    config: &Config,
    accesses: &mut dyn FnMut(usize) -> Accesses,
) -> Result<Outcome, ScaleStoreError> {
    run(config, accesses).map(|remains| remains.outcome)
}

pub(super) fn run(
    config: &Config,
    accesses: &mut dyn FnMut(usize) -> Accesses,
) -> Result<Remains, ScaleStoreError> {
    config.check()?;
    let rack = EmbeddedRack::new(&set_up::rack_config(config))?;
    let storage = Box::<InMemory>::default();
    let Plant { computes, server } =
        set_up::build(&rack, PairAttributes::default(), config, storage, accesses)?;
    let shared = Shared {
        rack: &rack,
        started: std::time::Instant::now(),
        stop: AtomicBool::new(false),
        messages: AtomicU64::new(0),
        problem: Mutex::new(None),
    };
    let mut workers = Vec::new();
    let mut caches = Vec::new();
    let mut housekeepers = Vec::new();
    for (at, compute) in computes.into_iter().enumerate() {
        caches.push(Mutex::new(compute.cache));
        housekeepers.push(compute.housekeeper);
        workers.extend(compute.workers.into_iter().map(|worker| (at, worker)));
    }
    let server = Mutex::new(server);
    let mut tally = Tally::default();
    let shared = &shared;
    std::thread::scope(|scope| {
        for (at, mut housekeeper) in housekeepers.into_iter().enumerate() {
            let cache = &caches[at];
            let turn = move |_, verbs: &mut dyn Verbs, meter: &mut Meter| {
                housekeeper.step(&mut lock(cache), verbs, meter)
            };
            scope.spawn(move || shared.serve(at, turn));
        }
        for handler in 0..usize::from(config.handlers) {
            let server = &server;
            let turn = move |now, verbs: &mut dyn Verbs, meter: &mut Meter| {
                lock(server).step(handler, now, verbs, meter)
            };
            scope.spawn(move || shared.serve(usize::from(config.compute_nodes), turn));
        }
        let (_, until) = set_up::window(config);
        let start = |(at, worker): (usize, Worker)| {
            let cache = &caches[at];
            scope.spawn(move || shared.work(at, worker, cache, until))
        };
        let threads: Vec<_> = workers.into_iter().map(start).collect();
        for thread in threads {
            // A thread that panicked has said so; the others have been told to stop.
            if let Ok(worker) = thread.join() {
                tally.merge(worker.tally());
            }
        }
        shared.stop.store(true, Ordering::Release);
    });
    if let Some(error) = lock(&shared.problem).take() {
        return Err(error);
    }
    let seconds = match config.limit {
        Some(_) => shared.started.elapsed().as_secs_f64(),
        None => config.window.as_secs_f64(),
    };
    let counters = caches.iter().map(|cache| lock(cache).counters());
    let counters = counters.fold(CacheCounters::default(), CacheCounters::plus);
    let messages = shared.messages.load(Ordering::Relaxed);
    Ok(Remains {
        outcome: Outcome::new(tally, seconds, messages, counters),
        #[cfg(test)]
        caches: caches.into_iter().map(into_inner).collect(),
        #[cfg(test)]
        server: into_inner(server),
    })
}

/// Nobody who holds a lock here panics but by a bug, which the panic itself has shown.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[cfg(test)]
fn into_inner<T>(mutex: Mutex<T>) -> T {
    mutex
        .into_inner()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Shared<'_> {
    fn now(&self) -> Instant {
        Instant::from_nanos(self.started.elapsed().as_nanos() as u64)
    }

    /// One turn of a thread at `node`. False if the run is to stop.
    fn turn(
        &self,
        node: usize,
        idle: &mut u32,
        turn: impl FnOnce(Instant, &mut dyn Verbs, &mut Meter) -> Result<bool, ScaleStoreError>,
    ) -> bool {
        let handle = self.rack.node_at(NodeId(node as u16));
        let mut meter = Meter::default();
        let happened = handle.with(|nic| turn(self.now(), nic, &mut meter));
        self.messages.fetch_add(meter.messages, Ordering::Relaxed);
        let progress = self.rack.progress();
        match happened {
            Ok(happened) => {
                if progress.drive() || happened {
                    *idle = 0;
                } else {
                    *idle += 1;
                    progress.relax(*idle);
                }
            }
            Err(error) => {
                lock(&self.problem).get_or_insert(error);
                self.stop.store(true, Ordering::Release);
            }
        }
        !self.stop.load(Ordering::Acquire)
    }

    /// Serves until the run stops.
    fn serve(
        &self,
        node: usize,
        mut turn: impl FnMut(Instant, &mut dyn Verbs, &mut Meter) -> Result<bool, ScaleStoreError>,
    ) {
        let mut idle = 0;
        while self.turn(node, &mut idle, &mut turn) {}
    }

    /// Works until its limit, or the window's end.
    fn work(&self, node: usize, worker: Worker, cache: &Mutex<Cache>, until: Instant) -> Worker {
        let (mut worker, mut idle) = (worker, 0);
        while !worker.is_done()
            && self.now() < until
            && self.turn(node, &mut idle, |now, verbs, meter| {
                worker.step(now, &mut lock(cache), verbs, meter)
            })
        {}
        worker
    }
}
