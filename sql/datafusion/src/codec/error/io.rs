//! I/O errors: the kind and the text.

use std::io::{Error, ErrorKind};

/// The kinds that have a number: their place here. Append only.
const KINDS: [ErrorKind; 38] = [
    ErrorKind::Other,
    ErrorKind::NotFound,
    ErrorKind::PermissionDenied,
    ErrorKind::ConnectionRefused,
    ErrorKind::ConnectionReset,
    ErrorKind::HostUnreachable,
    ErrorKind::NetworkUnreachable,
    ErrorKind::ConnectionAborted,
    ErrorKind::NotConnected,
    ErrorKind::AddrInUse,
    ErrorKind::AddrNotAvailable,
    ErrorKind::NetworkDown,
    ErrorKind::BrokenPipe,
    ErrorKind::AlreadyExists,
    ErrorKind::WouldBlock,
    ErrorKind::NotADirectory,
    ErrorKind::IsADirectory,
    ErrorKind::DirectoryNotEmpty,
    ErrorKind::ReadOnlyFilesystem,
    ErrorKind::StaleNetworkFileHandle,
    ErrorKind::InvalidInput,
    ErrorKind::InvalidData,
    ErrorKind::TimedOut,
    ErrorKind::WriteZero,
    ErrorKind::StorageFull,
    ErrorKind::NotSeekable,
    ErrorKind::QuotaExceeded,
    ErrorKind::FileTooLarge,
    ErrorKind::ResourceBusy,
    ErrorKind::ExecutableFileBusy,
    ErrorKind::Deadlock,
    ErrorKind::CrossesDevices,
    ErrorKind::TooManyLinks,
    ErrorKind::InvalidFilename,
    ErrorKind::ArgumentListTooLong,
    ErrorKind::Interrupted,
    ErrorKind::Unsupported,
    ErrorKind::UnexpectedEof,
];

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct IoWire {
    /// Index into [`KINDS`].
    #[prost(uint32, tag = "1")]
    kind: u32,
    #[prost(string, tag = "2")]
    text: String,
}

pub(super) fn encode(error: &Error) -> IoWire {
    let kind = KINDS
        .iter()
        .position(|kind| *kind == error.kind())
        .unwrap_or(0);
    IoWire {
        kind: u32::try_from(kind).unwrap_or(0),
        text: error.to_string(),
    }
}

pub(super) fn decode(wire: IoWire) -> Error {
    let index = usize::try_from(wire.kind).unwrap_or(0);
    Error::new(
        KINDS.get(index).copied().unwrap_or(ErrorKind::Other),
        wire.text,
    )
}
