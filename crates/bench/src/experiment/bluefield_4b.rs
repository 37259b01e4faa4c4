//! Beside figure 4 of the BlueField paper: the rebalancer at work, over time. The paper leaves open
//! how a split is found and kept (section 4.1.2).

use super::bluefield::PAPER;
use super::bluefield_4::rebalance::{Course, REAL_KEYS, courses};
use crate::figure::{Axis, Figure, Series, claim};
use crate::harness::{Result, Run};

/// Measures and draws the figure.
pub fn run(run: &mut Run<'_>) -> Result<Figure> {
    let courses = courses(run)?;
    let mut figure = Figure::lines("Rebalancing between host and DPU online")
        .x(Axis::linear("time", "ms"))
        .y(Axis::linear("lookups", "M/s"));
    figure.notes = notes();
    for course in &courses {
        let name = course.scenario.name();
        let points = course.points.iter();
        let points: Vec<_> = points.map(|(at, rate)| (at * 1e3, rate / 1e6)).collect();
        let end = points.last().map_or(0.0, |point| point.0);
        let best = course.best.1 / 1e6;
        let ours = format!("{name} | rebalanced");
        figure.series.push(Series::new(ours, points));
        let name = format!("{name} | best split that stays");
        figure.series.push(Series::new(
            name,
            [(course.best_from * 1e3, best), (end, best)],
        ));
        describe(&mut figure, course);
    }
    Ok(figure)
}

/// Describes a course. The paper has no claim about it, so it is compared with the best fixed
/// split.
pub(super) fn describe(figure: &mut Figure, course: &Course) {
    let reached = format!(
        "throughput that the rebalancer reaches over that of the best split that stays, {} \
         (wanted: at least 0.95)",
        course.scenario.name()
    );
    figure.claims([claim(reached)
        .at("open in section 4.1.2")
        .values([1.0, course.reached / course.best.1], "x")]);
    figure.note(format!(
        "rebalanced, {}: {:.2} M/s with {:.1} % of the keys on the DPU after {} moves of {} \
         entries; the best split that stays has {:.1} % there and {:.2} M/s",
        course.scenario.name(),
        course.reached / 1e6,
        course.offload * 100.0,
        course.moves.0,
        course.moves.1,
        course.best.0 * 100.0,
        course.best.1 / 1e6
    ));
}

fn notes() -> Vec<String> {
    vec![
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
    ]
}
