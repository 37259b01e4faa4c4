//! The source guard: packets that arrive at a guarded port must have the addresses of the host
//! there.
//!
//! Lanes and queue pairs identify their peer by its IP address, and hosts believe ARP answers. A
//! host that could send with another's address could acknowledge what the other never received. So
//! a guarded port takes packets of one Ethernet and IP address only: as the source of IPv4, as the
//! sender of ARP. Packets of other protocols are dropped too, since their sender cannot be
//! verified.
//!
//! Ports without an entry are not guarded: those of racks in one process, where no host is foreign,
//! and one with several hosts behind it. Commercial switches offer this as IP source guard and
//! dynamic ARP inspection. An ARP probe of a guarded host (sender 0.0.0.0, RFC 5227 2.1.1) is
//! dropped; the host concludes, correctly, that its address is unused.

use rackweave_base::{MacAddr, Packet, PortId};
use rackweave_switch::table::{Direct, TableError};
use rackweave_switch::{DropReason, Ledger};
use rackweave_wire::{ArpFrame, arp, ethernet};
use std::net::Ipv4Addr;

/// Offset of the source address in the IPv4 header, in bytes (RFC 791 3.1).
const IPV4_SOURCE_AT: usize = 12;

/// The addresses of the host behind a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostAddresses {
    /// Its Ethernet address.
    pub mac: MacAddr,
    /// Its IP address.
    pub ip: Ipv4Addr,
}

/// The guard.
pub struct Guard {
    sources: Direct<HostAddresses>,
}

impl Guard {
    /// A guard for ports `0..ports`, none of them guarded yet.
    pub fn new(ports: usize) -> Self {
        Self {
            sources: Direct::new("guard.sources", 0, ports),
        }
    }

    /// Declares the table.
    pub fn declare(&self, ledger: &mut Ledger) {
        ledger.direct(&self.sources);
    }

    /// Restricts `port` to packets of `source`.
    ///
    /// # Errors
    /// If the table has no such port, or the port is guarded for another source: two hosts behind
    /// one port cannot both be guarded there.
    pub fn add_source(&mut self, port: PortId, source: HostAddresses) -> Result<(), TableError> {
        let key = usize::from(port.0);
        match self.sources.lookup(key) {
            Some(&other) if other != source => Err(TableError::Taken {
                table: "guard.sources",
                key: u64::from(port.0),
            }),
            _ => self.sources.set(key, Some(source)),
        }
    }

    /// Removes the restriction of `port`. Returns false if it was not guarded for `source`.
    pub fn remove_source(&mut self, port: PortId, source: HostAddresses) -> bool {
        let key = usize::from(port.0);
        self.sources.lookup(key) == Some(&source) && self.sources.set(key, None).is_ok()
    }

    /// Why the packet must not enter by `port`, if it must not.
    #[inline]
    pub fn refusal(&self, port: PortId, packet: &Packet) -> Option<DropReason> {
        let source = self.sources.lookup(usize::from(port.0))?;
        source.refusal(packet).err()
    }
}

impl HostAddresses {
    fn refusal(&self, packet: &Packet) -> Result<(), DropReason> {
        let header = packet.header();
        let view = ethernet::parse(header).ok_or(DropReason::Malformed)?;
        if view.source != self.mac {
            return Err(DropReason::ForeignSourceMac);
        }
        let ip = match view.ethertype {
            ethernet::ETHERTYPE_IPV4 => header
                .get(view.len + IPV4_SOURCE_AT..)
                .and_then(|rest| rest.first_chunk::<4>())
                .map(|&octets| Ipv4Addr::from(octets))
                .ok_or(DropReason::Malformed)?,
            arp::ETHERTYPE => {
                let sent = ArpFrame::of(packet).map_err(|_| DropReason::Malformed)?.arp;
                if sent.sender_mac != self.mac {
                    return Err(DropReason::ForeignSourceMac);
                }
                sent.sender_ip
            }
            _ => return Err(DropReason::ForeignProtocol),
        };
        if ip != self.ip {
            return Err(DropReason::ForeignSourceIp);
        }
        Ok(())
    }
}
