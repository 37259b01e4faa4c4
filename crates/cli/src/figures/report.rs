//! Results of the experiments: one JSON object (docs/JSON.md), and the part of it that is shown as
//! text.

use super::{FigureFiles, Kept, Made, VERSION};
use crate::report::object;
use rackweave_bench::experiment::Experiment;
use rackweave_bench::figure::{Claim, Figure, claims_table, wrapped};
use rackweave_sim::devices::{self, Constant};
use serde_json::{Map, Value, json};
use std::fmt::Write;

/// Width of a line of notes after its indentation, in characters.
const WIDTH: usize = 94;

/// A hardware constant of the models.
fn constant(constant: &'static Constant) -> Value {
    let testbeds = constant.testbeds.iter().map(|one| one.name());
    json!({
        "name": constant.name,
        "group": constant.group,
        "value": constant.value(),
        "unit": constant.unit,
        "about": constant.about(),
        "source": constant.source(),
        "sure": constant.trust.name(),
        "testbeds": testbeds.collect::<Vec<_>>(),
    })
}

/// A claim with our value divided by the paper's; null if it cannot be divided.
fn claim(claim: &Claim) -> Map<String, Value> {
    let mut found = object(claim);
    let ratio = Some(claim.ratio()).filter(|ratio| ratio.is_finite());
    found.insert("ratio".into(), json!(ratio));
    found
}

/// A figure, and its files.
fn figure(experiment: &Experiment, made: &Made) -> Value {
    let figure = &made.figure;
    json!({
        "name": figure.name,
        "title": figure.title,
        "paper": experiment.paper().title,
        "place": experiment.place(),
        "x": figure.x.title(),
        "y": figure.y.title(),
        "series": figure.series,
        "x_names": figure.x_names,
        "claims": figure.claims.iter().map(claim).collect::<Vec<_>>(),
        "notes": figure.notes,
        "csv": made.csv,
        "svg": made.svg,
        "elapsed_s": made.elapsed_s,
    })
}

impl FigureFiles {
    /// All figures, in the papers' order.
    pub fn figures(&self) -> Vec<Figure> {
        let made = |(_, kept): &(_, Kept)| match kept {
            Kept::Made(made) => Some(made.figure.clone()),
            _ => None,
        };
        self.entries.iter().filter_map(made).collect()
    }

    /// Whether no experiment failed.
    pub fn is_verified(&self) -> bool {
        let failed = |(_, kept): &(_, Kept)| matches!(kept, Kept::Failed(_));
        !self.entries.iter().any(failed)
    }

    /// The whole object.
    pub fn object(&self, interrupted: bool) -> Value {
        let (mut figures, mut failures) = (Vec::new(), Vec::new());
        for (experiment, kept) in &self.entries {
            match kept {
                Kept::Made(made) => figures.push(figure(experiment, made)),
                Kept::Failed(error) => {
                    failures.push(json!({"name": experiment.name, "error": error}));
                }
                Kept::Missing => {}
            }
        }
        json!({
            "version": VERSION,
            "scale": self.scale.name(),
            "seed": self.seed,
            "configuration_hash": self.hash,
            "configuration": self.configuration,
            "jobs": self.jobs,
            "elapsed_s": self.started.elapsed().as_secs_f64(),
            "constants": devices::all().map(constant).collect::<Vec<_>>(),
            "figures": figures,
            "failures": failures,
            "claims_csv": self.claims,
            "report_html": self.page,
            "interrupted": interrupted,
            "verified": self.is_verified(),
        })
    }

    /// The text form: notes and files of each figure, and all claims.
    pub fn text(&self, interrupted: bool) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        for (experiment, kept) in &self.entries {
            match kept {
                Kept::Made(made) => {
                    writeln!(text, "{}: {}", made.figure.name, made.figure.title)?;
                    for note in &made.figure.notes {
                        for (at, line) in wrapped(note, WIDTH).iter().enumerate() {
                            writeln!(text, "  {} {line}", if at == 0 { "-" } else { " " })?;
                        }
                    }
                    let (svg, csv, seconds) = (&made.svg, &made.csv, made.elapsed_s);
                    writeln!(text, "  {svg}, {csv} ({seconds:.1} s)\n")?;
                }
                Kept::Failed(error) => writeln!(text, "{} failed: {error}\n", experiment.name)?,
                Kept::Missing => {}
            }
        }
        let table = claims_table(&self.figures());
        if !table.is_empty() {
            writeln!(text, "{table}")?;
        }
        if let Some(path) = &self.claims {
            writeln!(text, "claims: {path}")?;
        }
        writeln!(text, "report: {} (open it in a browser)", self.page)?;
        if interrupted {
            writeln!(text, "interrupted: what is missing was not run to its end")?;
        }
        let (seconds, jobs) = (self.started.elapsed().as_secs_f64(), self.jobs);
        writeln!(
            text,
            "scale {}, seed {}, configuration {}; {seconds:.0} s, {jobs} at a time",
            self.scale.name(),
            self.seed,
            self.hash,
        )?;
        Ok(text)
    }
}
