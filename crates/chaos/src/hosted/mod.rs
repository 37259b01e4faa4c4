//! The campaign against racks of processes. The programs of a rack use pages, an index, sequencers,
//! messages and flows at once, while processes of all kinds are killed, stopped, slowed, restarted
//! and cut off; then everything has to work.
//!
//! A call may fail, with an error that says what happened. Every process records its calls in a
//! journal ([`Journal`]); the checkers of the simulated campaigns judge them ([`Journals`]). The
//! actions on the processes follow from the seed, but the system's scheduling does not: a seed
//! reproduces its plan, not every packet.
//!
//! [`HostedPlan`] draws links and faults of a seed, [`Objects`] makes what the programs share, and
//! [`run_program`] is what the process of a program does. Nothing here starts or kills a process: the
//! command line does, which carries out the plan.

mod cable;
mod journal;
mod judge;
mod objects;
mod plan;
mod program;
mod report;
mod shared;

pub use cable::Cable;
pub use journal::{CAMPAIGN, FaultEvent, Journal, Life};
pub use judge::Journals;
pub use objects::{Objects, ObjectsError, Orders};
pub use plan::{
    Bystander, DEAD_AFTER_MS, Deed, Election, Fault, HostedPlan, PROGRAMS, Victim, program_name,
};
pub use program::{LAST_LIMIT, ProgramError, ProgramOptions, TRY_AGAIN, run as run_program};
pub use report::{CampaignReport, SeedReport, Slowest, WAIT_MS_LIMIT};
pub use shared::{done_file, journal_of, place_of};

/// Its name on the command line.
pub const NAME: &str = "hosted";
