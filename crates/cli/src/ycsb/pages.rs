//! YCSB over the page store: its options, the location of the store, and its report.

use super::args::{Leases, YcsbArgs};
use super::{errors, finish, simulated_or, with_progress};
use crate::globals::{Format, Globals};
use crate::outcome::{CliError, Verdict};
use crate::output;
use crate::programs::RealRack;
use rackweave_bench::pages::{Heap, Job, Medium, Outcome, PagesOptions, embedded, simulated};
use rackweave_bench::ycsb::{Nodes, YcsbError};
use rackweave_rack::config::Role;
use serde_json::json;

/// Default bytes of a node's buffer frames: the default store is six times larger than those of
/// both nodes.
const BUFFER: u64 = 16 << 20;
const BUFFER_SIMULATED: u64 = 2 << 20;

/// Runs YCSB over the page store.
///
/// # Errors
/// If the arguments or the configuration are invalid, the rack cannot do what is requested, or the
/// store cannot be created or opened.
pub fn run(args: &YcsbArgs, globals: &Globals) -> Result<Verdict, CliError> {
    let (mut job, joined) = plan(args, globals)?;
    if let Some(rack) = joined {
        return on_running(args, globals, &rack, job);
    }
    if args.leases != Leases::Both {
        let (verdict, _) = on_own(args, globals, &job)?;
        return Ok(verdict);
    }
    let with = job.options.lease_after.take();
    let (verdict, off) = on_own(args, globals, &job)?;
    if verdict != Verdict::Passed {
        return Ok(verdict);
    }
    job.options.lease_after = with;
    let (verdict, on) = on_own(args, globals, &job)?;
    if globals.args.format == Format::Text {
        let ratio = on / off;
        output::line(&format!(
            "with leases, {ratio:.2} times as many operations/s"
        ))?;
    }
    Ok(verdict)
}

/// Runs on a rack of its own. Returns the operations per second as well.
fn on_own(args: &YcsbArgs, globals: &Globals, job: &Job) -> Result<(Verdict, f64), CliError> {
    let explain = |error| errors::explain(&error, args);
    job.options.check().map_err(explain)?;
    let (medium, store) = medium(args, job).map_err(explain)?;
    let outcome = with_progress(globals, |progress| match args.simulated {
        true => simulated::run(job, medium, progress),
        false => {
            let rack = embedded::rack(job, &medium)?;
            globals.live.watch(rack.observer());
            embedded::run_on(&rack, job, medium, progress)
        }
    });
    let Ok(Some(outcome)) = outcome else {
        // A partially created store is useless. If it remains, it will be found to be incomplete.
        if let (Some(path), false) = (&args.file, args.reuse) {
            let _stays = std::fs::remove_file(path);
        }
        return outcome.map(|_| (Verdict::Failed, 0.0)).map_err(explain);
    };
    let verdict = report(args, globals, (job, &store), &outcome)?;
    Ok((verdict, outcome.throughput()))
}

/// Runs on the pages of a running rack: in its first store, which others may use, with the buffer
/// frames that its nodes have.
fn on_running(
    args: &YcsbArgs,
    globals: &Globals,
    rack: &RealRack,
    mut job: Job,
) -> Result<Verdict, CliError> {
    let explain = |error| errors::explain(&error, args);
    let made = job.options.of_rack(rack, &job.nodes);
    let (options, service) = made.map_err(explain)?;
    job.options = options;
    job.options.check().map_err(explain)?;
    let store = service.stores().first();
    let store = store.ok_or_else(|| CliError::run("the rack has no store"))?;
    let outcome = with_progress(globals, |progress| {
        embedded::run_with(&service, store.pages, &job, progress)
    });
    match outcome.map_err(explain)? {
        Some(outcome) => report(args, globals, (&job, &store.name), &outcome),
        None => Ok(Verdict::Failed),
    }
}

