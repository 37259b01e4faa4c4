//! A run on a simulated rack: workers are actors, time is virtual, SSDs are modelled.
//!
//! The store is loaded before, by an embedded rack of one worker over the same memory, since that
//! needs no model. So pools are empty when the run begins, and operations that come first pay for
//! that.

use super::crew::Crew;
use super::embedded::Job;
use super::error::PagesError;
use super::heap::STORE;
use super::load;
use super::medium::Medium;
use super::options::{Nodes, PagesOptions};
use super::outcome::{Outcome, PageCounts};
use super::run::Run;
use super::session::{Session, Stepped};
use crate::experiment::seamless_4::metered::Metered;
use crate::ycsb::{Phase, Progress, Simulation};
use core::sync::atomic::Ordering;
use rackweave_base::{Duration, Instant, Rng};
use rackweave_endpoint::page_store::directory::Channel;
use rackweave_endpoint::page_store::{
    AllocateError, Flush, FlushError, PoolConfig, Statistics, Worker,
};
use rackweave_rack::config::FaultSection;
use rackweave_rack::{EmbeddedRack, RackConfig, RunEnd, SimulatedRack, SsdBackend};
use rackweave_sim::world::{Actor, Context, Step};
use rackweave_sim::{Category, CpuModel, SsdModel, devices};
use rackweave_target::{Backend, MemoryBackend};
use rackweave_wire::fabric::page::PageId;
use rackweave_workload::ycsb::PoissonSchedule;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

/// SSDs of the storage node. Source: seamless, section 3.
const SSDS: usize = 4;

/// Virtual time between two looks at the user.
const SLICE: Duration = Duration::from_millis(1);

/// Virtual time in which no operation ends, after which the run has failed: more than a pool waits
/// for whoever does not answer.
const PATIENCE: Duration = Duration::from_secs(6);

/// The same when the user wants an end.
const GRACE: Duration = Duration::from_millis(20);

/// Turns of a step before other actors have theirs.
const TURNS: usize = 32;

/// How often one who waits for the others looks after them.
const LOOK: Duration = Duration::from_micros(10);

/// Runs on a simulated rack.
///
/// # Errors
/// As for [`super::embedded::run`]. The medium has to be memory.
pub fn run(job: &Job, medium: Medium, progress: Progress<'_>) -> Result<Outcome, PagesError> {
    let options = &job.options;
    options.check()?;
    let started = std::time::Instant::now();
    let pages = medium.pages(options.page_size);
    let Medium::Memory(medium) = medium else {
        return Err(PagesError::OutOfRange {
            what: "the number of files of a simulated rack",
            number: 1,
            range: "its store lies in memory",
        });
    };
    let (run, reserve) = prepare(job, &medium, pages, progress)?;
    let mut outcome = Outcome {
        records: run.inserts.inserted(),
        store_pages: pages,
        indexed: options.indexed(pages),
        load_seconds: started.elapsed().as_secs_f64(),
        ..Outcome::default()
    };
    operate(job, &run, reserve, &medium, progress, &mut outcome)?;
    Ok(outcome)
}

/// Loads the store, and allocates all pages that the heap may come to need.
fn prepare(
    job: &Job,
    medium: &MemoryBackend,
    pages: u64,
    progress: Progress<'_>,
) -> Result<(Arc<Run>, Vec<PageId>), PagesError> {
    let config = RackConfig {
        faults: FaultSection::default(),
        driver_threads: 0,
        ..job.config.clone()
    };
    let nodes = Nodes {
        compute: job.nodes.compute[..1].to_vec(),
        ..job.nodes.clone()
    };
    let options = PagesOptions {
        threads: 1,
        ..job.options.clone()
    };
    let backend: Box<dyn Backend> = Box::new(medium.clone());
    let rack = EmbeddedRack::new(&options.rack(&config, &nodes, pages)?)?;
    let mut crew = Crew::new(&rack, &nodes, &options, backend)?;
    let watch = &mut |fraction| progress(Phase::Load, fraction);
    let mut run = load::load(&mut crew, &options, pages, watch)?;
    run.options = job.options.clone();
    let store = &mut crew.seats[0].store;
    let there = run.heap.layout.pages(run.heap.loaded);
    let reserve: Result<Vec<_>, _> = (there..run.heap.pages_max())
        .map(|_| store.allocate())
        .collect();
    let mut reserve = reserve?;
    reserve.reverse();
    store.close()?;
    Ok((Arc::new(run), reserve))
}

