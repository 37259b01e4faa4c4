//! The testbed as a simulated rack, and the costs of its cores.

use crate::harness::metered::Toll;
use crate::harness::prelude::*;
use rackweave_sim::testbed_communication::{self as testbed, CopyModel, MemoryArea};
use rackweave_verbs::Access;

/// Acknowledgement timeout of a NIC: far longer than the longest WRITE takes, and nothing is lost.
const TIMEOUT: Duration = Duration::from_secs(1);

/// The configuration of two nodes with `memory` bytes for regions.
pub fn config(seed: u64, memory: u64) -> RackConfig {
    let mut config = RackConfig {
        seed,
        memory_limit: memory + (64 << 20),
        node: vec![
            NodeConfig::new("storage", Role::Storage),
            NodeConfig::new("compute", Role::Compute),
        ],
        ..RackConfig::default()
    };
    config.switch.consumer_rings = 1;
    config.switch.producer_rings = 1;
    config.nic.mtu = 4096;
    config
}

pub fn rack(seed: u64, memory: u64) -> Result<Testbed> {
    Testbed::with_models(&config(seed, memory), |world| {
        world.nodes = testbed::nodes();
        world.switch = testbed::switch();
    })
}

/// Attributes of the baselines' queue pairs.
pub fn attributes() -> PairAttributes {
    PairAttributes {
        access: Access::REMOTE_WRITE,
        timeout: TIMEOUT,
        ..PairAttributes::default()
    }
}

/// The costs of a node's core.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Core {
    cpu: CpuModel,
    copies: CopyModel,
}

impl Core {
    pub fn new(node: NodeId) -> Self {
        Self {
            cpu: testbed::cpu(node),
            copies: CopyModel::new(node),
        }
    }

    /// Time to copy from memory into an area of `area` bytes that is reused.
    pub fn copy_in(&self, bytes: u64, area: u64) -> Duration {
        self.copies
            .copy(bytes, MemoryArea::Memory, MemoryArea::Reused(area))
    }

    /// Time to copy to memory out of an area of `area` bytes that a device refills.
    pub fn copy_out(&self, bytes: u64, area: u64) -> Duration {
        let from = MemoryArea::FromDevice(area);
        self.copies.copy(bytes, from, MemoryArea::Memory)
    }

    /// Time to clear what has just been copied out.
    pub fn clear(&self, bytes: u64) -> Duration {
        self.copies.set(bytes, MemoryArea::Reused(bytes))
    }

    /// Time to poll words that have not changed.
    pub fn look(&self, words: u64) -> Duration {
        self.cpu.cycles(devices::HOST_UNCHANGED_CYCLES * words)
    }

    /// Time to read a word that a NIC has written.
    pub fn news(&self) -> Duration {
        self.cpu.cache_latency
    }
}

impl Toll for Core {
    fn posts(&self, requests: usize) -> Duration {
        let requests = devices::WORK_REQUEST_CYCLES * requests as u64;
        self.cpu.cycles(requests + devices::DOORBELL_CYCLES)
    }

    fn receives(&self) -> Duration {
        self.cpu.cycles(devices::RECEIVE_REQUEST_CYCLES)
    }

    fn takes(&self, _completion: &Completion) -> Duration {
        self.cpu.poll_cost
    }
}
