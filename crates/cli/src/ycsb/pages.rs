//! YCSB over the page store: what is asked for, and where the store lies.

use super::args::YcsbArgs;
use super::report::YcsbReport;
use super::{Bars, errors, simulated_or};
use crate::globals::Globals;
use crate::mode::Mode;
use crate::outcome::{CliError, Verdict};
use crate::output;
use rackweave_base::NodeId;
use rackweave_bench::pages::{
    Heap, Job, Medium, Nodes, PagesError, PagesOptions, embedded, simulated,
};
use rackweave_rack::RackConfig;

/// Bytes of a node's buffer frames if the user does not say: the default store is six times larger
/// than those of both nodes.
const BUFFER: u64 = 16 << 20;
const BUFFER_SIMULATED: u64 = 2 << 20;

/// Runs over pages.
///
/// # Errors
/// If the arguments or the configuration make no sense, the rack cannot do what is asked, or the
/// store cannot be made or opened.
pub fn run(args: &YcsbArgs, globals: &Globals) -> Result<Verdict, CliError> {
    let job = plan(args, globals)?;
    let store = Store::of(args, &job);
    let medium = store
        .make(args, &job)
        .map_err(|error| errors::tell(&error, args))?;
    let mut bars = Bars::new(globals);
    let mut progress = |phase, fraction: f64| {
        globals.live.phase(super::name_of(phase));
        bars.set(phase, fraction)
    };
    let outcome = if args.simulated {
        simulated::run(&job, medium, &mut progress)
    } else {
        embedded::rack(&job, &medium).and_then(|rack| {
            globals.live.watch(rack.observer());
            embedded::run_on(&rack, &job, medium, &mut progress)
        })
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
    if args.simulated && (args.file.is_some() || args.memory || args.double_write) {
        return Err(CliError::usage(
            "the store of a simulated rack lies in memory behind modelled SSDs; leave --file, \
             --memory and --double-write away",
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
    let options = PagesOptions {
        ycsb: super::workload(args, config.seed),
        page_size,
        buffer_bytes: args
            .buffer
            .unwrap_or(simulated_or(args, BUFFER_SIMULATED, BUFFER)),
        threads: args.threads,
        depth: args.depth.unwrap_or(super::DEPTH),
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
        let doubles = args.double_write;
        match *self {
            Self::Memory { pages } => Ok(Medium::memory(page_size, pages)),
            Self::Temporary { pages } => {
                Medium::temporary(&std::env::temp_dir(), page_size, pages, doubles)
            }
            Self::New { pages } => Medium::create(path, page_size, pages, doubles),
            Self::Old => Medium::open(path, doubles),
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
        let name = match (self, &args.file) {
            (Self::Memory { .. }, _) => "memory".to_owned(),
            (_, Some(path)) => path.display().to_string(),
            _ => "temporary file".to_owned(),
        };
        match args.double_write {
            true => name + ", double writes",
            false => name,
        }
    }
}
