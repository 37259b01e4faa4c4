//! One file per figure, and the list of all.
//!
//! `grid` measures systems at points, `drive` runs a rack and `tally` counts what its programs do;
//! `metered` notes what verbs cost and `work` what a core's work does; `one_to_one` has the flows
//! that several figures share.

pub(crate) mod bluefield;
mod bluefield_11;
mod bluefield_12;
mod bluefield_4;
mod bluefield_4b;
mod bluefield_5;
mod bluefield_6;
mod bluefield_9;
pub mod communication;
pub(crate) mod drive;
mod fat_btree;
mod fat_btree_10;
mod grid;
mod metered;
pub(crate) mod one_to_one;
pub mod order;
pub mod paper;
mod ping_pong;
mod replication;
mod seamless_3;
pub(crate) mod seamless_4;
mod seamless_5;
pub(crate) mod shuffle;
pub(crate) mod tally;
mod units;
pub(crate) mod work;
mod zero_sided_10;
mod zero_sided_11;
mod zero_sided_12;
mod zero_sided_13;
mod zero_sided_14;
mod zero_sided_15;
mod zero_sided_16;
mod zero_sided_6;
mod zero_sided_7;
mod zero_sided_8;
mod zero_sided_9;
mod zero_sided_flows;

use crate::figure::Figure;

/// How much is run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scale {
    /// Few points, small data and short runs.
    Quick,
    /// All that the claims speak of, with as many points as show the shape of the curves.
    Full,
    /// Every point of the paper's figure that this machine can run, with the longest runs.
    Paper,
}

impl Scale {
    /// All of them, the shortest first.
    pub const ALL: [Self; 3] = [Self::Quick, Self::Full, Self::Paper];

    /// What is for the quick form, or what is for the others.
    pub fn pick<T>(self, quick: T, others: T) -> T {
        match self {
            Self::Quick => quick,
            Self::Full | Self::Paper => others,
        }
    }

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::Full => "full",
            Self::Paper => "paper",
        }
    }

    /// What it means, in a sentence.
    pub fn about(self) -> &'static str {
        match self {
            Self::Quick => {
                "Few points, small data and short runs: enough to see that everything works and \
                 where curves go. Claims are compared where the short runs allow it; what is \
                 shrunk is told at each figure."
            }
            Self::Full => {
                "Every claim at the paper's point, and enough points for the shape of each curve. \
                 Where the paper's sweep or data would take too long, fewer points or shorter runs \
                 are taken, which is told at the figure."
            }
            Self::Paper => {
                "The paper's sweeps as far as this machine can run them, with the longest runs. \
                 Data that does not fit is shrunk even so, which is told at the figure."
            }
        }
    }
}

/// A run of an experiment, or a part of one.
pub struct Run<'a> {
    /// How much is run.
    pub scale: Scale,
    /// The seed of the simulator.
    pub seed: u64,
    /// Called with the share of the whole that is done, from 0 to 1; says whether to go on.
    progress: &'a mut dyn FnMut(f64) -> bool,
    /// Where this part begins and ends, in shares of the whole.
    from: f64,
    to: f64,
}

impl<'a> Run<'a> {
    /// A whole run. `progress` is called with the share that is done, from 0 to 1, and says whether
    /// to go on.
    pub fn new(scale: Scale, seed: u64, progress: &'a mut dyn FnMut(f64) -> bool) -> Self {
        Self {
            scale,
            seed,
            progress,
            from: 0.0,
            to: 1.0,
        }
    }

    /// Part `at` of `count` equal parts.
    pub fn part(&mut self, at: usize, count: usize) -> Run<'_> {
        let count = count.max(1) as f64;
        self.share(at as f64 / count, (at + 1) as f64 / count)
    }

    /// The part between two shares of this one.
    pub fn share(&mut self, from: f64, to: f64) -> Run<'_> {
        let whole = self.to - self.from;
        Run {
            scale: self.scale,
            seed: self.seed,
            progress: &mut *self.progress,
            from: self.from + from * whole,
            to: self.from + to * whole,
        }
    }

    /// Reports that this share of this part is done.
    ///
    /// # Errors
    /// If the user wishes to stop.
    pub fn at(&mut self, share: f64) -> Result<(), ExperimentError> {
        match (self.progress)(self.from + share * (self.to - self.from)) {
            true => Ok(()),
            false => Err(ExperimentError::Interrupted),
        }
    }
}

