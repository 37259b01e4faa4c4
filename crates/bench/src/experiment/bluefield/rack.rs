//! The testbed as a simulated rack.

use crate::experiment::ExperimentError;
use rackweave_base::Duration;
use rackweave_controller::connect::PairAttributes;
use rackweave_rack::config::{NodeConfig, Role};
use rackweave_rack::{RackConfig, SimulatedRack};
use rackweave_sim::testbed::{self, Server};

pub use crate::experiment::drive::{drive, failed};

/// How long a NIC waits for an acknowledgement: far above any queue of the testbed, where nothing
/// is lost.
const TIMEOUT: Duration = Duration::from_millis(20);

/// The testbed, with room for `memory` bytes of regions.
///
/// # Errors
/// If the rack cannot be built.
pub fn testbed(seed: u64, memory: u64) -> Result<SimulatedRack, ExperimentError> {
    let named = |server: Server| {
        let (name, role) = match server {
            Server::Compute => ("compute", Role::Compute),
            Server::Host => ("host", Role::Storage),
            Server::Dpu => ("dpu", Role::Dpu),
        };
        (0..rackweave_sim::devices::CARD_PORTS)
            .map(move |port| NodeConfig::new(format!("{name}{port}"), role))
    };
    let mut config = RackConfig {
        seed,
        memory_limit: memory + (64 << 20),
        node: Server::ALL.into_iter().flat_map(named).collect(),
        ..RackConfig::default()
    };
    // The eSwitch forwards and does nothing else.
    config.switch.consumer_rings = 1;
    config.switch.producer_rings = 1;
    let rack = SimulatedRack::with_models(&config, |world| {
        world.nodes = testbed::nodes();
        world.switch = testbed::eswitch();
    })?;
    Ok(rack)
}

/// How queue pairs of the testbed are connected.
pub fn attributes() -> PairAttributes {
    PairAttributes {
        timeout: TIMEOUT,
        rnr_retries: 7,
        ..PairAttributes::default()
    }
}
