//! YCSB over the page store: records of one size in a heap of pages.
//!
//! [`PagesOptions`] is what is asked for, [`Outcome`] what was found. [`embedded`] runs on real
//! threads, [`simulated`] in virtual time. The store lies in a [`Medium`].
//!
//! [`Session`] has the operations of one worker and does no IO of its own; [`Run`] is what all
//! sessions share; [`Heap`] says which page is whose. Every record that is read is verified: that
//! it is whole, that it is the one that was asked for, and that its version may be seen.

mod crew;
pub mod embedded;
mod error;
mod heap;
mod load;
mod medium;
mod options;
mod outcome;
mod run;
mod session;
pub mod simulated;
mod stage;

pub use embedded::Job;
pub use error::{Damage, PagesError};
pub use heap::Heap;
pub use medium::Medium;
pub use options::{BLOCK, INDEXED_MAX, Nodes, PagesOptions};
pub use outcome::{Outcome, PageCounts};
pub use run::{Run, RunError};
pub use session::{Session, Stepped};
