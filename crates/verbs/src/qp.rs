//! Queue pairs of the reliable connection service: states and attributes.

use rackweave_base::{Duration, MacAddr, Psn, Qpn};
use serde::{Deserialize, Serialize};
use std::net::Ipv4Addr;

/// The state of a queue pair (specification 1.4, 10.3.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum QpState {
    /// Just created; posts are refused, packets dropped.
    Reset,
    /// Receives may be posted; packets are dropped.
    Init,
    /// Receives packets; sends are refused.
    ReadyToReceive,
    /// Fully operational.
    ReadyToSend,
    /// Receives packets; finishes the sends in flight and starts no new ones.
    SendQueueDrain,
    /// Failed: work is flushed, packets are dropped.
    Error,
}

/// The largest payload of one packet.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub enum Mtu {
    /// 256 bytes.
    B256,
    /// 512 bytes.
    B512,
    /// 1024 bytes.
    #[default]
    B1024,
    /// 2048 bytes.
    B2048,
    /// 4096 bytes.
    B4096,
}

impl Mtu {
    /// All values, smallest first.
    pub const ALL: [Mtu; 5] = [Mtu::B256, Mtu::B512, Mtu::B1024, Mtu::B2048, Mtu::B4096];

    /// The number of bytes.
    pub const fn bytes(self) -> u32 {
        256 << self as u32
    }

    /// The MTU of exactly `bytes` bytes, if there is one.
    pub fn from_bytes(bytes: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|mtu| mtu.bytes() == bytes)
    }

    /// Number of packets that carry `len` bytes: at least one.
    pub const fn packets(self, len: u32) -> u32 {
        let shift = 8 + self as u32;
        if len == 0 {
            1
        } else {
            ((len - 1) >> shift) + 1
        }
    }
}

/// Sizes of a queue pair's queues.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct QpCapabilities {
    /// Work requests that the send queue holds.
    pub send_max: u32,
    /// Work requests that the receive queue holds.
    pub receive_max: u32,
    /// Segments in one work request.
    pub segments_max: u32,
}

impl Default for QpCapabilities {
    fn default() -> Self {
        Self {
            send_max: 128,
            receive_max: 128,
            segments_max: 4,
        }
    }
}

/// The other endpoint of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Peer {
    /// Its Ethernet address, or that of the next hop.
    pub mac: MacAddr,
    /// Its IP address; packets from any other are dropped.
    pub ip: Ipv4Addr,
    /// Its queue pair.
    pub qpn: Qpn,
}

/// The attributes that a queue pair needs to receive (Init to ReadyToReceive).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ReceiveSide {
    /// The other endpoint.
    pub peer: Peer,
    /// The PSN of the first request expected.
    pub psn: Psn,
    /// The path MTU.
    pub mtu: Mtu,
    /// The operations that the peer may perform on this queue pair.
    pub access: super::Access,
    /// Maximum READs and atomics of the peer in flight, 1 to 16.
    pub reads_in_flight_max: u8,
    /// The wait that is requested from the peer when no receive request is posted.
    pub rnr_wait: Duration,
}

/// The attributes that a queue pair needs to send (ReadyToReceive to ReadyToSend).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SendSide {
    /// The PSN of the first request.
    pub psn: Psn,
    /// How long to wait for an acknowledgement before resending; zero means for ever.
    pub timeout: Duration,
    /// How often to resend after timeouts and sequence errors, 0 to 7, before giving up.
    pub retries: u8,
    /// How often to resend after a receiver-not-ready NAK, 0 to 6; 7 means for ever.
    pub rnr_retries: u8,
    /// Maximum READs and atomics of this queue pair in flight, 1 to 16.
    pub reads_in_flight_max: u8,
}

/// A transition requested by the owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum QpModify {
    /// Any state to Reset: all state is discarded.
    Reset,
    /// Reset to Init.
    Init,
    /// Init to ReadyToReceive.
    ReadyToReceive(ReceiveSide),
    /// ReadyToReceive to ReadyToSend.
    ReadyToSend(SendSide),
    /// ReadyToSend to SendQueueDrain.
    Drain,
    /// SendQueueDrain to ReadyToSend.
    Resume,
    /// Any state but Reset to Error.
    Error,
}

/// Asynchronous events: changes of a queue pair or completion queue outside any work request
/// (specification 1.4, 11.6.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QpEvent {
    /// The send queue has drained after `Drain`.
    Drained(Qpn),
    /// The queue pair entered the Error state because of a request of its peer.
    Fatal(Qpn),
    /// A completion queue overflowed; the queue pairs that use it are in the Error state.
    CqOverflow(super::CqId),
}
