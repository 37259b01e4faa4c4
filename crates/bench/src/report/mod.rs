//! One page with everything: the papers' claims beside the measurements, the charts, and the
//! constants of the models. The page loads no other resource, so it can be passed on as one file.
//!
//! `summary` sorts the claims by how far off they are, `chapter` has a paper's figures, `appendix`
//! the constants and the input of the configuration hash.

mod appendix;
mod chapter;
mod summary;
#[cfg(test)]
mod tests;

use crate::experiment::{Experiment, PAPERS, Paper};
use crate::figure::Figure;
use crate::harness::Scale;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use rackweave_sim::devices::{self, Testbed};

const TITLE: &str = "Rackweave: the papers' figures";

/// The warning of a report of a run that the user stopped.
const INTERRUPTED: &str = "This run was interrupted.";

/// The warning of a report that is written while figures are still to come.
const RUNNING: &str = "This run had not ended when the report was written: it goes on, or was \
                       stopped from outside.";

/// The page's style: light and dark, for paper and for narrow screens.
const STYLE: &str = include_str!("style.css");

/// A run of experiments, as shown in the report.
#[derive(Clone, Debug)]
pub struct Report<'a> {
    /// Version of the program.
    pub version: &'a str,
    /// How much was run.
    pub scale: Scale,
    /// The seed of the simulator.
    pub seed: u64,
    /// The hash of [`configuration`], as text.
    pub hash: &'a str,
    /// Whether the run has ended.
    pub state: State,
    /// Experiments that ran concurrently.
    pub jobs: usize,
    /// Real time of the run so far.
    pub elapsed_s: f64,
    /// The requested experiments, in the papers' order.
    pub entries: Vec<Entry<'a>>,
}

/// Whether a run has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// It is still running, or was killed: more figures may come.
    Running,
    /// The user stopped it.
    Interrupted,
    /// It has ended.
    Ended,
}

/// An experiment and its outcome.
#[derive(Clone, Debug)]
pub struct Entry<'a> {
    /// The experiment.
    pub experiment: &'static Experiment,
    /// Its outcome so far.
    pub outcome: Outcome<'a>,
}

