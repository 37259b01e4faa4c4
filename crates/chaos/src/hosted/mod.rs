//! The campaign against racks of processes. The programs of a rack use pages, an index, sequencers,
//! messages and flows at once, while processes of all kinds are killed, stopped, slowed, restarted
//! and cut off; then everything has to work.
//!
//! A call may fail, with an error that says what happened. Every process records its calls in a
//! journal; the checkers of the simulated campaigns judge them. The
//! actions on the processes follow from the seed, but the system's scheduling does not: a seed
//! reproduces its plan, not every packet.
//!
//! [`HostedPlan`] draws links and faults of a seed, `objects` makes what the programs share,
//! [`run_program`] is what the process of a program does, and [`run_seed`] carries out a plan. The
//! processes themselves are started by a [`Launcher`].

mod cable;
mod drive;
mod hinder;
mod journal;
mod judge;
mod objects;
mod plan;
mod processes;
mod program;
mod report;
mod running;
mod shared;
mod waits;

pub use drive::{DriveError, run_seed};
pub use journal::Life;
pub use objects::ObjectsError;
pub use plan::{Bystander, Deed, Election, Fault, HostedPlan, Victim};
pub use processes::{Launcher, Output, ProcessError, ProcessEvent, Processes, ProgramStart};
pub use program::{ProgramError, ProgramOptions, run as run_program};
pub use report::{CampaignReport, SeedReport, Slowest};

/// Its name on the command line.
pub const NAME: &str = "hosted";
