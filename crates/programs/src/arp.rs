//! ARP, answered by the switch for every host that it knows.
//!
//! A host broadcasts a request for the Ethernet address of a neighbour. The switch does not pass
//! the request on: the controller has entered all hosts, so the switch answers in place of the
//! host, with that host's own Ethernet address, and packets sent there are forwarded
//! ([`crate::forward`]). For the switch's own IP address it answers with its own. Nothing is
//! flooded, so there are no loops or storms, and no host receives another's claims. Requests end
//! here whatever their Ethernet target: Linux, for example, repeats a request as unicast (RFC 1122
//! 2.3.2.1).
//!
//! The switch never sends requests. The Ethernet address of a foreign host comes from
//! configuration, through the controller; resolving one is the task of the software NIC
//! (`rackweave_nic::neighbours`).
//!
//! Source: RFC 826; the proxy's side RFC 1027.
//!

use rackweave_base::{MacAddr, Packet, PortId};
use rackweave_switch::table::{Exact, TableError};
use rackweave_switch::{DropReason, Ledger, Pass};
use rackweave_wire::ArpFrame;
use rackweave_wire::arp::Operation;
use std::net::Ipv4Addr;

/// The ARP program.
pub struct Arp {
    own_mac: MacAddr,
    own_ip: Ipv4Addr,
    hosts: Exact<MacAddr>,
}

fn ip_key(ip: Ipv4Addr) -> u64 {
    u64::from(u32::from(ip))
}

impl Arp {
    /// Answers only for the switch itself, with capacity for `hosts` others.
    pub fn new(own_mac: MacAddr, own_ip: Ipv4Addr, hosts: usize) -> Self {
        Self {
            own_mac,
            own_ip,
            hosts: Exact::new("arp.hosts", 0, 32, hosts),
        }
    }

    /// Declares the table.
    pub fn declare(&self, ledger: &mut Ledger) {
        ledger.exact(&self.hosts);
    }

    /// Answers requests for `ip` with `mac`, replacing an earlier entry. The switch's own address
    /// stays its own.
    ///
    /// # Errors
    /// If the table is full.
    pub fn add_host(&mut self, ip: Ipv4Addr, mac: MacAddr) -> Result<(), TableError> {
        self.hosts.insert(ip_key(ip), mac)
    }

    /// Stops answering requests for `ip`. Returns false if there is no entry.
    pub fn remove_host(&mut self, ip: Ipv4Addr) -> bool {
        self.hosts.remove(ip_key(ip))
    }

    /// Handles an ARP packet that arrived at `port`: a request for a known host is answered there,
    /// everything else is dropped.
    pub fn packet<T, D>(&self, pass: &mut Pass<'_, T, D>, port: PortId, packet: &Packet) {
        let answer = ArpFrame::of(packet)
            .map_err(|_| DropReason::Malformed)
            .and_then(|frame| self.answer(&frame));
        match answer {
            Ok(frame) => pass.forward(port, frame.packet()),
            Err(reason) => pass.drop(port, reason, packet),
        }
    }

    fn answer(&self, question: &ArpFrame) -> Result<ArpFrame, DropReason> {
        let arp = &question.arp;
        if arp.operation == Operation::Reply {
            return Err(DropReason::ArpUnasked);
        }
        let known = self.hosts.lookup(ip_key(arp.target_ip));
        let mac = match known {
            _ if arp.target_ip == self.own_ip => self.own_mac,
            Some(&mac) => mac,
            None => return Err(DropReason::ArpUnknown),
        };
        if mac == arp.sender_mac {
            // An answer would report the host's own address as taken (RFC 5227 2.1.1).
            return Err(DropReason::ArpOwn);
        }
        Ok(question.reply(mac))
    }
}
