//! Why a run has no outcome, and why a run ended early.

use rackweave_endpoint::btree::TreeError;
use rackweave_endpoint::index::{BeginError, IndexError, MapError};
use rackweave_endpoint::page_store::{AllocateError, CloseError, FixError, FlushError, OpenError};
use rackweave_rack::services::{IndexServiceError, PageError, PageServiceError};
use rackweave_rack::{IndexNetworkError, IndexSetUpError, RackError};
use rackweave_target::FileError;
use rackweave_wire::fabric::page::PageId;
use rackweave_workload::ycsb::{HeapError, InsertError, OptionsError, RateError, RecordError};

/// The result of a run, or of a part of one.
pub type Result<T, E = YcsbError> = core::result::Result<T, E>;

/// Why a run has no outcome.
#[derive(Debug, thiserror::Error)]
pub enum YcsbError {
    /// The workload is invalid.
    #[error(transparent)]
    Workload(#[from] OptionsError),
    /// A schedule cannot have this rate.
    #[error(transparent)]
    Rate(#[from] RateError),
    /// A number is out of range.
    #[error("{what} is {number}; {range}")]
    OutOfRange {
        /// The name of the number.
        what: &'static str,
        /// Its value.
        number: u64,
        /// Its permitted range.
        range: &'static str,
    },
    /// Records do not fit their pages.
    #[error(transparent)]
    Heap(#[from] HeapError),
    /// A node cannot hold this many buffer frames.
    #[error(
        "a buffer of {bytes} bytes has {frames} buffer frames of {page_size} bytes; {min} to {max} \
         are possible with so many operations under way"
    )]
    Buffer {
        /// Bytes of the buffer.
        bytes: u64,
        /// Buffer frames that fit.
        frames: u64,
        /// Bytes of one frame.
        page_size: u32,
        /// The minimum number of frames.
        min: u64,
        /// The maximum number of frames.
        max: u64,
    },
    /// Some pages are not indexed by the switch, and there is no memory server for them.
    #[error(
        "the switch indexes {indexed} of {pages} pages, and there is no memory server for the \
         others; add a memory node, or have the switch index all"
    )]
    NoFallback {
        /// Pages that the switch indexes.
        indexed: u64,
        /// Pages of the store.
        pages: u64,
    },
    /// The existing rack has pages of another size.
    #[error("the rack has pages of {rack} bytes, and the run wants {asked}; set switch.page_size")]
    OtherPageSize {
        /// Page size of the rack in bytes.
        rack: u32,
        /// Requested page size in bytes.
        asked: u32,
    },
    /// There is no second endpoint.
    #[error("the index has two endpoints, and the rack has no DPU for the second")]
    NoDpu,
    /// The tree cannot be built, or accepts no more records.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// The partition is invalid.
    #[error(transparent)]
    Map(#[from] MapError),
    /// The rack could not be built.
    #[error(transparent)]
    Rack(#[from] RackError),
    /// The page service could not be set up on the rack.
    #[error(transparent)]
    Pages(#[from] PageServiceError),
    /// A worker failed to carry out a request.
    #[error(transparent)]
    Page(#[from] PageError),
    /// The index could not be set up or loaded.
    #[error(transparent)]
    Index(#[from] IndexServiceError),
    /// A client of the index could not be set up.
    #[error(transparent)]
    Client(#[from] IndexSetUpError),
    /// The switches cannot be loaded.
    #[error(transparent)]
    Network(#[from] IndexNetworkError),
    /// The file cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// A file with a double-write area is to be used without one, or the reverse.
    #[error("the file was made {} double writes", if *wanted { "without" } else { "with" })]
    DoubleWrites {
        /// Whether an area was requested.
        wanted: bool,
    },
    /// The store could not be created or opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A page could not be allocated.
    #[error(transparent)]
    Allocate(#[from] AllocateError),
    /// A page could not be fixed.
    #[error(transparent)]
    Fix(#[from] FixError),
    /// The loaded records could not be written.
    #[error("what was loaded could not be written: {0}")]
    Flush(#[from] FlushError),
    /// The store could not be closed.
    #[error("the store could not be closed: {0}")]
    Close(#[from] CloseError),
    /// The store holds other content.
    #[error("{page} is no catalogue of a heap: the store was not made by this command")]
    NoHeap {
        /// Where the heap should be.
        page: PageId,
    },
    /// The load was not completed.
    #[error("the store was never loaded to its end; make it anew")]
    Unfinished,
    /// The heap has other records.
    #[error("the store has {found} {what}, {asked} were asked for")]
    OtherHeap {
        /// The property that differs.
        what: &'static str,
        /// The value in the store.
        found: u64,
        /// The requested value.
        asked: u64,
    },
    /// Pages or records of an opened store are damaged.
    #[error("{count} records or pages of the store are damaged, the first: record {key}: {reason}")]
    Damaged {
        /// How many.
        count: u64,
        /// A damaged record; for a damaged page, its first record.
        key: u64,
        /// The damage.
        reason: Damage,
    },
    /// A thread could not be started.
    #[error("a thread could not be started: {0}; use fewer threads")]
    Thread(String),
    /// Nothing happens any more, in virtual time.
    #[error("nothing has ended for {0} s of virtual time")]
    Stalled(u64),
    /// The user stopped the run before the records were available.
    #[error("interrupted before the records were loaded")]
    Interrupted,
}

/// Damage to a record or its page.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Damage {
    /// The page cannot be fixed.
    #[error(transparent)]
    Page(#[from] FixError),
    /// The record is not intact.
    #[error(transparent)]
    Record(#[from] RecordError),
}

/// Why a run ended early.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RunError {
    /// A record could not be inserted.
    #[error(transparent)]
    Insert(#[from] InsertError),
    /// A page could not be fixed.
    #[error(transparent)]
    Fix(#[from] FixError),
    /// The store has no page for a new record.
    #[error(transparent)]
    Allocate(#[from] AllocateError),
    /// An operation on the index failed.
    #[error(transparent)]
    Operation(#[from] IndexError),
    /// The index did not accept an operation.
    #[error(transparent)]
    Begin(#[from] BeginError),
    /// A local tree refused an operation.
    #[error(transparent)]
    Tree(#[from] TreeError),
}

impl YcsbError {
    /// The error that a page worker returned, whatever operation caused it.
    pub fn page_error(&self) -> Option<PageError> {
        match self {
            Self::Page(error)
            | Self::Pages(
                PageServiceError::AtStore { error, .. } | PageServiceError::Flush { error, .. },
            ) => Some(*error),
            Self::Open(error) => Some((*error).into()),
            Self::Allocate(error) => Some((*error).into()),
            Self::Fix(error) => Some((*error).into()),
            Self::Flush(error) => Some((*error).into()),
            Self::Close(error) => Some((*error).into()),
            _ => None,
        }
    }
}
