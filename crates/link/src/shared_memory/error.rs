//! Why a shared-memory link cannot be made or joined.

use rackweave_base::memory::mapping::OpenError;
use std::io;

/// Why a link could not be created.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// Other processes could not resolve references into the arena.
    #[error(
        "the arena of this process cannot be read by others; make it with Memory::shared and name \
         it with set_origin"
    )]
    ArenaNotShared,
    /// The system refused.
    #[error(
        "no shared memory for a link of {capacity} packets: {source}; ask for fewer, or raise \
         the limit of open files"
    )]
    System {
        /// Packets per direction.
        capacity: u32,
        /// The error of the system.
        source: io::Error,
    },
}

/// Why an end could not attach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AttachError {
    /// Other processes could not resolve references into the arena.
    #[error(
        "the arena of this process cannot be read by others; make it with Memory::shared and name \
         it with set_origin"
    )]
    ArenaNotShared,
    /// The descriptor could not be mapped.
    #[error("stale or foreign shared-memory segment: {0}; join the rack again")]
    Open(OpenError),
    /// The descriptor does not refer to a link.
    #[error("stale or foreign shared-memory segment: it is no link; join the rack again")]
    NoLink,
    /// The link has another version.
    #[error(
        "stale or foreign shared-memory segment: it has layout version {found}; run the same \
         version of Rackweave in every process"
    )]
    Version {
        /// The version in the header.
        found: u32,
    },
    /// The segment does not match its header.
    #[error(
        "stale or foreign shared-memory segment: its header says {said} bytes for {capacity} \
         packets, but it has {found} bytes; join the rack again"
    )]
    Sizes {
        /// Its length according to the header.
        said: u64,
        /// Packets per direction according to the header.
        capacity: u32,
        /// Its actual length.
        found: usize,
    },
    /// An end has attached before, or the creator has left.
    #[error("stale or foreign shared-memory segment: it was used before; join the rack again")]
    Used,
}