/// The outcome of an experiment.
#[derive(Clone, Copy, Debug)]
pub enum Outcome<'a> {
    /// A figure, and the seconds of real time that it took.
    Made(&'a Figure, f64),
    /// An error.
    Failed(&'a str),
    /// Nothing yet.
    Missing,
}

/// Everything that a run's result depends on, as text: version, scale, seed, then a line for each
/// constant of `rackweave_sim::devices`. The configuration hash is FNV-1a (64 bits) of its bytes.
pub fn configuration(version: &str, scale: Scale, seed: u64) -> String {
    format!(
        "version = {version}\nscale = {}\nseed = {seed}\n{}",
        scale.name(),
        devices::as_text()
    )
}

impl<'a> Report<'a> {
    /// The report as one HTML file.
    pub fn to_html(&self) -> String {
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { (TITLE) }
                    style { (PreEscaped(STYLE)) }
                }
                body {
                    main {
                        (self.head())
                        (summary::section(self))
                        @for paper in self.papers() { (chapter::section(self, paper)) }
                        (appendix::sections(self))
                    }
                }
            }
        };
        page.into_string()
    }

    /// The figures that exist.
    fn made(&self) -> impl Iterator<Item = (&'static Experiment, &'a Figure, f64)> {
        self.entries.iter().filter_map(|entry| match entry.outcome {
            Outcome::Made(figure, seconds) => Some((entry.experiment, figure, seconds)),
            Outcome::Failed(_) | Outcome::Missing => None,
        })
    }

    /// The requested experiments of a paper.
    fn entries_of(&self, paper: &Paper) -> impl Iterator<Item = &Entry<'a>> {
        let entries = self.entries.iter();
        entries.filter(|entry| entry.experiment.paper().name == paper.name)
    }

    /// The papers of the requested experiments.
    fn papers(&self) -> impl Iterator<Item = &'static Paper> {
        let papers = PAPERS.iter();
        papers.filter(|paper| self.entries_of(paper).next().is_some())
    }

    /// The testbeds of the requested experiments, each once.
    fn testbeds(&self) -> Vec<Testbed> {
        let mut testbeds: Vec<Testbed> = Vec::new();
        for entry in &self.entries {
            let testbed = entry.experiment.testbed();
            if !testbeds.contains(&testbed) {
                testbeds.push(testbed);
            }
        }
        testbeds
    }

    fn head(&self) -> Markup {
        let jobs = match self.jobs {
            1 => "one at a time".to_owned(),
            jobs => format!("{jobs} at a time"),
        };
        let figures = format!("{} of {}", self.made().count(), self.entries.len());
        let facts = [
            ("Scale", self.scale.name().to_owned()),
            ("Seed", self.seed.to_string()),
            ("Configuration hash", self.hash.to_owned()),
            ("Version", self.version.to_owned()),
            ("Figures", figures),
            (
                "Time taken",
                format!("{}, {jobs}", duration(self.elapsed_s)),
            ),
        ];
        html! {
            h1 { (TITLE) }
            p.lead {
                "Figures of five papers about database systems on fast networks, repeated with \
                 this project's machines in simulated time on models of the papers' testbeds. Each \
                 claim stands beside what was measured here. No constant of a model was ever \
                 changed to come closer to a paper."
            }
            dl.facts { @for (name, value) in facts { div { dt { (name) } dd { (value) } } } }
            p.scale {
                strong { "Scale " (self.scale.name()) ". " }
                (self.scale.about())
            }
            (self.warnings())
        }
    }

    /// What failed or is missing, above everything else.
    fn warnings(&self) -> Markup {
        let missing = self.entries.iter().filter_map(|entry| match entry.outcome {
            Outcome::Missing => Some(entry.experiment.name),
            Outcome::Made(..) | Outcome::Failed(_) => None,
        });
        let missing: Vec<&str> = missing.collect();
        let listed = match missing.len() {
            0 => String::new(),
            count => format!(
                " {count} of {} figures are missing: {}.",
                self.entries.len(),
                missing.join(", ")
            ),
        };
        html! {
            @match self.state {
                State::Ended => {}
                State::Interrupted => { (reported("warning", INTERRUPTED, &listed)) }
                State::Running => { (reported("warning", RUNNING, &listed)) }
            }
            @for entry in &self.entries {
                @if let Outcome::Failed(error) = entry.outcome {
                    (reported("failure", &format!("{} failed. ", entry.experiment.name), error))
                }
            }
        }
    }
}

/// A box whose text begins with words in bold.
fn reported(class: &str, bold: &str, text: &str) -> Markup {
    html! { div class=(class) { strong { (bold) } (text) } }
}

/// A list whose items begin with words in bold.
fn list(class: &str, items: impl IntoIterator<Item = (String, String)>) -> Markup {
    html! {
        ul class=[some(class)] {
            @for (bold, text) in items { li { strong { (bold) } (text) } }
        }
    }
}

/// A table with these heads (class and text); a table that is too wide scrolls.
fn table(class: &str, heads: &[(&str, &str)], rows: &Markup) -> Markup {
    html! {
        div.scroll {
            table class=(class) {
                thead { tr { @for (class, head) in heads { th class=[some(class)] { (head) } } } }
                tbody { (rows) }
            }
        }
    }
}

/// The class of an element that may have none.
fn some(class: &str) -> Option<&str> {
    (!class.is_empty()).then_some(class)
}

/// Seconds in readable form.
fn duration(seconds: f64) -> String {
    if seconds < 100.0 {
        return format!("{seconds:.1} s");
    }
    let whole = seconds.round() as u64;
    format!("{} min {:02} s", whole / 60, whole % 60)
}
