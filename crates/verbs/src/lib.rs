//! The vocabulary of an endpoint: regions, queue pairs, work requests, completions; and datagrams,
//! where no connection is needed.
//!
//! Endpoints depend only on this crate. The soft NIC (`rackweave-nic`) is one implementation of
//! [`Verbs`]; one over libibverbs can be added. The names and the rules are those of the InfiniBand
//! Architecture Specification 1.4, chapters 10 and 11, as in rdma-core.
//!
//! The crate knows nothing of packets, links or switches; a [`Service`] gets the time as an
//! argument.

mod completion;
mod connections;
mod datagrams;
mod error;
mod qp;
mod region;
pub mod scripted;
mod traits;
mod work;

pub use completion::{Completion, CompletionOpcode, CompletionStatus};
pub use connections::{
    ACCEPT_PRIVATE_MAX, ConnectAttributes, ConnectError, ConnectionEvent, ConnectionId,
    ConnectionManager, REJECT_PRIVATE_MAX, REQUEST_PRIVATE_MAX,
};
pub use datagrams::{BindError, DatagramError, Datagrams};
pub use error::{CqError, ModifyError, PostError, QpError, RegisterError};
pub use qp::{Mtu, Peer, QpCapabilities, QpEvent, QpModify, QpState, ReceiveSide, SendSide};
pub use region::{Access, CqId, PdId, Region};
pub use traits::{NodeAccess, Progress, Service, Verbs};
pub use work::{Operation, ReceiveRequest, SEGMENTS_MAX, Segment, WorkRequest};
