//! The command `figures`: runs the papers' experiments, draws them, and compares the papers' claims
//! with our results. `jobs` runs several at a time, `files` writes, `report` is what is printed.

mod files;
mod jobs;
mod report;

use crate::globals::Globals;
use crate::info::fnv1a;
use crate::outcome::{CliError, Verdict};
use crate::{output, pool};
use clap::{Args, ValueEnum};
use files::Folder;
use rackweave_bench::experiment::communication::embedded;
use rackweave_bench::experiment::{ALL, Experiment};
use rackweave_bench::figure::{Figure, claims_csv};
use rackweave_bench::harness::{ExperimentError, Run, Scale};
use rackweave_bench::report::{Entry, Outcome, Report, State, configuration};
use serde_json::json;
use std::path::PathBuf;
use std::time::Instant;

/// The simulator's seed without `--seed`.
const SEED: u64 = 1;

/// The claims of all figures of a run.
const CLAIMS: &str = "claims.csv";

/// All figures of a run, as a page for readers.
const PAGE: &str = "report.html";

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Arguments of `figures`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  rackweave figures --list
  rackweave figures                                  all of them: minutes
  rackweave figures zero-sided-6 --quick --out /tmp/figures
  rackweave figures zero-sided-7 --format json
  rackweave figures communication-6a --embedded

report.html has everything in one page: open it in a browser. Of each figure NAME.csv has the curves
and NAME.svg the picture; claims.csv has what the papers say beside what was measured. The racks are
the papers' testbeds: --config changes nothing here. A ratio that is far from one is no failure.")]
pub struct FiguresArgs {
    /// Which figures; without names, all
    #[arg(value_name = "NAME",
          value_parser = clap::builder::PossibleValuesParser::new(
              ALL.iter().map(|one| one.name)))]
    pub names: Vec<String>,
    /// How much is run
    #[arg(long, value_enum, default_value_t = FiguresScale::Full, conflicts_with = "quick")]
    pub scale: FiguresScale,
    /// Few points and short runs: short for --scale quick
    #[arg(long)]
    pub quick: bool,
    /// Figures that run at a time, each on one core; without it, as many as there are cores. The
    /// result does not depend on it
    #[arg(long, value_name = "N")]
    pub jobs: Option<std::num::NonZeroUsize>,
    /// Where the files go
    #[arg(long, value_name = "DIR", default_value = "figures")]
    pub out: PathBuf,
    /// Measure on an embedded rack in real time instead, beside this machine's memcpy; the
    /// communication tier's figures only
    #[arg(long, requires = "names")]
    pub embedded: bool,
    /// Print what there is, and run nothing
    #[arg(long)]
    pub list: bool,
}

/// How much of the figures is run.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum FiguresScale {
    /// Few points, small data and short runs
    Quick,
    /// Every claim at the paper's point, and enough points for the shape of each curve
    Full,
    /// The paper's sweeps as far as this machine can run them; takes long
    Paper,
}

impl FiguresArgs {
    /// How much is run.
    pub fn scale(&self) -> Scale {
        match self.scale {
            _ if self.quick => Scale::Quick,
            FiguresScale::Quick => Scale::Quick,
            FiguresScale::Full => Scale::Full,
            FiguresScale::Paper => Scale::Paper,
        }
    }
}

/// Runs the command.
///
/// # Errors
/// If the folder or standard output cannot be written, or a figure can only be simulated.
pub fn run(args: &FiguresArgs, globals: &Globals) -> Result<Verdict, CliError> {
    if args.list {
        let figure = |one: &Experiment| json!({"name": one.name, "about": one.about()});
        let all: Vec<_> = ALL.iter().map(figure).collect();
        output::report(globals, "figures-list", &json!({ "figures": all }))?;
        return Ok(Verdict::Passed);
    }
    if args.embedded {
        check_embedded(&args.names)?;
    }
    // First, so that an unwritable folder is reported before figures are measured.
    let folder = Folder::open(&args.out)?;
    let jobs = match args.jobs {
        // Measurements in real time need the whole machine.
        _ if args.embedded => 1,
        Some(jobs) => jobs.get(),
        None => pool::cores(),
    };
    let experiments: Vec<&'static Experiment> = chosen(&args.names).collect();
    let scale = args.scale();
    let seed = globals.args.seed.unwrap_or(SEED);
    let text = configuration(VERSION, scale, seed);
    let mut files = FigureFiles {
        folder,
        scale,
        seed,
        hash: format!("{:016x}", fnv1a(text.as_bytes())),
        configuration: text,
        jobs: jobs.min(experiments.len()),
        started: Instant::now(),
        entries: experiments
            .iter()
            .map(|&one| (one, Kept::Missing))
            .collect(),
        claims: None,
        page: String::new(),
    };
    files.write_page(State::Running)?;
    let make = |experiment: &'static Experiment, progress: &mut dyn FnMut(f64) -> bool| {
        let mut run = Run::new(scale, seed, progress);
        match embedded::row(experiment.name).filter(|_| args.embedded) {
            Some(row) => embedded::figure(&mut run, row),
            None => experiment.figure(&mut run),
        }
    };
    jobs::run(
        &experiments,
        jobs,
        globals,
        &make,
        |one, result, elapsed_s| files.keep(one, result, elapsed_s),
    )?;
    let interrupted = globals.interrupt.is_set();
    files.conclude(interrupted)?;
    let found = files.object(interrupted);
    output::print_as(globals, "figures", &found, |found| files.text(found))?;
    Ok(Verdict::of(found["verified"] == true))
}

