//! The words of an endpoint: regions, queue pairs, work requests, completions; and datagrams, for
//! what needs no connection.
//!
//! Endpoints know only this crate. The soft NIC (`rackweave-nic`) is one implementation of
//! [`Verbs`]; a libibverbs one can stand beside it. The names and the rules are those of the
//! InfiniBand Architecture Specification 1.4, chapters 10 and 11, as rdma-core presents them.
//!
//! It knows nothing of packets, links or switches; a [`Service`] is told the time.

mod completion;
mod datagrams;
mod error;
mod qp;
mod region;
pub mod scripted;
mod traits;
mod work;

pub use completion::{Completion, CompletionOpcode, CompletionStatus};
pub use datagrams::{BindError, DatagramError, Datagrams};
pub use error::{CqError, ModifyError, PostError, QpError, RegisterError};
pub use qp::{Mtu, Peer, QpCapabilities, QpEvent, QpModify, QpState, ReceiveSide, SendSide};
pub use region::{Access, CqId, PdId, Region};
pub use traits::{NodeAccess, Progress, Service, Verbs};
pub use work::{Operation, ReceiveRequest, SEGMENTS_MAX, Segment, WorkRequest};
