//! The command `ycsb`: the core workloads over the page store, every record that is read verified.
//!
//! `bench::pages` runs them; here is what can be said, where the store lies, and the report.

pub mod args;
mod errors;
mod report;

use crate::globals::Globals;
use crate::mode::{EMBEDDED, Mode, SIMULATED};
use crate::outcome::{CliError, Verdict};
use crate::output;
use crate::progress::Progress;
use args::{Target, YcsbArgs};
use rackweave_base::NodeId;
use rackweave_bench::pages::{
    Heap, Job, Medium, Nodes, PagesError, PagesOptions, Phase, embedded, simulated,
};
use rackweave_rack::RackConfig;
use rackweave_workload::ycsb::YcsbOptions;
use report::YcsbReport;

/// Bytes of a node's buffer frames if the user does not say: the default store is six times larger
/// than those of both nodes.
const BUFFER: u64 = 16 << 20;
const BUFFER_SIMULATED: u64 = 2 << 20;

/// Runs the command.
///
/// # Errors
/// If the arguments or the configuration make no sense, the rack cannot do what is asked, or the
/// store cannot be made or opened.
pub fn run(args: &YcsbArgs, globals: &Globals) -> Result<Verdict, CliError> {
    if args.target == Target::Index {
        return Err(CliError::usage(
            "--target index: there is no B+tree yet; use --target pages",
        ));
    }
    let job = plan(args, globals)?;
    let store = Store::of(args, &job);
    let medium = store
        .make(args, &job)
        .map_err(|error| errors::tell(&error, args))?;
    let mut bars = Bars::new(globals);
    let mut progress = |phase, fraction: f64| bars.set(phase, fraction);
    let outcome = if args.simulated {
        simulated::run(&job, medium, &mut progress)
    } else {
        embedded::run(&job, medium, &mut progress)
    };
    drop(bars);
    if outcome.is_err() {
        store.clear_away(args);
    }
    let outcome = match outcome {
        // The user knows; there is nothing to report.
        Err(PagesError::Interrupted) => return Ok(Verdict::Failed),
        other => other.map_err(|error| errors::tell(&error, args))?,
    };
    let report = YcsbReport::new(args, &job, store.name(args), &outcome);
    output::print(globals, "ycsb", &report)?;
    Ok(Verdict::of(report.verified))
}

fn plan(args: &YcsbArgs, globals: &Globals) -> Result<Job, CliError> {
    let mode = Mode::of(args.simulated, &args.rack, globals)?;
    if let Mode::Hosted(_) = mode {
        return Err(CliError::usage(
            "a hosted rack has no page store yet; leave --hosted away, or use a configuration \
             without [hosted]",
        ));
    }
    if args.simulated && (args.file.is_some() || args.memory) {
        return Err(CliError::usage(
            "the store of a simulated rack lies in memory behind modelled SSDs; leave --file and \
             --memory away",
        ));
    }
    let mut config = mode.config(&args.rack, globals)?;
    if globals.args.config.is_none() {
        config.node = Nodes::configs(args.nodes.unwrap_or(2));
    }
    let nodes = nodes(args, &config)?;
    let page_size = match args.page_size {
        Some(bytes) => u32::try_from(bytes).unwrap_or(u32::MAX),
        None => config.switch.page_size,
    };
    let small = args.simulated;
    let options = PagesOptions {
        ycsb: YcsbOptions {
            workload: args.workload,
            records: args.records.unwrap_or(if small { 20_000 } else { 200_000 }),
            operations: args
                .operations
                .unwrap_or(if small { 20_000 } else { 100_000 }),
            distribution: args.distribution,
            theta: args.theta,
            seed: config.seed,
            record_size: u32::try_from(args.record_size).unwrap_or(u32::MAX),
            scan_length_max: args.scan_length,
        },
        page_size,
        buffer_bytes: args
            .buffer
            .unwrap_or(if small { BUFFER_SIMULATED } else { BUFFER }),
        threads: args.threads,
        depth: args.depth,
        indexed: args.indexed,
        rate: args.rate,
    };
    options
        .check()
        .map_err(|error| errors::tell(&error, args))?;
    Ok(Job {
        config,
        nodes,
        options,
        reuse: args.reuse,
        records: args.records,
    })
}

