//! The configuration of a NIC: its addresses and the bounds of its tables.

use crate::congestion::Dcqcn;
use crate::{cq, datagrams, nic, qp, region_table};
use rackweave_base::MacAddr;
use rackweave_wire::datagram;
use std::net::Ipv4Addr;

/// Maximum queue pairs of one NIC. This leaves at least four of the 24 bits of a queue pair number
/// to distinguish a queue pair from its predecessor in the same slot.
pub const QPS_MAX: u32 = (1 << 20) - 2;

/// A NIC's addresses, bounds and behaviour.
#[derive(Clone, Debug)]
pub struct NicConfig {
    /// The IP address; packets to any other are dropped.
    pub ip: Ipv4Addr,
    /// The Ethernet address that packets are sent from.
    pub mac: MacAddr,
    /// Maximum number of queue pairs, at most [`QPS_MAX`].
    pub qps_max: u32,
    /// Maximum number of completion queues.
    pub cqs_max: u32,
    /// Maximum number of regions.
    pub regions_max: u32,
    /// Maximum entries of one completion queue.
    pub cq_entries_max: u32,
    /// Maximum entries of one send or receive queue.
    pub queue_entries_max: u32,
    /// Whether the ICRC is computed and required: true unless every link promises integrity.
    pub check: bool,
    /// Parameters of rate control, if enabled.
    pub congestion: Option<Dcqcn>,
    /// Number of request packets after which an unsolicited acknowledgement is sent.
    pub ack_every: u32,
    /// Maximum unacknowledged request packets of one queue pair, up to 2^22.
    pub window_packets: u32,
    /// Maximum fragments that one packet may represent where every link is in this process (a
    /// train, see `rackweave_base::packet`); one elsewhere.
    pub train_max: u32,
    /// Maximum number of bound UDP ports.
    pub datagram_ports_max: u32,
    /// Maximum datagrams in the receive queue of one port, and in the send queue of all ports
    /// together.
    pub datagram_queue_max: u32,
    /// Maximum payload bytes of a datagram, up to 4096: what the path carries in one packet.
    pub datagram_max: u32,
    /// The addresses of the NICs that may be reached by cut-through (see [`Nic::cut_through`]);
    /// their positions are their numbers. They and this NIC use one
    /// [`Memory`](rackweave_base::Memory).
    ///
    /// [`Nic::cut_through`]: crate::Nic::cut_through
    pub cut_through_peers: Vec<Option<Ipv4Addr>>,
}

impl NicConfig {
    /// The configuration of a NIC of moderate size at `ip`, with ICRC and without rate control.
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
            cut_through_peers: Vec::new(),
        }
    }

    /// The configuration with every bound clamped to the range that the NIC supports.
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

    /// Upper bound on the bytes that the tables of such a NIC use if all of its queues are as large
    /// as allowed.
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
