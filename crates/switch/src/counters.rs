//! What the switch counts, and why it drops.

rackweave_base::named! {
    /// Why a packet went no further. Each has a counter.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[repr(u8)]
    pub enum DropReason {
        /// Headers that cannot be parsed or contradict the packet's length.
        Malformed = "drop_malformed",
        /// For the switch itself, but for none of its queue pairs.
        UnknownQp = "drop_unknown_qp",
        /// For a queue pair of the switch, from another node or port than it is connected to.
        Stranger = "drop_stranger",
        /// An opcode that the queue pair's lane has no use for.
        UnexpectedOpcode = "drop_unexpected_opcode",
        /// A READ response fragment that belongs to no transfer under way.
        StaleFragment = "drop_stale_fragment",
        /// An acknowledgement that tells nothing new.
        StaleAcknowledge = "drop_stale_acknowledge",
        /// A word response that nobody waits for.
        StaleWord = "drop_stale_word",
        /// No forwarding entry for the target address.
        NoRoute = "drop_no_route",
        /// The time to live ran out.
        TimeToLive = "drop_time_to_live",
        /// The egress queue is full.
        EgressFull = "drop_egress_full",
        /// An unknown port or multicast group in a table.
        NoPort = "drop_no_port",
        /// The payload of a word response is not at hand or has the wrong length.
        BadWord = "drop_bad_word",
        /// The ICRC of a packet that ends in the switch, or of a query for an index, is wrong.
        BadCheck = "drop_bad_check",
        /// From a guarded port, with another Ethernet source (or ARP sender) than the port's.
        ForeignSourceMac = "drop_foreign_source_mac",
        /// From a guarded port, with another IP source (or ARP sender) than the port's.
        ForeignSourceIp = "drop_foreign_source_ip",
        /// From a guarded port, neither IPv4 nor ARP: nothing says whose it is.
        ForeignProtocol = "drop_foreign_protocol",
        /// A question for an IP address that nobody has.
        ArpUnknown = "drop_arp_unknown",
        /// A question of a host for its own address: a probe or an announcement.
        ArpOwn = "drop_arp_own",
        /// An answer to a question that the switch never asked.
        ArpUnasked = "drop_arp_unasked",
        /// A query for an index, on a queue pair of which the switch does not know what it leads
        /// to.
        IndexUnknownPair = "drop_index_unknown_pair",
        /// A query with the header of switches, by a port that leads to none.
        IndexForged = "drop_index_forged",
        /// A query that went from switch to switch too often.
        IndexHops = "drop_index_hops",
    }
}

/// The switch's counters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets that came in.
    pub packets_in: u64,
    /// Packets that went out, copies included.
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
