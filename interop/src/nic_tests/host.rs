//! This project's NIC in real time, at one end of the cable to a guest.

use crate::cable::Cable;
use crate::driver::{Driver, wait_for};
use crate::failure::{Failure, Outcome};
use crate::test_node::TestNode;
use rackweave_base::{MacAddr, Memory, Rng};
use rackweave_nic::Resolution;
use rackweave_verbs::{Access, PdId, Region, Verbs};
use std::net::Ipv4Addr;
use std::time::Duration;

/// The address of this project's NIC.
pub const IP: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 200);
const MAC: MacAddr = MacAddr([2, 0, 0, 0x77, 0, 200]);

/// This project's NIC, run by a thread.
pub struct Host {
    driver: Driver<TestNode<Cable>>,
    memory: Memory,
    pd: PdId,
}

impl Host {
    /// Starts a NIC at the end of `cable`. `memory` is the one that the cable was made with.
    pub fn start(cable: Cable, memory: Memory, rng: Rng) -> Self {
        let mut test_node = TestNode::new(IP, MAC, cable, &memory, rng);
        let pd = test_node.nic.create_pd();
        Self {
            driver: Driver::start(test_node),
            memory,
            pd,
        }
    }

    /// Accesses the NIC and its cable.
    pub fn with<R>(&self, act: impl FnOnce(&mut TestNode<Cable>) -> R) -> R {
        self.driver.with(act)
    }

    /// A region of `len` zero bytes.
    pub fn region(&self, len: usize, access: Access) -> Outcome<Region> {
        let block = self.memory.allocate(len);
        let block = block.map_err(|error| Failure::refused("our memory", error))?;
        let made = self.with(|test_node| test_node.nic.register(self.pd, block, access));
        made.map_err(|error| Failure::refused("our region", error))
    }

    /// The protection domain of all regions.
    pub fn pd(&self) -> PdId {
        self.pd
    }

    /// Resolves the Ethernet address of `ip`.
    pub fn resolve(&self, ip: Ipv4Addr) -> Outcome<MacAddr> {
        let limit = Duration::from_secs(5);
        let resolve = || match self.with(|test_node| test_node.neighbours.resolve(ip)) {
            Resolution::Known(mac) => Some(mac),
            Resolution::Asked | Resolution::Full => None,
        };
        let unknown = || Failure::Timeout(format!("an answer to ARP for {ip}"));
        wait_for(limit, resolve).ok_or_else(unknown)
    }

    /// One of the NIC's counters.
    pub fn counter(&self, name: &str) -> u64 {
        self.with(|test_node| {
            let found = test_node.nic.counters().iter().find(|&(n, _)| n == name);
            found.map_or(0, |(_, count)| count)
        })
    }
}
