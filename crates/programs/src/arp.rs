//! ARP, answered by the switch for every host that it knows.
//!
//! A host asks everybody for the Ethernet address of a neighbour. The switch does not pass the
//! question on: the controller has told it all hosts, so it answers in place of the host, with that
//! host's own Ethernet address, and what is then sent there is forwarded ([`crate::forward`]). For
//! the switch's own IP address it answers with its own. Nothing is flooded, hence no loops, no
//! storms, and no host hears what another one claims. Whatever Ethernet target a question has, it
//! ends here: Linux, for one, asks again the host alone (RFC 1122 2.3.2.1).
//!
//! The switch never asks. The Ethernet address of a foreign host comes from configuration, by way
//! of the controller; finding one out is for the soft NIC (`rackweave_nic::neighbours`).
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
    /// Answers for the switch itself alone, with room for `hosts` others.
    pub fn new(own_mac: MacAddr, own_ip: Ipv4Addr, hosts: usize) -> Self {
        Self {
            own_mac,
            own_ip,
            hosts: Exact::new("arp.hosts", 0, 32, hosts),
        }
    }

    /// Enters the table.
    pub fn declare(&self, ledger: &mut Ledger) {
        ledger.exact(&self.hosts);
    }

    /// Questions for `ip` are answered with `mac`, whatever was said before. The switch's own
    /// address stays its own.
    ///
    /// # Errors
    /// If the table is full.
    pub fn add_host(&mut self, ip: Ipv4Addr, mac: MacAddr) -> Result<(), TableError> {
        self.hosts.insert(ip_key(ip), mac)
    }

    /// Questions for `ip` are no longer answered. False if there is no entry.
    pub fn remove_host(&mut self, ip: Ipv4Addr) -> bool {
        self.hosts.remove(ip_key(ip))
    }

    /// An ARP packet came in by `port`: a question for a known host is answered there, everything
    /// else is dropped.
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
            // An answer would tell the host that its address is taken (RFC 5227 2.1.1).
            return Err(DropReason::ArpOwn);
        }
        Ok(question.reply(mac))
    }
}
