//! Why a packet was dropped.

rackweave_base::named! {
    /// Why the NIC dropped a well-formed packet that came or was to be sent. Malformed ones are
    /// counted by the reason that `rackweave_wire::ParseError` gives.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[repr(u8)]
    pub enum DropReason {
        /// The IP target address is another node's.
        NotForUs = "drop_not_for_us",
        /// The partition key is not the default one.
        BadPartition = "drop_bad_partition",
        /// No queue pair has this number, or one that has been destroyed had it.
        UnknownQp = "drop_unknown_qp",
        /// The queue pair's state does not allow it to receive this.
        BadState = "drop_bad_state",
        /// The packet does not come from the queue pair's peer.
        NotFromPeer = "drop_not_from_peer",
        /// The ICRC is wrong or missing.
        BadIcrc = "drop_bad_icrc",
        /// The payload refers to memory that is gone; as good as lost.
        PayloadGone = "drop_payload_gone",
        /// A request ahead of the one expected.
        OutOfSequence = "drop_out_of_sequence",
        /// A repeated READ or atomic that matches none of the last ones.
        UnmatchedDuplicate = "drop_unmatched_duplicate",
        /// A request came while a READ before it was being answered, and the queue for such is
        /// full.
        HoldFull = "drop_hold_full",
        /// Held requests were given up because the READ before them waits for a packet buffer.
        HoldAbandoned = "drop_hold_abandoned",
        /// A response to nothing outstanding: a duplicate, or late.
        GhostResponse = "drop_ghost_response",
        /// A READ response ahead of one that is missing.
        ResponseGap = "drop_response_gap",
        /// A response that does not fit the request: wrong kind or length.
        BadResponse = "drop_bad_response",
        /// A congestion notification for a NIC without rate control.
        CnpIgnored = "drop_cnp_ignored",
        /// A datagram for a port that nobody has bound.
        PortUnbound = "drop_port_unbound",
        /// A datagram for a port for which as many wait as may.
        DatagramQueueFull = "drop_datagram_queue_full",
        /// A datagram to be sent to a node that does not say where it is.
        NoNeighbour = "drop_no_neighbour",
    }
}
