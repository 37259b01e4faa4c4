//! Figure 6 of the BlueField paper: latency of lookups by requests, one client thread, by the share
//! of the index on the DPU.

use super::bluefield::client::Mix;
use super::bluefield::index::{self, IndexPlan};
use super::bluefield::tree::{self, PAPER_KEYS};
use super::bluefield_4::real_keys;
use crate::figure::{Measured, Values, values};
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

/// Measures the figure.
pub fn run(run: &mut Run<'_>) -> Result<Measured> {
    let offloads = run.scale.pick(OFFLOADS_QUICK, OFFLOADS);
    let counted = Duration::from_millis(run.scale.pick(1, 5));
    let rows = PAPER_KEYS.map(|keys| (tree::named(keys), keys, offloads));
    let curves = Grid::of_rows(rows).measure(run, |run, keys, offload| {
        let real = real_keys(run.scale, keys);
        let plan = plan(real, keys / real, offload, counted);
        Ok(index::measure(run, &plan)?.median_us)
    })?;
    let more = curves.iter().map(|curve| {
        let at = |offload| curve.value(offload, |median| *median);
        values! { name: &curve.name, more: at(1.0) / at(0.0) }
    });
    let values = values! { curves: more.collect::<Vec<Values>>() };
    let series = grid::series(&curves, |offload| offload * 100.0, |median| *median);
    Ok(Measured::new(series, values))
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
