//! The command `figures`: runs the papers' experiments, draws them, and sets the papers' claims
//! beside ours. `files` writes, `report` is what is printed.

mod files;
mod report;

use crate::args::FiguresArgs;
use crate::globals::Globals;
use crate::outcome::{CliError, Verdict};
use crate::output;
use crate::progress::Progress;
use files::Folder;
use rackweave_bench::experiment::communication::embedded;
use rackweave_bench::experiment::{ALL, Experiment, ExperimentError, Run, Scale};
use rackweave_bench::figure::{Figure, claims_csv};
use report::{Failure, FigureReport, FiguresReport, List};
use std::time::Instant;

/// The simulator's seed without `--seed`.
const SEED: u64 = 1;

/// The claims of all figures of a run.
const CLAIMS: &str = "claims.csv";

/// Runs the command.
///
/// # Errors
/// If the folder or standard output cannot be written, or a figure is only simulated.
pub fn run(args: &FiguresArgs, globals: &Globals) -> Result<Verdict, CliError> {
    if args.list {
        output::print(globals, "figures-list", &List::all())?;
        return Ok(Verdict::Passed);
    }
    if args.embedded {
        check_embedded(&args.names)?;
    }
    // First, so that nobody waits for figures that cannot be kept.
    let folder = Folder::open(&args.out)?;
    let scale = if args.quick {
        Scale::Quick
    } else {
        Scale::Full
    };
    let mut report = FiguresReport::new(scale, globals.args.seed.unwrap_or(SEED));
    let mut figures = Vec::new();
    for experiment in chosen(&args.names) {
        let started = Instant::now();
        let name = experiment.name;
        match run_one(experiment, &report, (scale, args.embedded), globals) {
            Ok(figure) => {
                let name = &figure.name;
                let csv = folder.write(&format!("{name}.csv"), &figure.to_csv())?;
                let svg = folder.write(&format!("{name}.svg"), &figure.to_svg())?;
                let seconds = started.elapsed().as_secs_f64();
                let done = FigureReport::new(&figure, csv, svg, seconds);
                report.figures.push(done);
                figures.push(figure);
            }
            Err(ExperimentError::Interrupted) => break,
            Err(error) => report.failures.push(Failure {
                name,
                error: error.to_string(),
            }),
        }
        if globals.interrupt.is_set() {
            break;
        }
    }
    if !figures.is_empty() {
        report.claims_csv = Some(folder.write(CLAIMS, &claims_csv(&figures))?);
    }
    report.conclude(&figures, globals.interrupt.is_set());
    output::print(globals, "figures", &report)?;
    Ok(Verdict::of(report.verified))
}

/// The experiments of these names in the papers' order, each once; all if there are no names.
fn chosen(names: &[String]) -> impl Iterator<Item = &'static Experiment> {
    ALL.iter()
        .filter(|one| names.is_empty() || names.iter().any(|name| name == one.name))
}

/// Refuses figures that cannot be measured in real time.
fn check_embedded(names: &[String]) -> Result<(), CliError> {
    match names.iter().find(|name| embedded::which(name).is_none()) {
        None => Ok(()),
        Some(name) => Err(CliError::usage(format!(
            "{name} is simulated only: leave --embedded away, or name figures of the communication \
             tier, such as communication-6a"
        ))),
    }
}

fn run_one(
    experiment: &Experiment,
    report: &FiguresReport,
    (scale, in_real_time): (Scale, bool),
    globals: &Globals,
) -> Result<Figure, ExperimentError> {
    let mut progress = Progress::new(globals, experiment.name);
    let mut told = |share| {
        progress.set(|| share);
        !globals.interrupt.is_set()
    };
    let mut run = Run {
        scale,
        seed: report.seed,
        progress: &mut told,
    };
    match embedded::which(experiment.name).filter(|_| in_real_time) {
        Some(which) => embedded::figure(&mut run, experiment.name, which),
        None => (experiment.run)(&mut run),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_communication_tier_is_measured_in_real_time() {
        let check = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(ToString::to_string).collect();
            check_embedded(&names)
        };
        assert!(check(&["communication-6a", "communication-4b"]).is_ok());
        let error = check(&["communication-6a", "zero-sided-6"]).unwrap_err();
        assert!(error.to_string().contains("zero-sided-6 is simulated only"));
    }

    #[test]
    fn names_choose_in_the_papers_order() {
        let names = |given: &[&str]| -> Vec<&str> {
            let given: Vec<String> = given.iter().map(ToString::to_string).collect();
            chosen(&given).map(|one| one.name).collect()
        };
        assert_eq!(names(&[]).len(), ALL.len());
        let two = ["zero-sided-7", "zero-sided-6", "zero-sided-7"];
        assert_eq!(names(&two), ["zero-sided-6", "zero-sided-7"]);
    }
}
