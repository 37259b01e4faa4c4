//! Figure 6 of zero-sided RDMA: 1:1 transfers between GPUs, by the switch and by CPU cores, over
//! the number of flows, for three sizes of items.
//!
//! The paper moves one item at a time here: batching has a figure of its own (7), and its CPU cores
//! post a transfer for each item. So the first three curves do the same. The other two batch, on
//! both sides: flows with four transfers under way, and one core that posts neighbouring items at
//! once.

use super::meter::Sweep;
use super::one_to_one::{self, Flows};
use super::{Experiment, ExperimentError, Run, Scale};
use crate::baseline::one_sided::{self, Driving, Words};
use crate::figure::{Axis, Claim, Drawing, Figure, PaperMark, Series};
use rackweave_base::Duration;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "zero-sided-6",
    about: "1:1 transfers by the switch and by CPU cores, over the number of flows",
    run,
};

const KIB: u32 = 1 << 10;
const MIB: u32 = 1 << 20;

/// Bytes of one batch, where something batches: figure 7 shows that no more is needed.
const BATCH: u32 = 128 * KIB;

/// Items of all flows together have no more bytes than this: large items fill the link with few
/// flows.
const BYTES_MAX: u32 = 16 * MIB;

/// Who moves the items.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mover {
    /// The switch, an item at a time, one transfer of a flow at a time.
    Switch,
    /// The switch with batches and four transfers of a flow at a time.
    SwitchBatching,
    /// So many cores, an item at a time.
    Cores(u32),
    /// One core that batches.
    CoreBatching,
}

const MOVERS: [(Mover, &str); 5] = [
    (Mover::Switch, "zero-sided"),
    (Mover::Cores(1), "1 CPU core"),
    (Mover::Cores(4), "4 CPU cores"),
    (Mover::SwitchBatching, "zero-sided, batching, 4 transfers"),
    (Mover::CoreBatching, "1 CPU core, batching"),
];

const SIZES: [(u32, &str); 3] = [
    (4 * KIB, "4 KiB items"),
    (64 * KIB, "64 KiB items"),
    (MIB, "1 MiB items"),
];

/// How long to measure: this long, and this many rounds (see [`Flows::span`]).
type Length = (Duration, u32);

impl Mover {
    fn goodput(
        self,
        sweep: &mut Sweep<'_, '_>,
        (count, item_size): (u32, u32),
        (least, rounds): Length,
    ) -> Result<f64, ExperimentError> {
        let plain = Flows {
            count,
            item_size,
            batch_bytes: item_size,
            transfers: 1,
        };
        let batching = Flows {
            batch_bytes: BATCH.max(item_size),
            transfers: 4,
            ..plain
        };
        let driven = |cores| Driving {
            cores,
            words: Words::Device,
        };
        let flows = match self {
            Mover::Switch | Mover::Cores(_) => plain,
            Mover::SwitchBatching | Mover::CoreBatching => batching,
        };
        let span = flows.span(least, rounds);
        match self {
            Mover::Switch | Mover::SwitchBatching => one_to_one::zero_sided(sweep, flows, span),
            Mover::Cores(cores) => one_sided::run(sweep, flows, driven(cores), span),
            Mover::CoreBatching => one_sided::run(sweep, flows, driven(1), span),
        }
    }
}

fn run(run: &mut Run<'_>) -> Result<Figure, ExperimentError> {
    let seed = run.seed;
    let (counts, length): (&[u32], Length) = match run.scale {
        Scale::Quick => (&[1, 4, 32], (Duration::from_millis(1), 4)),
        Scale::Full | Scale::Paper => (&[1, 2, 4, 8, 16, 32], (Duration::from_millis(5), 10)),
    };
    let counts_of = |item_size: u32| {
        let counts = counts.iter().copied();
        counts.filter(move |count| count * item_size <= BYTES_MAX)
    };
    let counts_all: usize = SIZES.iter().map(|size| counts_of(size.0).count()).sum();
    let runs = MOVERS.len() * counts_all + 1;
    let mut sweep = Sweep::new(run, runs);
    let mut series = Vec::new();
    for (item_size, panel) in SIZES {
        for (mover, name) in MOVERS {
            let mut points = Vec::new();
            for count in counts_of(item_size) {
                let goodput = mover
                    .goodput(&mut sweep, (count, item_size), length)
                    .map_err(|error| error.with(format!("{count} flows of {panel}, {name}")))?;
                points.push((f64::from(count), goodput / 1e9));
            }
            series.push(Series {
                name: format!("{panel} | {name}"),
                points,
            });
        }
    }
    let most = *counts.last().unwrap_or(&1);
    let in_host = Flows {
        count: most,
        item_size: 4 * KIB,
        batch_bytes: 4 * KIB,
        transfers: 1,
    };
    let driving = Driving {
        cores: 1,
        words: Words::Host,
    };
    let in_host = one_sided::run(
        &mut sweep,
        in_host,
        driving,
        in_host.span(length.0, length.1),
    )? / 1e9;
    Ok(figure(series, most, in_host, seed))
}