/// The experiments of these names in the papers' order, without duplicates; all if no names are
/// given.
fn chosen(names: &[String]) -> impl Iterator<Item = &'static Experiment> {
    ALL.iter()
        .filter(|one| names.is_empty() || names.iter().any(|name| name == one.name))
}

/// Refuses figures that cannot be measured in real time.
fn check_embedded(names: &[String]) -> Result<(), CliError> {
    match names.iter().find(|name| embedded::row(name).is_none()) {
        None => Ok(()),
        Some(name) => Err(CliError::usage(format!(
            "{name} is simulated only: leave --embedded away, or name figures of the communication \
             tier, such as communication-6a"
        ))),
    }
}

/// The results so far, and their files.
struct FigureFiles {
    folder: Folder,
    scale: Scale,
    seed: u64,
    /// Everything that the result depends on, as text.
    configuration: String,
    /// FNV-1a of `configuration`, 16 hexadecimal digits.
    hash: String,
    /// Figures that run concurrently.
    jobs: usize,
    started: Instant,
    /// In the papers' order.
    entries: Vec<(&'static Experiment, Kept)>,
    /// Where the claims of all figures are, if there are figures.
    claims: Option<String>,
    /// The path of the report page.
    page: String,
}

/// The outcome of an experiment.
enum Kept {
    Made(Box<Made>),
    Failed(String),
    Missing,
}

struct Made {
    figure: Figure,
    /// Paths of the numbers and of the picture.
    csv: String,
    svg: String,
    /// Real time that it took.
    elapsed_s: f64,
}

impl FigureFiles {
    /// Writes the outcome of an experiment.
    fn keep(
        &mut self,
        experiment: &Experiment,
        result: Result<Figure, ExperimentError>,
        elapsed_s: f64,
    ) -> Result<(), CliError> {
        let kept = match result {
            Ok(figure) => {
                let file = |ending, text: &str| {
                    let name = format!("{}.{ending}", figure.name);
                    self.folder.write(&name, text)
                };
                Kept::Made(Box::new(Made {
                    csv: file("csv", &figure.to_csv())?,
                    svg: file("svg", &figure.to_svg())?,
                    figure,
                    elapsed_s,
                }))
            }
            Err(ExperimentError::Interrupted) => Kept::Missing,
            Err(error) => Kept::Failed(error.to_string()),
        };
        let name = experiment.name;
        if let Some(entry) = self.entries.iter_mut().find(|(one, _)| one.name == name) {
            entry.1 = kept;
        }
        // Written now, so that a run that is killed leaves its results.
        self.write_page(State::Running)
    }

    fn write_page(&mut self, state: State) -> Result<(), CliError> {
        let entries = self.entries.iter().map(|(experiment, kept)| Entry {
            experiment,
            outcome: match kept {
                Kept::Made(made) => Outcome::Made(&made.figure, made.elapsed_s),
                Kept::Failed(error) => Outcome::Failed(error),
                Kept::Missing => Outcome::Missing,
            },
        });
        let page = Report {
            version: VERSION,
            scale: self.scale,
            seed: self.seed,
            hash: &self.hash,
            state,
            jobs: self.jobs,
            elapsed_s: self.started.elapsed().as_secs_f64(),
            entries: entries.collect(),
        };
        self.page = self.folder.write(PAGE, &page.to_html())?;
        Ok(())
    }

    /// Finishes the files after all experiments have run.
    fn conclude(&mut self, interrupted: bool) -> Result<(), CliError> {
        let state = match interrupted {
            true => State::Interrupted,
            false => State::Ended,
        };
        self.write_page(state)?;
        let figures: Vec<_> = self.made().map(|(_, made)| made.figure.clone()).collect();
        if !figures.is_empty() {
            self.claims = Some(self.folder.write(CLAIMS, &claims_csv(&figures))?);
        }
        Ok(())
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
