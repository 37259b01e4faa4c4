//! YCSB over the page store: an NVMe target on a storage node, a store several times larger than
//! the pools of the compute nodes. On a running rack the demo allocates pages of a store that
//! others may use, too, and frees them.

use super::report::{Measure, SystemReport};
use super::yardstick::{self, MediumRates};
use super::{Scale, SystemName, SystemRun, clock, load};
use crate::demo::DemoPlan;
use crate::outcome::CliError;
use crate::programs::RealRack;
use rackweave_base::NodeId;
use rackweave_bench::pages::{Heap, Job, Medium, Outcome, PagesOptions, embedded};
use rackweave_endpoint::page_store::Statistics;
use rackweave_rack::RackConfig;
use rackweave_rack::config::{self, StoreConfig};
use rackweave_rack::services::PageService;
use serde_json::json;
use std::path::PathBuf;

/// Seconds of operations at scale factor 1.
const SECONDS: f64 = 12.0;

/// Records at scale factor 1, of 1000 bytes each.
const RECORDS: u64 = 200_000;

/// Ratio of the heap's size to that of all buffer frames.
const HEAP_TO_BUFFERS: u64 = 6;

/// The parameters, and the location of the store.
pub struct PagesPlan {
    job: Job,
    place: StoreLocation,
    /// Pages of the store.
    pages: u64,
    /// Why the store is not where the configuration says, if so.
    remark: Option<String>,
}

/// The location of the store.
enum StoreLocation {
    /// An unlinked file, or memory where none can be created.
    Temporary,
    /// A store of the configuration. A file that was created for this run is removed afterwards.
    Given(StoreConfig, Option<PathBuf>),
    /// The first store of a running rack.
    Running(PageService),
}

impl PagesPlan {
    /// The plan for a rack of `config`.
    ///
    /// # Errors
    /// If the rack's pages or nodes do not allow it.
    pub fn new(plan: &DemoPlan, scale: Scale) -> Result<Self, CliError> {
        let config = &plan.config;
        let mut nodes = plan.nodes()?;
        let (place, remark) = place_of(config);
        if let StoreLocation::Given(store, _) = &place {
            nodes.storage = storage_of(config, store)?;
        }
        let capacity = match &place {
            StoreLocation::Given(store, _) => Some(store.pages(config.switch.page_size)),
            _ => None,
        };
        let entries = u64::from(config.switch.page_entries);
        let smallest = config.switch.page_size;
        let mut options = PagesOptions {
            load: load(config),
            page_size: match &place {
                StoreLocation::Given(store, _) => store.page_size(smallest),
                _ => smallest,
            },
            indexed: (entries > 0).then_some(entries),
            ..PagesOptions::default()
        };
        let compute = nodes.compute.len() as u64;
        let needs = fit(&mut options, compute, scale, (0, capacity))?;
        options.check()?;
        let made = Self {
            job: Job {
                config: config.clone(),
                nodes,
                options,
            },
            place,
            pages: capacity.unwrap_or(needs),
            remark,
        };
        made.rack(config)?;
        Ok(made)
    }

    /// The plan for a running rack: pages of its first store, which may have others in use, and the
    /// buffer frames that its nodes have.
    ///
    /// # Errors
    /// If it has no page directory, or too few pages.
    fn of_running(plan: &DemoPlan, rack: &RealRack, scale: Scale) -> Result<Self, CliError> {
        let (config, nodes) = (rack.config().clone(), plan.nodes()?);
        let options = PagesOptions {
            load: load(&config),
            ..PagesOptions::default()
        };
        let (mut options, service) = options.of_rack(rack, &nodes)?;
        let store = service.stores().first();
        let store = store.ok_or_else(|| CliError::run("the rack has no store"))?;
        let pages = store.pages;
        let (buffer, compute) = (options.buffer_bytes, nodes.compute.len() as u64);
        let frames = u64::from(options.frames()) * compute;
        let least = frames + frames / 2;
        fit(&mut options, compute, scale, (least, Some(pages)))?;
        options.buffer_bytes = buffer;
        options.check()?;
        Ok(Self {
            job: Job {
                config,
                nodes,
                options,
            },
            place: StoreLocation::Running(service),
            pages,
            remark: None,
        })
    }

