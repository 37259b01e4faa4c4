//! One page with everything: the papers' claims beside the measurements, the charts, and the
//! constants of the models. The page loads no other resource, so it can be passed on as one file.
//!
//! `summary` sorts the claims by how far off they are, `chapter` has a paper's figures, `appendix`
//! the constants and the input of the configuration hash, `html` writes well-formed tags.

mod appendix;
mod chapter;
mod html;
mod summary;
#[cfg(test)]
mod tests;

use crate::experiment::Experiment;
use crate::experiment::paper::{PAPERS, Paper};
use crate::figure::Figure;
use crate::harness::Scale;
use html::Page;
use rackweave_sim::devices::{self, Testbed};

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
        let mut page = Page::default();
        page.raw("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n");
        page.raw(
            "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
             <meta name=\"color-scheme\" content=\"light dark\"/>\n",
        );
        page.element("title", "", "Rackweave: the papers' figures");
        page.raw("<style>\n");
        page.raw(STYLE);
        page.raw("</style>\n</head>\n<body>\n<main>\n");
        self.head(&mut page);
        summary::write(self, &mut page);
        for paper in self.papers() {
            chapter::write(self, paper, &mut page);
        }
        appendix::write(self, &mut page);
        page.raw("</main>\n</body>\n</html>\n");
        page.finish()
    }

    /// The figures that exist.
    fn made(&self) -> impl Iterator<Item = (&'static Experiment, &'a Figure, f64)> {
        self.entries.iter().filter_map(|entry| match entry.outcome {
            Outcome::Made(figure, seconds) => Some((entry.experiment, figure, seconds)),
            Outcome::Failed(_) | Outcome::Missing => None,
        })
    }

    /// The papers of the requested experiments.
    fn papers(&self) -> impl Iterator<Item = &'static Paper> {
        PAPERS.iter().filter(|paper| {
            let of_paper = |entry: &Entry<'_>| entry.experiment.paper().name == paper.name;
            self.entries.iter().any(of_paper)
        })
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

    fn head(&self, page: &mut Page) {
        page.element("h1", "", "Rackweave: the papers' figures");
        page.element(
            "p",
            "lead",
            "Figures of five papers about database systems on fast networks, repeated with this \
             project's machines in simulated time on models of the papers' testbeds. Each claim \
             stands beside what was measured here. No constant of a model was ever changed to \
             come closer to a paper.",
        );
        page.open("dl", "facts");
        let mut fact = |name: &str, value: &str| {
            page.open("div", "");
            page.element("dt", "", name);
            page.element("dd", "", value);
            page.close("div");
        };
        let made = self.made().count();
        fact("Scale", self.scale.name());
        fact("Seed", &self.seed.to_string());
        fact("Configuration hash", self.hash);
        fact("Version", self.version);
        fact("Figures", &format!("{made} of {}", self.entries.len()));
        let jobs = match self.jobs {
            1 => "one at a time".to_owned(),
            jobs => format!("{jobs} at a time"),
        };
        fact(
            "Time taken",
            &format!("{}, {jobs}", duration(self.elapsed_s)),
        );
        page.close("dl");
        let scale = format!("Scale {}. ", self.scale.name());
        page.reported("p", "scale", &scale, self.scale.about());
        self.warnings(page);
    }

    /// Writes what failed or is missing, above everything else.
    fn warnings(&self, page: &mut Page) {
        let missing = self.entries.iter().filter_map(|entry| match entry.outcome {
            Outcome::Missing => Some(entry.experiment.name),
            Outcome::Made(..) | Outcome::Failed(_) => None,
        });
        let missing: Vec<&str> = missing.collect();
        let said = match self.state {
            State::Ended => None,
            State::Interrupted => Some("This run was interrupted."),
            State::Running => Some(
                "This run had not ended when the report was written: it goes on, or was stopped \
                 from outside.",
            ),
        };
        if let Some(said) = said {
            let listed = match missing.len() {
                0 => String::new(),
                count => format!(
                    " {count} of {} figures are missing: {}.",
                    self.entries.len(),
                    missing.join(", ")
                ),
            };
            page.reported("div", "warning", said, &listed);
        }
        for entry in &self.entries {
            if let Outcome::Failed(error) = entry.outcome {
                let failed = format!("{} failed. ", entry.experiment.name);
                page.reported("div", "failure", &failed, error);
            }
        }
    }
}

/// Seconds in readable form.
fn duration(seconds: f64) -> String {
    if seconds < 100.0 {
        return format!("{seconds:.1} s");
    }
    let whole = seconds.round() as u64;
    format!("{} min {:02} s", whole / 60, whole % 60)
}
