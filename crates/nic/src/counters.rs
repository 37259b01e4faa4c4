//! Counters of one NIC, named as shown by `rdma statistic` on Linux: the names of `rdma_rxe` and,
//! where it has none, those of `mlx5`.

use crate::DropReason;
use std::collections::BTreeMap;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What a NIC has counted since its creation.
        #[derive(Clone, PartialEq, Eq, Debug, Default)]
        pub struct Counters {
            $($(#[$doc])* pub $name: u64,)*
            drops: [u64; DropReason::ALL.len()],
            malformed: BTreeMap<&'static str, u64>,
        }

        impl Counters {
            fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name),)*].into_iter()
            }
        }
    };
}

counters! {
    /// Packets sent.
    sent_pkts,
    /// Packets received, dropped ones included.
    rcvd_pkts,
    /// Bytes of the packets sent, from the Ethernet header to the ICRC.
    rdma_tx_bytes,
    /// Bytes of the packets received, dropped ones included.
    rdma_rx_bytes,
    /// Requests that were executed at the peer by cut-through, without packets.
    cut_through_requests,
    /// Bytes that were copied from this node by cut-through, whichever end requested it.
    cut_through_tx_bytes,
    /// Bytes that were copied to this node by cut-through.
    cut_through_rx_bytes,
    /// SEND requests executed.
    rdma_recvs,
    /// SEND requests completed.
    rdma_sends,
    /// WRITE requests executed.
    rx_write_requests,
    /// READ requests executed.
    rx_read_requests,
    /// Atomic requests executed.
    rx_atomic_requests,
    /// Duplicate requests.
    duplicate_request,
    /// Requests ahead of the one expected.
    out_of_seq_request,
    /// SENDs and WRITEs with immediate that found no receive request.
    out_of_buffer,
    /// Receiver-not-ready NAKs sent.
    send_rnr_err,
    /// Receiver-not-ready NAKs received.
    rcvd_rnr_err,
    /// Sequence error NAKs received.
    rcvd_seq_err,
    /// Losses detected by a response to a later request.
    implied_nak_seq_err,
    /// Acknowledgement timeouts.
    local_ack_timeout_err,
    /// Times that requests were resent, for any cause.
    completer_retry_err,
    /// Queue pairs that ran out of retries.
    retry_exceeded_err,
    /// Queue pairs that ran out of receiver-not-ready retries.
    retry_rnr_exceeded_err,
    /// Requested acknowledgements that were merged into a later one.
    ack_deferred,
    /// Receives that failed by an error of the peer or of this NIC.
    resp_cqe_error,
    /// Receives flushed.
    resp_cqe_flush_error,
    /// Sends that failed.
    req_cqe_error,
    /// Sends flushed.
    req_cqe_flush_error,
    /// Receives too short for their message.
    resp_local_length_error,
    /// Requests refused for their key, bounds, permission or domain.
    resp_remote_access_errors,
    /// Requests refused as invalid.
    resp_remote_invalid_request,
    /// Requests of this NIC that were refused for their key, bounds, permission or domain.
    req_remote_access_errors,
    /// Requests of this NIC that were refused as invalid.
    req_remote_invalid_request,
    /// Requests of this NIC that the peer could not complete.
    req_remote_operation_errors,
    /// Packets with a congestion mark received.
    np_ecn_marked_roce_packets,
    /// Congestion notifications sent.
    np_cnp_sent,
    /// Congestion notifications that cut a rate.
    rp_cnp_handled,
    /// Congestion notifications ignored.
    rp_cnp_ignored,
    /// Packets whose ICRC was wrong or missing.
    rx_icrc_encapsulated,
    /// Completions lost because their queue was full.
    cq_overflows,
    /// Requests held back until a READ before them was answered.
    held_requests,
    /// Times that a packet waited for a buffer of the pool.
    pool_stalls,
    /// Datagrams accepted for sending.
    sent_datagrams,
    /// Datagrams received for a bound port.
    rcvd_datagrams,
}

impl Counters {
    /// How many packets were dropped for `reason`.
    pub fn drops(&self, reason: DropReason) -> u64 {
        self.drops[reason as usize]
    }

    /// How many packets were dropped, malformed ones included.
    pub fn drops_total(&self) -> u64 {
        self.drops.iter().sum::<u64>() + self.malformed.values().sum::<u64>()
    }

    /// All counters by name, in a fixed order; malformed packets by cause, where the count is not
    /// zero.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let drops = DropReason::ALL
            .into_iter()
            .map(|reason| (reason.name(), self.drops(reason)));
        let malformed = self.malformed.iter().map(|(&name, &count)| (name, count));
        self.named().chain(drops).chain(malformed)
    }

    pub(crate) fn count_drop(&mut self, reason: DropReason) {
        self.drops[reason as usize] += 1;
    }

    pub(crate) fn count_malformed(&mut self, name: &'static str) {
        *self.malformed.entry(name).or_default() += 1;
    }
}
