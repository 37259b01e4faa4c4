//! Chaos on hosted racks: each seed starts its own rack of processes and programs that join it.
//! [`rackweave_chaos::hosted`] has the campaign, [`launcher`] starts the processes for it, and
//! [`program`] is that of a program.

mod launcher;
pub mod program;

use super::{ChaosArgs, report};
use crate::globals::Globals;
use crate::hosted::etcd;
use crate::outcome::{CliError, Verdict};
use crate::output;
use crate::progress::Progress;
use launcher::Command;
use rackweave_chaos::hosted::{CampaignReport, HostedPlan, run_seed};
use rackweave_rack::RackConfig;

/// Seeds without `--seeds`.
const SEEDS: u64 = 5;

/// Runs the campaign, one seed after another: each has more processes than most machines have
/// cores.
///
/// # Errors
/// If the arguments are invalid, or the system has no resources for a rack.
pub fn run(
    args: &ChaosArgs,
    template: Option<&RackConfig>,
    globals: &Globals,
) -> Result<Verdict, CliError> {
    if args.jobs.is_some() {
        return Err(CliError::usage(
            "--jobs is for simulated systems; seeds of hosted racks run one after the other",
        ));
    }
    let seeds = super::seeds(args, SEEDS, globals)?;
    let config_file = globals
        .args
        .config
        .as_deref()
        .filter(|_| template.is_some());
    let count = seeds.end - seeds.start;
    let mut found = CampaignReport::new(seeds.start, count, config_file, args.faults);
    let (has_etcd, interrupt) = (etcd::is_installed(), globals.interrupt.flag());
    let mut progress = Progress::new(globals, "chaos hosted");
    for seed in seeds {
        let is_over = args.fail_fast && found.seeds_failed > 0;
        if is_over || globals.interrupt.is_set() {
            break;
        }
        let mut plan = HostedPlan::new(seed, template, has_etcd);
        if let Some(most) = args.faults {
            plan.faults.truncate(most as usize);
        }
        found.add(run_seed(
            &plan,
            &Command,
            args.journals.as_deref(),
            interrupt,
        )?);
        progress.set(|| found.seeds_run as f64 / count as f64);
    }
    drop(progress);
    found.conclude();
    output::print_as(globals, "chaos", &found, report::of_processes)?;
    Ok(Verdict::of(found.verified))
}
