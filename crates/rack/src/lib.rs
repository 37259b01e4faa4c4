//! Builds a rack from one configuration.
//!
//! [`config`] is the TOML file and its defaults. [`EmbeddedRack`] runs all nodes and the switch in
//! this process in real time; [`SimulatedRack`] runs the same machines in virtual time on modelled
//! hardware. Both are a [`rackweave_controller::Site`] to the controller.
//!
//! This room may see both an endpoint and the switch. It must not know any workload or command.

mod awake;
mod build;
pub mod config;
mod embedded;
pub mod hosted;
mod simulated;
mod station;

pub use build::{Address, RackError};
pub use config::{ConfigError, RackConfig};
pub use embedded::{EmbeddedRack, NodeHandle};
pub use simulated::{RunEnd, SimulatedRack};

use rackweave_base::{Block, NodeId, Rkey};
use rackweave_controller::{FlowId, FlowRings, Ring};
use rackweave_endpoint::flow::{Consumer, Producer, RingError, RingLayout};

/// A flow that runs, with its ends.
#[derive(Debug)]
pub struct Flow {
    /// Its number at the controller.
    pub id: FlowId,
    consumers: Vec<LocalRing>,
    /// Per consumer those of all producers.
    producers: Vec<Vec<LocalRing>>,
}

/// A ring in the memory of this process.
#[derive(Clone, Debug)]
struct LocalRing {
    block: Block,
    layout: RingLayout,
}

impl LocalRing {
    fn new(ring: &Ring, block: &Block) -> Self {
        Self {
            block: block.clone(),
            layout: layout(ring),
        }
    }
}

pub(crate) fn layout(ring: &Ring) -> RingLayout {
    RingLayout {
        item_size: ring.item_size,
        slots: ring.slots,
        order: ring.order,
    }
}

impl Flow {
    /// A flow whose rings are all in this process; `block` finds their memory.
    pub(crate) fn local<'a>(
        id: FlowId,
        rings: &FlowRings,
        block: impl Fn(NodeId, Rkey) -> Option<&'a Block>,
    ) -> Self {
        let local = |ring: &Ring| {
            let block = block(ring.node, ring.region.rkey);
            LocalRing::new(ring, block.expect("the controller just made this ring"))
        };
        Self {
            id,
            consumers: rings.consumers.iter().map(local).collect(),
            producers: rings
                .producers
                .iter()
                .map(|rings| rings.iter().map(local).collect())
                .collect(),
        }
    }

    /// The producing ends of producer `index`, one per consumer.
    ///
    /// # Errors
    /// If a ring does not fit its block, which the controller's checks rule out.
    pub fn producers(&self, index: usize) -> Result<Vec<Producer>, RingError> {
        self.producers
            .iter()
            .map(|rings| Producer::new(&rings[index].block, rings[index].layout))
            .collect()
    }

    /// The consuming end of consumer `index`.
    ///
    /// # Errors
    /// As for [`Flow::producers`].
    pub fn consumer(&self, index: usize) -> Result<Consumer, RingError> {
        let ring = &self.consumers[index];
        Consumer::new(&ring.block, ring.layout)
    }
}