    /// `config`, enlarged for the plan.
    ///
    /// # Errors
    /// If pages have no directory.
    pub fn rack(&self, config: &RackConfig) -> Result<RackConfig, CliError> {
        let Job { options, nodes, .. } = &self.job;
        Ok(options.rack(config, nodes, self.pages)?)
    }

    fn medium(&self) -> Result<(Medium, String), CliError> {
        let (page_size, pages) = (self.job.options.page_size, self.pages);
        let memory = || Medium::memory(page_size, pages);
        let folder = std::env::temp_dir();
        Ok(match &self.place {
            StoreLocation::Given(store, _) => {
                let medium = Medium::Other(store.open(page_size)?);
                (medium, format!("store {}", store.name))
            }
            // Of the same kind, to be compared with.
            StoreLocation::Running(service) => {
                (memory(), format!("store {}", service.stores()[0].name))
            }
            StoreLocation::Temporary => match Medium::temporary(&folder, page_size, pages, false) {
                Ok(medium) => (medium, "temporary file".into()),
                Err(_) => (memory(), "memory".into()),
            },
        })
    }
}

impl Drop for PagesPlan {
    fn drop(&mut self) {
        if let StoreLocation::Given(_, Some(path)) = &self.place {
            // If it remains, the next run finds a heap in it and leaves it alone.
            let _stays = std::fs::remove_file(path);
        }
    }
}

/// The location of the store: the configuration's first store, unless that may contain data.
fn place_of(config: &RackConfig) -> (StoreLocation, Option<String>) {
    let Some(store) = config.store.first() else {
        return (StoreLocation::Temporary, None);
    };
    let path = match store.medium {
        config::Medium::Memory => None,
        config::Medium::File => store.path.clone(),
    };
    match path {
        Some(path) if path.exists() => {
            let remark = format!(
                "{} is there already and may hold something; the demo's store lies in a temporary \
                 file",
                path.display()
            );
            (StoreLocation::Temporary, Some(remark))
        }
        path => (StoreLocation::Given(store.clone(), path), None),
    }
}

fn storage_of(config: &RackConfig, store: &StoreConfig) -> Result<NodeId, CliError> {
    config.node_named(&store.node).ok_or_else(|| {
        CliError::run(format!(
            "store {} is on {}, which is no node",
            store.name, store.node
        ))
    })
}

/// Chooses records and buffers so that the ratio of heap and buffers is as planned, the heap has at
/// least `least` pages, and it fits a store of `capacity` pages if there is one. Returns the pages
/// that a store needs.
fn fit(
    options: &mut PagesOptions,
    nodes: u64,
    scale: Scale,
    (least, capacity): (u64, Option<u64>),
) -> Result<u64, CliError> {
    let per_page = Heap::layout(options)?.records_per_page();
    let workers = nodes * u64::from(options.load.threads);
    let page_size = u64::from(options.page_size);
    // The minimum that pending operations need, and as many spare ones.
    let frames_min = u64::from(options.load.threads) * u64::from(options.load.depth) * 2;
    let wanted = scale.records(RECORDS).div_ceil(per_page.into());
    let mut pages = wanted.max(frames_min * nodes * HEAP_TO_BUFFERS).max(least);
    loop {
        options.load.ycsb.records = pages * u64::from(per_page);
        let heap = Heap::for_run(options)?;
        let needs = heap.store_pages(workers);
        if capacity.is_none_or(|capacity| needs <= capacity) {
            let frames = (pages / HEAP_TO_BUFFERS / nodes).max(frames_min);
            options.buffer_bytes = frames * page_size;
            return Ok(needs);
        }
        // A store that is too small for this may suffice for less.
        pages = pages * 7 / 8;
        if pages == 0 {
            let bytes = needs * page_size;
            return Err(CliError::run(format!(
                "the store is too small for the demo; make store.bytes {bytes}"
            )));
        }
    }
}

