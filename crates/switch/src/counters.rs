//! The counters of the switch and its reasons for dropping packets.

rackweave_base::named! {
    /// Why a packet was dropped. Each has a counter.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[repr(u8)]
    pub enum DropReason {
        /// Headers that cannot be parsed or contradict the packet's length.
        Malformed = "drop_malformed",
        /// Addressed to the switch itself, but to none of its queue pairs.
        UnknownQp = "drop_unknown_qp",
        /// For a queue pair of the switch, but not from the node and port that it is connected to.
        Stranger = "drop_stranger",
        /// An opcode that the queue pair's lane does not expect.
        UnexpectedOpcode = "drop_unexpected_opcode",
        /// A READ response fragment that belongs to no transfer in flight.
        StaleFragment = "drop_stale_fragment",
        /// An acknowledgement that confirms nothing new.
        StaleAcknowledge = "drop_stale_acknowledge",
        /// A word response that no operation waits for.
        StaleWord = "drop_stale_word",
        /// No forwarding entry for the target address.
        NoRoute = "drop_no_route",
        /// The time to live ran out.
        TimeToLive = "drop_time_to_live",
        /// The egress queue is full.
        EgressFull = "drop_egress_full",
        /// An unknown port or multicast group in a table.
        NoPort = "drop_no_port",
        /// The payload of a word response is unavailable or has the wrong length.
        BadWord = "drop_bad_word",
        /// The ICRC of a packet that ends in the switch, or of a query for an index, is wrong.
        BadCheck = "drop_bad_check",
        /// From a guarded port, with another Ethernet source (or ARP sender) than the port's.
        ForeignSourceMac = "drop_foreign_source_mac",
        /// From a guarded port, with another IP source (or ARP sender) than the port's.
        ForeignSourceIp = "drop_foreign_source_ip",
        /// From a guarded port, neither IPv4 nor ARP: the source cannot be verified.
        ForeignProtocol = "drop_foreign_protocol",
        /// An ARP request for an IP address that no node has.
        ArpUnknown = "drop_arp_unknown",
        /// An ARP request of a host for its own address: a probe or an announcement.
        ArpOwn = "drop_arp_own",
        /// An ARP reply to a request that the switch never sent.
        ArpUnasked = "drop_arp_unasked",
        /// An index query on a queue pair for which the switch has no destination.
        IndexUnknownPair = "drop_index_unknown_pair",
        /// A query with the inter-switch header, from a port that is not connected to a switch.
        IndexForged = "drop_index_forged",
        /// A query that was forwarded from switch to switch too often.
        IndexHops = "drop_index_hops",
    }
}

/// The switch's counters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets received.
    pub packets_in: u64,
    /// Packets sent, copies included.
    pub packets_out: u64,
    /// Passes through the pipeline: packets, recirculated tasks, generated packets.
    pub passes: u64,
    /// Tasks recirculated.
    pub recirculations: u64,
    drops: [u64; DropReason::ALL.len()],
}

impl Counters {
    pub(crate) fn drop(&mut self, reason: DropReason) {
        self.drops[reason as usize] += 1;
    }

    /// How many packets were dropped for `reason`.
    pub fn drops(&self, reason: DropReason) -> u64 {
        self.drops[reason as usize]
    }

    /// Every counter by name, drops included.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        [
            ("packets_in", self.packets_in),
            ("packets_out", self.packets_out),
            ("passes", self.passes),
            ("recirculations", self.recirculations),
        ]
        .into_iter()
        .chain(DropReason::ALL.iter().map(|&r| (r.name(), self.drops(r))))
    }
}
