//! The page store: fix and unfix over a page directory (Seamless, section 2).
//!
//! - [`directory`] is the seam to the switch.
//! - [`Pool`] has the buffer frames of a node; its worker threads share it.
//! - [`Worker`] is one thread's way in: it fixes pages and does what has to be done behind that. It
//!   is sans-IO; [`PageStore`] is a worker that waits.
//! - [`PageGuard`] is a fixed page.
//!
//! # What is promised
//!
//! A shared fix gives a version that was the newest at some moment between its beginning and its
//! end, whole; it stays readable as long as the guard lives, however the page goes on. An exclusive
//! fix gives the newest version, and nobody in the rack changes the page until the guard's latch
//! has been given back. What a node had changed and not written home when it went down is lost, and
//! whoever fixes such a page is told so.
//!
//! # The engine's log
//!
//! A page that was changed under an LSN ([`PageGuard::set_lsn`]) leaves its node, to another one or
//! home, when the engine's log is durable as far as that: see [`RedoLog`].
//!
//! # A buffer frame's life
//!
//! Free; latched and filled by a fetch; read by many, changed by one; written home before it is
//! used for something else, if it is newer; voided, so that no node finds the page in it any more;
//! in quarantine until no transfer can be reading it; free.

pub mod directory;

mod config;
mod error;
mod guard;
mod pool;
mod stats;
mod store;
mod worker;

pub use config::PoolConfig;
pub use directory::Mode;
pub use error::{CommitError, FixError, FlushError, PoolError};
pub use guard::{Commit, PageGuard};
pub use pool::{Loss, Pool, RedoLog};
pub use stats::Statistics;
pub use store::{
    AllocateError, Allocator, CloseError, Closing, FormatOptions, Formatting, Freeing, MapError,
    NodeAccess, OpenError, Opening, PageState, PageStore, StoreLayout, Superblock, Unfit, Usage,
};
pub use worker::{Fix, Flush, Flushed, Peek, Validation, Worker};

#[cfg(test)]
mod tests;