/// What all actors share.
#[derive(Default)]
struct Common {
    reserve: RefCell<Vec<PageId>>,
    /// Workers that have not ended their operations.
    operating: Cell<usize>,
    last_end: Cell<Instant>,
    pages: RefCell<Statistics>,
    sessions: RefCell<Vec<Session>>,
    flushed: Cell<u64>,
    not_flushed: RefCell<Option<FlushError>>,
}

struct WorkerActor {
    worker: Worker<Channel>,
    /// Until its operations have ended.
    session: Option<Session>,
    run: Arc<Run>,
    flush: Option<Flush>,
    /// Whether it is the one of its node that writes home.
    flushes: bool,
    common: Rc<Common>,
}

impl Actor for WorkerActor {
    fn step(&mut self, context: &mut Context<'_>) -> Step {
        let (now, cpu) = (context.now(), *context.cpu());
        let mut metered = Metered::new(context.nic(), cpu);
        let mut sum = Stepped::default();
        let mut again = true;
        for _ in 0..TURNS {
            again = self.worker.poll(now, &mut metered);
            if let Some(session) = &mut self.session {
                let stepped = session.step(&|| now, &mut self.worker);
                again |= stepped.happened;
                sum.pages += stepped.pages;
                sum.bytes += stepped.bytes;
                let capacity = self.run.heap.pages_max();
                while session.wants_page() {
                    match self.common.reserve.borrow_mut().pop() {
                        Some(page) => session.give_page(page, &mut self.worker),
                        None => {
                            self.run.fail(AllocateError::StoreFull { capacity });
                            session.refuse_pages();
                        }
                    }
                    again = true;
                }
            }
            if !again {
                break;
            }
        }
        let spent = metered.spent();
        context.charge(Category::Communication, spent);
        context.charge(Category::Compute, work(&cpu, sum));
        if again {
            return Step::Compute(Duration::from_nanos(1));
        }
        self.next(now)
    }
}

impl WorkerActor {
    /// Nothing can be done at the moment: what to wait for.
    fn next(&mut self, now: Instant) -> Step {
        if let Some(session) = self.session.take_if(|session| session.is_done()) {
            let common = &self.common;
            common.sessions.borrow_mut().push(session);
            *common.pages.borrow_mut() += *self.worker.statistics();
            common.operating.set(common.operating.get() - 1);
            common.last_end.set(common.last_end.get().max(now));
        }
        if let Some(session) = &self.session {
            let own = session.poll_timeout(now);
            return match own.into_iter().chain(self.worker.poll_timeout()).min() {
                Some(due) => Step::WaitUntil(due.max(now + Duration::from_nanos(1))),
                None => Step::WaitForPacket,
            };
        }
        if !self.worker.is_idle() {
            return match self.worker.poll_timeout() {
                Some(due) => Step::WaitUntil(due.max(now + Duration::from_nanos(1))),
                None => Step::WaitForPacket,
            };
        }
        if self.common.operating.get() > 0 {
            return Step::Sleep(LOOK);
        }
        let Some(flush) = self.flush else {
            if !self.flushes {
                return Step::Done;
            }
            self.flush = Some(self.worker.flush());
            return Step::Compute(Duration::from_nanos(1));
        };
        match self.worker.take_flush(flush) {
            None => return Step::WaitUntil(now + LOOK),
            Some(Ok(done)) => {
                let flushed = &self.common.flushed;
                flushed.set(flushed.get() + done.written);
            }
            Some(Err(error)) => *self.common.not_flushed.borrow_mut() = Some(error),
        }
        for loss in self.worker.losses() {
            let reason = format!("its change to version {} was not taken", loss.version);
            self.run.note(0, loss.page, reason);
        }
        Step::Done
    }
}