/// The operations per second that this machine allows without a rack: the slower of reading and
/// writing the pages that a run moves by a medium alone at `alone`, and of copying them at `copied`
/// pages per second, because both can overlap.
fn limit(
    counts: &Statistics,
    operations: u64,
    (alone, copied): (MediumRates, f64),
) -> (&'static str, f64) {
    let read = counts.storage_indexed + counts.storage_fallback;
    let copies = counts.memory_indexed + counts.memory_fallback;
    let store = read as f64 / alone.reads + counts.written as f64 / alone.writes;
    let memory = copies as f64 / copied;
    match store >= memory {
        true => ("store", operations as f64 / store),
        false => ("copies", operations as f64 / memory),
    }
}

/// Runs the system.
///
/// # Errors
/// If the store cannot be created, or the rack has no capacity.
pub fn run(run: &SystemRun<'_>) -> Result<SystemReport, CliError> {
    let plan = &match run.rack.as_embedded() {
        Some(_) => PagesPlan::new(run.plan, run.scale)?,
        None => PagesPlan::of_running(run.plan, run.rack, run.scale)?,
    };
    let (mut medium, store) = plan.medium()?;
    let options = &plan.job.options;
    let workers = plan.job.nodes.compute.len() * usize::from(options.load.threads);
    let alone = yardstick::medium(
        medium.backend_mut(),
        options.page_size,
        workers * usize::from(options.load.depth),
        options.load.ycsb.seed,
    )?;
    let copied = yardstick::copied(options.page_size as usize);
    let progress = &mut clock(run.globals, "pages", run.scale.span(SECONDS));
    let outcome = match &plan.place {
        StoreLocation::Running(service) => {
            embedded::run_with(service, plan.pages, &plan.job, progress)?
        }
        _ => embedded::run_on(run.rack, &plan.job, medium, progress)?,
    };
    Ok(report(run, plan, &outcome, &store, (alone, copied)))
}

fn report(
    run: &SystemRun<'_>,
    plan: &PagesPlan,
    outcome: &Outcome,
    store: &str,
    (alone, copied): (MediumRates, f64),
) -> SystemReport {
    let (options, counts) = (&plan.job.options, &outcome.table.pages);
    let nodes = plan.job.nodes.compute.len();
    let rate = outcome.throughput();
    let (name, limit) = limit(counts, outcome.operations, (alone, copied));
    let did = format!("YCSB b, {nodes} nodes' pools");
    let measure = Measure::alone(did, rate, "op/s").beside(name, limit);
    let mut system = SystemReport::found(SystemName::Pages, run, [measure]);
    system.verified = outcome.is_verified() && outcome.operations > 0;
    let errors = outcome.first_errors.iter();
    let errors = errors.map(|error| format!("record {}: {}", error.key, error.reason));
    let failure = outcome.failure.map(|failure| failure.to_string());
    let rest = failure.into_iter().chain(outcome.not_flushed.clone());
    system.problems = errors.chain(rest).collect();
    let share = |count: u64| 100.0 * count as f64 / counts.fixes.max(1) as f64;
    let frames = u64::from(options.frames()) * nodes as u64;
    let times = outcome.table.heap_pages as f64 / frames as f64;
    let from = format!(
        "{:.0} % of pages from the own pool, {:.0} % from another node's, {:.0} % from the store \
         ({store}, {times:.1} times all pools)",
        share(counts.local_hits + counts.joined),
        share(counts.memory_indexed + counts.memory_fallback),
        share(counts.storage_indexed + counts.storage_fallback),
    );
    system.remark = Some(match &plan.remark {
        Some(remark) => format!("{from}; {remark}."),
        None => format!("{from}."),
    });
    system.details = json!({
        "workload": "b",
        "records": outcome.records,
        "operations": outcome.operations,
        "operation_seconds": outcome.seconds,
        "load_seconds": outcome.load_seconds,
        "store": store,
        "page_size_bytes": options.page_size,
        "heap_to_buffers": times,
        "indexed_pages": outcome.table.indexed,
        "pages": json!(outcome.table)["pages"],
        "verification_errors": outcome.errors,
        "store_alone_pages_read_per_s": alone.reads,
        "store_alone_pages_written_per_s": alone.writes,
        "memcpy_pages_per_s": copied,
    });
    system
}

#[cfg(test)]
mod tests;
