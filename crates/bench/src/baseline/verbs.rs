//! What a baseline does with its NICs: regions and connected queue pairs, created before the
//! measurement; work requests of a core, their completions, and the CPU cost of both.

use crate::harness::prelude::*;
use core::ops::RangeInclusive;
use rackweave_base::Rkey;
use rackweave_verbs::{Access, PdId, QpCapabilities};

/// What fails if a node or the rack lacks resources.
pub const SET_UP: &str = "a baseline could not be set up";

/// A setting: its name, its value, the valid range, and the number of which it must be a multiple.
pub type Setting = (&'static str, u64, RangeInclusive<u64>, u64);

/// Checks that settings are valid.
pub fn check(settings: &[Setting]) -> Result<()> {
    let is_wrong = |(_, value, range, step): &&Setting| {
        !(range.contains(value) && value.is_multiple_of(*step))
    };
    match settings.iter().find(is_wrong) {
        None => Ok(()),
        Some((what, value, range, step)) => Err(ExperimentError::Run(format!(
            "{SET_UP}: {what} is {value}; {} to {} in steps of {step} are possible",
            range.start(),
            range.end()
        ))),
    }
}

/// A thread's own part of a NIC.
#[derive(Clone, Debug)]
pub struct NodeEnd {
    pub node: NodeId,
    pub pd: PdId,
    pub cq: CqId,
    pub region: Region,
}

impl NodeEnd {
    /// A thread's part of a NIC, with `bytes` of memory and space for `completions`.
    pub fn new(rack: &Rack, node: NodeId, bytes: usize, completions: u32) -> Result<Self> {
        let pd = on_nic(rack, node, |nic| nic.create_pd())?;
        Self::in_domain(rack, node, pd, bytes, completions)
    }

    /// The same in the protection domain of another thread's part on the same node, so that one
    /// queue pair leads to both.
    pub fn in_domain(
        rack: &Rack,
        node: NodeId,
        pd: PdId,
        bytes: usize,
        completions: u32,
    ) -> Result<Self> {
        let cq = on_nic(rack, node, |nic| nic.create_cq(completions))?.or_failed(SET_UP)?;
        let region = region(rack, node, pd, bytes)?;
        Ok(Self {
            node,
            pd,
            cq,
            region,
        })
    }
}

/// Memory of a node, of `bytes` bytes.
pub fn region(rack: &Rack, node: NodeId, pd: PdId, bytes: usize) -> Result<Region> {
    let block = rack.memory().allocate(bytes).or_failed(SET_UP)?;
    let made = on_nic(rack, node, |nic| nic.register(pd, block, Access::all()))?;
    made.or_failed(SET_UP)
}

/// Connects a queue pair of `a` with one of `b`; each holds this many requests to send and to
/// receive, at least one of each.
pub fn connect(rack: &Rack, a: &NodeEnd, b: &NodeEnd, depths: (u32, u32)) -> Result<(Qpn, Qpn)> {
    let attributes = PairAttributes {
        timeout: TIMEOUT,
        // The sender waits for a late receiver.
        rnr_retries: 7,
        ..PairAttributes::default()
    };
    connect_with(rack, a, b, depths, &attributes)
}

/// The same for a connection with these attributes.
pub fn connect_with(
    rack: &Rack,
    a: &NodeEnd,
    b: &NodeEnd,
    (sends, receives): (u32, u32),
    attributes: &PairAttributes,
) -> Result<(Qpn, Qpn)> {
    let capabilities = QpCapabilities {
        send_max: sends,
        receive_max: receives,
        segments_max: 2,
    };
    let make = |end: &NodeEnd| {
        let made = on_nic(rack, end.node, |nic| {
            nic.create_qp(end.pd, end.cq, end.cq, capabilities)
        })?;
        made.or_failed(SET_UP)
    };
    let (near, far) = (make(a)?, make(b)?);
    let connected = rack.connect((a.node, near), (b.node, far), attributes);
    connected.or_failed(SET_UP)?;
    Ok((near, far))
}

/// How long a NIC waits for an acknowledgement. Far above a round trip with full queues (a port's
/// queue of 1 MiB takes 84 us), so that it expires only when the last packet of a message is lost.
const TIMEOUT: Duration = Duration::from_millis(1);

/// Uses a node's NIC.
pub(super) fn on_nic<R>(
    rack: &Rack,
    node: NodeId,
    act: impl FnOnce(&mut dyn Verbs) -> R,
) -> Result<R> {
    let found = rack
        .node_here(node)
        .ok_or(format!("{node:?} does not exist"));
    Ok(found.or_failed(SET_UP)?.with(act))
}

/// Memory of another node, and the queue pair that leads there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Remote {
    /// The local end of the queue pair.
    pub qpn: Qpn,
    pub address: u64,
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
pub fn poll(context: &mut Context<'_>, cq: CqId, limit: usize) -> Result<Vec<Completion>, Failure> {
    let mut completions = Vec::new();
    context.poll_cq(cq, limit, &mut completions);
    match failed(&completions) {
        Some(one) => Err(format!("queue pair {}: {}", one.qpn, one.status)),
        None => Ok(completions),
    }
}

fn failed(completions: &[Completion]) -> Option<&Completion> {
    let mut all = completions.iter();
    all.find(|one| one.status != CompletionStatus::Success)
}

/// Takes completions of any verbs, replaces those in `completions`, and charges nothing; returns
/// their number.
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
