//! What the experiments found, as text or as one JSON object.

use rackweave_bench::experiment::{ALL, Scale};
use rackweave_bench::figure::{Claim, Figure, Series, claims_table, wrapped};
use rackweave_sim::devices;
use serde::Serialize;
use std::fmt;
use std::path::PathBuf;

/// Characters of a line of notes behind its indentation.
const WIDTH: usize = 94;

/// Every figure with a line about it.
#[derive(Serialize)]
pub struct List {
    figures: Vec<Entry>,
}

#[derive(Serialize)]
struct Entry {
    name: &'static str,
    about: &'static str,
}

/// What the command found.
#[derive(Serialize)]
pub struct FiguresReport {
    pub version: &'static str,
    /// `quick`, `full` or `paper`.
    pub scale: &'static str,
    pub seed: u64,
    /// FNV-1a of `configuration`, 16 hexadecimal digits.
    pub configuration_hash: String,
    /// What the result depends on, as text.
    pub configuration: String,
    /// Figures that ran at a time.
    pub jobs: usize,
    /// Real time of all.
    pub elapsed_s: f64,
    /// Every number about hardware that the models believe.
    constants: Vec<ConstantReport>,
    pub figures: Vec<FigureReport>,
    /// Experiments that gave no figure.
    pub failures: Vec<Failure>,
    /// Where the claims of all figures are, if there are figures.
    pub claims_csv: Option<PathBuf>,
    /// The page with everything.
    pub report_html: Option<PathBuf>,
    pub interrupted: bool,
    /// Whether no experiment failed.
    pub verified: bool,
    #[serde(skip)]
    table: String,
}

/// A figure, and where it is.
#[derive(Serialize)]
pub struct FigureReport {
    name: String,
    title: String,
    /// The paper's title, and which of its figures this is.
    paper: &'static str,
    place: String,
    /// Label and unit of each axis.
    x: String,
    y: String,
    series: Vec<Series>,
    /// Names of the x values in order, if they are no numbers.
    x_names: Vec<String>,
    claims: Vec<ClaimReport>,
    notes: Vec<String>,
    csv: PathBuf,
    svg: PathBuf,
    /// Real time that it took.
    elapsed_s: f64,
}

/// A number about hardware.
#[derive(Serialize)]
struct ConstantReport {
    name: &'static str,
    group: &'static str,
    value: String,
    unit: &'static str,
    about: String,
    source: String,
    /// `checked`, `derived`, `unchecked` or `assumed`.
    sure: &'static str,
    testbeds: Vec<&'static str>,
}

#[derive(Serialize)]
struct ClaimReport {
    #[serde(flatten)]
    claim: Claim,
    /// Ours over the paper's; null if the paper's is none to divide by.
    ratio: Option<f64>,
}

/// An experiment that gave no figure.
#[derive(Serialize)]
pub struct Failure {
    pub name: &'static str,
    pub error: String,
}

impl List {
    /// All figures there are.
    pub fn all() -> Self {
        let entry = |one: &rackweave_bench::experiment::Experiment| Entry {
            name: one.name,
            about: one.about,
        };
        Self {
            figures: ALL.iter().map(entry).collect(),
        }
    }
}

impl FigureReport {
    /// The report about a figure that was written.
    pub fn new(
        figure: &Figure,
        (paper, place): (&'static str, String),
        (csv, svg): (PathBuf, PathBuf),
        elapsed_s: f64,
    ) -> Self {
        let claims = figure.claims.iter().map(|claim| ClaimReport {
            claim: claim.clone(),
            ratio: Some(claim.ratio()).filter(|ratio| ratio.is_finite()),
        });
        Self {
            name: figure.name.clone(),
            title: figure.title.clone(),
            paper,
            place,
            x: figure.x.title(),
            y: figure.y.title(),
            series: figure.series.clone(),
            x_names: figure.x_names.clone(),
            claims: claims.collect(),
            notes: figure.notes.clone(),
            csv,
            svg,
            elapsed_s,
        }
    }
}

impl FiguresReport {
    /// Nothing was run yet.
    pub fn new(version: &'static str, scale: Scale, seed: u64, jobs: usize) -> Self {
        Self {
            version,
            scale: scale.name(),
            seed,
            configuration_hash: String::new(),
            configuration: String::new(),
            jobs,
            elapsed_s: 0.0,
            constants: devices::all().map(ConstantReport::of).collect(),
            figures: Vec::new(),
            failures: Vec::new(),
            claims_csv: None,
            report_html: None,
            interrupted: false,
            verified: false,
            table: String::new(),
        }
    }

    /// Everything that will be run has been run.
    pub fn conclude(&mut self, figures: &[Figure], interrupted: bool) {
        self.table = claims_table(figures);
        self.interrupted = interrupted;
        self.verified = self.failures.is_empty();
    }
}

impl ConstantReport {
    fn of(constant: &'static devices::Constant) -> Self {
        Self {
            name: constant.name,
            group: constant.group,
            value: constant.value(),
            unit: constant.unit,
            about: constant.about(),
            source: constant.source(),
            sure: constant.trust.name(),
            testbeds: constant.testbeds.iter().map(|one| one.name()).collect(),
        }
    }
}

impl fmt::Display for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Entry { name, about } in &self.figures {
            writeln!(f, "{name:<17} {about}")?;
        }
        Ok(())
    }
}

impl fmt::Display for FiguresReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for figure in &self.figures {
            writeln!(f, "{}: {}", figure.name, figure.title)?;
            for note in &figure.notes {
                for (at, line) in wrapped(note, WIDTH).iter().enumerate() {
                    writeln!(f, "  {} {line}", if at == 0 { "-" } else { " " })?;
                }
            }
            let (csv, svg) = (figure.csv.display(), figure.svg.display());
            writeln!(f, "  {svg}, {csv} ({:.1} s)\n", figure.elapsed_s)?;
        }
        for Failure { name, error } in &self.failures {
            writeln!(f, "{name} failed: {error}\n")?;
        }
        if !self.table.is_empty() {
            writeln!(f, "{}", self.table)?;
        }
        if let Some(path) = &self.claims_csv {
            writeln!(f, "claims: {}", path.display())?;
        }
        if let Some(path) = &self.report_html {
            writeln!(f, "report: {} (open it in a browser)", path.display())?;
        }
        if self.interrupted {
            writeln!(f, "interrupted: what is missing was not run to its end")?;
        }
        write!(
            f,
            "scale {}, seed {}, configuration {}; {:.0} s, {} at a time",
            self.scale, self.seed, self.configuration_hash, self.elapsed_s, self.jobs
        )
    }
}
