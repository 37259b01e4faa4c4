//! Completions.

use core::fmt;
use rackweave_base::Qpn;

/// How a work request ended (specification 1.4, 11.6.2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CompletionStatus {
    /// The request was executed.
    Success,
    /// A local segment is too short for the data.
    LocalLength,
    /// A local segment is outside its region or lacks permission.
    LocalProtection,
    /// The queue pair was in error; the request was not executed, or it is unknown whether it was.
    Flushed,
    /// The peer found the request invalid.
    RemoteInvalidRequest,
    /// The peer refused the access: wrong key, bounds, permission or domain.
    RemoteAccess,
    /// The peer could not complete the request.
    RemoteOperation,
    /// No answer after all retries.
    RetriesExceeded,
    /// The peer had no receive request after all retries.
    RnrRetriesExceeded,
}

impl fmt::Display for CompletionStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Success => "success",
            Self::LocalLength => "local length error: a segment is too short for the data",
            Self::LocalProtection => "local protection error: check the segment's lkey and bounds",
            Self::Flushed => "flushed: the queue pair is in error",
            Self::RemoteInvalidRequest => "remote invalid request error",
            Self::RemoteAccess => "remote access error: check rkey, bounds and permissions",
            Self::RemoteOperation => "remote operation error",
            Self::RetriesExceeded => "transport retries exceeded: the peer does not answer",
            Self::RnrRetriesExceeded => "RNR retries exceeded: the peer posts no receive requests",
        })
    }
}

/// The kind of work request that ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CompletionOpcode {
    /// A SEND.
    Send,
    /// An RDMA WRITE.
    Write,
    /// An RDMA READ.
    Read,
    /// A fetch-and-add.
    FetchAdd,
    /// A compare-and-swap.
    CompareSwap,
    /// A receive that a SEND filled.
    Receive,
    /// A receive that a WRITE with immediate consumed.
    ReceiveWithImmediate,
}

/// The end of one work request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// The id of the request.
    pub id: u64,
    /// The queue pair that the request was posted to.
    pub qpn: Qpn,
    /// How the request ended.
    pub status: CompletionStatus,
    /// The kind of request.
    pub opcode: CompletionOpcode,
    /// Bytes received, for receives and READs; 8 for atomics.
    pub length: u32,
    /// Immediate data, for receives.
    pub immediate: Option<u32>,
}
