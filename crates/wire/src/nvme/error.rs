//! Why bytes are not an acceptable NVMe structure.

/// Why a structure could not be parsed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NvmeError {
    /// There are fewer bytes than the structure has.
    #[error("{what} has {expected} bytes, here are {found}")]
    Truncated {
        /// The structure.
        what: &'static str,
        /// Its length in bytes.
        expected: usize,
        /// The bytes present.
        found: usize,
    },
    /// The descriptor's type and subtype are not valid for RDMA.
    #[error("SGL descriptor {0:#04x} is neither a keyed data block nor an offset in the capsule")]
    SglType(u8),
    /// The command is not a Fabrics command.
    #[error("opcode {0:#04x} is not that of Fabrics commands")]
    NotFabrics(u8),
    /// The Fabrics command type is unknown.
    #[error("Fabrics command type {0:#04x} is unknown")]
    FabricsType(u8),
    /// The opcode is not a known I/O command.
    #[error("I/O command opcode {0:#04x} is unknown")]
    IoOpcode(u8),
    /// The record format is not zero.
    #[error("record format {0} is unknown; this is format 0")]
    RecordFormat(u16),
    /// The requested size of a property is neither four nor eight bytes.
    #[error("property size code {0} is reserved")]
    PropertySize(u8),
    /// A name is not terminated, or not UTF-8.
    #[error("{0} is not a zero-terminated UTF-8 string")]
    Name(&'static str),
    /// An identification descriptor does not fit the list that it is in.
    #[error("identification descriptor at byte {at} has a bad length")]
    Descriptor {
        /// Its offset in the list.
        at: usize,
    },
}

/// The first `N` bytes, as the structure called `what`.
pub(super) fn first<const N: usize>(
    bytes: &[u8],
    what: &'static str,
) -> Result<[u8; N], NvmeError> {
    bytes.first_chunk().copied().ok_or(NvmeError::Truncated {
        what,
        expected: N,
        found: bytes.len(),
    })
}
