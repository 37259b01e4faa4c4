//! CPU-driven one-sided WRITEs (zero-sided RDMA, section 7.1, the baseline of figure 6): kernels
//! produce into and consume from the same kind of ring as in a zero-sided flow, and cores of the
//! producers' node find the items and post the WRITEs.
//!
//! A core serves its flows in turn. For each it reads the ring's head, posts one WRITE for an item
//! (or for neighbouring items, if it batches) and after it, on the same queue pair, a WRITE of the
//! consumer's head; only that one is signalled. When it completes, the core moves the producer's
//! tail. A window of WRITEs is in flight, so that no core waits for an answer. A core computes the
//! consumer's free slots from a copy of the consumer's tail, which it refreshes by a READ when half
//! the ring is used up: the consumer's CPU has no part, as in the paper.
//!
//! The core is charged for reading the head, posting, polling for completions and moving the tail.
//! The rings and the kernels are those of zero-sided flows, with the core in place of the switch;
//! `server` has the cores.

mod server;

use crate::baseline::set_up::{NodeEnd, connect_with, region};
use crate::harness::drive::OrFailed;
use crate::harness::one_to_one::{self, ENDS, Flows, MTU};
use crate::harness::tally::{Span, Tally};
use crate::harness::{ExperimentError, Run};
use rackweave_base::{Duration, Instant};
use rackweave_controller::connect::PairAttributes;
use rackweave_endpoint::flow::{Consumer, Producer, RingLayout};
use rackweave_sim::{CpuModel, NicModel};
use rackweave_verbs::Mtu;
use rackweave_wire::fabric::ring::{ByteOrder, region_bytes};
use server::{Link, Server};

/// WRITEs of items that one flow has in flight.
const WINDOW: u32 = 32;

/// Maximum number of completions that wait for a core.
const COMPLETIONS: u32 = 4096;

/// The memory with head and tail of the producers' rings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Words {
    /// In the device's memory, beside the items, as in the paper ("the same buffer abstraction on
    /// the GPUs"): reading a head is an uncached load over PCIe.
    Device,
    /// In the host's memory, to which the device writes them: reading a head is a load from the
    /// last level cache. The paper's kernels do not do this.
    Host,
}

/// How the CPU drives the flows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Driving {
    /// Cores that serve the flows.
    pub cores: u32,
    /// The memory with heads and tails.
    pub words: Words,
}

impl Words {
    /// The cost of reading a head for a core.
    fn look(self, cpu: &CpuModel) -> Duration {
        match self {
            // No measurement of this direction is available: assumed equal to a read by the device
            // from the host.
            Words::Device => NicModel::default().memory_read_latency,
            Words::Host => cpu.cache_latency,
        }
    }
}

/// Runs flows that cores drive and returns the bytes per second that arrive. `flows.batch_bytes` is
/// the maximum size of one WRITE; `flows.transfers` is not used.
///
/// # Errors
/// If the rack or a queue pair cannot be set up, the run fails, or the user stops it.
pub fn run(
    run: &mut Run<'_>,
    flows: Flows,
    driving: Driving,
    span: Span,
) -> Result<f64, ExperimentError> {
    let mut rack = one_to_one::rack(run.seed)?;
    let tally = Tally::new(Instant::ZERO, span);
    let layout = layout(flows);
    let bytes = region_bytes(layout.item_size, layout.slots) as usize;
    let count = flows.count as usize;
    let near = NodeEnd::new(&rack, ENDS.0, 1, 1)?;
    let far = NodeEnd::new(&rack, ENDS.1, 1, 1)?;
    let attributes = PairAttributes {
        mtu: Mtu::from_bytes(MTU).unwrap_or_default(),
        ..PairAttributes::default()
    };
    // An item, a head, and the READ of the tail.
    let room = (2 * WINDOW + 1, 1);
    let cores = (driving.cores as usize).clamp(1, count.max(1));
    let (mut sources, mut sinks, mut servers) = (Vec::new(), Vec::new(), Vec::new());
    for core in 0..cores {
        let flows_here = (core..count).step_by(cores);
        let scratch = server::scratch_bytes(layout) as usize * flows_here.len();
        let node_end = NodeEnd::in_domain(&rack, ENDS.0, near.pd, scratch, COMPLETIONS)?;
        let mut links = Vec::new();
        for _ in flows_here {
            let from = region(&rack, ENDS.0, near.pd, bytes)?;
            let to = region(&rack, ENDS.1, far.pd, bytes)?;
            let (qpn, _) = connect_with(&rack, &node_end, &far, room, &attributes)?;
            links.push(Link::new(qpn, (&from, &to), links.len(), layout));
            sources.push(Producer::new(&from.block, layout).or_failed("a ring")?);
            sinks.push(Consumer::new(&to.block, layout).or_failed("a ring")?);
        }
        servers.push(Server {
            layout,
            batch: (flows.batch_bytes / flows.item_size).max(1),
            words: driving.words,
            window: WINDOW,
            node_end,
            links,
            turn: 0,
        });
    }
    rack.spawn(ENDS.0, one_to_one::kernel_source(sources, None));
    for server in servers {
        rack.spawn(ENDS.0, server);
    }
    rack.spawn(ENDS.1, one_to_one::sink(sinks, tally.clone()));
    Tally::run(&tally, run, &mut rack)?;
    tally.borrow_mut().bytes_per_second()
}

/// Rings with as many slots as fit into the bytes of a ring, rounded down to a power of two, at
/// least two.
fn layout(flows: Flows) -> RingLayout {
    let slots = (flows.ring_bytes() / flows.item_size).max(2);
    RingLayout {
        item_size: flows.item_size,
        slots: 1 << slots.ilog2(),
        order: ByteOrder::Little,
    }
}

#[cfg(test)]
mod tests;
