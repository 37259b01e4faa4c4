//! Why a packet was dropped.

/// Why the NIC dropped a well-formed packet that came or was to be sent. Malformed ones are counted
/// by the reason that `rackweave_wire::ParseError` gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum DropReason {
    /// The IP target address is another node's.
    NotForUs,
    /// The partition key is not the default one.
    BadPartition,
    /// No queue pair has this number, or one that has been destroyed had it.
    UnknownQp,
    /// The queue pair's state does not allow it to receive this.
    BadState,
    /// The packet does not come from the queue pair's peer.
    NotFromPeer,
    /// The ICRC is wrong or missing.
    BadIcrc,
    /// The payload refers to memory that is gone; as good as lost.
    PayloadGone,
    /// A request ahead of the one expected.
    OutOfSequence,
    /// A repeated READ or atomic that matches none of the last ones.
    UnmatchedDuplicate,
    /// A request came while a READ before it was being answered, and the queue for such is full.
    HoldFull,
    /// Held requests were given up because the READ before them waits for a packet buffer.
    HoldAbandoned,
    /// A response to nothing outstanding: a duplicate, or late.
    GhostResponse,
    /// A READ response ahead of one that is missing.
    ResponseGap,
    /// A response that does not fit the request: wrong kind or length.
    BadResponse,
    /// A congestion notification for a NIC without rate control.
    CnpIgnored,
    /// A datagram for a port that nobody has bound.
    PortUnbound,
    /// A datagram for a port for which as many wait as may.
    DatagramQueueFull,
    /// A datagram to be sent to a node that does not say where it is.
    NoNeighbour,
}

impl DropReason {
    /// Every reason.
    pub const ALL: [DropReason; 18] = [
        DropReason::NotForUs,
        DropReason::BadPartition,
        DropReason::UnknownQp,
        DropReason::BadState,
        DropReason::NotFromPeer,
        DropReason::BadIcrc,
        DropReason::PayloadGone,
        DropReason::OutOfSequence,
        DropReason::UnmatchedDuplicate,
        DropReason::HoldFull,
        DropReason::HoldAbandoned,
        DropReason::GhostResponse,
        DropReason::ResponseGap,
        DropReason::BadResponse,
        DropReason::CnpIgnored,
        DropReason::PortUnbound,
        DropReason::DatagramQueueFull,
        DropReason::NoNeighbour,
    ];

    /// The counter's name.
    pub const fn name(self) -> &'static str {
        match self {
            DropReason::NotForUs => "drop_not_for_us",
            DropReason::BadPartition => "drop_bad_partition",
            DropReason::UnknownQp => "drop_unknown_qp",
            DropReason::BadState => "drop_bad_state",
            DropReason::NotFromPeer => "drop_not_from_peer",
            DropReason::BadIcrc => "drop_bad_icrc",
            DropReason::PayloadGone => "drop_payload_gone",
            DropReason::OutOfSequence => "drop_out_of_sequence",
            DropReason::UnmatchedDuplicate => "drop_unmatched_duplicate",
            DropReason::HoldFull => "drop_hold_full",
            DropReason::HoldAbandoned => "drop_hold_abandoned",
            DropReason::GhostResponse => "drop_ghost_response",
            DropReason::ResponseGap => "drop_response_gap",
            DropReason::BadResponse => "drop_bad_response",
            DropReason::CnpIgnored => "drop_cnp_ignored",
            DropReason::PortUnbound => "drop_port_unbound",
            DropReason::DatagramQueueFull => "drop_datagram_queue_full",
            DropReason::NoNeighbour => "drop_no_neighbour",
        }
    }
}
