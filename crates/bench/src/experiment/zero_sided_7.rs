//! Figure 7 of zero-sided RDMA: adaptive batching. One flow between two nodes, by the maximum bytes
//! of one transfer, for three sizes of items.
//!
//! In the paper a flow has one transfer in flight; the second panel has four, the default of a
//! simulated rack.

use super::zero_sided_6::{MIB, SIZES};
use crate::figure::{Axis, Figure, PaperMark, claim};
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

/// Measures and draws the figure.
pub fn run(run: &mut Run<'_>) -> Result<Figure> {
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
    Ok(figure(&curves))
}

fn figure(curves: &[Curve<(u8, u32), u32, f64>]) -> Figure {
    let line_rate = one_to_one::line_rate() / 1e9;
    let mut figure = Figure::lines("Adaptive batching: one flow between GPUs")
        .of("section 7.1, figure 7")
        .x(Axis::log("batch size", "B"))
        .y(Axis::linear("goodput", "GB/s"));
    // "Saturates the network", in the paper's mode.
    figure.paper = vec![PaperMark::level(line_rate)];
    figure.series = grid::series(curves, f64::from, |goodput| goodput / 1e9);
    let at = |curve: usize, batch| curves[curve].value(batch, |goodput| goodput / 1e9);
    for small in [0, SIZES.len()] {
        let panel = TRANSFERS[small / SIZES.len()].1;
        figure.claims([claim(format!(
            "a batch of 4 MiB saturates the network with one producer and consumer: 4 KiB \
             items, share of line rate ({panel})"
        ))
        .values([1.0, at(small, ADVISED) / line_rate], "")]);
    }
    figure.note(format!(
        "Line rate is {line_rate:.2} GB/s: what headers and Ethernet leave of 100 Gbit/s at an MTU \
         of 1024 bytes (section 4)."
    ));
    let gain = |(curve, (size, name)): (usize, (u32, &str))| {
        format!("{:.2} for {name}", at(curve, ADVISED) / at(curve, size))
    };
    let gains: Vec<String> = SIZES.into_iter().enumerate().map(gain).collect();
    figure.note(format!(
        "\"The effect of batching becomes less pronounced as the item-size increases\": goodput \
         with batches of 4 MiB over that without, one transfer at a time: {}.",
        gains.join(", ")
    ));
    figure.note(format!(
        "\"A data transfer only with one large item is enough to almost saturate the network\": \
         one item of 1 MiB at a time reaches {:.2} of line rate.",
        at(SIZES.len() - 1, MIB) / line_rate
    ));
    figure.note(
        "A ring holds eight batches. Producer and consumer cost nothing and are never slower than \
         the link.",
    );
    figure
}
