//! Code shared by the experiments of the BlueField paper: its testbed in virtual time, and clients
//! and servers whose work is charged.
//!
//! The testbed is `rackweave_sim::testbed`; the cost of operations on trees is
//! `rackweave_sim::TreeCost`; every constant is in `rackweave_sim::devices`.

pub mod index;
pub mod threads;
pub mod tree;

pub use crate::harness::metered::Core;

use crate::harness::prelude::*;
use rackweave_sim::testbed;

/// The compared servers, and their names in figures.
pub const SERVERS: [(Server, &str); 2] = [(Server::Host, "host"), (Server::Dpu, "DPU")];

/// Acknowledgement timeout of a NIC: far longer than any queue of the testbed, which loses no
/// packets.
const TIMEOUT: Duration = Duration::from_millis(20);

impl Core {
    pub fn of(server: Server) -> Self {
        Self {
            cpu: server.cpu(),
            caches: server.caches(),
        }
    }
}

/// How long a run of a sequencer is counted.
pub fn counted(scale: Scale) -> Duration {
    scale.pick(Duration::from_micros(500), Duration::from_millis(2))
}

/// The testbed, with `memory` bytes available for regions.
pub fn testbed(seed: u64, memory: u64) -> Result<Testbed> {
    let named = |server: Server| {
        let (name, role) = match server {
            Server::Compute => ("compute", Role::Compute),
            Server::Host => ("host", Role::Storage),
            Server::Dpu => ("dpu", Role::Dpu),
        };
        nodes(name, role, rackweave_sim::devices::CARD_PORTS.into())
    };
    let mut config = RackConfig {
        seed,
        memory_limit: memory + (64 << 20),
        node: Server::ALL.into_iter().flat_map(named).collect(),
        ..RackConfig::default()
    };
    // The eSwitch only forwards.
    config.switch.consumer_rings = 1;
    config.switch.producer_rings = 1;
    Testbed::with_models(&config, |world| {
        world.nodes = testbed::nodes();
        world.switch = testbed::eswitch();
    })
}

pub fn attributes() -> PairAttributes {
    PairAttributes {
        timeout: TIMEOUT,
        rnr_retries: 7,
        ..PairAttributes::default()
    }
}
