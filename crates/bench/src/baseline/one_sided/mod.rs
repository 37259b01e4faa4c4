//! CPU-driven one-sided WRITEs (zero-sided RDMA, section 7.1, the baseline of figure 6): kernels
//! produce into and consume from the same kind of ring as in a zero-sided flow, and cores of the
//! producers' node find the items and post the WRITEs.
//!
//! A core serves its flows in turn. A visit looks at the ring's head, posts one WRITE for an item
//! (or for neighbouring items, if it batches) and behind it, on the same queue pair, a WRITE of the
//! consumer's head; only that one is signalled. When it completes the core moves the producer's
//! tail. A window of WRITEs is under way, so that no core waits for an answer. How much room there
//! is at the consumer a core knows from a copy of the consumer's tail, which it refreshes by a READ
//! when half the ring is used up: the consumer's CPU has no part, as in the paper.
//!
//! What this takes on the core is charged: looking at the head, posting, polling for completions
//! and moving the tail. `ring` has the rings and the kernels, `server` the cores.

use rackweave_rack::testing::SimulatedMachines;
mod ring;
mod server;

use crate::experiment::one_to_one::{self, ENDS, Flows, MTU};
use crate::experiment::tally::{Span, Tally};
use crate::experiment::{ExperimentError, Run};
use core::cell::RefMut;
use rackweave_base::{Duration, Instant, NodeId};
use rackweave_controller::connect::PairAttributes;
use rackweave_nic::Nic;
use rackweave_rack::SimulatedRack;
use rackweave_sim::{CpuModel, NicModel};
use rackweave_verbs::{Access, CqId, Mtu, PdId, QpCapabilities, Region, Verbs};
use ring::{Kernels, RingShape, Sink, Source};
use server::{Link, Server};
use std::fmt::Display;

/// WRITEs of items that one flow has under way.
const WINDOW: u32 = 32;

/// Where head and tail of the producers' rings lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Words {
    /// In the device's memory, beside the items, as the paper has it ("the same buffer abstraction
    /// on the GPUs"): looking at a head is an uncached load over PCIe.
    Device,
    /// In the host's memory, where the device puts them: looking at a head is a load from the last
    /// level cache. The paper's kernels do not do this.
    Host,
}

/// How the CPU drives the flows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Driving {
    /// Cores that serve the flows.
    pub cores: u32,
    /// Where heads and tails are.
    pub words: Words,
}

impl Words {
    /// What looking at a head costs a core.
    fn look(self, cpu: &CpuModel) -> Duration {
        match self {
            // No measurement of this direction at hand: the way of a read is the same as when the
            // device reads from the host.
            Words::Device => NicModel::default().memory_read_latency,
            Words::Host => cpu.cache_latency,
        }
    }
}

/// Runs flows that cores drive and returns the bytes per second that arrive. `flows.batch_bytes` is
/// the size of one WRITE at most; `flows.transfers` is not used.
///
/// # Errors
/// If the rack or a queue pair cannot be set up, the run goes wrong, or the user wishes to stop.
pub fn run(
    run: &mut Run<'_>,
    flows: Flows,
    driving: Driving,
    span: Span,
) -> Result<f64, ExperimentError> {
    let mut rack = one_to_one::rack(run.seed)?;
    let tally = Tally::new(Instant::ZERO, span);
    let shape = RingShape::new(flows.item_size, flows.ring_bytes());
    let count = flows.count as usize;
    let bytes = shape.bytes() * u64::from(flows.count);
    let near = Side::new(&mut rack, ENDS.0, bytes)?;
    let far = Side::new(&mut rack, ENDS.1, bytes)?;
    let cores = (driving.cores as usize).clamp(1, count.max(1));
    let scratch = server::scratch_bytes(shape) * u64::from(flows.count);
    let scratch = near.region(&mut rack, scratch)?;
    let kernels = |side: &Side| Kernels::new(side.rings.block.clone(), shape, count, tally.clone());
    rack.spawn(ENDS.0, Box::new(Source(kernels(&near))));
    for core in 0..cores {
        let cq = near.cq(&mut rack)?;
        let mut links = Vec::new();
        for flow in (core..count).step_by(cores) {
            let qpn = connect(&mut rack, &near, cq, &far)?;
            links.push(Link::new(qpn, flow, shape));
        }
        let server = Server {
            shape,
            batch: (flows.batch_bytes / flows.item_size).max(1),
            words: driving.words,
            window: WINDOW,
            cq,
            rings: near.rings.clone(),
            scratch: scratch.clone(),
            remote: far.rings.clone(),
            links,
            turn: 0,
            tally: tally.clone(),
            completions: Vec::new(),
        };
        rack.spawn(ENDS.0, Box::new(server));
    }
    rack.spawn(ENDS.1, Box::new(Sink(kernels(&far))));
    Tally::run(&tally, run, &mut rack)?;
    tally.borrow_mut().bytes_per_second()
}

