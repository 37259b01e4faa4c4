//! Regions and connected queue pairs for baselines, created before the measurement.

use crate::harness::ExperimentError;
use core::ops::RangeInclusive;
use rackweave_base::memory::MemoryError;
use rackweave_base::{Duration, NodeId, Qpn};
use rackweave_controller::LaneError;
use rackweave_controller::connect::PairAttributes;
use rackweave_rack::Rack;
use rackweave_verbs::{
    Access, CqError, CqId, PdId, PostError, QpCapabilities, QpError, Region, RegisterError, Verbs,
};

/// Why a baseline could not be set up.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum SetUpError {
    /// The node does not exist.
    #[error("{0:?} does not exist")]
    NoNode(NodeId),
    /// The rack has no memory left.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// A region could not be registered.
    #[error(transparent)]
    Register(#[from] RegisterError),
    /// A completion queue could not be created.
    #[error(transparent)]
    Cq(#[from] CqError),
    /// A queue pair could not be created.
    #[error(transparent)]
    Qp(#[from] QpError),
    /// Two queue pairs could not be connected.
    #[error(transparent)]
    Connect(#[from] LaneError),
    /// A receive could not be posted.
    #[error(transparent)]
    Post(#[from] PostError),
    /// A setting is invalid.
    #[error("{what} is {value}; {least} to {most} in steps of {step} are possible")]
    Setting {
        /// The setting.
        what: &'static str,
        /// Its value.
        value: u64,
        /// Its minimum.
        least: u64,
        /// Its maximum.
        most: u64,
        /// It must be a multiple of this number.
        step: u64,
    },
}

impl From<SetUpError> for ExperimentError {
    fn from(error: SetUpError) -> Self {
        Self::Run(format!("a baseline could not be set up: {error}"))
    }
}

/// A setting: its name, its value, the valid range, and the number of which it must be a multiple.
pub type Setting = (&'static str, u64, RangeInclusive<u64>, u64);

/// Checks that settings are valid.
///
/// # Errors
/// If one is not.
pub fn check(settings: &[Setting]) -> Result<(), SetUpError> {
    let is_wrong = |(_, value, range, step): &&Setting| {
        !(range.contains(value) && value.is_multiple_of(*step))
    };
    match settings.iter().find(is_wrong) {
        None => Ok(()),
        Some(&(what, value, ref range, step)) => Err(SetUpError::Setting {
            what,
            value,
            least: *range.start(),
            most: *range.end(),
            step,
        }),
    }
}

/// A thread's own part of a NIC.
#[derive(Clone, Debug)]
pub struct NodeEnd {
    /// Its node.
    pub node: NodeId,
    /// Its protection domain.
    pub pd: PdId,
    /// The completion queue of its requests.
    pub cq: CqId,
    /// Its memory.
    pub region: Region,
}

impl NodeEnd {
    /// A thread's part of a NIC, with `bytes` of memory and space for `completions`.
    ///
    /// # Errors
    /// If the node or the rack lacks resources.
    pub fn new(
        rack: &Rack,
        node: NodeId,
        bytes: usize,
        completions: u32,
    ) -> Result<Self, SetUpError> {
        let pd = on_nic(rack, node, |nic| nic.create_pd())?;
        Self::in_domain(rack, node, pd, bytes, completions)
    }

    /// The same in the protection domain of another thread's part on the same node, so that one
    /// queue pair leads to both.
    ///
    /// # Errors
    /// As for [`NodeEnd::new`].
    pub fn in_domain(
        rack: &Rack,
        node: NodeId,
        pd: PdId,
        bytes: usize,
        completions: u32,
    ) -> Result<Self, SetUpError> {
        let cq = on_nic(rack, node, |nic| nic.create_cq(completions))??;
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
///
/// # Errors
/// If the node or the rack lacks resources.
pub fn region(rack: &Rack, node: NodeId, pd: PdId, bytes: usize) -> Result<Region, SetUpError> {
    let block = rack.memory().allocate(bytes)?;
    Ok(on_nic(rack, node, |nic| {
        nic.register(pd, block, Access::all())
    })??)
}

/// Connects a queue pair of `a` with one of `b`; each holds this many requests to send and to
/// receive, at least one of each.
///
/// # Errors
/// If a node lacks resources.
pub fn connect(
    rack: &Rack,
    a: &NodeEnd,
    b: &NodeEnd,
    depths: (u32, u32),
) -> Result<(Qpn, Qpn), SetUpError> {
    let attributes = PairAttributes {
        timeout: TIMEOUT,
        // The sender waits for a late receiver.
        rnr_retries: 7,
        ..PairAttributes::default()
    };
    connect_with(rack, a, b, depths, &attributes)
}

/// The same for a connection with these attributes.
///
/// # Errors
/// If a node lacks resources.
pub fn connect_with(
    rack: &Rack,
    a: &NodeEnd,
    b: &NodeEnd,
    (sends, receives): (u32, u32),
    attributes: &PairAttributes,
) -> Result<(Qpn, Qpn), SetUpError> {
    let capabilities = QpCapabilities {
        send_max: sends,
        receive_max: receives,
        segments_max: 2,
    };
    let make = |end: &NodeEnd| -> Result<Qpn, SetUpError> {
        let made = on_nic(rack, end.node, |nic| {
            nic.create_qp(end.pd, end.cq, end.cq, capabilities)
        })?;
        Ok(made?)
    };
    let (near, far) = (make(a)?, make(b)?);
    rack.connect((a.node, near), (b.node, far), attributes)?;
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
) -> Result<R, SetUpError> {
    let node = rack.node_here(node).ok_or(SetUpError::NoNode(node))?;
    Ok(node.with(act))
}