fn figure(series: Vec<Series>, most: u32, in_host: f64, seed: u64) -> Figure {
    let line_rate = one_to_one::line_rate() / 1e9;
    let at = |size: usize, mover: usize, count: u32| {
        let points = &series[size * MOVERS.len() + mover].points;
        let found = points.iter().find(|point| point.0 == f64::from(count));
        found.map_or(f64::NAN, |point| point.1)
    };
    let (switch, one, four) = (at(0, 0, most), at(0, 1, most), at(0, 2, most));
    let claim = |what: String, source: &str, ours: f64| Claim {
        what,
        source: source.into(),
        paper: 1.0,
        ours,
        unit: String::new(),
    };
    let claims = vec![
        claim(
            format!("1:1 flows reach line rate: {most} flows of 4 KiB items, share of line rate"),
            "section 1, contributions (2)",
            switch / line_rate,
        ),
        claim(
            "zero-sided is equal or better than CPU-driven: 4 KiB items, over the best of 1 and 4 \
             cores"
                .into(),
            "figure 1 (a), caption",
            switch / one.max(four),
        ),
        claim(
            "4 KiB items scale perfectly with the flows: goodput per flow of 4 flows, over that of \
             1 flow"
                .into(),
            "section 7.1, figure 6",
            at(0, 0, 4) / 4.0 / at(0, 0, 1),
        ),
        claim(
            format!(
                "several cores are needed to be comparable: 4 cores over zero-sided, {most} flows \
                 of 4 KiB items"
            ),
            "section 7.1, figure 6",
            four / switch,
        ),
    ];
    let notes = vec![
        format!(
            "Section 7.1 says that one core does not suffice for 4 KiB items and gives no number: \
             here it reaches {one:.2} GB/s with {most} flows, {:.2} of zero-sided; if heads and \
             tails lay in the host's memory, {in_host:.2} GB/s.",
            one / switch
        ),
        format!(
            "Line rate is {line_rate:.2} GB/s: what headers and Ethernet leave of 100 Gbit/s at an \
             MTU of 1024 bytes (section 4)."
        ),
        "Memory of a GPU is modelled as memory of its node behind the same PCIe link; kernels cost \
         nothing and are never slower than the link."
            .into(),
        "A core looks at a head by a load over PCIe (the buffers are the GPUs'), posts a WRITE per \
         item and one of the head, and learns the consumer's tail by a READ; `batching` moves \
         up to 128 KiB at once."
            .into(),
    ];
    Figure {
        name: EXPERIMENT.name.into(),
        title: "1:1 transfers between GPUs: by the switch and by CPU cores".into(),
        x: Axis::log("concurrent flows", ""),
        y: Axis::linear("goodput", "GB/s"),
        drawing: Drawing::Lines,
        y_per_panel: false,
        // "Line rate": what headers and Ethernet leave.
        paper: vec![PaperMark::level(line_rate)],
        x_names: Vec::new(),
        series,
        claims,
        notes,
        seed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_moves_items_of_several_flows() {
        let mut progress = |_| true;
        let mut run = Run {
            scale: Scale::Quick,
            seed: 1,
            progress: &mut progress,
        };
        let length = (Duration::from_millis(1), 4);
        let mut sweep = Sweep::new(&mut run, 3);
        let mut goodput = |mover: Mover, count| mover.goodput(&mut sweep, (count, 4 * KIB), length);
        let one = goodput(Mover::Switch, 1).unwrap();
        let four = goodput(Mover::Switch, 4).unwrap();
        let batching = goodput(Mover::SwitchBatching, 1).unwrap();
        let share = batching / one_to_one::line_rate();
        assert!((3.5..4.5).contains(&(four / one)), "{one} and {four}");
        assert!((0.9..1.002).contains(&share), "{share} of line rate");
    }

    #[test]
    fn whoever_wishes_to_stop_is_heard() {
        let mut progress = |share: f64| share < 0.01;
        let mut run = Run {
            scale: Scale::Quick,
            seed: 1,
            progress: &mut progress,
        };
        assert_eq!(
            (EXPERIMENT.run)(&mut run),
            Err(ExperimentError::Interrupted)
        );
    }
}
