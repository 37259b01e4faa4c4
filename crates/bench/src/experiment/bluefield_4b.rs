//! Beside figure 4 of the BlueField paper: the rebalancer at work, over time. The paper leaves it
//! open how a split would be found and kept (section 4.1.2).

use super::bluefield::PAPER;
use super::bluefield_4::rebalance::{Course, REAL_KEYS, Scenario, course};
use super::{Experiment, ExperimentError, Run};
use crate::figure::{Axis, Claim, Drawing, Figure, Series};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "bluefield-4b",
    about: "the rebalancer between host and DPU at work, over time",
    run,
};

fn run(run: &mut Run<'_>) -> Result<Figure, ExperimentError> {
    let mut courses = Vec::new();
    for (at, scenario) in Scenario::ALL.into_iter().enumerate() {
        let share = at as f64 / Scenario::ALL.len() as f64;
        let course = course(run, share, scenario);
        courses.push(course.map_err(|error| error.with(scenario.name()))?);
    }
    Ok(figure(&courses, run.seed))
}

fn figure(courses: &[Course], seed: u64) -> Figure {
    let series = courses.iter().flat_map(|course| {
        let name = course.scenario.name();
        let end = course.points.last().map_or(0.0, |point| point.0 * 1e3);
        let best = course.best.1 / 1e6;
        [
            Series {
                name: format!("{name} | rebalanced"),
                points: course
                    .points
                    .iter()
                    .map(|(seconds, rate)| (seconds * 1e3, rate / 1e6))
                    .collect(),
            },
            Series {
                name: format!("{name} | best split that stays"),
                points: vec![(course.best_from * 1e3, best), (end, best)],
            },
        ]
    });
    Figure {
        name: EXPERIMENT.name.into(),
        title: "Rebalancing between host and DPU online".into(),
        x: Axis::linear("time", "ms"),
        y: Axis::linear("lookups", "M/s"),
        drawing: Drawing::Lines,
        y_per_panel: false,
        paper: Vec::new(),
        x_names: Vec::new(),
        series: series.collect(),
        claims: courses.iter().map(claim).collect(),
        notes: notes(courses),
        seed,
    }
}

/// What a course says: there is no claim of the paper to compare with, but the best split.
pub(super) fn claim(course: &Course) -> Claim {
    Claim {
        what: format!(
            "throughput that the rebalancer reaches over that of the best split that stays, {} \
             (wanted: at least 0.95)",
            course.scenario.name()
        ),
        source: "open in section 4.1.2".into(),
        paper: 1.0,
        ours: course.reached / course.best.1,
        unit: "x".into(),
    }
}

/// A line about a course.
pub(super) fn note(course: &Course) -> String {
    format!(
        "rebalanced, {}: {:.2} M/s with {:.1} % of the keys on the DPU after {} moves of {} \
         entries; the best split that stays has {:.1} % there and {:.2} M/s",
        course.scenario.name(),
        course.reached / 1e6,
        course.offload * 100.0,
        course.moves.0,
        course.moves.1,
        course.best.0 * 100.0,
        course.best.1 / 1e6
    )
}

fn notes(courses: &[Course]) -> Vec<String> {
    let mut notes = vec![
        format!(
            "{PAPER}, section 4.1.2, asks for this and leaves it out of scope; as in bluefield-4, \
             1 M keys, read-only"
        ),
        format!(
            "all keys are on the host at first; every 0.1 ms the coordinator asks both ends how \
             busy they are and moves ranges while lookups go on. The trees really have {REAL_KEYS} \
             keys, so that moves carry a two hundredth of the entries that they would"
        ),
        "skewed keys: Zipf 0.8, the least keys being the hottest, so that the DPU, which has the \
         greatest ones, gets most of the keys for its share of the work; caches are taken to be \
         used alike by all keys all the same"
            .into(),
        "the DPU slows down: in the middle everything takes its cores twice as long; the best \
         split is that from then on"
            .into(),
    ];
    notes.extend(courses.iter().map(note));
    notes
}
