//! Pages of SSDs and of all nodes' memory behind one buffer pool for each node.
//!
//! A [`PageService`] has the stores, behind NVMe-oF targets, and the buffer frames of the compute
//! nodes; it lends a [`PageWorker`] to each thread. A worker fixes pages: the switch says where the
//! newest version is, latches it if wanted, and has it brought from there, be that the node's own
//! memory, another node's, or an SSD (*Seamless*, DaMoN 2024). `docs/pages.md` in the repository
//! says what is promised.
//!
//! ```
//! use rackweave::pages::{Mode, PageError, PageOptions, PageService};
//! use rackweave::{Duration, Rack};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let rack = Rack::builder().build()?;
//! let pages = PageService::new(&rack, &PageOptions::default())?;
//! let mut here = pages.worker(&rack.node("compute0")?)?;
//! let mut there = pages.worker(&rack.node("compute1")?)?;
//! let page = here.allocate()?;
//! here.change(page, |bytes| bytes[0] = 1)?;
//!
//! // A shared guard is a version that stays readable; whether it is the newest can be asked.
//! let guard = there.fix(page, Mode::Shared)?;
//! here.change(page, |bytes| bytes[0] = 2)?;
//! assert_eq!(guard.data().slice(..1), [1]);
//! assert!(!there.validate(&guard)?);
//! drop(guard);
//!
//! // An exclusive guard is a latch for the whole rack: others wait, and no longer than they say.
//! let latch = here.fix(page, Mode::Exclusive)?;
//! let late = there.fix_within(page, Mode::Exclusive, Duration::from_millis(5));
//! assert!(matches!(late, Err(PageError::TimedOut { .. })));
//!
//! drop(latch);
//! drop((here, there)); // workers go back to the service
//! pages.close()?; // everything is written home
//! # Ok(())
//! # }
//! ```
//!
//! An engine with a redo log gives its pages LSNs ([`PageGuard::set_lsn`]) and installs the log
//! ([`Pool::set_log`]): then no page is seen elsewhere before the log has it ([`RedoLog`]).
//!
//! A worker has several fixes under way if they are begun with [`PageStore::worker_mut`]; see
//! [`Worker`]. [`directory`] is the room below, for those who build a pool of their own.

pub use rackweave_controller::{LostPage, PageNode, PageSetUpError, PageSpec, PageStoreSpec};
pub use rackweave_endpoint::page_store::*;
pub use rackweave_rack::services::{
    BLOCK, PageError, PageOptions, PageService, PageServiceError, PageWorker, Prepare, StoreInfo,
    StoreMedium, StoreState, StoresCloseError, WorkerError,
};
pub use rackweave_rack::{PageEnds, TargetOptions};
pub use rackweave_target::{
    Backend, DoubleWrite, DoubleWriteArea, DoubleWriteError, Io, IoDone, IoError, IoKind,
    MemoryBackend, Place, TargetError,
};
#[cfg(feature = "files")]
pub use rackweave_target::{Engine, FileBackend, FileError, FileOptions};
pub use rackweave_wire::fabric::page::{
    HEADER_LEN as PAGE_HEADER_LEN, PAGE_SIZE_MAX, PAGE_SIZE_MIN, PageId,
};
