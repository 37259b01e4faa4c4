//! The run in virtual time.

use super::cache::{Cache, CacheCounters};
use super::channel::Meter;
use super::drives::{Drives, NOTICE};
use super::housekeeper::Housekeeper;
use super::server::Server;
use super::set_up::{self, Plant};
use super::worker::Worker;
use super::{Accesses, Config, Outcome, ScaleStoreError, Tally};
use rackweave_base::{Duration, Instant, NodeId, Rng};
use rackweave_rack::{RunEnd, SimulatedRack};
use rackweave_sim::world::{Actor, Context, Step};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Virtual time between two looks at what went wrong.
const SLICE: Duration = Duration::from_millis(1);

/// Virtual time after which a run with a limit has failed.
const PATIENCE: Duration = Duration::from_secs(20);

/// What all actors share.
#[derive(Clone, Default)]
struct Common {
    problem: Rc<RefCell<Option<ScaleStoreError>>>,
    messages: Rc<Cell<u64>>,
    workers_active: Rc<Cell<usize>>,
    /// Whether nobody looks at the drives' clock.
    drives_idle: Rc<Cell<bool>>,
    work: Duration,
}

impl Common {
    /// Charges a step; returns what comes next.
    fn charged(
        &self,
        context: &mut Context<'_>,
        meter: &Meter,
        happened: Result<bool, ScaleStoreError>,
    ) -> Step {
        meter.charge(context, self.work);
        self.messages.set(self.messages.get() + meter.messages);
        match happened {
            Ok(true) => Step::Compute(Duration::from_nanos(1)),
            Ok(false) => Step::WaitForPacket,
            Err(error) => {
                self.problem.borrow_mut().get_or_insert(error);
                Step::Done
            }
        }
    }
}

struct WorkerActor {
    worker: Rc<RefCell<Worker>>,
    cache: Rc<RefCell<Cache>>,
    common: Common,
}

struct HousekeeperActor {
    housekeeper: Housekeeper,
    cache: Rc<RefCell<Cache>>,
    common: Common,
}

struct HandlerActor {
    server: Rc<RefCell<Server>>,
    index: usize,
    common: Common,
}

/// Wakes the handlers when a command of a drive has ended: real ones spin on its queue.
struct DriveClock {
    server: Rc<RefCell<Server>>,
    common: Common,
}

impl Actor for WorkerActor {
    fn step(&mut self, context: &mut Context<'_>) -> Step {
        let (mut meter, now) = (Meter::default(), context.now());
        let (mut worker, mut cache) = (self.worker.borrow_mut(), self.cache.borrow_mut());
        let happened = worker.step(now, &mut cache, context.nic(), &mut meter);
        if cache.take_stirred() {
            context.wake_neighbours();
        }
        if worker.is_done() && happened.is_ok() {
            let active = &self.common.workers_active;
            active.set(active.get() - 1);
            self.common.charged(context, &meter, happened);
            return Step::Done;
        }
        self.common.charged(context, &meter, happened)
    }
}

impl Actor for HousekeeperActor {
    fn step(&mut self, context: &mut Context<'_>) -> Step {
        let (mut meter, mut cache) = (Meter::default(), self.cache.borrow_mut());
        let step = self.housekeeper.step(&mut cache, context.nic(), &mut meter);
        if cache.take_stirred() {
            context.wake_neighbours();
        }
        self.common.charged(context, &meter, step)
    }
}

impl Actor for HandlerActor {
    fn step(&mut self, context: &mut Context<'_>) -> Step {
        let (mut meter, now) = (Meter::default(), context.now());
        let mut server = self.server.borrow_mut();
        let step = server.step(self.index, now, context.nic(), &mut meter);
        if server.take_submitted() && self.common.drives_idle.get() {
            context.wake_neighbours();
        }
        self.common.charged(context, &meter, step)
    }
}

impl Actor for DriveClock {
    fn step(&mut self, context: &mut Context<'_>) -> Step {
        let due = self.server.borrow().due();
        self.common.drives_idle.set(due.is_none());
        match due {
            None => Step::WaitForPacket,
            Some(due) if due <= context.now() => {
                context.wake_neighbours();
                Step::Sleep(NOTICE)
            }
            Some(due) => Step::Sleep((due - context.now()).min(NOTICE)),
        }
    }
}

/// A run in the making.
pub(super) struct Run {
    pub rack: SimulatedRack,
    pub caches: Vec<Rc<RefCell<Cache>>>,
    pub server: Rc<RefCell<Server>>,
    workers: Vec<Rc<RefCell<Worker>>>,
    common: Common,
    config: Config,
}

