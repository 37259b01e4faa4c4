//! The command `chaos`: simulated seeds in parallel on all cores, each judged on its own; several
//! campaigns in turn in [`all`], racks of processes in [`hosted`].

mod all;
mod hosted;
mod report;

use crate::globals::{Globals, RackArgs};
use crate::outcome::{CliError, Verdict};
use crate::progress::Progress;
use crate::{output, pool};
use clap::Args;
pub use hosted::program::{ProgramArgs, run as run_program};
use rackweave_chaos::hosted::NAME;
use rackweave_chaos::{CampaignReport, IndexAccess, Options, System};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

/// Seeds of a simulated system without `--seeds`.
const SEEDS: u64 = 100;

/// Arguments of `chaos`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  rackweave chaos --system flows --seeds 1000
  rackweave chaos --system flows --seeds 1 --seed 4711     replay one schedule
  rackweave chaos --system index --access one-sided        all clients read by READs
  rackweave chaos --system index --access in-network       and are led by the switches
  rackweave chaos --system sequencer --seeds 3000          no number twice, none missing
  rackweave chaos --system messaging --seeds 3000          each message once, or an error at both
  rackweave chaos --system all --seeds 10000               all simulated systems, one verdict
  rackweave chaos --system hosted                          kill processes of hosted racks

Systems: flows, pages, index, sequencer, messaging (in the simulator), all (those, one after the
other), hosted (racks of processes, each in a folder of its own). With a configuration that has a
[hosted] section, hosted is meant, and it is their template.")]
pub struct ChaosArgs {
    /// What is put under stress; without it, flows
    #[arg(long, value_name = "NAME")]
    pub system: Option<String>,
    /// How many schedules; the first has the seed given by --seed. Without it 100, or 5 of hosted
    /// racks
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    pub seeds: Option<u64>,
    /// Begin no more schedules after the first that fails
    #[arg(long)]
    pub fail_fast: bool,
    /// Plant this bug first; `list` names them. Only in a build made for it
    #[arg(long, value_name = "NAME")]
    pub canary: Option<String>,
    /// How all clients of an index read: rpc, one-sided or in-network; without it, each as its seed
    /// says
    #[arg(long, value_name = "HOW")]
    pub access: Option<String>,
    /// At most so many faults, one after the other, in each seed of hosted racks; without it, three
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub faults: Option<u32>,
    /// Keep what the processes of hosted racks recorded in seeds that fail, in this folder
    #[arg(long, value_name = "FOLDER")]
    pub journals: Option<PathBuf>,
    /// Threads, each with schedules of its own; without it, one per core
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
}

/// Runs the command.
///
/// # Errors
/// If the system does not exist, or standard output cannot be written.
pub fn run(args: &ChaosArgs, globals: &Globals) -> Result<Verdict, CliError> {
    // A configuration without processes does not affect campaigns.
    let template = globals.hosted(&RackArgs::default())?;
    let name = match (&args.system, &template) {
        (Some(name), _) => name.as_str(),
        (None, Some(_)) => NAME,
        (None, None) => System::Flows.name(),
    };
    if name == NAME {
        return hosted::run(args, template.as_ref(), globals);
    }
    let attacks = if name == all::NAME {
        all::attacks(args)?
    } else {
        let unknown = |error| CliError::usage(format!("{error}, {}, {}", NAME, all::NAME));
        let system: System = name.parse().map_err(unknown)?;
        vec![(system, options(args, system)?)]
    };
    let seeds = seeds(args, SEEDS, globals)?;
    let jobs = args
        .jobs
        .map_or_else(pool::cores, usize::from)
        .min((seeds.end - seeds.start) as usize)
        .max(1);
    // A panic under test is reported as a violation, not in the middle of the output.
    let usual_hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let reports = attacks
        .iter()
        .map(|attack| campaign(attack, seeds.clone(), (jobs, args.fail_fast), globals));
    let result = if name == all::NAME {
        let reports: Result<Vec<_>, _> = reports.collect();
        reports.and_then(|reports| all::conclude(&reports, globals))
    } else {
        print_each(reports, globals)
    };
    std::panic::set_hook(usual_hook);
    result
}

/// The requested seeds, from the first one on; `default` is their number if none is given.
fn seeds(args: &ChaosArgs, default: u64, globals: &Globals) -> Result<Range<u64>, CliError> {
    let first = globals.args.seed.unwrap_or(0);
    let end = first.checked_add(args.seeds.unwrap_or(default));
    let end = end.ok_or_else(|| {
        CliError::usage("--seed and --seeds together go beyond 2^64; lower one of them")
    })?;
    Ok(first..end)
}

fn print_each(
    reports: impl Iterator<Item = Result<CampaignReport, CliError>>,
    globals: &Globals,
) -> Result<Verdict, CliError> {
    let mut verified = true;
    for found in reports {
        let found = found?;
        output::print_as(globals, "chaos", &found, report::simulated)?;
        verified &= found.verified;
    }
    Ok(Verdict::of(verified))
}

/// A campaign: the attacked system, and options for all of its seeds.
type Attack = (System, Options);

/// Options that apply to all seeds.
fn options(args: &ChaosArgs, system: System) -> Result<Options, CliError> {
    let Some(name) = &args.access else {
        return Ok(Options::default());
    };
    if system != System::Index {
        let message = format!("--access is for --system index; {system} knows nothing of it");
        return Err(CliError::usage(message));
    }
    let mut known = IndexAccess::ALL.into_iter();
    let access = known.find(|access| access.name() == name);
    let unknown = || {
        let known = IndexAccess::ALL.map(IndexAccess::name).join(" or ");
        CliError::usage(format!("--access is {known}, not {name:?}"))
    };
    let access = Some(access.ok_or_else(unknown)?);
    Ok(Options { access })
}

fn campaign(
    &(system, options): &Attack,
    seeds: Range<u64>,
    (jobs, fail_fast): (usize, bool),
    globals: &Globals,
) -> Result<CampaignReport, CliError> {
    let next = AtomicU64::new(seeds.start);
    let mut report = CampaignReport::new(system, options, seeds.start, seeds.end - seeds.start);
    let mut progress = Progress::new(globals, format!("chaos {}", report.name()));
    let seed = || {
        let seed = (!globals.interrupt.is_set()).then(|| next.fetch_add(1, Ordering::Relaxed));
        seed.filter(|seed| *seed < seeds.end)
    };
    let run = |seed| rackweave_chaos::run_with(system, seed, &options);
    pool::run(("chaos", jobs), seed, run, |seed| {
        report.add(system, seed);
        if fail_fast && report.seeds_failed > 0 {
            next.store(seeds.end, Ordering::Relaxed);
        }
        progress.set(|| report.seeds_run as f64 / report.seeds as f64);
        Ok(())
    })?;
    report.conclude();
    Ok(report)
}
