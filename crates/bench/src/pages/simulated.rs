//! A run on a simulated rack: workers are actors, time is virtual, SSDs are modelled.
//!
//! The store is loaded in advance by an embedded rack of one worker over the same memory, since
//! loading needs no model. So pools are empty when the run begins, and the first operations pay for
//! that.

use super::heap::{Heap, STORE};
use super::load;
use super::medium::Medium;
use super::options::PagesOptions;
use super::table::{PageTable, Pages};
use super::{Job, Outcome};
use crate::harness::metered::Metered;
use crate::ycsb::prelude::*;
use crate::ycsb::simulated::{Modelled, SOON, Workers, loading, time, wait};
use rackweave_base::Rng;
use rackweave_endpoint::page_store::{Flush, FlushError, PoolConfig, Worker};
use rackweave_rack::SsdBackend;
use rackweave_rack::config::FaultSection;
use rackweave_sim::SsdModel;
use rackweave_target::MemoryBackend;

/// SSDs of the storage node. Source: seamless, section 3.
const SSDS: usize = 4;

/// If the user wants to stop and nothing ends for this much virtual time, the run returns without
/// writing everything to storage.
const GRACE: Duration = Duration::from_millis(20);

/// Turns of a step before other actors run.
const TURNS: usize = 32;

/// How often a worker that has finished checks whether the others have.
const LOOK: Duration = Duration::from_micros(10);

/// Runs on a simulated rack.
///
/// # Errors
/// As for [`super::embedded::run_on`]. The medium has to be memory.
pub fn run(job: &Job, medium: Medium, progress: Progress<'_>) -> Result<Outcome> {
    let options = &job.options;
    options.check()?;
    let started = std::time::Instant::now();
    let pages = medium.pages(options.page_size);
    let Medium::Memory(medium) = medium else {
        return Err(YcsbError::OutOfRange {
            what: "the number of files of a simulated rack",
            number: 1,
            range: "its store lies in memory",
        });
    };
    let (run, heap, reserve) = prepare(job, &medium, pages, progress)?;
    let (run, heap) = (Arc::new(run), Arc::new(heap));
    let mut outcome = options.outcome(pages, &run, started);
    let mut rack = SimulatedRack::new(&options.rack(&job.config, &job.nodes, pages)?)?;
    let workers = spawn(&mut rack, job, &medium, (&run, &heap), reserve)?;
    let tend = &mut |_| Ok(());
    workers.operate(&mut rack, &run, Some(GRACE), &mut outcome, progress, tend)?;
    outcome.time = vec![time(&rack, "clients", &job.nodes.compute)];
    for worker in &workers.all {
        let model = &worker.borrow().model;
        outcome.table.pages += model.seen.unwrap_or_default();
        match model.flushed {
            Some(Ok(written)) => outcome.table.flushed += written,
            Some(Err(error)) => outcome.not_flushed = Some(error.to_string()),
            None => {}
        }
    }
    outcome.table.heap_pages = heap.pages();
    outcome.take(&run);
    Ok(outcome)
}

/// Loads the store, and allocates all pages that the heap may need.
fn prepare(
    job: &Job,
    medium: &MemoryBackend,
    pages: u64,
    progress: Progress<'_>,
) -> Result<(Run, Heap, Vec<PageId>)> {
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
        load: Load {
            threads: 1,
            ..job.options.load.clone()
        },
        ..job.options.clone()
    };
    let rack = EmbeddedRack::new(&options.rack(&config, &nodes, pages)?)?;
    let service = options.pages(&rack, &nodes, Box::new(medium.clone()))?;
    let mut workers = load::workers(&rack, &nodes, &options, &service)?;
    let (mut run, heap) = load::load(&mut workers, &options, pages, progress)?;
    run.load = job.options.load.clone();
    let store = &mut workers[0].table;
    let reserve = (heap.layout.pages(heap.loaded)..heap.pages_max()).map(|_| store.allocate());
    let mut reserve = reserve.collect::<Result<Vec<_>, _>>()?;
    reserve.reverse();
    store.close()?;
    Ok((run, heap, reserve))
}

/// A worker, and its pre-allocated pages.
struct Reserved {
    worker: Worker<Channel>,
    reserve: Rc<RefCell<Vec<PageId>>>,
    capacity: u64,
}

impl Pages for Reserved {
    fn worker(&mut self) -> &mut Worker<Channel> {
        &mut self.worker
    }

