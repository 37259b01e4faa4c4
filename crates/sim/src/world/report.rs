//! Statistics of links and cores.

use super::World;
use super::node::Pipe;
use crate::{CpuReport, LinkCounters};
use rackweave_base::{Duration, NodeId};
use rackweave_link::FaultCounters;
use rackweave_switch::Program;

/// One direction of a node's link, since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DirectionReport {
    /// Counters of the queue and the wire.
    pub link: LinkCounters,
    /// Counters of injected faults.
    pub faults: FaultCounters,
}

/// Both directions of a node's link, since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkReport {
    /// From the node to the switch.
    pub to_switch: DirectionReport,
    /// From the switch to the node.
    pub from_switch: DirectionReport,
}

impl DirectionReport {
    /// The fraction of `span` in which the wire was busy, from `earlier` to this report.
    pub fn utilisation(&self, earlier: &Self, span: Duration) -> f64 {
        let busy = self.link.busy_picos.saturating_sub(earlier.link.busy_picos);
        if span == Duration::ZERO {
            0.0
        } else {
            busy as f64 / (span.as_nanos() as f64 * 1e3)
        }
    }

    /// Payload bytes per second over `span`, from `earlier` to this report.
    pub fn goodput(&self, earlier: &Self, span: Duration) -> f64 {
        let bytes = self
            .link
            .payload_bytes
            .saturating_sub(earlier.link.payload_bytes);
        if span == Duration::ZERO {
            0.0
        } else {
            bytes as f64 / span.as_secs_f64()
        }
    }
}

fn direction(pipe: &Pipe) -> DirectionReport {
    DirectionReport {
        link: *pipe.link.inner().counters(),
        faults: pipe.link.counters(),
    }
}

impl<P: Program> World<P> {
    /// Statistics of a node's link since the start. None if there is no such node.
    pub fn link_report(&self, node: NodeId) -> Option<LinkReport> {
        let node = self.nodes.get(usize::from(node.0))?;
        Some(LinkReport {
            to_switch: direction(&node.up),
            from_switch: direction(&node.down),
        })
    }

    /// Statistics of a cable since the start: from its first end to its second, and back. None if
    /// there is no such cable.
    pub fn cable_report(&self, cable: usize) -> Option<[DirectionReport; 2]> {
        let pipes = self.cables.get(2 * cable..2 * cable + 2)?;
        Some([direction(&pipes[0].pipe), direction(&pipes[1].pipe)])
    }

    /// Time spent by the cores of a node since the start. None if there is no such node.
    pub fn cpu_report(&self, node: NodeId) -> Option<CpuReport> {
        self.nodes.get(usize::from(node.0)).map(|node| node.cpu)
    }
}