/// One of the two nodes: its rings and what its queue pairs need.
struct Side {
    node: NodeId,
    pd: PdId,
    rings: Region,
}

impl Side {
    fn new(rack: &mut SimulatedRack, node: NodeId, bytes: u64) -> Result<Self, ExperimentError> {
        let pd = nic(rack, node)?.create_pd();
        let rings = make_region(rack, node, pd, bytes)?;
        Ok(Self { node, pd, rings })
    }

    fn region(&self, rack: &mut SimulatedRack, bytes: u64) -> Result<Region, ExperimentError> {
        make_region(rack, self.node, self.pd, bytes)
    }

    /// A completion queue for all that one core has under way.
    fn cq(&self, rack: &mut SimulatedRack) -> Result<CqId, ExperimentError> {
        nic(rack, self.node)?.create_cq(4096).map_err(set_up)
    }

    fn qp(
        &self,
        rack: &mut SimulatedRack,
        cq: CqId,
    ) -> Result<rackweave_base::Qpn, ExperimentError> {
        let capabilities = QpCapabilities {
            // An item, a head, and the READ of the tail.
            send_max: 2 * WINDOW + 1,
            receive_max: 1,
            segments_max: 1,
        };
        let mut nic = nic(rack, self.node)?;
        nic.create_qp(self.pd, cq, cq, capabilities).map_err(set_up)
    }
}

fn make_region(
    rack: &mut SimulatedRack,
    node: NodeId,
    pd: PdId,
    bytes: u64,
) -> Result<Region, ExperimentError> {
    let block = rack.memory().allocate(bytes as usize).map_err(set_up)?;
    let mut nic = nic(rack, node)?;
    nic.register(pd, block, Access::all()).map_err(set_up)
}

/// A queue pair of the near side, connected with a new one of the far side.
fn connect(
    rack: &mut SimulatedRack,
    near: &Side,
    cq: CqId,
    far: &Side,
) -> Result<rackweave_base::Qpn, ExperimentError> {
    let far_cq = nic(rack, far.node)?.create_cq(1).map_err(set_up)?;
    let (a, b) = (near.qp(rack, cq)?, far.qp(rack, far_cq)?);
    let attributes = PairAttributes {
        mtu: Mtu::from_bytes(MTU).unwrap_or_default(),
        ..PairAttributes::default()
    };
    rack.connect((near.node, a), (far.node, b), &attributes)
        .map_err(set_up)?;
    Ok(a)
}

fn nic(rack: &mut SimulatedRack, node: NodeId) -> Result<RefMut<'_, Nic>, ExperimentError> {
    let gone = || ExperimentError::Run(format!("{node:?} has no NIC"));
    rack.nic_mut(node).ok_or_else(gone)
}

fn set_up(error: impl Display) -> ExperimentError {
    ExperimentError::Run(format!("the baseline cannot be set up: {error}"))
}

#[cfg(test)]
mod tests;
