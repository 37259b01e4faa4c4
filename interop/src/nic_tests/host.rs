//! This project's NIC in real time, at one end of the cable to a guest.

use super::our_nic::{OurNic, QueuePair};
use crate::cable::Cable;
use crate::driver::{Driver, wait_for};
use crate::failure::{Failure, Outcome};
use crate::guest;
use crate::test_node::TestNode;
use rackweave_base::{MacAddr, Memory, Rng};
use rackweave_controller::connect::PairAttributes;
use rackweave_nic::Resolution;
use rackweave_verbs::{PdId, Peer, Verbs};
use std::net::Ipv4Addr;
use std::time::Duration;

/// The addresses of this project's NIC.
const IP: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 200);
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
}

impl OurNic for Host {
    fn act(&self, act: &mut dyn FnMut(&mut dyn Verbs)) {
        self.with(|test_node| act(&mut test_node.nic));
    }

    fn memory(&self) -> &Memory {
        &self.memory
    }

    fn pd(&self) -> PdId {
        self.pd
    }

    fn ip(&self) -> Ipv4Addr {
        IP
    }

    fn connect(
        &self,
        (qpn, psn): QueuePair,
        guest: u8,
        (their_qpn, their_psn): QueuePair,
        attributes: &PairAttributes,
    ) -> Outcome {
        let peer = Peer {
            mac: guest::mac(guest),
            ip: guest::ip(guest),
            qpn: their_qpn,
        };
        let mut steps = attributes.steps(peer, psn, their_psn).into_iter();
        let nic: &dyn OurNic = self;
        nic.with(|verbs| steps.try_for_each(|step| verbs.modify_qp(qpn, step)))
            .map_err(|error| Failure::refused("connecting our queue pair", error))
    }

    fn counter(&self, name: &str) -> u64 {
        self.with(|test_node| {
            let found = test_node.nic.counters().iter().find(|&(n, _)| n == name);
            found.map_or(0, |(_, count)| count)
        })
    }
}
