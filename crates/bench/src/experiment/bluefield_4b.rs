//! Beside figure 4 of the BlueField paper: the rebalancer at work, over time. The paper leaves open
//! how a split is found and kept (section 4.1.2).

use super::bluefield_4::rebalance::{Course, REAL_KEYS, courses};
use crate::figure::{Measured, Series, Values, values};
use crate::harness::{Result, Run};

/// Measures the figure.
pub fn run(run: &mut Run<'_>) -> Result<Measured> {
    let courses = courses(run)?;
    let series = courses.iter().flat_map(|course| {
        let name = course.scenario.name();
        let points = course.points.iter();
        let points: Vec<_> = points.map(|(at, rate)| (at * 1e3, rate / 1e6)).collect();
        let end = points.last().map_or(0.0, |point| point.0);
        let best = course.best.1 / 1e6;
        let fixed = [(course.best_from * 1e3, best), (end, best)];
        [
            Series::new(format!("{name} | rebalanced"), points),
            Series::new(format!("{name} | best split that stays"), fixed),
        ]
    });
    let values = values! {
        keys: REAL_KEYS,
        courses: courses.iter().map(Course::values).collect::<Vec<Values>>(),
    };
    Ok(Measured::new(series.collect(), values))
}
