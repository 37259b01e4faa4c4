//! Plain forwarding, for queue pairs that run from node to node.
//!
//! A packet for a known Ethernet address leaves by that address's port. A packet for the switch's
//! own Ethernet address but another IP address is routed: the longest matching prefix names the
//! next hop, the Ethernet addresses change and the time to live drops by one (RFC 1812, 5.3.1).

use rackweave_base::{MacAddr, Packet, PortId};
use rackweave_switch::table::{Exact, TableError, Ternary};
use rackweave_switch::{DropReason, Ledger, Pass};
use rackweave_wire::{Ethernet, Headers, ethernet};
use std::net::Ipv4Addr;

/// The next hop of a routed packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NextHop {
    /// The port.
    pub port: PortId,
    /// The Ethernet address there.
    pub mac: MacAddr,
}

/// The forwarding program.
pub struct Forward {
    own_mac: MacAddr,
    hosts: Exact<PortId>,
    routes: Ternary<NextHop>,
}

fn mac_key(mac: MacAddr) -> u64 {
    let [a, b, c, d, e, f] = mac.0;
    u64::from_be_bytes([0, 0, a, b, c, d, e, f])
}

/// Value and mask of a prefix of `length` bits; more than 32 count as 32.
fn prefix_key(prefix: Ipv4Addr, length: u8) -> (u64, u64) {
    let zeros = 32 - u32::from(length.min(32));
    let mask = u32::MAX.checked_shl(zeros).unwrap_or(0);
    (u64::from(u32::from(prefix)), u64::from(mask))
}

impl Forward {
    /// Forwarding without entries, for at most `hosts` Ethernet addresses and `routes` prefixes.
    pub fn new(own_mac: MacAddr, hosts: usize, routes: usize) -> Self {
        Self {
            own_mac,
            hosts: Exact::new("forward.hosts", 0, 48, hosts),
            routes: Ternary::new("forward.routes", 0, 32, routes),
        }
    }

    /// Declares the tables.
    pub fn declare(&self, ledger: &mut Ledger) {
        ledger.exact(&self.hosts);
        ledger.ternary(&self.routes);
    }

    /// Sends packets for `mac` to `port`, replacing an earlier entry.
    ///
    /// # Errors
    /// If the table is full.
    pub fn add_host(&mut self, mac: MacAddr, port: PortId) -> Result<(), TableError> {
        self.hosts.insert(mac_key(mac), port)
    }

    /// Drops packets for `mac` again. Returns false if there is no entry.
    pub fn remove_host(&mut self, mac: MacAddr) -> bool {
        self.hosts.remove(mac_key(mac))
    }

    /// Sends packets for addresses that begin with the first `length` bits of `prefix` to `hop`,
    /// replacing an earlier route of this prefix.
    ///
    /// # Errors
    /// If the table is full.
    pub fn add_route(
        &mut self,
        prefix: Ipv4Addr,
        length: u8,
        hop: NextHop,
    ) -> Result<(), TableError> {
        self.remove_route(prefix, length);
        let (value, mask) = prefix_key(prefix, length);
        self.routes
            .insert(value, mask, u32::from(length.min(32)), hop)
    }

    /// Removes the route of a prefix; shorter ones that contain it keep theirs. Returns false if
    /// there is no entry.
    pub fn remove_route(&mut self, prefix: Ipv4Addr, length: u8) -> bool {
        let (value, mask) = prefix_key(prefix, length);
        self.routes.remove(value, mask) > 0
    }

    /// The port by which packets for `mac` leave.
    #[inline]
    pub fn port_of(&self, mac: MacAddr) -> Option<PortId> {
        self.hosts.lookup(mac_key(mac)).copied()
    }

    /// Forwards or routes a packet.
    #[inline]
    pub fn packet<T, D>(&self, pass: &mut Pass<'_, T, D>, port: PortId, packet: Packet) {
        let Some(target) = ethernet::target(packet.header()) else {
            return pass.drop(port, DropReason::Malformed, &packet);
        };
        if target == self.own_mac {
            return self.route(pass, port, packet);
        }
        match self.hosts.lookup(mac_key(target)) {
            Some(&out) => pass.forward(out, packet),
            None => pass.drop(port, DropReason::NoRoute, &packet),
        }
    }

    fn route<T, D>(&self, pass: &mut Pass<'_, T, D>, port: PortId, mut packet: Packet) {
        let Ok(mut headers) = Headers::of(&packet) else {
            return pass.drop(port, DropReason::NoRoute, &packet);
        };
        let Some(hop) = self
            .routes
            .lookup(u64::from(u32::from(headers.ipv4.target)))
        else {
            return pass.drop(port, DropReason::NoRoute, &packet);
        };
        if headers.ipv4.ttl <= 1 {
            return pass.drop(port, DropReason::TimeToLive, &packet);
        }
        headers.ipv4.ttl -= 1;
        headers.ethernet = Ethernet {
            target: hop.mac,
            source: self.own_mac,
            vlan: headers.ethernet.vlan,
        };
        // Ethernet addresses and the time to live are outside the ICRC.
        headers.write_to(&mut packet);
        pass.forward(hop.port, packet);
    }
}

#[cfg(test)]
#[path = "forward_tests.rs"]
mod tests;
