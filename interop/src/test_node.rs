//! A soft NIC and its link, run step by step.

use crate::driver::Machine;
use rackweave_base::packet::Pool;
use rackweave_base::{Instant, KeyRng, MacAddr, Memory, Rng};
use rackweave_link::Link;
use rackweave_nic::{NeighbourConfig, Neighbours, Nic, NicConfig};
use std::net::Ipv4Addr;

/// Maximum packets moved in one step.
pub const BURST: usize = 32;

/// A NIC, its neighbour table, and its link.
pub struct TestNode<L> {
    /// The NIC.
    pub nic: Nic,
    /// Asks for Ethernet addresses, and answers requests for this one.
    pub neighbours: Neighbours,
    /// The link.
    pub link: L,
}

impl<L: Link> TestNode<L> {
    /// A NIC at the end of `link`.
    pub fn new(ip: Ipv4Addr, mac: MacAddr, link: L, memory: &Memory, rng: Rng) -> Self {
        let pool = Pool::new(1024);
        Self {
            nic: Nic::new(
                NicConfig::new(ip, mac),
                memory.clone(),
                pool,
                KeyRng::seeded(rng),
            ),
            neighbours: Neighbours::new(NeighbourConfig::new(ip, mac)),
            link,
        }
    }

    fn receive(&mut self, now: Instant) -> bool {
        let mut moved = false;
        for _ in 0..BURST {
            let Some(packet) = self.link.receive(now) else {
                break;
            };
            moved = true;
            let is_arp = self.neighbours.handle_packet(now, &packet);
            if !is_arp || self.nic.speaks_arp() {
                self.nic.handle_packet(now, packet);
            }
        }
        moved
    }

    fn pass_time(&mut self, now: Instant) -> bool {
        let mut moved = false;
        if self.neighbours.poll_timeout().is_some_and(|due| due <= now) {
            self.neighbours.handle_timeout(now);
            moved = true;
        }
        if self.nic.poll_timeout().is_some_and(|due| due <= now) {
            self.nic.handle_timeout(now);
            moved = true;
        }
        moved
    }

    fn send(&mut self, now: Instant) -> bool {
        let mut moved = false;
        for _ in 0..self.link.free().min(BURST) {
            let arp = self.neighbours.poll_transmit(now);
            let Some(packet) = arp.or_else(|| self.nic.poll_transmit(now)) else {
                break;
            };
            moved = true;
            let sent = self.link.send(now, packet);
            debug_assert!(sent.is_ok(), "the link said that it had room");
        }
        moved
    }
}

impl<L: Link + 'static> Machine for TestNode<L> {
    fn run(&mut self, now: Instant) -> bool {
        // All three, whatever the others did.
        self.receive(now) | self.pass_time(now) | self.send(now)
    }
}
