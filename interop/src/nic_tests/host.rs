//! Our NIC in real time, at one end of the cable to a guest.

use crate::cable::Cable;
use crate::driver::{Driver, Machine, wait_for};
use crate::failure::{Failure, Outcome};
use rackweave_base::packet::Pool;
use rackweave_base::{Instant, MacAddr, Memory, Rng};
use rackweave_link::Link;
use rackweave_nic::{NeighbourConfig, Neighbours, Nic, NicConfig, Resolution};
use rackweave_verbs::{Access, PdId, Region, Verbs};
use std::net::Ipv4Addr;
use std::time::Duration;

/// The most packets moved in one step.
const BURST: usize = 32;

/// Where our NIC is.
pub const IP: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 200);
const MAC: MacAddr = MacAddr([2, 0, 0, 0x77, 0, 200]);

/// Our NIC, run by a thread.
pub struct Host {
    driver: Driver<Station>,
    memory: Memory,
    pd: PdId,
}

/// The NIC and its cable.
pub struct Station {
    /// The NIC.
    pub nic: Nic,
    /// Asks for the guest's Ethernet address, and answers its questions.
    pub neighbours: Neighbours,
    /// The cable.
    pub cable: Cable,
}

impl Machine for Station {
    fn run(&mut self, now: Instant) -> bool {
        let mut moved = false;
        for _ in 0..BURST {
            let Some(packet) = self.cable.receive(now) else {
                break;
            };
            moved = true;
            if !self.neighbours.handle_packet(now, &packet) {
                self.nic.handle_packet(now, packet);
            }
        }
        if self.neighbours.poll_timeout().is_some_and(|due| due <= now) {
            self.neighbours.handle_timeout(now);
            moved = true;
        }
        if self.nic.poll_timeout().is_some_and(|due| due <= now) {
            self.nic.handle_timeout(now);
            moved = true;
        }
        for _ in 0..self.cable.room().min(BURST) {
            let question_or_answer = self.neighbours.poll_transmit(now);
            let Some(packet) = question_or_answer.or_else(|| self.nic.poll_transmit(now)) else {
                break;
            };
            moved = true;
            let sent = self.cable.send(now, packet);
            debug_assert!(sent.is_ok(), "the cable said that it had room");
        }
        moved
    }
}

impl Host {
    /// Our NIC at the end of `cable`. `memory` is what the cable was made with.
    pub fn start(cable: Cable, memory: Memory, rng: Rng) -> Self {
        let config = NicConfig::new(IP, MAC);
        let mut nic = Nic::new(config, memory.clone(), Pool::new(1024), rng);
        let pd = nic.create_pd();
        Self {
            driver: Driver::start(Station {
                nic,
                neighbours: Neighbours::new(NeighbourConfig::new(IP, MAC)),
                cable,
            }),
            memory,
            pd,
        }
    }

    /// Acts on the NIC and its cable.
    pub fn with<R>(&self, act: impl FnOnce(&mut Station) -> R) -> R {
        self.driver.with(act)
    }

    /// A region of `len` zero bytes.
    pub fn region(&self, len: usize, access: Access) -> Outcome<Region> {
        let block = self.memory.allocate(len);
        let block = block.map_err(|error| Failure::refused("our memory", error))?;
        let made = self.with(|station| station.nic.register(self.pd, block, access));
        made.map_err(|error| Failure::refused("our region", error))
    }

    /// The protection domain of all regions.
    pub fn pd(&self) -> PdId {
        self.pd
    }

    /// Asks the network for the Ethernet address of `ip`.
    pub fn resolve(&self, ip: Ipv4Addr) -> Outcome<MacAddr> {
        let limit = Duration::from_secs(5);
        let resolve = || match self.with(|station| station.neighbours.resolve(ip)) {
            Resolution::Known(mac) => Some(mac),
            Resolution::Asked | Resolution::Full => None,
        };
        let unknown = || Failure::Timeout(format!("an answer to ARP for {ip}"));
        wait_for(limit, resolve).ok_or_else(unknown)
    }

    /// One of the NIC's counters.
    pub fn counter(&self, name: &str) -> u64 {
        self.with(|station| {
            let found = station.nic.counters().iter().find(|&(n, _)| n == name);
            found.map_or(0, |(_, count)| count)
        })
    }
}