fn plan(args: &YcsbArgs, globals: &Globals) -> Result<(Job, Option<RealRack>), CliError> {
    let (mut config, joined) = super::config(args, 0, globals)?;
    let own = globals.first_given(&super::OF_PAGES);
    if let (Some(flag), true) = (own, joined.is_some()) {
        return Err(CliError::usage(format!(
            "{flag} is for a rack of one's own; a running rack has its pages, stores and buffer \
             frames already"
        )));
    }
    if args.simulated && (args.file.is_some() || args.memory || args.double_write) {
        return Err(CliError::usage(
            "the store of a simulated rack lies in memory behind modelled SSDs; leave --file, \
             --memory and --double-write away",
        ));
    }
    if let (true, Some(flag)) = (args.simulated, globals.first_given(&super::OF_LEASES)) {
        return Err(CliError::usage(format!(
            "{flag} goes with real time: in virtual time nodes get no leases"
        )));
    }
    if args.leases == Leases::Both && args.file.is_some() {
        return Err(CliError::usage(
            "--leases both makes a store twice; leave --file away",
        ));
    }
    if globals.args.config.is_none() && joined.is_none() {
        config.node = Nodes::configs(args.nodes.unwrap_or(2), &[Role::Memory]);
    }
    let mut nodes = match &joined {
        Some(rack) => super::nodes_of(rack, 0),
        None => super::nodes(args, &config)?,
    };
    if let Some(name) = &args.fallback {
        let node = config.node_named(name).ok_or_else(|| {
            let names: Vec<_> = config.node.iter().map(|node| &*node.name).collect();
            CliError::usage(format!(
                "--fallback: there is no node {name}; there are {}",
                names.join(", ")
            ))
        })?;
        nodes.memory = Some(node);
    }
    let page_size = args.page_size.unwrap_or(config.switch.page_size.into());
    let buffer = simulated_or(args, BUFFER_SIMULATED, BUFFER);
    let options = PagesOptions {
        load: super::load(args, config.seed),
        page_size: u32::try_from(page_size).unwrap_or(u32::MAX),
        buffer_bytes: args.buffer.unwrap_or(buffer),
        indexed: args.indexed,
        lease_after: match args.leases {
            _ if args.simulated => None,
            Leases::Off => None,
            Leases::On | Leases::Both => Some(args.lease_after),
        },
        reuse: args.reuse,
        shared: false,
        records_there: args.records,
    };
    let job = Job {
        config,
        nodes,
        options,
    };
    Ok((job, joined))
}

/// Prints the results.
fn report(
    args: &YcsbArgs,
    globals: &Globals,
    (job, store): (&Job, &str),
    outcome: &Outcome,
) -> Result<Verdict, CliError> {
    let (options, load, found) = (&job.options, &job.options.load, &outcome.table);
    let (nodes, pages) = (job.nodes.compute.len(), &found.pages);
    let frames = nodes as f64 * f64::from(options.frames());
    let share = |part: u64| part as f64 / pages.fixes.max(1) as f64;
    let parameters = json!({
        "page_size_bytes": options.page_size,
        "buffer_bytes": options.buffer_bytes,
        "lease_after": options.lease_after,
        "nodes": nodes,
        "depth": load.depth,
    });
    let derived = json!({
        "store": store,
        "heap_to_buffers": found.heap_pages as f64 / frames,
        "shares": {
            "local": share(pages.local_hits + pages.joined),
            "leased": share(pages.leased_hits),
            "memory": share(pages.memory_indexed + pages.memory_fallback),
            "storage": share(pages.storage_indexed + pages.storage_fallback),
        },
        "written_bytes": pages.written * u64::from(options.page_size),
    });
    let of = (load, outcome);
    finish((args, globals), "pages", of, parameters, derived)
}

/// The medium of the store, and its name.
fn medium(args: &YcsbArgs, job: &Job) -> Result<(Medium, String), YcsbError> {
    let options = &job.options;
    let workers = job.nodes.compute.len() as u64 * u64::from(options.load.threads);
    let pages = Heap::for_run(options)?.store_pages(workers);
    let (page_size, doubles) = (options.page_size, args.double_write);
    let (medium, name) = match &args.file {
        Some(path) => {
            let medium = match args.reuse {
                true => Medium::open(path, doubles)?,
                false => Medium::create(path, page_size, pages, doubles)?,
            };
            (medium, path.display().to_string())
        }
        None if args.memory || args.simulated => {
            (Medium::memory(page_size, pages), "memory".to_owned())
        }
        None => {
            let folder = std::env::temp_dir();
            let medium = Medium::temporary(&folder, page_size, pages, doubles)?;
            (medium, "temporary file".to_owned())
        }
    };
    let doubled = if doubles { ", double writes" } else { "" };
    Ok((medium, name + doubled))
}
