//! The storage behind a namespace's blocks.

pub(crate) mod double_write;
#[cfg(feature = "files")]
pub(crate) mod file;
pub(crate) mod memory;
#[cfg(test)]
pub(crate) mod shuffling;

use rackweave_base::{Block, Instant};

/// The operation on blocks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum IoKind {
    /// Blocks are copied to the buffer.
    Read,
    /// The buffer is copied to the blocks.
    Write,
    /// Everything written before reaches the medium.
    Flush,
    /// The blocks read as zeroes from now on.
    WriteZeroes,
}

/// Bytes of region memory.
#[derive(Clone, Debug)]
pub struct RegionRange {
    /// The memory block; holding it keeps the bytes at their address.
    pub block: Block,
    /// Offset of the first byte in it. The target's are aligned to 4096.
    pub offset: usize,
}

/// A request to a backend.
#[derive(Clone, Debug)]
pub struct Io {
    /// Returned in [`IoDone`]. Unique among the requests in flight at the backend.
    pub tag: u64,
    /// The operation.
    pub kind: IoKind,
    /// The first logical block; zero for Flush.
    pub block: u64,
    /// The number of blocks; zero for Flush. The target has checked that they are in the namespace.
    pub blocks: u32,
    /// The bytes of Read and Write, `blocks` times the block size; none for Flush and Write Zeroes.
    /// No other code accesses them while the request runs.
    pub buffer: Option<RegionRange>,
}

/// The completion of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IoDone {
    /// The tag of the request.
    pub tag: u64,
    /// The result.
    pub result: Result<(), IoError>,
}

/// Why a request failed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum IoError {
    /// Blocks past the end.
    #[error("blocks beyond the end of the namespace")]
    OutOfRange,
    /// The medium failed to read or write the data.
    #[error("the medium failed")]
    MediaError,
    /// There is no space for the blocks.
    #[error("no space left for the namespace's blocks")]
    NoSpace,
    /// Anything else.
    #[error("the backend failed")]
    Other,
}

/// Blocks of a namespace, read and written in the background.
///
/// Requests may complete in any order, but a request submitted after another has completed sees its
/// effect.
pub trait Backend: Send {
    /// Bytes of one block: a power of two from 512 on.
    fn block_size(&self) -> u32;

    /// The number of blocks, at least one. It does not change.
    fn blocks(&self) -> u64;

    /// Maximum blocks of a Write that a power cut applies wholly or not at all; zero if there is no
    /// such guarantee.
    fn atomic_blocks(&self) -> u32 {
        0
    }

    /// Submits a request.
    ///
    /// # Errors
    /// Returns it if there is no capacity; the caller retries after the next [`Backend::poll`].
    fn submit(&mut self, now: Instant, io: Io) -> Result<(), Io>;

    /// Reads from the beginning of a block at once, bypassing the requests in flight, for a caller
    /// that inspects the medium after a failure while no I/O is served. Returns false if the medium
    /// cannot be read this way.
    fn peek(&self, block: u64, bytes: &mut [u8]) -> bool {
        let _cannot = (block, bytes);
        false
    }

    /// Appends completions. Does not block.
    fn poll(&mut self, now: Instant, done: &mut Vec<IoDone>);

    /// When [`Backend::poll`] is due, if any request is in flight.
    fn poll_timeout(&self) -> Option<Instant>;
}
