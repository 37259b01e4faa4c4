//! What a namespace's blocks lie in.

pub(crate) mod double_write;
#[cfg(feature = "files")]
pub(crate) mod file;
pub(crate) mod memory;
#[cfg(test)]
pub(crate) mod shuffling;

use rackweave_base::{Block, Instant};

/// What is to be done with blocks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum IoKind {
    /// Blocks go to the buffer.
    Read,
    /// The buffer goes to the blocks.
    Write,
    /// All that was written reaches the medium.
    Flush,
    /// The blocks read as zeroes from now on.
    WriteZeroes,
}

/// Bytes of region memory.
#[derive(Clone, Debug)]
pub struct Place {
    /// The memory; holding it keeps the bytes where they are.
    pub block: Block,
    /// Where in it the bytes begin. The target's are aligned to 4096.
    pub offset: usize,
}

/// A request to a backend.
#[derive(Clone, Debug)]
pub struct Io {
    /// Given back in [`IoDone`]. No other request that is under way at the backend has it.
    pub tag: u64,
    /// What to do.
    pub kind: IoKind,
    /// The first logical block; zero for Flush.
    pub block: u64,
    /// How many; zero for Flush. The target has checked that they are in the namespace.
    pub blocks: u32,
    /// The bytes of Read and Write, `blocks` times the block size; none for Flush and Write Zeroes.
    /// Nobody else touches them while the request runs.
    pub buffer: Option<Place>,
}

/// The end of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IoDone {
    /// The tag of the request.
    pub tag: u64,
    /// How it ended.
    pub result: Result<(), IoError>,
}

/// Why a request failed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum IoError {
    /// Blocks beyond the last.
    #[error("blocks beyond the end of the namespace")]
    OutOfRange,
    /// The medium did not give or take the data.
    #[error("the medium failed")]
    MediaError,
    /// There is no room for the blocks.
    #[error("no space left for the namespace's blocks")]
    NoSpace,
    /// Anything else.
    #[error("the backend failed")]
    Other,
}

/// Blocks of a namespace, read and written in the background.
///
/// Requests may end in any order, but a request that is submitted after another has ended sees
/// what that one did.
pub trait Backend: Send {
    /// Bytes of one block: a power of two from 512 on.
    fn block_size(&self) -> u32;

    /// The number of blocks, at least one. It does not change.
    fn blocks(&self) -> u64;

    /// Blocks of a Write at most that is whole or not there after a power cut; zero if there is no
    /// such promise.
    fn atomic_blocks(&self) -> u32 {
        0
    }

    /// Takes a request.
    ///
    /// # Errors
    /// Gives it back if there is no room; the caller tries again after the next [`Backend::poll`].
    fn submit(&mut self, now: Instant, io: Io) -> Result<(), Io>;

    /// Reads from the beginning of a block at once, past the requests under way, for who looks
    /// after a failure and serves nobody meanwhile. False if the medium cannot be read so.
    fn peek(&self, block: u64, bytes: &mut [u8]) -> bool {
        let _cannot = (block, bytes);
        false
    }

    /// Appends what has ended. Does not wait.
    fn poll(&mut self, now: Instant, done: &mut Vec<IoDone>);

    /// When [`Backend::poll`] is due, if anything is under way.
    fn poll_timeout(&self) -> Option<Instant>;
}
