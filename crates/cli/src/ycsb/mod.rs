//! The command `ycsb`: the core workloads over the page store or the index, every record that is
//! read verified.
//!
//! `bench::pages` and `bench::index` run them; here is what can be said, and the reports.

pub mod args;
mod errors;
mod index;
mod index_report;
mod pages;
mod report;

use crate::globals::Globals;
use crate::mode::{EMBEDDED, SIMULATED};
use crate::outcome::{CliError, Verdict};
use crate::progress::Progress;
use args::{Target, YcsbArgs};
use rackweave_bench::ycsb::Phase;
use rackweave_workload::ycsb::YcsbOptions;

/// Operations of a thread under way at a time if the user does not say.
const DEPTH: u16 = 8;

/// Runs the command.
///
/// # Errors
/// If the arguments or the configuration make no sense, the rack cannot do what is asked, or what
/// records are to lie in cannot be made or opened.
pub fn run(args: &YcsbArgs, globals: &Globals) -> Result<Verdict, CliError> {
    refuse_foreign(args)?;
    match args.target {
        Target::Pages => pages::run(args, globals),
        Target::Index => index::run(args, globals),
    }
}

/// Refuses options of the other target: they would be taken for something they are not.
fn refuse_foreign(args: &YcsbArgs) -> Result<(), CliError> {
    let of_pages = [
        (args.page_size.is_some(), "--page-size"),
        (args.buffer.is_some(), "--buffer"),
        (args.indexed.is_some(), "--indexed"),
        (args.fallback.is_some(), "--fallback"),
        (args.file.is_some(), "--file"),
        (args.reuse, "--reuse"),
        (args.memory, "--memory"),
        (args.double_write, "--double-write"),
    ];
    let of_index = [
        (args.access.is_some(), "--access"),
        (args.node_size.is_some(), "--node-size"),
        (args.endpoints.is_some(), "--endpoints"),
        (args.cache.is_some(), "--cache"),
        (args.server_threads.is_some(), "--server-threads"),
        (args.fan_out.is_some(), "--fan-out"),
        (args.scan_parts.is_some(), "--scan-parts"),
    ];
    let (foreign, other) = match args.target {
        Target::Pages => (&of_index[..], "index"),
        Target::Index => (&of_pages[..], "pages"),
    };
    match foreign.iter().find(|(is_given, _)| *is_given) {
        None => Ok(()),
        Some((_, flag)) => Err(CliError::usage(format!(
            "{flag} goes with --target {other}; leave it out"
        ))),
    }
}

/// The workload that the user means.
fn workload(args: &YcsbArgs, seed: u64) -> YcsbOptions {
    YcsbOptions {
        workload: args.workload,
        records: args.records.unwrap_or(simulated_or(args, 20_000, 200_000)),
        operations: args
            .operations
            .unwrap_or(simulated_or(args, 20_000, 100_000)),
        distribution: args.distribution,
        theta: args.theta,
        seed,
        record_size: u32::try_from(args.record_size).unwrap_or(u32::MAX),
        scan_length_max: args.scan_length,
    }
}

/// What is the default of a simulated rack, or that of an embedded one.
fn simulated_or(args: &YcsbArgs, simulated: u64, embedded: u64) -> u64 {
    if args.simulated { simulated } else { embedded }
}

/// What is done in a phase.
fn name_of(phase: Phase) -> &'static str {
    match phase {
        Phase::Load => "loading records",
        Phase::Open => "reading the store",
        Phase::Run => "running operations",
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
            self.bar = Some((phase, Progress::new(self.globals, name_of(phase))));
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
