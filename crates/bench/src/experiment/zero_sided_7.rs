//! Figure 7 of zero-sided RDMA: adaptive batching. One flow from one node to another, over the
//! bytes of one transfer at most, for three sizes of items.
//!
//! In the paper a flow has one transfer under way at a time; the second panel has four, which is
//! what a simulated rack does by default.

use super::meter::Sweep;
use super::one_to_one::{self, Flows};
use super::{Experiment, ExperimentError, Run, Scale};
use crate::figure::{Axis, Claim, Drawing, Figure, PaperMark, Series};
use rackweave_base::Duration;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "zero-sided-7",
    about: "adaptive batching: one flow over the bytes of a transfer",
    run,
};

const KIB: u32 = 1 << 10;
const MIB: u32 = 1 << 20;

const SIZES: [(u32, &str); 3] = [
    (4 * KIB, "4 KiB items"),
    (64 * KIB, "64 KiB items"),
    (MIB, "1 MiB items"),
];

const TRANSFERS: [(u8, &str); 2] = [
    (1, "one transfer at a time, as in the paper"),
    (4, "four transfers at a time, our default"),
];

/// The paper's advice: batches no larger than this saturate the network with one flow.
const ADVISED: u32 = 4 * MIB;

fn run(run: &mut Run<'_>) -> Result<Figure, ExperimentError> {
    let seed = run.seed;
    // Batches grow by this factor, from one item to twice the advised size.
    let (factor, least, rounds) = match run.scale {
        Scale::Quick => (16, Duration::from_millis(1), 6),
        Scale::Full | Scale::Paper => (2, Duration::from_millis(5), 12),
    };
    let batches = |item: u32| -> Vec<u32> {
        let mut batches = vec![item];
        while batches.last().is_some_and(|&last| last < 2 * ADVISED) {
            let last = batches[batches.len() - 1];
            // Every size passes by the advised one.
            let next = last.saturating_mul(factor);
            batches.push(if last < ADVISED {
                next.min(ADVISED)
            } else {
                2 * ADVISED
            });
        }
        batches
    };
    let total: usize = SIZES.iter().map(|size| batches(size.0).len()).sum();
    let mut sweep = Sweep::new(run, total * TRANSFERS.len());
    let mut series = Vec::new();
    for (transfers, panel) in TRANSFERS {
        for (item_size, name) in SIZES {
            let mut points = Vec::new();
            for batch_bytes in batches(item_size) {
                let flows = Flows {
                    count: 1,
                    item_size,
                    batch_bytes,
                    transfers,
                };
                let goodput = one_to_one::zero_sided(&mut sweep, flows, flows.span(least, rounds))
                    .map_err(|error| error.with(format!("batches of {batch_bytes} B, {name}")))?;
                points.push((f64::from(batch_bytes), goodput / 1e9));
            }
            series.push(Series {
                name: format!("{panel} | {name}"),
                points,
            });
        }
    }
    Ok(figure(series, seed))
}

fn figure(series: Vec<Series>, seed: u64) -> Figure {
    let line_rate = one_to_one::line_rate() / 1e9;
    let at = |series: &Series, batch: u32| {
        let mut points = series.points.iter();
        let found = points.find(|point| point.0 == f64::from(batch));
        found.map_or(f64::NAN, |point| point.1)
    };
    let claim = |at: &Series, what: &str, goodput: f64| Claim {
        what: format!("{what} ({})", at.panel().0),
        source: "section 7.1, figure 7".into(),
        paper: 1.0,
        ours: goodput / line_rate,
        unit: String::new(),
    };
    let mut claims = Vec::new();
    for small in [&series[0], &series[SIZES.len()]] {
        claims.push(claim(
            small,
            "a batch of 4 MiB saturates the network with one producer and consumer: 4 KiB items, \
             share of line rate",
            at(small, ADVISED),
        ));
    }
    let mut notes = vec![format!(
        "Line rate is {line_rate:.2} GB/s: what headers and Ethernet leave of 100 Gbit/s at an MTU \
         of 1024 bytes (section 4)."
    )];
    let (first, alone) = (&series[..SIZES.len()], &series[SIZES.len() - 1]);
    let gains = first.iter().zip(SIZES).map(|(series, (size, name))| {
        format!("{:.2} for {name}", at(series, ADVISED) / at(series, size))
    });
    let gains: Vec<String> = gains.collect();
    notes.push(format!(
        "\"The effect of batching becomes less pronounced as the item-size increases\": goodput \
         with batches of 4 MiB over that without, one transfer at a time: {}.",
        gains.join(", ")
    ));
    notes.push(format!(
        "\"A data transfer only with one large item is enough to almost saturate the network\": \
         one item of 1 MiB at a time reaches {:.2} of line rate.",
        at(alone, MIB) / line_rate
    ));
    notes.push(
        "A ring holds eight batches. Producer and consumer cost nothing and are never slower than \
         the link."
            .into(),
    );
    Figure {
        name: EXPERIMENT.name.into(),
        title: "Adaptive batching: one flow between GPUs".into(),
        x: Axis::log("batch size", "B"),
        y: Axis::linear("goodput", "GB/s"),
        drawing: Drawing::Lines,
        y_per_panel: false,
        // "Saturates the network", in the mode of the paper.
        paper: vec![PaperMark::level(line_rate)],
        x_names: Vec::new(),
        series,
        claims,
        notes,
        seed,
    }
}
