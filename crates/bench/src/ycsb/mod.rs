//! What runs of YCSB share, whatever their records lie in: [`crate::pages`] or [`crate::index`].

mod findings;
mod latencies;

pub use findings::{Findings, VerificationError};
pub use latencies::{Kind, Latencies};

/// What happens at the moment.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Phase {
    /// Records are loaded.
    Load,
    /// A store that was there is read.
    Open,
    /// Operations run.
    Run,
}

/// Told how far a phase has come, from 0 to 1. Returns false if the user wants an end.
pub type Progress<'a> = &'a mut dyn FnMut(Phase, f64) -> bool;

/// What only a simulated rack tells.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct Simulation {
    /// Real seconds of the run.
    pub real_seconds: f64,
    /// Events.
    pub events: u64,
    /// Of everything that travelled; the same seed gives the same hash.
    pub trace_hash: String,
}

/// The operations of one of `workers` workers, of `operations` of all together.
pub fn share_of(operations: u64, worker: u32, workers: u32) -> u64 {
    let workers = u64::from(workers.max(1));
    operations / workers + u64::from(u64::from(worker) < operations % workers)
}
