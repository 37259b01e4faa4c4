//! Why a verb was refused. One small enum per operation.

use crate::{QpState, region::CqId, region::PdId};
use rackweave_base::Qpn;
use rackweave_base::text::Text;
use serde::{Deserialize, Serialize};

/// Why memory was not registered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error, Serialize, Deserialize)]
pub enum RegisterError {
    /// Remote write or atomic without local write.
    #[error("remote write or atomic access needs local write access too")]
    NeedsLocalWrite,
    /// No such protection domain.
    #[error("protection domain {} does not exist", .0.0)]
    UnknownPd(PdId),
    /// The NIC's region table is full.
    #[error("the NIC holds {limit} regions already; raise nic.regions_max")]
    TooMany {
        /// The NIC's limit.
        limit: u32,
    },
}

/// Why a completion queue was not created or removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error, Serialize, Deserialize)]
pub enum CqError {
    /// Zero capacity, or beyond the NIC's limit.
    #[error("a completion queue holds 1 to {limit} entries, not {asked}")]
    BadCapacity {
        /// Entries requested.
        asked: u32,
        /// The NIC's limit.
        limit: u32,
    },
    /// The NIC's table is full.
    #[error("the NIC holds {limit} completion queues already; raise nic.cqs_max")]
    TooMany {
        /// The NIC's limit.
        limit: u32,
    },
    /// No such queue.
    #[error("completion queue {} does not exist", .0.0)]
    Unknown(CqId),
    /// Queue pairs still use it.
    #[error("completion queue {} is still used by a queue pair", .0.0)]
    Busy(CqId),
    /// The node is in another process and does not answer.
    #[error("the node does not answer")]
    NoAnswer,
}

/// Why a queue pair was not created.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error, Serialize, Deserialize)]
pub enum QpError {
    /// No such protection domain.
    #[error("protection domain {} does not exist", .0.0)]
    UnknownPd(PdId),
    /// No such completion queue.
    #[error("completion queue {} does not exist", .0.0)]
    UnknownCq(CqId),
    /// The NIC's table is full.
    #[error("the NIC holds {limit} queue pairs already; raise nic.qps_max")]
    TooMany {
        /// The NIC's limit.
        limit: u32,
    },
    /// A queue size is zero or beyond the NIC's limit.
    #[error("queue sizes are 1 to {limit}, not {asked}")]
    BadCapabilities {
        /// The size requested.
        asked: u32,
        /// The NIC's limit.
        limit: u32,
    },
    /// No such queue pair.
    #[error("queue pair {0} does not exist")]
    Unknown(Qpn),
    /// The node is in another process and does not answer.
    #[error("the node does not answer")]
    NoAnswer,
}

/// Why a queue pair did not change its state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error, Serialize, Deserialize)]
pub enum ModifyError {
    /// No such queue pair.
    #[error("queue pair {0} does not exist")]
    Unknown(Qpn),
    /// The transition is not legal from this state.
    #[error("queue pair {qpn} cannot do this in state {state:?}")]
    Illegal {
        /// The queue pair.
        qpn: Qpn,
        /// Its state.
        state: QpState,
    },
    /// An attribute is out of range.
    #[error("queue pair {qpn}: {what} is out of range")]
    OutOfRange {
        /// The queue pair.
        qpn: Qpn,
        /// The attribute.
        #[serde(skip_deserializing, default = "unnamed")]
        #[serde(with = "rackweave_base::text")]
        what: Text,
    },
    /// The node is in another process and does not answer.
    #[error("the node does not answer")]
    NoAnswer,
}

/// The name of an attribute that was not transmitted.
fn unnamed() -> &'static str {
    "an attribute"
}

/// Why a work request was not accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error, Serialize, Deserialize)]
pub enum PostError {
    /// No such queue pair.
    #[error("queue pair {0} does not exist")]
    Unknown(Qpn),
    /// The state does not allow it.
    #[error("queue pair {qpn} takes no such request in state {state:?}")]
    BadState {
        /// The queue pair.
        qpn: Qpn,
        /// Its state.
        state: QpState,
    },
    /// The queue is full; poll completions first.
    #[error("queue pair {0}: the queue is full; poll for completions")]
    Full(Qpn),
    /// Too many segments, an atomic without exactly 8 local bytes, or an unaligned address.
    #[error("queue pair {qpn}: {what}")]
    Invalid {
        /// The queue pair.
        qpn: Qpn,
        /// What is wrong.
        #[serde(with = "rackweave_base::text")]
        what: Text,
    },
    /// The message exceeds 2^31 bytes (specification 1.4, 9.7.1).
    #[error("queue pair {qpn}: a message of {len} bytes; at most 2^31 are allowed")]
    TooLong {
        /// The queue pair.
        qpn: Qpn,
        /// The length requested.
        len: u64,
    },
}
