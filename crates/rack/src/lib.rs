//! Builds a rack from one configuration.
//!
//! [`config`] is the TOML file and its defaults. [`EmbeddedRack`] runs all nodes and the switch in
//! this process in real time; [`SimulatedRack`] runs the same machines in virtual time on modelled
//! hardware. Both are a [`rackweave_controller::Site`] to the controller.
//!
//! This room may see both an endpoint and the switch. It must not know any workload or command.

mod build;
pub mod config;
mod embedded;
mod simulated;

pub use build::{Address, RackError};
pub use config::{ConfigError, RackConfig};
pub use embedded::{EmbeddedRack, NodeHandle};
pub use simulated::{RunEnd, SimulatedRack};

use rackweave_controller::{FlowId, FlowRings, Ring};
use rackweave_endpoint::flow::{Consumer, Producer, RingError, RingLayout};

/// A flow that runs, with its ends.
#[derive(Debug)]
pub struct Flow {
    /// Its number at the controller.
    pub id: FlowId,
    /// Its rings.
    pub rings: FlowRings,
}

fn layout(ring: &Ring) -> RingLayout {
    RingLayout {
        item_size: ring.item_size,
        slots: ring.slots,
        order: ring.order,
    }
}

impl Flow {
    /// The producing ends of producer `index`, one per consumer.
    ///
    /// # Errors
    /// If a ring does not fit its block, which the controller's checks rule out.
    pub fn producers(&self, index: usize) -> Result<Vec<Producer>, RingError> {
        self.rings
            .of_producer(index)
            .iter()
            .map(|ring| Producer::new(ring.block(), layout(ring)))
            .collect()
    }

    /// The consuming end of consumer `index`.
    ///
    /// # Errors
    /// As for [`Flow::producers`].
    pub fn consumer(&self, index: usize) -> Result<Consumer, RingError> {
        let ring = &self.rings.consumers[index];
        Consumer::new(ring.block(), layout(ring))
    }
}
