//! Why a packet was dropped.

rackweave_base::named! {
    /// Why the NIC dropped a well-formed packet that arrived or was to be sent. Malformed ones are
    /// counted by the reason that `rackweave_wire::ParseError` gives.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[repr(u8)]
    pub enum DropReason {
        /// The IP target address belongs to another node.
        NotForUs = "drop_not_for_us",
        /// The partition key is not the default one.
        BadPartition = "drop_bad_partition",
        /// No queue pair has this number; it may have belonged to a queue pair that has been
        /// destroyed.
        UnknownQp = "drop_unknown_qp",
        /// The queue pair's state does not allow it to receive this.
        BadState = "drop_bad_state",
        /// The packet does not come from the queue pair's peer.
        NotFromPeer = "drop_not_from_peer",
        /// The ICRC is wrong or missing.
        BadIcrc = "drop_bad_icrc",
        /// The payload refers to memory that no longer exists; treated as lost.
        PayloadGone = "drop_payload_gone",
        /// A request ahead of the one expected.
        OutOfSequence = "drop_out_of_sequence",
        /// A repeated READ or atomic that matches none of the last ones.
        UnmatchedDuplicate = "drop_unmatched_duplicate",
        /// A request arrived while a READ before it was being answered, and the hold queue is full.
        HoldFull = "drop_hold_full",
        /// Held requests were dropped because the READ before them waits for a packet buffer.
        HoldAbandoned = "drop_hold_abandoned",
        /// A response to nothing outstanding: a duplicate, or late.
        GhostResponse = "drop_ghost_response",
        /// A READ response ahead of one that is missing.
        ResponseGap = "drop_response_gap",
        /// A response that does not fit the request: wrong kind or length.
        BadResponse = "drop_bad_response",
        /// A congestion notification for a NIC without rate control.
        CnpIgnored = "drop_cnp_ignored",
        /// A datagram for a queue pair of the reliable connection service.
        WrongService = "drop_wrong_service",
        /// A datagram for queue pair 1 that is no message of the connection manager, or has another
        /// Q_Key than that.
        BadManagement = "drop_bad_management",
        /// A datagram for a port that is not bound.
        PortUnbound = "drop_port_unbound",
        /// A datagram for a port whose receive queue is full.
        DatagramQueueFull = "drop_datagram_queue_full",
        /// A datagram to a node that does not answer ARP requests.
        NoNeighbour = "drop_no_neighbour",
    }
}