#[cfg(test)]
impl Run<'static> {
    /// A short run that nobody stops.
    pub fn quick(seed: u64) -> Self {
        Self::new(Scale::Quick, seed, Box::leak(Box::new(|_| true)))
    }
}

/// Why an experiment gave no figure.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum ExperimentError {
    /// The rack could not be built.
    #[error(transparent)]
    Rack(#[from] rackweave_rack::RackError),
    /// A flow could not be set up or changed.
    #[error(transparent)]
    Flow(#[from] rackweave_controller::FlowError),
    /// The run came to no end, or to a wrong one.
    #[error("{0}; the same seed replays it")]
    Run(String),
    /// The user wished to stop.
    #[error("interrupted")]
    Interrupted,
}

impl ExperimentError {
    /// The same error with where it happened, if it is one of a run.
    #[must_use]
    pub fn with(self, what: impl core::fmt::Display) -> Self {
        match self {
            Self::Run(error) => Self::Run(format!("{what}: {error}")),
            other => other,
        }
    }
}

/// One of the papers' figures.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// Its name on the command line, such as "zero-sided-6".
    pub name: &'static str,
    /// What it shows, in a line.
    pub about: &'static str,
    /// Runs it. The figure has its name and the seed from [`Experiment::figure`].
    run: fn(&mut Run<'_>) -> Result<Figure, ExperimentError>,
}

impl Experiment {
    /// Runs it.
    ///
    /// # Errors
    /// If a measurement fails or gives something wrong, or the user wishes to stop.
    pub fn figure(&self, run: &mut Run<'_>) -> Result<Figure, ExperimentError> {
        let figure = (self.run)(run)?;
        Ok(Figure {
            name: self.name.into(),
            seed: run.seed,
            ..figure
        })
    }
}

const fn experiment(
    name: &'static str,
    about: &'static str,
    run: fn(&mut Run<'_>) -> Result<Figure, ExperimentError>,
) -> Experiment {
    Experiment { name, about, run }
}

/// Every experiment, in the papers' order.
pub const ALL: &[Experiment] = &[
    experiment(
        "zero-sided-flows",
        "concurrent flows in one switch, and the state that each takes (section 4)",
        zero_sided_flows::run,
    ),
    experiment(
        "zero-sided-6",
        "1:1 transfers by the switch and by CPU cores, over the number of flows",
        zero_sided_6::run,
    ),
    experiment(
        "zero-sided-7",
        "adaptive batching: one flow over the bytes of a transfer",
        zero_sided_7::run,
    ),
    experiment(
        "zero-sided-8",
        "GPU-to-GPU shuffle, against puts that the GPUs issue themselves",
        zero_sided_8::run,
    ),
    experiment(
        "zero-sided-9",
        "CPU-to-CPU shuffle by tuple size, against CPU-driven and collective shuffles",
        zero_sided_9::run,
    ),
    experiment(
        "zero-sided-10",
        "ping-pong: latency over the rate of items, with polls and with doorbells",
        zero_sided_10::run,
    ),
    experiment(
        "zero-sided-11",
        "priorities: three flows whose weights change while they run",
        zero_sided_11::run,
    ),
    experiment(
        "zero-sided-12",
        "Replication 1:N with global order, against two-sided SENDs with and without order",
        zero_sided_12::run,
    ),
    experiment(
        "zero-sided-13",
        "Elasticity: TPC-H query 1 while GPUs join and leave",
        zero_sided_13::run,
    ),
    experiment(
        "zero-sided-14",
        "Fairness between one to four producers that replicate to four consumers",
        zero_sided_14::run,
    ),
    experiment(
        "zero-sided-15",
        "distributed join on GPUs, against a CPU-driven shuffle with 4 and 8 cores per node",
        zero_sided_15::run,
    ),
    experiment(
        "zero-sided-16",
        "Static partitioning against load balancing of TPC-H query 1 over FPGA, GPU and CPU",
        zero_sided_16::run,
    ),
    experiment(
        "seamless-3",
        "point lookups by skew: the page store against a page cache in software",
        seamless_3::run,
    ),
    experiment(
        "seamless-4",
        "page reads and latch checks: latency over rate, page table in switch or server",
        seamless_4::run,
    ),
    experiment(
        "seamless-5",
        "remote reads: speed-up by routing in the switch over the size of the data",
        seamless_5::run,
    ),
    experiment(
        "bluefield-4",
        "the index by requests, by the part of it on the DPU; and rebalanced online",
        bluefield_4::run,
    ),
    experiment(
        "bluefield-4b",
        "the rebalancer between host and DPU at work, over time",
        bluefield_4b::run,
    ),
    experiment(
        "bluefield-5",
        "local lookups and updates on host and DPU",
        bluefield_5::run,
    ),
    experiment(
        "bluefield-6",
        "latency of the index by requests, by the part of it on the DPU",
        bluefield_6::run,
    ),
    experiment(
        "bluefield-9",
        "the index by one-sided reads: throughput by offload and size of tree nodes",
        bluefield_9::run_throughput,
    ),
    experiment(
        "bluefield-10",
        "the index by one-sided reads: latency by offload and size of tree nodes",
        bluefield_9::run_latency,
    ),
    experiment(
        "bluefield-11",
        "one-sided fetch-and-add on host and DPU, by client threads",
        bluefield_11::run,
    ),
    experiment(
        "bluefield-12",
        "a sequencer by RPC on host and DPU, by client threads",
        bluefield_12::run,
    ),
    experiment(
        "fat-btree-5",
        "lookups in a B+tree that the switches know in part, by its size",
        |run| fat_btree::lookups::KEYS.figure(run),
    ),
    experiment(
        "fat-btree-6",
        "the same by how much of the workload the network was not loaded for",
        |run| fat_btree::lookups::VARIATION.figure(run),
    ),
    experiment(
        "fat-btree-7",
        "the same by the skew of the workload",
        |run| fat_btree::lookups::SKEWS.figure(run),
    ),
    experiment(
        "fat-btree-7b",
        "how many round trips lookups take, by the skew of the workload",
        fat_btree::lookups::run_distributions,
    ),
    experiment(
        "fat-btree-8",
        "the same by the tree nodes of each layer in the switches",
        |run| fat_btree::lookups::NODES.figure(run),
    ),
    experiment(
        "fat-btree-9",
        "the same by the layers in the switches",
        |run| fat_btree::lookups::LAYERS.figure(run),
    ),
    experiment(
        "fat-btree-10",
        "client-server mode: operations that switches lead half way, by the number of keys",
        |run| fat_btree_10::BY_KEYS.figure(run),
    ),
    experiment("fat-btree-10b", "the same by clients", |run| {
        fat_btree_10::BY_CLIENTS.figure(run)
    }),
    experiment("fat-btree-10c", "the same by the part of reads", |run| {
        fat_btree_10::BY_READS.figure(run)
    }),
    experiment(
        "fat-btree-10d",
        "the same by the skew of the workload",
        |run| fat_btree_10::BY_SKEW.figure(run),
    ),
    experiment(
        "communication-4a",
        "one buffer for messages: what can be written",
        |run| communication::figures::ROWS[0].figure(run),
    ),
    experiment(
        "communication-4b",
        "one buffer for messages: what can be consumed",
        |run| communication::figures::ROWS[1].figure(run),
    ),
    experiment(
        "communication-5a",
        "several receive buffers: what can be written",
        |run| communication::figures::ROWS[2].figure(run),
    ),
    experiment(
        "communication-5b",
        "the same with a thread for each of them",
        |run| communication::figures::ROWS[3].figure(run),
    ),
    experiment(
        "communication-6a",
        "several receive buffers: what can be consumed",
        |run| communication::figures::ROWS[4].figure(run),
    ),
    experiment(
        "communication-6b",
        "the same with a thread for two of them at each end",
        |run| communication::figures::ROWS[5].figure(run),
    ),
];
