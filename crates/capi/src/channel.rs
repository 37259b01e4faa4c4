//! Parts common to both ends of a channel: the reason for its closing, and counters.

use crate::error::Fault;
use crate::pointer::tell;
use crate::status::Status;
use rackweave_endpoint::messaging::{CloseReason, Closed, ClosedBy};

/// Why a connection is closed.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum rackweave_close_reason {
    /// It is no longer needed.
    Normal = 1,
    /// The node stops.
    NodeStops = 2,
    /// The peer wrote a state that does not exist, or does not belong there.
    ForeignState = 3,
    /// The peer named a package that cannot be.
    BadSequence = 4,
    /// The peer said that there are more bytes than a receive buffer holds, or too few.
    BadLength = 5,
    /// A piece contradicts its package, or the pieces before.
    BadHeader = 6,
    /// A message is longer than was agreed.
    MessageTooLong = 7,
    /// What the peer's messages say makes no sense to those who read them.
    BadMessage = 8,
    /// A queue pair broke: the peer is gone, or cannot be reached.
    TransportBroken = 9,
}

/// Who closed a connection.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum rackweave_closed_by {
    /// This node.
    Local = 0,
    /// The other one.
    Peer = 1,
    /// Nobody: a queue pair broke.
    Transport = 2,
}

/// What an end has sent, or taken.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rackweave_channel_counters {
    /// Messages, whole ones.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Pieces that they were cut into.
    pub pieces: u64,
    /// Packages that these travelled in.
    pub packages: u64,
    /// Of a sender: polls at which the peer had no receive buffer free.
    pub waits: u64,
    /// Signs of life asked for.
    pub pulses: u64,
}

impl From<Closed> for Fault {
    fn from(closed: Closed) -> Self {
        let status = match closed.by {
            ClosedBy::Transport => Status::Gone,
            _ => Status::Closed,
        };
        Self::new(status, closed)
    }
}

/// The reason with this number.
pub(crate) fn reason(number: u32) -> Result<CloseReason, Fault> {
    let reason = u16::try_from(number).ok().and_then(CloseReason::from_code);
    reason.ok_or_else(|| Fault::argument(format!("there is no reason {number} to close for")))
}

/// Reports which node closed a connection, and why.
///
/// # Safety
/// Both pointers are NULL or may be written.
pub(crate) unsafe fn tell_closed(
    closed: Option<Closed>,
    by: *mut u32,
    reason: *mut u32,
) -> Result<(), Fault> {
    let closed = closed.ok_or(Fault::quiet(Status::Pending))?;
    let who = match closed.by {
        ClosedBy::Local => rackweave_closed_by::Local,
        ClosedBy::Peer => rackweave_closed_by::Peer,
        ClosedBy::Transport => rackweave_closed_by::Transport,
    };
    // SAFETY: as the caller promises.
    unsafe {
        tell(by, "by", who as u32)?;
        tell(reason, "reason", closed.reason as u32)
    }
}
