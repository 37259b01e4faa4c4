//! The testbed as a simulated rack, and running it.

use super::tally::Shared;
use crate::experiment::{ExperimentError, Run};
use rackweave_base::Duration;
use rackweave_controller::connect::PairAttributes;
use rackweave_nic::Nic;
use rackweave_rack::config::{NodeConfig, Role};
use rackweave_rack::{RackConfig, RunEnd, SimulatedRack};
use rackweave_sim::testbed::{self, Server};

/// Virtual time between two looks at the user's wish to stop.
const SLICE: Duration = Duration::from_micros(50);

/// How long a NIC waits for an acknowledgement: far above any queue of the testbed, where nothing
/// is lost.
const TIMEOUT: Duration = Duration::from_millis(20);

/// Something that should not have gone wrong.
pub fn failed(what: &str, error: impl core::fmt::Display) -> ExperimentError {
    ExperimentError::Run(format!("{what}: {error}"))
}

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

/// The NIC of a server at a port.
///
/// # Errors
/// If there is no such node.
pub fn nic(
    rack: &mut SimulatedRack,
    server: Server,
    port: u16,
) -> Result<&mut Nic, ExperimentError> {
    let node = server.at_port(port);
    rack.nic_mut(node)
        .ok_or_else(|| failed("the testbed", format!("{node:?} does not exist")))
}

/// Runs until the tally's window is over; `share` is what is done of the experiment.
///
/// # Errors
/// If something went wrong, nothing moves, or the user wishes to stop.
pub fn drive(
    run: &mut Run<'_>,
    share: f64,
    rack: &mut SimulatedRack,
    tally: &Shared,
) -> Result<(), ExperimentError> {
    let until = tally.borrow().until();
    loop {
        if let Some(failure) = tally.borrow().failure() {
            return Err(ExperimentError::Run(failure.into()));
        }
        if !(run.progress)(share) {
            return Err(ExperimentError::Interrupted);
        }
        let now = rack.now();
        if now >= until {
            return Ok(());
        }
        match rack.run(until.min(now + SLICE)) {
            RunEnd::Deadline | RunEnd::Control(_) => {}
            RunEnd::Done | RunEnd::Stalled if tally.borrow().failure().is_none() => {
                return Err(ExperimentError::Run("nothing moves any more".into()));
            }
            RunEnd::Done | RunEnd::Stalled => {}
        }
    }
}
