//! Pages of SSDs and of all nodes' memory behind one buffer pool per node.
//!
//! A [`PageService`] owns the stores, which are behind NVMe-oF targets, and the buffer frames of
//! the compute nodes; it lends a [`PageWorker`] to each thread. A worker fixes pages: the switch
//! locates the newest version, latches it if requested, and has it fetched from there, be that the
//! node's own memory, another node's, or an SSD (*Seamless*, DaMoN 2024). `docs/pages.md` in the
//! repository documents the guarantees.
//!
//! ```
//! use rackweave::Rack;
//! use rackweave::pages::{PageError, PageOptions, PageService};
//! use std::time::Duration;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let rack = Rack::builder().build()?;
//! let pages = PageService::new(&rack, &PageOptions::default())?;
//! let here = pages.worker(&rack.node("compute0")?)?;
//! let there = pages.worker(&rack.node("compute1")?)?;
//! let page = here.allocate()?;
//! here.change(page, |bytes| bytes[0] = 1)?;
//!
//! // A read guard is a version that stays readable; whether it is the newest can be asked.
//! let old = there.read(page)?;
//! here.change(page, |bytes| bytes[0] = 2)?;
//! assert_eq!(old.data().slice(..1), [1]);
//! assert!(!old.is_newest()?);
//! drop(old);
//!
//! // A write guard is a latch for the whole rack: others wait, and no longer than they say.
//! let mut latch = here.write(page)?;
//! let late = there.write_within(page, Duration::from_millis(5));
//! assert!(matches!(late, Err(PageError::TimedOut { .. })));
//! latch.data_mut().write(0, &[3]);
//! latch.commit()?; // or an error: the change was not taken, or nobody knows in time
//!
//! drop((here, there)); // workers go back to the service
//! pages.close()?; // everything is written home
//! # Ok(())
//! # }
//! ```
//!
//! Tasks of an executor await [`PageWorker::read_async`], [`PageWorker::write_async`] and
//! [`WriteGuard::commit_async`]; several of them share a worker.
//!
//! An engine with a redo log gives its pages LSNs ([`WriteGuard::set_lsn`]) and installs the log
//! ([`Pool::set_log`]). No page is then visible elsewhere before the log has its changes
//! ([`RedoLog`]).
//!
//! Programs that do their own polling, such as actors in virtual time, take a node's [`Worker`]s
//! ([`PageService::polled_workers`]). [`directory`] is the module below, for programs with a buffer
//! pool of their own.

pub use rackweave_controller::{LostPage, PageNode, PageSetUpError};
pub use rackweave_endpoint::page_store::*;
pub use rackweave_rack::services::{
    BLOCK, PageError, PageOptions, PageService, PageServiceError, PageWorker, Prepare, ReadGuard,
    Scan, StoreInfo, StoreMedium, StoreState, WriteGuard,
};
pub use rackweave_rack::{PageEnds, TargetOptions};
pub use rackweave_target::{
    Backend, DoubleWrite, DoubleWriteArea, DoubleWriteError, Io, IoDone, IoError, IoKind,
    MemoryBackend, RegionRange, TargetError,
};
#[cfg(feature = "files")]
pub use rackweave_target::{Engine, FileBackend, FileError, FileOptions};
pub use rackweave_wire::fabric::page::{
    HEADER_LEN as PAGE_HEADER_LEN, PAGE_SIZE_MAX, PAGE_SIZE_MIN, PageId,
};
