//! The source guard: what comes in by a guarded port must bear the addresses of the host there.
//!
//! Lanes and queue pairs know their peer by its IP address, and hosts believe an answer to ARP. A
//! host that could send in another's name could acknowledge what the other never received. So a
//! guarded port takes packets of one Ethernet and IP address only: as the source of IPv4, as the
//! sender of ARP. What is neither is dropped too, since nothing says whose it is.
//!
//! Ports without an entry are not guarded: those of racks in one process, where no host is foreign,
//! and one with several hosts behind it. Switches sell this as IP source guard and dynamic ARP
//! inspection. An ARP probe of a guarded host (sender 0.0.0.0, RFC 5227 2.1.1) is dropped; that
//! tells the host what it wants to hear, that nobody has its address.

use rackweave_base::{MacAddr, Packet, PortId};
use rackweave_switch::table::{Direct, TableError};
use rackweave_switch::{DropReason, Ledger};
use rackweave_wire::{ArpFrame, arp, ethernet};
use std::net::Ipv4Addr;

/// Where the source lies in the IPv4 header, in bytes (RFC 791 3.1).
const IPV4_SOURCE_AT: usize = 12;

/// The addresses of the host behind a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Source {
    /// Its Ethernet address.
    pub mac: MacAddr,
    /// Its IP address.
    pub ip: Ipv4Addr,
}

/// The guard.
pub struct Guard {
    sources: Direct<Source>,
}

impl Guard {
    /// A guard of ports `0..ports` that guards none yet.
    pub fn new(ports: usize) -> Self {
        Self {
            sources: Direct::new("guard.sources", 0, ports),
        }
    }

    /// Enters the table.
    pub fn declare(&self, ledger: &mut Ledger) {
        ledger.direct(&self.sources);
    }

    /// From now on `port` takes packets of `source` only.
    ///
    /// # Errors
    /// If the table has no such port, or the port is guarded for another source: two hosts behind
    /// one port cannot both be guarded there.
    pub fn add_source(&mut self, port: PortId, source: Source) -> Result<(), TableError> {
        let key = usize::from(port.0);
        match self.sources.lookup(key) {
            Some(&other) if other != source => Err(TableError::Taken {
                table: "guard.sources",
                key: u64::from(port.0),
            }),
            _ => self.sources.set(key, Some(source)),
        }
    }

    /// `port` takes everything again. False if it was not guarded for `source`.
    pub fn remove_source(&mut self, port: PortId, source: Source) -> bool {
        let key = usize::from(port.0);
        self.sources.lookup(key) == Some(&source) && self.sources.set(key, None).is_ok()
    }

    /// Why the packet must not come in by `port`, if there is a reason.
    #[inline]
    pub fn refusal(&self, port: PortId, packet: &Packet) -> Option<DropReason> {
        let source = self.sources.lookup(usize::from(port.0))?;
        source.refusal(packet).err()
    }
}

impl Source {
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
