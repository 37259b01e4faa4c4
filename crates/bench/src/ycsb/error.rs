//! Why a run came to no outcome, and why one ended early.

use rackweave_endpoint::btree::TreeError;
use rackweave_endpoint::index::{BeginError, IndexError, MapError};
use rackweave_endpoint::page_store::{AllocateError, CloseError, FixError, FlushError, OpenError};
use rackweave_rack::services::{IndexServiceError, PageError, PageServiceError};
use rackweave_rack::{IndexNetworkError, IndexSetUpError, RackError};
use rackweave_target::FileError;
use rackweave_wire::fabric::page::PageId;
use rackweave_workload::ycsb::{HeapError, InsertError, OptionsError, RateError, RecordError};

/// What a run, or a part of one, comes to.
pub type Result<T, E = YcsbError> = core::result::Result<T, E>;

/// Why a run came to no outcome.
#[derive(Debug, thiserror::Error)]
pub enum YcsbError {
    /// The workload makes no sense.
    #[error(transparent)]
    Workload(#[from] OptionsError),
    /// No schedule has this rate.
    #[error(transparent)]
    Rate(#[from] RateError),
    /// A number is out of range.
    #[error("{what} is {number}; {range}")]
    OutOfRange {
        /// Which.
        what: &'static str,
        /// Its value.
        number: u64,
        /// What it may be.
        range: &'static str,
    },
    /// Records do not fit their pages.
    #[error(transparent)]
    Heap(#[from] HeapError),
    /// A node cannot hold so many buffer frames.
    #[error(
        "a buffer of {bytes} bytes has {frames} buffer frames of {page_size} bytes; {min} to {max} \
         are possible with so many operations under way"
    )]
    Buffer {
        /// Bytes of the buffer.
        bytes: u64,
        /// Buffer frames that fit.
        frames: u64,
        /// Bytes of one.
        page_size: u32,
        /// The least.
        min: u64,
        /// The most.
        max: u64,
    },
    /// Pages beyond the switch's, and no server for them.
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
    /// The rack that there is has pages of another size.
    #[error("the rack has pages of {rack} bytes, and the run wants {asked}; set switch.page_size")]
    OtherPageSize {
        /// Bytes of the rack's.
        rack: u32,
        /// Bytes of those that were asked for.
        asked: u32,
    },
    /// There is no second endpoint.
    #[error("the index has two endpoints, and the rack has no DPU for the second")]
    NoDpu,
    /// There can be no such tree, or it takes no more records.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// There is no such partition.
    #[error(transparent)]
    Map(#[from] MapError),
    /// The rack could not be built.
    #[error(transparent)]
    Rack(#[from] RackError),
    /// The rack could not be given pages.
    #[error(transparent)]
    Pages(#[from] PageServiceError),
    /// A worker did not do what it was asked for.
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
    /// A file with the area of double writes is to be used without, or the other way round.
    #[error("the file was made {} double writes", if *wanted { "without" } else { "with" })]
    DoubleWrites {
        /// What was asked for.
        wanted: bool,
    },
    /// The store could not be made or opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A page could not be allocated.
    #[error(transparent)]
    Allocate(#[from] AllocateError),
    /// A page could not be had.
    #[error(transparent)]
    Fix(#[from] FixError),
    /// What was loaded could not be written.
    #[error("what was loaded could not be written: {0}")]
    Flush(#[from] FlushError),
    /// The store could not be closed.
    #[error("the store could not be closed: {0}")]
    Close(#[from] CloseError),
    /// The store has something else in it.
    #[error("{page} is no catalogue of a heap: the store was not made by this command")]
    NoHeap {
        /// Where it should be.
        page: PageId,
    },
    /// The load was cut short.
    #[error("the store was never loaded to its end; make it anew")]
    Unfinished,
    /// The heap has other records.
    #[error("the store has {found} {what}, {asked} were asked for")]
    OtherHeap {
        /// Of what.
        what: &'static str,
        /// What the store has.
        found: u64,
        /// What was asked for.
        asked: u64,
    },
    /// Pages or records of a store that was opened are damaged.
    #[error("{count} records or pages of the store are damaged, the first: record {key}: {reason}")]
    Damaged {
        /// How many.
        count: u64,
        /// A record: of a page that is damaged, its first.
        key: u64,
        /// What is wrong with it.
        reason: Damage,
    },
    /// A thread could not be started.
    #[error("a thread could not be started: {0}; use fewer threads")]
    Thread(String),
    /// Nothing happens any more, in virtual time.
    #[error("nothing has ended for {0} s of virtual time")]
    Stalled(u64),
    /// The user wanted an end before the records were there.
    #[error("interrupted before the records were loaded")]
    Interrupted,
}

/// What is wrong with a record or its page.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Damage {
    /// The page cannot be had.
    #[error(transparent)]
    Page(#[from] FixError),
    /// The record is not whole.
    #[error(transparent)]
    Record(#[from] RecordError),
}

/// Why a run ended early.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RunError {
    /// A record could not be inserted.
    #[error(transparent)]
    Insert(#[from] InsertError),
    /// A page could not be had.
    #[error(transparent)]
    Fix(#[from] FixError),
    /// The store has no page for it.
    #[error(transparent)]
    Allocate(#[from] AllocateError),
    /// An operation on the index failed.
    #[error(transparent)]
    Operation(#[from] IndexError),
    /// The index did not take an operation.
    #[error(transparent)]
    Begin(#[from] BeginError),
    /// A local tree refused.
    #[error(transparent)]
    Tree(#[from] TreeError),
}

impl YcsbError {
    /// What a worker said, whoever asked it.
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