/// What a core spends on the operations themselves.
fn work(cpu: &CpuModel, stepped: Stepped) -> Duration {
    let pages = cpu.cycles(devices::HOST_PAGE_OPERATION_CYCLES * stepped.pages)
        + cpu.memory_latency * (devices::HOST_PAGE_OPERATION_MISSES * stepped.pages);
    let lines = stepped.bytes.div_ceil(devices::HOST_LINE_BYTES);
    let nanos = lines * cpu.memory_latency.as_nanos() / devices::HOST_LINES_IN_FLIGHT;
    pages + Duration::from_nanos(nanos)
}

fn operate(
    job: &Job,
    run: &Arc<Run>,
    reserve: Vec<PageId>,
    medium: &MemoryBackend,
    progress: Progress<'_>,
    outcome: &mut Outcome,
) -> Result<(), PagesError> {
    let (options, nodes) = (&job.options, &job.nodes);
    let pages = outcome.store_pages;
    let config = options.rack(&job.config, nodes, pages)?;
    let mut rack = SimulatedRack::new(&config)?;
    let mut rng = Rng::new(config.seed).fork("ssds");
    let stripe = options.page_size;
    let ssds = SsdBackend::new(medium.clone(), &SsdModel::default(), SSDS, stripe, &mut rng);
    let service = nodes.pages(&rack, options, Box::new(ssds))?;
    let workers = nodes.compute.len() as u32 * u32::from(options.threads);
    let common = Rc::new(Common {
        reserve: RefCell::new(reserve),
        operating: Cell::new(workers as usize),
        ..Common::default()
    });
    let began = rack.now();
    let mut number = 0;
    for &node in &nodes.compute {
        let identity = load::identity(options.ycsb.seed);
        let pool = |pool: &mut PoolConfig| {
            (pool.store_id, pool.seed) = (identity, options.ycsb.seed);
        };
        for (at, worker) in service.polled_workers(node, pool)?.into_iter().enumerate() {
            worker.pool().set_identity(STORE, identity);
            let mut session = Session::new(run, number, workers)?;
            if let Some(rate) = options.rate {
                let rate = rate / f64::from(workers);
                let schedule = PoissonSchedule::new(options.ycsb.seed, number, rate, began)?;
                session.set_schedule(schedule);
            }
            let actor = WorkerActor {
                worker,
                session: Some(session),
                run: Arc::clone(run),
                flush: None,
                flushes: at == 0,
                common: Rc::clone(&common),
            };
            rack.spawn(node, Box::new(actor));
            number += 1;
        }
    }
    let started = std::time::Instant::now();
    drive(&mut rack, run, progress, outcome)?;
    outcome.take(run, common.sessions.borrow().iter());
    outcome.pages = PageCounts::between(Statistics::default(), *common.pages.borrow());
    outcome.seconds = common.last_end.get().since(began).as_secs_f64();
    outcome.flushed = common.flushed.get();
    if let Some(error) = *common.not_flushed.borrow() {
        outcome.not_flushed = Some(error.to_string());
    }
    outcome.simulation = Some(Simulation {
        real_seconds: started.elapsed().as_secs_f64(),
        events: rack.events(),
        trace_hash: format!("{:016x}", rack.trace_hash()),
    });
    Ok(())
}

fn drive(
    rack: &mut SimulatedRack,
    run: &Run,
    progress: Progress<'_>,
    outcome: &mut Outcome,
) -> Result<(), PagesError> {
    let operations = run.options.ycsb.operations.max(1);
    let (mut seen, mut since) = (0, rack.now());
    loop {
        let end = rack.run(rack.now() + SLICE);
        let ended = run.ended.load(Ordering::Relaxed);
        if !progress(Phase::Run, ended as f64 / operations as f64) {
            outcome.interrupted = true;
            run.stop();
        }
        match end {
            RunEnd::Done => return Ok(()),
            RunEnd::Stalled => return Err(PagesError::Stalled(0)),
            RunEnd::Deadline | RunEnd::Control(_) => {}
        }
        if ended > seen {
            (seen, since) = (ended, rack.now());
        } else if outcome.interrupted && rack.now().since(since) > GRACE {
            outcome.not_flushed = Some(PagesError::Stalled(0).to_string());
            return Ok(());
        } else if rack.now().since(since) > PATIENCE {
            return Err(PagesError::Stalled(PATIENCE.as_nanos() / 1_000_000_000));
        }
    }
}