/// Runs in virtual time; `accesses` gives what each of all workers accesses, by its number.
///
/// # Errors
/// If the configuration makes no sense, the rack cannot be built, or a page is lost or damaged.
pub fn run_simulated(
    config: &Config,
    accesses: &mut dyn FnMut(usize) -> Accesses,
) -> Result<Outcome, ScaleStoreError> {
    let mut run = Run::new(config, accesses)?;
    run.run()?;
    Ok(run.outcome())
}

impl Run {
    pub fn new(
        config: &Config,
        accesses: &mut dyn FnMut(usize) -> Accesses,
    ) -> Result<Self, ScaleStoreError> {
        config.check()?;
        let rack = SimulatedRack::new(&set_up::rack_config(config))?;
        let mut rng = Rng::new(config.seed);
        let drives = Drives::new(config.ssds, config.page_size, &mut rng);
        let plant = set_up::build(
            &rack,
            set_up::simulated_attributes(),
            config,
            Box::new(drives),
            accesses,
        )?;
        let Plant { computes, server } = plant;
        let common = Common {
            work: config.work,
            ..Common::default()
        };
        let mut run = Self {
            rack,
            caches: Vec::new(),
            server: Rc::new(RefCell::new(server)),
            workers: Vec::new(),
            common,
            config: config.clone(),
        };
        run.spawn(computes);
        Ok(run)
    }

    fn spawn(&mut self, computes: Vec<set_up::Compute>) {
        let common = &self.common;
        for (at, compute) in computes.into_iter().enumerate() {
            let node = NodeId(at as u16);
            let cache = Rc::new(RefCell::new(compute.cache));
            self.caches.push(cache.clone());
            let housekeeper = HousekeeperActor {
                housekeeper: compute.housekeeper,
                cache: cache.clone(),
                common: common.clone(),
            };
            self.rack.spawn(node, Box::new(housekeeper));
            for worker in compute.workers {
                let worker = Rc::new(RefCell::new(worker));
                self.workers.push(worker.clone());
                let cache = cache.clone();
                let common = common.clone();
                let actor = WorkerActor {
                    worker,
                    cache,
                    common,
                };
                self.rack.spawn(node, Box::new(actor));
            }
        }
        common.workers_active.set(self.workers.len());
        let node = NodeId(self.config.compute_nodes);
        for index in 0..usize::from(self.config.handlers) {
            let (server, common) = (self.server.clone(), common.clone());
            let actor = HandlerActor {
                server,
                index,
                common,
            };
            self.rack.spawn(node, Box::new(actor));
        }
        let (server, common) = (self.server.clone(), common.clone());
        self.rack
            .spawn(node, Box::new(DriveClock { server, common }));
    }

    /// Runs until the window is over; with a limit, until nothing is under way any more.
    pub fn run(&mut self) -> Result<(), ScaleStoreError> {
        let (_, until) = set_up::window(&self.config);
        let patience = Instant::ZERO + PATIENCE;
        loop {
            let end = self.rack.run((self.rack.now() + SLICE).min(until));
            if let Some(error) = self.common.problem.borrow_mut().take() {
                return Err(error);
            }
            let is_done = self.common.workers_active.get() == 0;
            match end {
                RunEnd::Stalled | RunEnd::Done if is_done => return Ok(()),
                RunEnd::Stalled => return Err(ScaleStoreError::Stuck(PATIENCE)),
                _ if self.rack.now() >= until => return Ok(()),
                _ if self.rack.now() >= patience => return Err(ScaleStoreError::Stuck(PATIENCE)),
                _ => {}
            }
        }
    }

    pub fn outcome(&self) -> Outcome {
        let mut tally = Tally::default();
        let workers = self.workers.iter();
        workers.for_each(|worker| tally.merge(worker.borrow().tally()));
        let seconds = match self.config.limit {
            Some(_) => (self.rack.now() - Instant::ZERO).as_secs_f64(),
            None => self.config.window.as_secs_f64(),
        };
        let counters = self.caches.iter().map(|cache| cache.borrow().counters());
        let caches = counters.fold(CacheCounters::default(), CacheCounters::plus);
        let messages = self.common.messages.get();
        let nodes = (0..=self.config.compute_nodes).map(NodeId);
        let reports = nodes.filter_map(|node| self.rack.link_report(node));
        let dropped = |report: rackweave_sim::LinkReport| {
            report.to_switch.link.drops + report.from_switch.link.drops
        };
        Outcome {
            packets_dropped: reports.map(dropped).sum(),
            ..Outcome::new(tally, seconds, messages, caches)
        }
    }
}