    fn allocate(&mut self) -> Result<PageId, AllocateError> {
        let capacity = self.capacity;
        let page = self.reserve.borrow_mut().pop();
        page.ok_or(AllocateError::StoreFull { capacity })
    }
}

/// A worker's pages, and their cost on a core.
struct PagesModel {
    table: PageTable<Reserved>,
    /// Statistics of its pool when its operations had ended.
    seen: Option<Statistics>,
    flush: Option<Flush>,
    /// Result of writing pages to storage after the run.
    flushed: Option<Result<u64, FlushError>>,
    /// Whether it is its node's worker that writes pages to storage.
    flushes: bool,
}

impl Modelled for PagesModel {
    type Table = PageTable<Reserved>;

    fn table(&self) -> &Self::Table {
        &self.table
    }

    fn step(&mut self, session: &mut Session, context: &mut Context<'_>) -> Option<Step> {
        let (now, cpu) = (context.now(), *context.cpu());
        let mut metered = Metered::new(context.nic(), cpu);
        let mut sum = Stepped::default();
        let mut again = true;
        for _ in 0..TURNS {
            again = self.table.pages.worker.poll(now, &mut metered);
            let stepped = session.step(&|| now, &mut self.table);
            again |= stepped.happened;
            sum += stepped;
            if !again {
                break;
            }
        }
        let spent = metered.spent();
        context.charge(Category::Communication, spent);
        context.charge(Category::Compute, work(&cpu, sum));
        again.then_some(Step::Compute(SOON))
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.table.pages.worker.poll_timeout()
    }

    fn wind_up(&mut self, now: Instant, run: &Run, operating: usize) -> Step {
        let worker = &mut self.table.pages.worker;
        self.seen.get_or_insert(*worker.statistics());
        if !worker.is_idle() {
            return wait(now, worker.poll_timeout());
        }
        if operating > 0 {
            return Step::Sleep(LOOK);
        }
        let Some(flush) = self.flush else {
            if !self.flushes {
                return Step::Done;
            }
            self.flush = Some(worker.flush());
            return Step::Compute(SOON);
        };
        let Some(flushed) = worker.take_flush(flush) else {
            return Step::WaitUntil(now + LOOK);
        };
        self.flushed = Some(flushed.map(|flushed| flushed.written));
        for loss in worker.losses() {
            load::lost(run, loss);
        }
        Step::Done
    }
}

/// The time a core spends on the operations themselves.
fn work(cpu: &CpuModel, stepped: Stepped) -> Duration {
    cpu.cycles(devices::HOST_PAGE_OPERATION_CYCLES * stepped.handled)
        + cpu.memory_latency * (devices::HOST_PAGE_OPERATION_MISSES * stepped.handled)
        + loading(cpu, stepped.bytes)
}

fn spawn(
    rack: &mut SimulatedRack,
    job: &Job,
    medium: &MemoryBackend,
    (run, heap): (&Arc<Run>, &Arc<Heap>),
    reserve: Vec<PageId>,
) -> Result<Workers<PagesModel>> {
    let (options, nodes) = (&job.options, &job.nodes);
    let mut rng = Rng::new(job.config.seed).fork("ssds");
    let (model, stripe) = (SsdModel::default(), options.page_size);
    let ssds = SsdBackend::new(medium.clone(), &model, SSDS, stripe, &mut rng);
    // Reads in virtual time always ask, so leases would only delay writes.
    let options = &PagesOptions {
        lease_after: None,
        ..options.clone()
    };
    let service = options.pages(rack, nodes, Box::new(ssds))?;
    let reserve = Rc::new(RefCell::new(reserve));
    let count = nodes.compute.len() as u32 * u32::from(options.load.threads);
    let mut workers = Workers::new(count);
    let seed = options.load.ycsb.seed;
    let identity = load::identity(seed);
    for &node in &nodes.compute {
        let pool = |pool: &mut PoolConfig| (pool.store_id, pool.seed) = (identity, seed);
        for (at, worker) in service.polled_workers(node, pool)?.into_iter().enumerate() {
            worker.pool().set_identity(STORE, identity);
            let pages = Reserved {
                worker,
                reserve: Rc::clone(&reserve),
                capacity: heap.pages_max(),
            };
            let model = PagesModel {
                table: PageTable::new(pages, heap, workers.all.len() as u32),
                seen: None,
                flush: None,
                flushed: None,
                flushes: at == 0,
            };
            workers.spawn(rack, node, run, model)?;
        }
    }
    Ok(workers)
}