/// The nodes that the user means.
fn nodes(args: &YcsbArgs, config: &RackConfig) -> Result<Nodes, CliError> {
    let mut nodes = Nodes::of(config).ok_or_else(|| {
        CliError::usage(
            "a compute and a storage node are needed; add [[node]] entries with role = \"compute\" \
             and role = \"storage\" to the configuration",
        )
    })?;
    if let Some(count) = args.nodes {
        let has = nodes.compute.len();
        if usize::from(count) > has {
            return Err(CliError::usage(format!(
                "--nodes is {count}, and the configuration has {has} compute nodes"
            )));
        }
        nodes.compute.truncate(count.into());
    }
    if let Some(name) = &args.fallback {
        let at = config.node.iter().position(|node| node.name == *name);
        let at = at.ok_or_else(|| {
            let names: Vec<_> = config.node.iter().map(|node| &*node.name).collect();
            CliError::usage(format!(
                "--fallback: there is no node {name}; there are {}",
                names.join(", ")
            ))
        })?;
        nodes.memory = Some(NodeId(at as u16));
    }
    Ok(nodes)
}

/// Where the store lies.
enum Store {
    Memory { pages: u64 },
    Temporary { pages: u64 },
    New { pages: u64 },
    Old,
}

impl Store {
    fn of(args: &YcsbArgs, job: &Job) -> Self {
        let workers = job.nodes.compute.len() as u64 * u64::from(job.options.threads);
        let pages = Heap::for_run(&job.options).map_or(0, |heap| heap.store_pages(workers));
        match (&args.file, args.reuse) {
            (Some(_), true) => Self::Old,
            (Some(_), false) => Self::New { pages },
            (None, _) if args.memory || args.simulated => Self::Memory { pages },
            (None, _) => Self::Temporary { pages },
        }
    }

    fn make(&self, args: &YcsbArgs, job: &Job) -> Result<Medium, PagesError> {
        let page_size = job.options.page_size;
        let path = args.file.as_deref().unwrap_or(std::path::Path::new(""));
        match *self {
            Self::Memory { pages } => Ok(Medium::memory(page_size, pages)),
            Self::Temporary { pages } => Medium::temporary(&std::env::temp_dir(), page_size, pages),
            Self::New { pages } => Medium::create(path, page_size, pages),
            Self::Old => Medium::open(path),
        }
    }

    /// A store that was being made came to nothing: what is there is of no use.
    fn clear_away(&self, args: &YcsbArgs) {
        if let (Self::New { .. }, Some(path)) = (self, &args.file) {
            // If it stays, it will be found to be unfinished.
            let _stays = std::fs::remove_file(path);
        }
    }

    fn name(&self, args: &YcsbArgs) -> String {
        match (self, &args.file) {
            (Self::Memory { .. }, _) => "memory".to_owned(),
            (_, Some(path)) => path.display().to_string(),
            _ => "temporary file".to_owned(),
        }
    }
}

/// A progress bar for each phase.
struct Bars<'a> {
    globals: &'a Globals,
    bar: Option<(Phase, Progress)>,
}

impl<'a> Bars<'a> {
    fn new(globals: &'a Globals) -> Self {
        Self { globals, bar: None }
    }

    /// False if the user wants an end.
    fn set(&mut self, phase: Phase, fraction: f64) -> bool {
        if self.bar.as_ref().is_none_or(|(at, _)| *at != phase) {
            let what = match phase {
                Phase::Load => "loading records",
                Phase::Open => "reading the store",
                Phase::Run => "running operations",
            };
            self.bar = Some((phase, Progress::new(self.globals, what)));
        }
        if let Some((_, bar)) = &mut self.bar {
            bar.set(|| fraction);
        }
        !self.globals.interrupt.is_set()
    }
}

/// The name of the kind of rack.
fn mode_name(args: &YcsbArgs) -> &'static str {
    if args.simulated { SIMULATED } else { EMBEDDED }
}
