//! Errors of a call.

use super::ConfigError;
use crate::ResourceError;
use rackweave_base::{Duration, Qpn};
use rackweave_verbs::{CompletionStatus, PostError};
use rackweave_wire::fabric::rpc::{MessageError, Status};

/// Why a connection is no longer usable.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum Cause {
    /// A message could not be sent or received.
    #[error("{0}")]
    Completion(CompletionStatus),
    /// The queue pair accepts no more requests: it was reset, destroyed, or is in the error state.
    #[error("the queue pair is not usable any more")]
    QueuePair,
    /// A request had no reply in time, and then the probe of the server had none either.
    #[error("the server says nothing any more")]
    NoAnswer,
    /// The server has restarted.
    #[error("the server is incarnation {found:#x}, spoken to was {expected:#x}")]
    OtherIncarnation {
        /// The incarnation that the client communicated with.
        expected: u64,
        /// The incarnation that replies.
        found: u64,
    },
    /// The server refused a message as a whole.
    #[error("the server refused a message: {0}")]
    Refused(Status),
    /// What the server sends is not a message.
    #[error("the server sends what is no reply: {0}")]
    NoMessage(MessageError),
    /// What the server sends is a message, but not a valid reply.
    #[error("the server sends a reply that is not well-formed")]
    NoReply,
}

/// Errors of a call, a client or a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RpcError {
    /// Too many requests are in flight; take replies first.
    #[error("{window} requests are under way, more the window does not hold; take replies first")]
    WindowFull {
        /// The size of the window.
        window: u16,
    },
    /// The request is too long.
    #[error("a request of {length} bytes; at most {max} are possible (payload_max)")]
    TooLarge {
        /// Length of the request.
        length: usize,
        /// Maximum length of a request.
        max: u32,
    },
    /// The connection is broken. A request that was in flight has been executed once or not at all.
    /// Create another client.
    #[error("disconnected: {0}; connect anew")]
    Disconnected(Cause),
    /// No reply arrived in time. The request has been executed, or will be, once or not at all.
    #[error("no answer within {:.3} ms", .0.as_nanos() as f64 / 1e6)]
    TimedOut(Duration),
    /// The server replied with a status other than success.
    #[error("the server answered: {0}")]
    Refused(Status),
    /// The server has its maximum number of clients.
    #[error("the server has {max} clients already; raise clients_max")]
    ClientsFull {
        /// Maximum number of clients.
        max: u16,
    },
    /// No client of the server has this queue pair.
    #[error("the server has no client at queue pair {0}")]
    UnknownClient(Qpn),
    /// A size is out of range.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The memory or the NIC has no free resources.
    #[error(transparent)]
    Resource(#[from] ResourceError),
    /// The queue pair accepts no work requests.
    #[error(transparent)]
    Post(#[from] PostError),
}
