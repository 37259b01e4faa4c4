//! Work requests of a core: posting them, taking their completions, and their CPU cost.

use crate::harness::drive::Failure;
use rackweave_base::{Qpn, Rkey};
use rackweave_sim::Category;
use rackweave_sim::world::Context;
use rackweave_verbs::{
    Completion, CompletionStatus, CqId, Operation, ReceiveRequest, Region, Segment, Verbs,
    WorkRequest,
};

/// Memory of another node, and the queue pair that leads there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Remote {
    /// The local end of the queue pair.
    pub qpn: Qpn,
    /// The address of the first byte.
    pub address: u64,
    /// The key.
    pub rkey: Rkey,
}

impl Remote {
    /// All of `region`, at the other end of `qpn`.
    pub fn new(qpn: Qpn, region: &Region) -> Self {
        Self {
            qpn,
            address: region.address,
            rkey: region.rkey,
        }
    }

    /// A WRITE of `segment` to the bytes from `offset` on.
    pub fn write(&self, id: u64, offset: u64, segment: Segment) -> WorkRequest {
        let operation = Operation::Write {
            address: self.address + offset,
            rkey: self.rkey,
            immediate: None,
        };
        WorkRequest::new(id, operation, &[segment])
    }

    /// A READ of the bytes from `offset` on into `segments`.
    pub fn read(&self, id: u64, offset: u64, segments: &[Segment]) -> WorkRequest {
        let operation = Operation::Read {
            address: self.address + offset,
            rkey: self.rkey,
        };
        WorkRequest::new(id, operation, segments)
    }
}

/// Takes up to `limit` completions and charges the core for it.
///
/// # Errors
/// If a request failed.
pub fn poll(context: &mut Context<'_>, cq: CqId, limit: usize) -> Result<Vec<Completion>, Failure> {
    let mut completions = Vec::new();
    context.poll_cq(cq, limit, &mut completions);
    match failed(&completions) {
        Some(one) => Err(format!("queue pair {}: {}", one.qpn, one.status)),
        None => Ok(completions),
    }
}

/// The first request that failed.
fn failed(completions: &[Completion]) -> Option<&Completion> {
    let mut all = completions.iter();
    all.find(|one| one.status != CompletionStatus::Success)
}

/// Takes completions of any verbs, replaces those in `completions`, and charges nothing; returns
/// their number.
///
/// # Errors
/// The status of a request that failed.
pub fn ended(
    verbs: &mut dyn Verbs,
    cq: CqId,
    completions: &mut Vec<Completion>,
) -> Result<u32, CompletionStatus> {
    completions.clear();
    verbs.poll_cq(cq, 16, completions);
    match failed(completions) {
        Some(one) => Err(one.status),
        None => Ok(completions.len() as u32),
    }
}

/// Posts a request and charges the core for it.
pub fn post(context: &mut Context<'_>, qpn: Qpn, request: WorkRequest) -> Result<(), Failure> {
    let posted = context.post_send(qpn, request);
    posted.map_err(|error| format!("queue pair {qpn}: {error}"))
}

/// Posts a receive and charges the core for it.
pub fn post_receive(
    context: &mut Context<'_>,
    qpn: Qpn,
    request: ReceiveRequest,
) -> Result<(), Failure> {
    context.charge(Category::Communication, context.cpu().post_cost);
    let posted = context.nic().post_receive(qpn, request);
    posted.map_err(|error| format!("queue pair {qpn}: {error}"))
}
