//! YCSB over a table, whatever its records lie in.
//!
//! A [`Table`] takes operations, several at a time, and says which have ended; [`crate::pages`] and
//! [`crate::index`] have one each. A [`Job`] is what is asked for, an [`Outcome`] what was found. A
//! [`Session`] has the operations of one worker and does no IO of its own; [`Run`] is what all
//! sessions share. `embedded` gives each session a thread of a rack in real time, `simulated` an
//! actor in virtual time.
//!
//! Every record that is read is verified: that it is whole, that it is the one that was asked for,
//! and that its version may be seen.

pub(crate) mod embedded;
mod error;
mod latencies;
mod outcome;
mod plan;
mod run;
mod session;
pub(crate) mod simulated;
pub(crate) mod spent;

pub use error::{Damage, Result, RunError, YcsbError};
pub use latencies::{Kind, Latencies, Latency};
pub use outcome::{Outcome, Simulation, TimeShare};
pub use plan::{Job, Load, Nodes};
pub use run::{Run, VerificationError};
pub use session::{Session, Stepped, Table, Task};

pub(crate) use plan::in_range;

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

/// Gets how far a phase has come, from 0 to 1. Returns false if the user wants an end.
pub type Progress<'a> = &'a mut dyn FnMut(Phase, f64) -> bool;
