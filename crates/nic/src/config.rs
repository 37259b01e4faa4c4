//! What a NIC is made with: its addresses and the bounds of its tables.

use crate::congestion::Dcqcn;
use crate::{cq, datagrams, nic, qp, region_table};
use rackweave_base::MacAddr;
use rackweave_wire::datagram;
use std::net::Ipv4Addr;

/// The most queue pairs of one NIC. It leaves at least four of the 24 bits of a queue pair number
/// to tell a queue pair from its predecessor in the same slot.
pub const QPS_MAX: u32 = (1 << 20) - 2;

/// A NIC's addresses, bounds and behaviour.
#[derive(Clone, Debug)]
pub struct NicConfig {
    /// The IP address; packets to any other are dropped.
    pub ip: Ipv4Addr,
    /// The Ethernet address that packets are sent from.
    pub mac: MacAddr,
    /// Queue pairs at a time, at most [`QPS_MAX`].
    pub qps_max: u32,
    /// Completion queues at a time.
    pub cqs_max: u32,
    /// Regions at a time.
    pub regions_max: u32,
    /// Entries of one completion queue.
    pub cq_entries_max: u32,
    /// Entries of one send or receive queue.
    pub queue_entries_max: u32,
    /// Whether the ICRC is computed and demanded: true unless every link promises integrity.
    pub check: bool,
    /// Rate control, or none.
    pub congestion: Option<Dcqcn>,
    /// Request packets after which an acknowledgement is sent that nobody asked for.
    pub ack_every: u32,
    /// Request packets of one queue pair that may be unacknowledged, up to 2^22.
    pub window_packets: u32,
    /// Fragments that one packet may stand for where every link is in this process (a train, see
    /// `rackweave_base::packet`); one elsewhere.
    pub train_max: u32,
    /// UDP ports bound at a time.
    pub datagram_ports_max: u32,
    /// Datagrams that wait to be received at one port, and as many in all to be sent.
    pub datagram_queue_max: u32,
    /// Bytes that a datagram carries at most, up to 4096: what the path takes in one packet.
    pub datagram_max: u32,
}

impl NicConfig {
    /// A NIC of moderate size at `ip`, with ICRC and without rate control.
    pub fn new(ip: Ipv4Addr, mac: MacAddr) -> Self {
        Self {
            ip,
            mac,
            qps_max: 1024,
            cqs_max: 1024,
            regions_max: 4096,
            cq_entries_max: 1 << 16,
            queue_entries_max: 1 << 14,
            check: true,
            congestion: None,
            ack_every: 16,
            window_packets: 128,
            train_max: 1,
            datagram_ports_max: 16,
            datagram_queue_max: 512,
            datagram_max: datagram::CARRIED_MAX as u32,
        }
    }

    /// The configuration with every bound moved into the range that the machine can do.
    pub(crate) fn clamped(mut self) -> Self {
        self.qps_max = self.qps_max.clamp(1, QPS_MAX);
        self.cqs_max = self.cqs_max.clamp(1, 1 << 24);
        self.regions_max = self.regions_max.clamp(1, 1 << 24);
        self.cq_entries_max = self.cq_entries_max.clamp(1, 1 << 24);
        self.queue_entries_max = self.queue_entries_max.clamp(1, 1 << 20);
        self.ack_every = self.ack_every.max(1);
        self.train_max = self.train_max.clamp(1, 256);
        self.window_packets = self.window_packets.clamp(1, 1 << 22);
        self.datagram_ports_max = self.datagram_ports_max.min(1 << 14);
        self.datagram_queue_max = self.datagram_queue_max.clamp(1, 1 << 20);
        self.datagram_max = self.datagram_max.min(datagram::CARRIED_MAX as u32);
        self
    }

    /// The most bytes that the tables of such a NIC can take, if all of its queues are made as
    /// large as allowed.
    pub fn bytes_overhead_max(&self) -> usize {
        let config = self.clone().clamped();
        let qp = qp::bytes_max(config.queue_entries_max);
        let cq = cq::bytes(config.cq_entries_max);
        nic::bytes_fixed(&config)
            .saturating_add((config.qps_max as usize).saturating_mul(qp))
            .saturating_add((config.cqs_max as usize).saturating_mul(cq))
            .saturating_add(region_table::bytes(config.regions_max))
            .saturating_add(datagrams::bytes(
                &config,
                config.datagram_ports_max as usize,
            ))
    }
}
