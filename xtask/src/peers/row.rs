//! The form of a comparison: what is measured, by what, in which unit.

use super::probe::{Field, Probe};

/// What numbers of a row count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Quantity {
    /// Microseconds: less is better.
    Latency,
    /// Millions per second.
    Rate,
    /// Gigabytes (10⁹) per second.
    Bandwidth,
}

impl Quantity {
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Latency => "us",
            Self::Rate => "M/s",
            Self::Bandwidth => "GB/s",
        }
    }

    /// How many times as fast `ours` is as `theirs`.
    pub fn ratio(self, ours: f64, theirs: f64) -> f64 {
        match self {
            Self::Latency => theirs / ours,
            Self::Rate | Self::Bandwidth => ours / theirs,
        }
    }
}

/// One side of a comparison.
#[derive(Clone, Copy, Debug)]
pub struct Contender {
    pub name: &'static str,
    /// Processes and threads, in short: `2p` for two processes of one thread.
    pub threads: &'static str,
    pub probe: Probe,
    /// Factor from the probe's number to the quantity of the row.
    pub scale: f64,
}

/// One thing that a user does, with ours and what else does it.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub name: &'static str,
    pub about: &'static str,
    pub quantity: Quantity,
    pub ours: Contender,
    pub peers: &'static [Contender],
    /// What is not alike on both sides; empty if nothing.
    pub remark: &'static str,
}

pub const fn ours(
    threads: &'static str,
    arguments: &'static str,
    pointer: &'static str,
    scale: f64,
) -> Contender {
    Contender {
        name: "rackweave",
        threads,
        probe: Probe::Ours { arguments, pointer },
        scale,
    }
}

/// UCX over shared memory: two processes, each with one thread.
pub const fn ucx(
    name: &'static str,
    arguments: &'static str,
    field: Field,
    scale: f64,
) -> Contender {
    Contender {
        name,
        threads: "2p",
        probe: Probe::Ucx { arguments, field },
        scale,
    }
}

pub const fn program(
    name: &'static str,
    threads: &'static str,
    arguments: &'static str,
    pointer: &'static str,
    scale: f64,
) -> Contender {
    Contender {
        name,
        threads,
        probe: Probe::Program { arguments, pointer },
        scale,
    }
}

pub const fn redis(name: &'static str, in_flight: u32, field: Field, scale: f64) -> Contender {
    Contender {
        name,
        threads: "2p",
        probe: Probe::Redis { in_flight, field },
        scale,
    }
}

pub const fn alltoall(block: u32) -> [Contender; 1] {
    [Contender {
        name: "Open MPI MPI_Alltoall",
        threads: "4p",
        probe: Probe::Alltoall { block },
        scale: 1.0,
    }]
}
