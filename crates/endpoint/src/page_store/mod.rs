//! The page store: fix and unfix over a page directory (Seamless, section 2).
//!
//! - [`directory`] is the seam to the switch.
//! - [`Pool`] holds the buffer frames of a node; its worker threads share it.
//! - [`Worker`] is one thread's interface: it fixes pages and does the background work. It is
//!   sans-IO; [`PageStore`] is a blocking worker.
//! - [`PageGuard`] is a fixed page.
//!
//! # Guarantees
//!
//! A shared fix returns a complete version that was the newest at some moment between the start and
//! the end of the fix. It stays readable for the lifetime of the guard, whatever happens to the
//! page. An exclusive fix returns the newest version, and no node in the rack changes the page
//! until the guard's latch has been released. If a node fails, the changes that it had not written
//! home are lost, and a later fix of such a page gets an error.
//!
//! # The engine's log
//!
//! A page that was changed under an LSN ([`PageGuard::set_lsn`]) leaves its node, for another node
//! or home, only when the engine's log is durable up to that LSN: see [`RedoLog`].
//!
//! # The life of a buffer frame
//!
//! Free; latched and filled by a fetch; read by many threads, changed by one; written home before
//! it is reused, if it is newer than home; voided, so that no node finds the page in it any more;
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
