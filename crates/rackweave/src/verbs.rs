//! The parts of an endpoint: regions, queue pairs, work requests, completions, progress.
//!
//! Most programs need little of this. [`Progress`] is how a waiting thread helps: it drives the
//! rack, and rests when nothing happens. [`NodeAccess`] adds the node at which this happens and the
//! node's [`Verbs`]; [`Node`](crate::Node) implements it. State machines that never wait, such as
//! [`rpc`](crate::rpc) clients, are polled with these verbs.
//! [`Rack::connect`](crate::Rack::connect) connects two queue pairs, and a [`ForeignHost`] connects
//! one to a machine beside a rack of processes. Names and rules follow the InfiniBand Architecture
//! Specification 1.4, chapters 10 and 11.
//!
//! ```
//! use rackweave::Rack;
//! use rackweave::verbs::Access;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let rack = Rack::builder().build()?;
//! let block = rack.memory().allocate(4096)?;
//! let region = rack.node("storage0")?.with(|nic| {
//!     let pd = nic.create_pd();
//!     nic.register(pd, block, Access::REMOTE_READ)
//! })?;
//! println!("others read it by key {:?}, address {:#x}", region.rkey, region.address);
//! # Ok(())
//! # }
//! ```

pub use rackweave_base::{Lkey, MacAddr, Psn, Qpn, Rkey};
pub use rackweave_controller::LaneError;
pub use rackweave_controller::connect::PairAttributes;
pub use rackweave_rack::{ForeignEnd, ForeignError, ForeignHost};
pub use rackweave_verbs::{
    Access, Completion, CompletionOpcode, CompletionStatus, CqError, CqId, ModifyError, Mtu,
    NodeAccess, Operation, PdId, Peer, PostError, Progress, QpCapabilities, QpError, QpModify,
    QpState, ReceiveRequest, ReceiveSide, Region, RegisterError, SEGMENTS_MAX, Segment, SendSide,
    Service, Verbs, WorkRequest,
};
