//! What can go wrong with a call.

use super::ConfigError;
use crate::ResourceError;
use rackweave_base::{Duration, Qpn};
use rackweave_verbs::{CompletionStatus, PostError};
use rackweave_wire::fabric::rpc::{MessageError, Status};

/// Why a connection is of no use any more.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum Cause {
    /// A message could not be sent or received.
    #[error("{0}")]
    Completion(CompletionStatus),
    /// The queue pair takes nothing more: it was reset, destroyed, or is in error.
    #[error("the queue pair is not usable any more")]
    QueuePair,
    /// A request had no answer in time, and then the question whether the server is alive had
    /// none either.
    #[error("the server says nothing any more")]
    NoAnswer,
    /// The server has restarted.
    #[error("the server is incarnation {found:#x}, spoken to was {expected:#x}")]
    OtherIncarnation {
        /// The incarnation spoken to.
        expected: u64,
        /// The one that answers.
        found: u64,
    },
    /// The server refused a message as a whole.
    #[error("the server refused a message: {0}")]
    Refused(Status),
    /// What the server sends is no message.
    #[error("the server sends what is no reply: {0}")]
    NoMessage(MessageError),
    /// What the server sends is a message, but no sound reply.
    #[error("the server sends a reply that is not well-formed")]
    NoReply,
}

/// What can go wrong with a call, or with an end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RpcError {
    /// Too many requests are under way; take replies first.
    #[error("{window} requests are under way, more the window does not hold; take replies first")]
    WindowFull {
        /// Requests that the window holds.
        window: u16,
    },
    /// The request is too long.
    #[error("a request of {length} bytes; at most {max} are possible (payload_max)")]
    TooLarge {
        /// Bytes of the request.
        length: usize,
        /// Bytes that are possible.
        max: u32,
    },
    /// The connection is broken. A request that was under way has been carried out once or not at
    /// all. Make another client.
    #[error("disconnected: {0}; connect anew")]
    Disconnected(Cause),
    /// No answer came in time. The request has been carried out, or will be, once or not at all.
    #[error("no answer within {:.3} ms", .0.as_nanos() as f64 / 1e6)]
    TimedOut(Duration),
    /// The server answered, but not with success.
    #[error("the server answered: {0}")]
    Refused(Status),
    /// A server has as many clients as it may have.
    #[error("the server has {max} clients already; raise clients_max")]
    ClientsFull {
        /// Clients that it may have.
        max: u16,
    },
    /// A server has no client behind this queue pair.
    #[error("the server has no client at queue pair {0}")]
    UnknownClient(Qpn),
    /// A size is out of range.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Memory or NIC have no room.
    #[error(transparent)]
    Resource(#[from] ResourceError),
    /// The queue pair takes no requests.
    #[error(transparent)]
    Post(#[from] PostError),
}
