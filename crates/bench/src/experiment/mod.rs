//! One file per figure, and the list of all experiments. What they share is in [`crate::harness`].

mod bluefield;
mod bluefield_11;
mod bluefield_12;
mod bluefield_4;
mod bluefield_4b;
mod bluefield_5;
mod bluefield_6;
mod bluefield_9;
pub mod communication;
mod fat_btree;
mod fat_btree_10;
pub mod order;
pub mod paper;
mod ping_pong;
mod replication;
mod seamless_3;
mod seamless_4;
mod seamless_5;
mod units;
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

use crate::figure::{Figure, FigureText, Measured};
use crate::harness::{Result, Run};

/// One of the papers' figures.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// Its name on the command line, such as "zero-sided-6".
    pub name: &'static str,
    /// What it shows, in one line.
    pub about: &'static str,
    /// Runs it. [`Experiment::figure`] makes a figure of what it has measured.
    run: fn(&mut Run<'_>) -> Result<Measured>,
}

impl Experiment {
    /// Sets the line about what it shows.
    const fn about(self, about: &'static str) -> Self {
        Self { about, ..self }
    }

    /// Runs it.
    ///
    /// # Errors
    /// If a measurement fails or has a wrong result, or the user wishes to stop.
    pub fn figure(&self, run: &mut Run<'_>) -> Result<Figure> {
        let measured = (self.run)(run)?;
        Ok(FigureText::of(self.name).figure(self.name, run.seed, measured))
    }
}

/// A file of texts beside this one.
macro_rules! text {
    ($path:literal) => {
        ($path, include_str!($path))
    };
}

const fn experiment(name: &'static str, run: fn(&mut Run<'_>) -> Result<Measured>) -> Experiment {
    let about = "";
    Experiment { name, about, run }
}

/// What the figures say: the tables beside the experiments, by the names of their files.
pub(crate) const TEXTS: &[(&str, &str)] = &[
    text!("zero_sided_flows.toml"),
    text!("zero_sided_6.toml"),
    text!("zero_sided_7.toml"),
    text!("zero_sided_8.toml"),
    text!("zero_sided_9.toml"),
    text!("zero_sided_10.toml"),
    text!("zero_sided_11.toml"),
    text!("zero_sided_12.toml"),
    text!("zero_sided_13.toml"),
    text!("zero_sided_14.toml"),
    text!("zero_sided_15.toml"),
    text!("zero_sided_16.toml"),
    text!("seamless_3.toml"),
    text!("seamless_4.toml"),
    text!("seamless_5.toml"),
    text!("bluefield_4.toml"),
    text!("bluefield_5.toml"),
    text!("bluefield_6.toml"),
    text!("bluefield_9.toml"),
    text!("bluefield_11.toml"),
    text!("bluefield_12.toml"),
    text!("fat_btree.toml"),
    text!("communication.toml"),
];

