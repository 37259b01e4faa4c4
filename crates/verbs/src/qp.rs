//! Queue pairs of the reliable connection service: states and attributes.

use rackweave_base::{Duration, MacAddr, Psn, Qpn};
use serde::{Deserialize, Serialize};
use std::net::Ipv4Addr;

/// The state of a queue pair (specification 1.4, 10.3.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum QpState {
    /// Freshly made; posts are refused, packets dropped.
    Reset,
    /// Receives may be posted; packets are dropped.
    Init,
    /// Receives packets; sends are refused.
    ReadyToReceive,
    /// Fully working.
    ReadyToSend,
    /// Receives; finishes the sends under way and starts no other.
    SendQueueDrain,
    /// Broken: work is flushed, packets dropped.
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

    /// How many packets carry `len` bytes: at least one.
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

/// The other end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Peer {
    /// Its Ethernet address, or that of the next hop.
    pub mac: MacAddr,
    /// Its IP address; packets from any other are dropped.
    pub ip: Ipv4Addr,
    /// Its queue pair.
    pub qpn: Qpn,
}

/// What a queue pair needs to receive (Init to ReadyToReceive).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ReceiveSide {
    /// The other end.
    pub peer: Peer,
    /// The PSN of the first request expected.
    pub psn: Psn,
    /// The path MTU.
    pub mtu: Mtu,
    /// What the peer may do with this queue pair.
    pub access: super::Access,
    /// READs and atomics that the peer may have in flight, 1 to 16.
    pub reads_in_flight_max: u8,
    /// How long the peer is told to wait when there is no receive request.
    pub rnr_wait: Duration,
}

/// What a queue pair needs to send (ReadyToReceive to ReadyToSend).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SendSide {
    /// The PSN of the first request.
    pub psn: Psn,
    /// How long to wait for an acknowledgement before sending again. Zero: for ever.
    pub timeout: Duration,
    /// How often to send again after timeouts and sequence errors, 0 to 7, before giving up.
    pub retries: u8,
    /// How often to send again after a receiver-not-ready, 0 to 6; 7 is for ever.
    pub rnr_retries: u8,
    /// READs and atomics of ours in flight, 1 to 16.
    pub reads_in_flight_max: u8,
}

/// A transition that the owner asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum QpModify {
    /// Any state to Reset: everything is forgotten.
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

/// What happens to a queue pair or completion queue outside any work request (specification 1.4,
/// 11.6.3): asynchronous events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QpEvent {
    /// The send queue has drained after `Drain`.
    Drained(Qpn),
    /// The queue pair went to Error because of a request of its peer.
    Fatal(Qpn),
    /// A completion queue overflowed; the queue pairs that use it are in Error.
    CqOverflow(super::CqId),
}
