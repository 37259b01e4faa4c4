//! Figures 6 and 7 of zero-sided RDMA: 1:1 transfers between GPUs, by the switch and by CPU cores,
//! by the number of flows, for three sizes of items; and adaptive batching.
//!
//! The paper moves one item at a time here: batching has its own figure (7), and its CPU cores post
//! a transfer for each item. So the first three curves do the same. The other two batch, on both
//! sides: flows with four transfers in flight, and one core that posts neighbouring items at once.
//!
//! In figure 7 a flow of the paper has one transfer in flight; the second panel has four, the
//! default of a simulated rack.

use crate::baseline::one_sided::{self, Words};
use crate::harness::one_to_one::{self, Flows};
use crate::harness::prelude::*;

const KIB: u32 = 1 << 10;
const MIB: u32 = 1 << 20;

/// Bytes of one batch, where batching is on: figure 7 shows that no more is needed.
const BATCH: u32 = 128 * KIB;

/// Limit on the bytes of all flows' items together: large items fill the link with few flows.
const BYTES_MAX: u32 = 16 * MIB;

/// What moves the items: the switch, or a number of cores; and whether it batches, in which case
/// the switch has four transfers of a flow in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Mover {
    cores: Option<u32>,
    batching: bool,
}

const fn mover(cores: Option<u32>, batching: bool) -> Mover {
    Mover { cores, batching }
}

const SWITCH: Mover = mover(None, false);

const MOVERS: [(Mover, &str); 5] = [
    (SWITCH, "zero-sided"),
    (mover(Some(1), false), "1 CPU core"),
    (mover(Some(4), false), "4 CPU cores"),
    (mover(None, true), "zero-sided, batching, 4 transfers"),
    (mover(Some(1), true), "1 CPU core, batching"),
];

/// Sizes of items, and their names.
const SIZES: [(u32, &str); 3] = [
    (4 * KIB, "4 KiB items"),
    (64 * KIB, "64 KiB items"),
    (MIB, "1 MiB items"),
];

/// How long to measure: a minimum time, and a number of rounds (see [`Flows::span`]).
type Length = (Duration, u32);

impl Mover {
    fn goodput(
        self,
        run: &mut Run<'_>,
        (count, item_size): (u32, u32),
        words: Words,
        (least, rounds): Length,
    ) -> Result<f64> {
        let (batch_bytes, transfers) = match self.batching {
            false => (item_size, 1),
            true => (BATCH.max(item_size), 4),
        };
        let flows = Flows {
            count,
            item_size,
            batch_bytes,
            transfers,
        };
        let span = flows.span(least, rounds);
        match self.cores {
            None => one_to_one::zero_sided(run, flows, span),
            Some(cores) => one_sided::run(run, flows, (cores, words), span),
        }
    }
}

pub fn run(run: &mut Run<'_>) -> Result<Measured> {
    let counts: &[u32] = run.scale.pick(&[1, 4, 32], &[1, 2, 4, 8, 16, 32]);
    let millis = Duration::from_millis;
    let length: Length = run.scale.pick((millis(1), 4), (millis(5), 10));
    let counts_of = |size: u32| {
        let counts = counts.iter().copied();
        counts.filter(move |count| count * size <= BYTES_MAX)
    };
    let rows = SIZES.into_iter().flat_map(|(size, panel)| {
        MOVERS.map(|(mover, name)| {
            let counts: Vec<u32> = counts_of(size).collect();
            (format!("{panel} | {name}"), (mover, size), counts)
        })
    });
    let curves = Grid::of_rows(rows).measure(run, |run, (mover, size), count| {
        mover.goodput(run, (count, size), Words::Device, length)
    })?;
    let most = *counts.last().unwrap_or(&1);
    let in_host = MOVERS[1].0;
    let in_host = in_host.goodput(run, (most, 4 * KIB), Words::Host, length)?;
    Ok(measured(&curves, most, in_host / 1e9))
}

type Curves = [Curve<(Mover, u32), u32, f64>];

fn measured(curves: &Curves, most: u32, in_host: f64) -> Measured {
    let line_rate = one_to_one::line_rate() / 1e9;
    let at = |mover: usize, count: u32| {
        let curve = curves
            .iter()
            .find(|curve| curve.of == (MOVERS[mover].0, 4 * KIB));
        curve.map_or(f64::NAN, |curve| {
            curve.value(count, |goodput| goodput / 1e9)
        })
    };
    let (switch, one, four) = (at(0, most), at(1, most), at(2, most));
    let values = values! {
        line_rate, most, one, in_host,
        share: switch / line_rate,
        over_best: switch / one.max(four),
        scaling: at(0, 4) / 4.0 / at(0, 1),
        four_cores: four / switch,
        one_share: one / switch,
    };
    let series = grid::series(curves, f64::from, |goodput| goodput / 1e9);
    Measured::new(series, values)
}

/// Transfers of a flow in flight in figure 7, and the name of the panel.
const TRANSFERS: [(u8, &str); 2] = [
    (1, "one transfer at a time, as in the paper"),
    (4, "four transfers at a time, our default"),
];

/// The paper's advice: batches no larger than this saturate the network with one flow.
const ADVISED: u32 = 4 * MIB;

/// Measures figure 7: adaptive batching, of one flow by the maximum bytes of one transfer.
pub fn run_batching(run: &mut Run<'_>) -> Result<Measured> {
    // Batches grow by this factor, from one item to twice the advised size.
    let millis = Duration::from_millis;
    let (factor, least, rounds) = run.scale.pick((16, millis(1), 6), (2, millis(5), 12));
    let batches = |item: u32| -> Vec<u32> {
        let mut batches = vec![item];
        while batches.last().is_some_and(|&last| last < 2 * ADVISED) {
            let last = batches[batches.len() - 1];
            // Every series of sizes includes the advised one.
            let next = last.saturating_mul(factor).min(ADVISED);
            batches.push(if last < ADVISED { next } else { 2 * ADVISED });
        }
        batches
    };
    let rows = TRANSFERS.into_iter().flat_map(|(transfers, panel)| {
        SIZES.map(|(item_size, name)| {
            let name = format!("{panel} | {name}");
            (name, (transfers, item_size), batches(item_size))
        })
    });
    let measure = |run: &mut Run<'_>, (transfers, item_size), batch_bytes| {
        let flows = Flows {
            count: 1,
            item_size,
            batch_bytes,
            transfers,
        };
        one_to_one::zero_sided(run, flows, flows.span(least, rounds))
    };
    let curves = Grid::of_rows(rows).measure(run, measure)?;
    Ok(batched(&curves))
}

fn batched(curves: &[Curve<(u8, u32), u32, f64>]) -> Measured {
    let line_rate = one_to_one::line_rate() / 1e9;
    let at = |curve: usize, batch| curves[curve].value(batch, |goodput| goodput / 1e9);
    let panel = TRANSFERS.into_iter().enumerate().map(|(panel, (_, name))| {
        let share = at(panel * SIZES.len(), ADVISED) / line_rate;
        values! { name, share }
    });
    let gain = |(curve, (size, name)): (usize, (u32, &str))| {
        format!("{:.2} for {name}", at(curve, ADVISED) / at(curve, size))
    };
    let gains: Vec<String> = SIZES.into_iter().enumerate().map(gain).collect();
    let values = values! {
        line_rate,
        panel: panel.collect::<Vec<Values>>(),
        gains: gains.join(", "),
        large: at(SIZES.len() - 1, MIB) / line_rate,
    };
    let series = grid::series(curves, f64::from, |goodput| goodput / 1e9);
    Measured::new(series, values)
}

#[cfg(test)]
mod tests;
