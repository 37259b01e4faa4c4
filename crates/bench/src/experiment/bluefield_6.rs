//! Figure 6 of the BlueField paper: latency of lookups by requests, one client thread, by the share
//! of the index on the DPU.

use super::bluefield::PAPER;
use super::bluefield::client::Mix;
use super::bluefield::index::{self, IndexPlan};
use super::bluefield::tree::{self, PAPER_KEYS};
use super::bluefield_4::real_keys;
use crate::figure::{Axis, Figure, claim};
use crate::harness::grid::{self, Grid};
use crate::harness::{Result, Run};
use rackweave_base::Duration;

const OFFLOADS: &[f64] = &[0.0, 0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1.0];
const OFFLOADS_QUICK: &[f64] = &[0.0, 0.25, 0.5, 0.75, 1.0];

fn plan(keys: u64, scale: u64, offload: f64, counted: Duration) -> IndexPlan {
    let plan = IndexPlan::new(keys, scale, Mix::uniform(keys, 0.0));
    IndexPlan {
        offload,
        clients: 1,
        operations: 1,
        ..plan.counted(counted)
    }
}

/// Measures and draws the figure.
pub fn run(run: &mut Run<'_>) -> Result<Figure> {
    let offloads = run.scale.pick(OFFLOADS_QUICK, OFFLOADS);
    let counted = Duration::from_millis(run.scale.pick(1, 5));
    let rows = PAPER_KEYS.map(|keys| (tree::named(keys), keys, offloads));
    let curves = Grid::of_rows(rows).measure(run, |run, keys, offload| {
        let real = real_keys(run.scale, keys);
        let plan = plan(real, keys / real, offload, counted);
        Ok(index::measure(run, &plan)?.median_us)
    })?;
    let mut figure = Figure::lines("Latency of lookups by requests, one at a time")
        .of("section 4.2.1, figure 6")
        .x(Axis::linear("keys on the DPU", "%"))
        .y(Axis::linear("median latency", "us"));
    figure.series = grid::series(&curves, |offload| offload * 100.0, |median| *median);
    for curve in &curves {
        let at = |offload| curve.value(offload, |median| *median);
        let what = format!(
            "median latency on the DPU over that on the host (paper: 14 to 20 % more), {}",
            curve.name
        );
        figure.claims([claim(what).values([1.17, at(1.0) / at(0.0)], "x")]);
    }
    figure.notes = vec![
        format!(
            "{PAPER}: one client thread; one request under way is assumed, so that none waits for \
             another"
        ),
        "the host's PCIe is crossed once for a request and once for its reply, 0.2 us each (half \
         of what section 4.2.2 finds for a read there and back); the DPU's cores take longer to \
         poll, to post and to look up, which is what makes them slower in all"
            .into(),
        "between 0 and 100 % the median is that of whoever has more of the requests".into(),
    ];
    Ok(figure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_request_at_a_time_takes_as_long_as_it_takes() {
        let mut run = Run::quick(4);
        let mut median = |offload| {
            let plan = plan(1_000, 1_000, offload, Duration::from_micros(800));
            let seen = index::measure(&mut run, &plan).expect("it runs");
            // One request at a time.
            let product = seen.per_second * seen.median_us / 1e6;
            assert!((0.9..1.1).contains(&product), "{seen:?}");
            seen.median_us
        };
        assert!((0.5..2.0).contains(&(median(1.0) / median(0.0))));
    }
}
