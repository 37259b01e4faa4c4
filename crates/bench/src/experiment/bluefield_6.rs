//! Figure 6 of the BlueField paper: latency of lookups by requests, one client thread, by the part
//! of the index on the DPU.

use super::bluefield::PAPER;
use super::bluefield::client::{Keys, Mix};
use super::bluefield::index::{self, Plan};
use super::bluefield::tree::{self, PAPER_KEYS};
use super::bluefield_4::real_keys;
use super::{Experiment, ExperimentError, Run, Scale};
use crate::figure::{Axis, Claim, Drawing, Figure, Series};
use rackweave_base::Duration;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "bluefield-6",
    about: "latency of the index by requests, by the part of it on the DPU",
    run,
};

const OFFLOADS: &[f64] = &[0.0, 0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1.0];
const OFFLOADS_QUICK: &[f64] = &[0.0, 0.25, 0.5, 0.75, 1.0];

struct Curve {
    keys: u64,
    /// Median in microseconds, by offload.
    points: Vec<(f64, f64)>,
}

fn run(run: &mut Run<'_>) -> Result<Figure, ExperimentError> {
    let (offloads, counted) = match run.scale {
        Scale::Quick => (OFFLOADS_QUICK, Duration::from_millis(1)),
        Scale::Full | Scale::Paper => (OFFLOADS, Duration::from_millis(5)),
    };
    let total = (PAPER_KEYS.len() * offloads.len()) as f64;
    let mut done = 0.0;
    let mut curves = Vec::new();
    for keys in PAPER_KEYS {
        let real = real_keys(run.scale, keys);
        let mut points = Vec::new();
        for &offload in offloads {
            let mix = Mix {
                keys: Keys::Uniform(real),
                updates: 0.0,
            };
            let plan = Plan {
                offload,
                clients: 1,
                operations: 1,
                counted,
                ..Plan::new(real, keys / real, mix)
            };
            let seen = index::measure(run, done / total, &plan)
                .map_err(|error| error.with(format!("{keys} keys, {offload} on the DPU")))?;
            points.push((offload, seen.median_us));
            done += 1.0;
        }
        curves.push(Curve { keys, points });
    }
    Ok(figure(&curves, run.seed))
}

fn figure(curves: &[Curve], seed: u64) -> Figure {
    let series = curves.iter().map(|curve| Series {
        name: tree::named(curve.keys),
        points: curve
            .points
            .iter()
            .map(|(offload, median)| (offload * 100.0, *median))
            .collect(),
    });
    Figure {
        name: EXPERIMENT.name.into(),
        title: "Latency of lookups by requests, one at a time".into(),
        x: Axis::linear("keys on the DPU", "%"),
        y: Axis::linear("median latency", "us"),
        drawing: Drawing::Lines,
        y_per_panel: false,
        paper: Vec::new(),
        x_names: Vec::new(),
        series: series.collect(),
        claims: curves.iter().map(claim).collect(),
        notes: notes(),
        seed,
    }
}

fn claim(curve: &Curve) -> Claim {
    let at = |offload: f64| {
        let found = curve.points.iter().find(|point| point.0 == offload);
        found.map_or(f64::NAN, |point| point.1)
    };
    Claim {
        what: format!(
            "median latency on the DPU over that on the host (paper: 14 to 20 % more), {}",
            tree::named(curve.keys)
        ),
        source: "section 4.2.1, figure 6".into(),
        paper: 1.17,
        ours: at(1.0) / at(0.0),
        unit: "x".into(),
    }
}

fn notes() -> Vec<String> {
    vec![
        format!(
            "{PAPER}: one client thread; one request under way is assumed, so that none waits for \
             another"
        ),
        "the host's PCIe is crossed once for a request and once for its reply, 0.2 us each (half \
         of what section 4.2.2 finds for a read there and back); the DPU's cores take longer to \
         poll, to post and to look up, which is what makes them slower in all"
            .into(),
        "between 0 and 100 % the median is that of whoever has more of the requests".into(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_request_at_a_time_takes_as_long_as_it_takes() {
        let mut progress = |_| true;
        let mut run = Run {
            scale: Scale::Quick,
            seed: 4,
            progress: &mut progress,
        };
        let mut median = |offload| {
            let mix = Mix {
                keys: Keys::Uniform(1_000),
                updates: 0.0,
            };
            let plan = Plan {
                offload,
                clients: 1,
                operations: 1,
                ..Plan::new(1_000, 1_000, mix)
            };
            let seen = index::measure(&mut run, 0.0, &plan).expect("it runs");
            // One request after the other.
            let product = seen.per_second * seen.median_us / 1e6;
            assert!((0.9..1.1).contains(&product), "{seen:?}");
            seen.median_us
        };
        assert!((0.5..2.0).contains(&(median(1.0) / median(0.0))));
    }
}
