//! YCSB over a table, independent of how its records are stored.
//!
//! A `Table` accepts operations, several at a time, and reports which have ended;
//! [`crate::pages`] and [`crate::index`] have one each. A [`Job`] describes a run, an [`Outcome`]
//! its results. A `Session` has the operations of one worker and does no IO; `Run` is the state
//! shared by all sessions. `embedded` gives each session a thread of a rack in real time,
//! `simulated` an actor in virtual time.
//!
//! Every record that is read is verified: it is intact, it is the requested record, and its version
//! may be visible.

pub(crate) mod embedded;
mod error;
mod outcome;
mod plan;
pub(crate) mod prelude;
mod session;
pub(crate) mod simulated;

pub use error::{Damage, Result, RunError, YcsbError};
pub use outcome::{Kind, Latency, Outcome, Simulation, TimeShare};
pub use plan::{Job, Load, Nodes};
pub use session::VerificationError;

/// The current phase of a run.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Phase {
    /// Records are loaded.
    Load,
    /// An existing store is read.
    Open,
    /// Operations run.
    Run,
}

/// Receives the progress of a phase, from 0 to 1. Returns false if the user wants to stop.
pub type Progress<'a> = &'a mut dyn FnMut(Phase, f64) -> bool;
