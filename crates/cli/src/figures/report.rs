//! Results of the experiments: one JSON object (docs/JSON.md), and the part of it that is shown as
//! text.

use super::{FigureFiles, Kept, Made, VERSION};
use crate::report::{object, text};
use rackweave_bench::experiment::Experiment;
use rackweave_bench::figure::{Claim, ratio, short};
use rackweave_sim::devices::{self, Constant};
use serde_json::{Map, Value, json};

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

/// What text shows of a figure: no curves, and claims in words.
fn figure_row((_, made): (&Experiment, &Made)) -> Value {
    let figure = &made.figure;
    let claim = |claim: &Claim| {
        let [paper, ours] = [claim.paper, claim.ours].map(|value| short(value, &claim.unit));
        let what = format!("{} ({})", claim.what, claim.source);
        json!({"paper": paper, "ours": ours, "ratio": ratio(claim), "claim": what})
    };
    json!({
        "name": figure.name,
        "title": figure.title,
        "notes": figure.notes,
        "claims": figure.claims.iter().map(claim).collect::<Vec<_>>(),
        "csv": made.csv,
        "svg": made.svg,
        "elapsed_s": made.elapsed_s,
    })
}

impl FigureFiles {
    /// All figures, in the papers' order.
    pub fn made(&self) -> impl Iterator<Item = (&'static Experiment, &Made)> {
        self.entries
            .iter()
            .filter_map(|(experiment, kept)| match kept {
                Kept::Made(made) => Some((*experiment, &**made)),
                Kept::Failed(_) | Kept::Missing => None,
            })
    }

    /// The whole object.
    pub fn object(&self, interrupted: bool) -> Value {
        let failure = |(experiment, kept): &(&Experiment, Kept)| match kept {
            Kept::Failed(error) => Some(json!({"name": experiment.name, "error": error})),
            Kept::Made(_) | Kept::Missing => None,
        };
        let failures: Vec<_> = self.entries.iter().filter_map(failure).collect();
        let figures = self
            .made()
            .map(|(experiment, made)| figure(experiment, made));
        json!({
            "version": VERSION,
            "scale": self.scale.name(),
            "seed": self.seed,
            "configuration_hash": self.hash,
            "configuration": self.configuration,
            "jobs": self.jobs,
            "elapsed_s": self.started.elapsed().as_secs_f64(),
            "constants": devices::all().map(constant).collect::<Vec<_>>(),
            "figures": figures.collect::<Vec<_>>(),
            "failures": failures,
            "claims_csv": self.claims,
            "report_html": self.page,
            "interrupted": interrupted,
            "verified": failures.is_empty(),
        })
    }

    /// The text form of the object.
    pub fn text(&self, found: &Value) -> String {
        let mut shown = object(found);
        for key in ["version", "configuration", "constants"] {
            shown.shift_remove(key);
        }
        shown["figures"] = self.made().map(figure_row).collect();
        text(shown)
    }
}