/// Every experiment, in the papers' order.
pub const ALL: &[Experiment] = &[
    experiment("zero-sided-flows", zero_sided_flows::run)
        .about("concurrent flows in one switch, and the state that each takes (section 4)"),
    experiment("zero-sided-6", zero_sided_6::run)
        .about("1:1 transfers by the switch and by CPU cores, over the number of flows"),
    experiment("zero-sided-7", zero_sided_7::run)
        .about("adaptive batching: one flow over the bytes of a transfer"),
    experiment("zero-sided-8", zero_sided_8::run)
        .about("GPU-to-GPU shuffle, against puts that the GPUs issue themselves"),
    experiment("zero-sided-9", zero_sided_9::run)
        .about("CPU-to-CPU shuffle by tuple size, against CPU-driven and collective shuffles"),
    experiment("zero-sided-10", zero_sided_10::run)
        .about("ping-pong: latency over the rate of items, with polls and with doorbells"),
    experiment("zero-sided-11", zero_sided_11::run)
        .about("priorities: three flows whose weights change while they run"),
    experiment("zero-sided-12", zero_sided_12::run)
        .about("Replication 1:N with global order, against two-sided SENDs with and without order"),
    experiment("zero-sided-13", zero_sided_13::run)
        .about("Elasticity: TPC-H query 1 while GPUs join and leave"),
    experiment("zero-sided-14", zero_sided_14::run)
        .about("Fairness between one to four producers that replicate to four consumers"),
    experiment("zero-sided-15", zero_sided_15::run).about(
        "distributed join on GPUs, against a CPU-driven shuffle with 4 and 8 cores per node",
    ),
    experiment("zero-sided-16", zero_sided_16::run).about(
        "Static partitioning against load balancing of TPC-H query 1 over FPGA, GPU and CPU",
    ),
    experiment("seamless-3", seamless_3::run)
        .about("point lookups by skew: the page store against a page cache in software"),
    experiment("seamless-4", seamless_4::run)
        .about("page reads and latch checks: latency over rate, page table in switch or server"),
    experiment("seamless-5", seamless_5::run)
        .about("remote reads: speed-up by routing in the switch over the size of the data"),
    experiment("bluefield-4", bluefield_4::run)
        .about("the index by requests, by the part of it on the DPU; and rebalanced online"),
    experiment("bluefield-4b", bluefield_4b::run)
        .about("the rebalancer between host and DPU at work, over time"),
    experiment("bluefield-5", bluefield_5::run).about("local lookups and updates on host and DPU"),
    experiment("bluefield-6", bluefield_6::run)
        .about("latency of the index by requests, by the part of it on the DPU"),
    experiment("bluefield-9", bluefield_9::run_throughput)
        .about("the index by one-sided reads: throughput by offload and size of tree nodes"),
    experiment("bluefield-10", bluefield_9::run_latency)
        .about("the index by one-sided reads: latency by offload and size of tree nodes"),
    experiment("bluefield-11", bluefield_11::run)
        .about("one-sided fetch-and-add on host and DPU, by client threads"),
    experiment("bluefield-12", bluefield_12::run)
        .about("a sequencer by RPC on host and DPU, by client threads"),
    experiment("fat-btree-5", |run| fat_btree::lookups::KEYS.measured(run))
        .about("lookups in a B+tree that the switches know in part, by its size"),
    experiment("fat-btree-6", |run| {
        fat_btree::lookups::VARIATION.measured(run)
    })
    .about("the same by how much of the workload the network was not loaded for"),
    experiment("fat-btree-7", |run| fat_btree::lookups::SKEWS.measured(run))
        .about("the same by the skew of the workload"),
    experiment("fat-btree-7b", fat_btree::lookups::run_distributions)
        .about("how many round trips lookups take, by the skew of the workload"),
    experiment("fat-btree-8", |run| fat_btree::lookups::NODES.measured(run))
        .about("the same by the tree nodes of each layer in the switches"),
    experiment("fat-btree-9", |run| {
        fat_btree::lookups::LAYERS.measured(run)
    })
    .about("the same by the layers in the switches"),
    experiment("fat-btree-10", |run| fat_btree_10::BY_KEYS.measured(run))
        .about("client-server mode: operations that switches lead half way, by the number of keys"),
    experiment("fat-btree-10b", |run| {
        fat_btree_10::BY_CLIENTS.measured(run)
    })
    .about("the same by clients"),
    experiment("fat-btree-10c", |run| fat_btree_10::BY_READS.measured(run))
        .about("the same by the part of reads"),
    experiment("fat-btree-10d", |run| fat_btree_10::BY_SKEW.measured(run))
        .about("the same by the skew of the workload"),
    experiment("communication-4a", communication::figures::run::<0>)
        .about("one buffer for messages: what can be written"),
    experiment("communication-4b", communication::figures::run::<1>)
        .about("one buffer for messages: what can be consumed"),
    experiment("communication-5a", communication::figures::run::<2>)
        .about("several receive buffers: what can be written"),
    experiment("communication-5b", communication::figures::run::<3>)
        .about("the same with a thread for each of them"),
    experiment("communication-6a", communication::figures::run::<4>)
        .about("several receive buffers: what can be consumed"),
    experiment("communication-6b", communication::figures::run::<5>)
        .about("the same with a thread for two of them at each end"),
];
