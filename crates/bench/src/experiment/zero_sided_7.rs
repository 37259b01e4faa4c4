//! Figure 7 of zero-sided RDMA: adaptive batching. One flow between two nodes, by the maximum bytes
//! of one transfer, for three sizes of items.
//!
//! In the paper a flow has one transfer in flight; the second panel has four, the default of a
//! simulated rack.

use super::zero_sided_6::{MIB, SIZES};
use crate::figure::{Measured, Values, values};
use crate::harness::grid::{self, Curve, Grid};
use crate::harness::one_to_one::{self, Flows};
use crate::harness::{Result, Run};
use rackweave_base::Duration;

const TRANSFERS: [(u8, &str); 2] = [
    (1, "one transfer at a time, as in the paper"),
    (4, "four transfers at a time, our default"),
];

/// The paper's advice: batches no larger than this saturate the network with one flow.
const ADVISED: u32 = 4 * MIB;

/// Measures the figure.
pub fn run(run: &mut Run<'_>) -> Result<Measured> {
    // Batches grow by this factor, from one item to twice the advised size.
    let millis = Duration::from_millis;
    let (factor, least, rounds) = run.scale.pick((16, millis(1), 6), (2, millis(5), 12));
    let batches = |item: u32| -> Vec<u32> {
        let mut batches = vec![item];
        while batches.last().is_some_and(|&last| last < 2 * ADVISED) {
            let last = batches[batches.len() - 1];
            // Every series of sizes includes the advised one.
            let next = last.saturating_mul(factor);
            batches.push(if last < ADVISED {
                next.min(ADVISED)
            } else {
                2 * ADVISED
            });
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
    Ok(measured(&curves))
}

fn measured(curves: &[Curve<(u8, u32), u32, f64>]) -> Measured {
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
