//! The configuration of a node for a connection, and the terms that two nodes agree on.

use core::fmt;
use rackweave_base::{Duration, MacAddr};
use rackweave_verbs::{Mtu, PdId};
use rackweave_wire::fabric::message::{BUFFER_INFO_LEN, RECEIVE_BUFFERS_MAX, buffer_info_len};
use std::net::Ipv4Addr;

pub use rackweave_wire::fabric::message::handshake::{RECEIVE_BYTES_MAX, RECEIVE_BYTES_MIN};

/// Sizes of buffers are multiples of this.
pub const BUFFER_ALIGN: u32 = 64;

/// The role of a node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Role {
    /// Connects to storage nodes and sends requests.
    Compute,
    /// Waits for compute nodes.
    Storage,
}

impl Role {
    /// The opposite role.
    pub const fn peer(self) -> Self {
        match self {
            Self::Compute => Self::Storage,
            Self::Storage => Self::Compute,
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Compute => "compute node",
            Self::Storage => "storage node",
        })
    }
}

/// A node's configuration of its connections. The peer's may differ: sizes and numbers of buffers
/// are each node's own, the rest is negotiated.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MessagingConfig {
    /// Receive buffers of a connection, 1 to 7.
    pub receive_buffers: u8,
    /// Bytes of each: a multiple of 64 from 1 KiB to 1 GiB.
    pub receive_bytes: u32,
    /// Bytes of the send buffer, a multiple of 64; zero: the total size of the peer's receive
    /// buffers, as the paper proposes, but at most [`Self::send_bytes_auto_max`].
    pub send_bytes: u64,
    /// The longest message in bytes; the smaller value of both nodes applies.
    pub message_max: u64,
    /// Channels from the compute to the storage node, 1 to 7: this many threads may send there. The
    /// smaller value of both nodes applies.
    pub channels_up: u8,
    /// Channels from the storage to the compute node, 1 to 7.
    pub channels_down: u8,
    /// Interval without news of a peer after which a sign of life is requested; zero: never.
    pub keepalive: Duration,
    /// How long the NIC waits for an acknowledgement before it retransmits.
    pub timeout: Duration,
    /// How often it retransmits, 0 to 7, before the connection is broken.
    pub retries: u8,
    /// Whether this node's NIC stores the last aligned word of a WRITE after all of its other
    /// bytes, as [`Memory`](rackweave_base::Memory) does. Peers then send it small packages and
    /// their words in one WRITE. For other NICs, the specification does not promise this.
    pub word_last: bool,
    /// The protection domain to use, for callers that send from regions of their own; otherwise
    /// each connection gets one.
    pub pd: Option<PdId>,
}

impl Default for MessagingConfig {
    fn default() -> Self {
        Self {
            receive_buffers: 4,
            // A package of 256 KiB and its header, so that long messages whose lengths are powers
            // of two fill packages.
            receive_bytes: (256 << 10) + BUFFER_ALIGN,
            send_bytes: 0,
            message_max: 4 << 30,
            channels_up: 1,
            channels_down: 1,
            keepalive: Duration::from_millis(500),
            timeout: Duration::from_millis(50),
            retries: 7,
            word_last: true,
            pd: None,
        }
    }
}

/// Why a configuration is not valid.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConfigError {
    /// Too few or too many receive buffers.
    #[error("{0} receive buffers: a node has 1 to {RECEIVE_BUFFERS_MAX} in a connection")]
    ReceiveBuffers(u8),
    /// The size of the receive buffers is not allowed.
    #[error(
        "receive buffers of {0} bytes: give a multiple of {BUFFER_ALIGN} from {RECEIVE_BYTES_MIN} \
         to {RECEIVE_BYTES_MAX}"
    )]
    ReceiveBytes(u32),
    /// The size of the send buffer is not allowed.
    #[error(
        "a send buffer of {bytes} bytes for {channels} channels: give a multiple of {BUFFER_ALIGN}, \
         at least {RECEIVE_BYTES_MIN} per channel, or 0 for what the peer's receive buffers hold"
    )]
    SendBytes {
        /// The configured size.
        bytes: u64,
        /// Channels that share it.
        channels: u8,
    },
    /// No channels, or more than there can be receive buffers.
    #[error("{0} channels: there are 1 to {RECEIVE_BUFFERS_MAX} each way")]
    Channels(u8),
    /// A channel needs a receive buffer of its own.
    #[error("{channels} channels towards this node share {buffers} receive buffers: give more")]
    BuffersForChannels {
        /// Channels towards the node.
        channels: u8,
        /// Its receive buffers.
        buffers: u8,
    },
    /// The maximum message length is zero.
    #[error("messages of at most 0 bytes: give a limit of at least 1")]
    MessageMax,
    /// More retries than a NIC can count.
    #[error("{0} retries: a NIC sends again 0 to 7 times")]
    Retries(u8),
}

impl MessagingConfig {
    /// The bytes of all receive buffers of a connection.
    pub fn receive_bytes_all(&self) -> u64 {
        u64::from(self.receive_buffers) * u64::from(self.receive_bytes)
    }

    /// The maximum size of a send buffer whose size is derived from the peer's terms: a peer must
    /// not take more of this node's memory than the node itself has reserved for it.
    pub fn send_bytes_auto_max(&self) -> u64 {
        self.receive_bytes_all().max(1 << 20)
    }

    /// Checks the configuration, for a node of either role.
    ///
    /// # Errors
    /// The first setting that is not valid.
    pub fn check(&self, role: Role) -> Result<(), ConfigError> {
        if !(1..=RECEIVE_BUFFERS_MAX).contains(&self.receive_buffers) {
            return Err(ConfigError::ReceiveBuffers(self.receive_buffers));
        }
        if !is_receive_bytes(self.receive_bytes) {
            return Err(ConfigError::ReceiveBytes(self.receive_bytes));
        }
        for channels in [self.channels_up, self.channels_down] {
            if !(1..=RECEIVE_BUFFERS_MAX).contains(&channels) {
                return Err(ConfigError::Channels(channels));
            }
        }
        let (to, from) = match role {
            Role::Compute => (self.channels_down, self.channels_up),
            Role::Storage => (self.channels_up, self.channels_down),
        };
        if to > self.receive_buffers {
            return Err(ConfigError::BuffersForChannels {
                channels: to,
                buffers: self.receive_buffers,
            });
        }
        let least = u64::from(from) * u64::from(RECEIVE_BYTES_MIN);
        let bytes = self.send_bytes;
        if bytes != 0 && (bytes < least || !bytes.is_multiple_of(u64::from(BUFFER_ALIGN))) {
            return Err(ConfigError::SendBytes {
                bytes,
                channels: from,
            });
        }
        if self.message_max == 0 {
            return Err(ConfigError::MessageMax);
        }
        if self.retries > 7 {
            return Err(ConfigError::Retries(self.retries));
        }
        Ok(())
    }
}

/// Whether receive buffers may have this size.
pub(super) fn is_receive_bytes(bytes: u32) -> bool {
    (RECEIVE_BYTES_MIN..=RECEIVE_BYTES_MAX).contains(&bytes) && bytes.is_multiple_of(BUFFER_ALIGN)
}

/// A node's terms, sent before anything is set up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodeTerms {
    /// The rack that it belongs to; zero: any.
    pub fabric: u64,
    /// Its NIC's IP address.
    pub ip: Ipv4Addr,
    /// Its NIC's Ethernet address, or that of the next hop to it.
    pub mac: MacAddr,
    /// The longest payload of a packet on its link.
    pub mtu: Mtu,
    /// As in [`MessagingConfig`].
    pub receive_buffers: u8,
    /// As in [`MessagingConfig`].
    pub receive_bytes: u32,
    /// As in [`MessagingConfig`].
    pub message_max: u64,
    /// As in [`MessagingConfig`].
    pub channels_up: u8,
    /// As in [`MessagingConfig`].
    pub channels_down: u8,
    /// As in [`MessagingConfig`].
    pub word_last: bool,
}

impl NodeTerms {
    /// Bytes of the node's buffer info. A node that gets no small packages in one WRITE may have no
    /// inline buffers.
    pub fn buffer_info_len(&self) -> u64 {
        match self.word_last {
            true => buffer_info_len(self.receive_buffers),
            false => BUFFER_INFO_LEN,
        }
    }

    /// The terms of a node with this configuration, at this NIC.
    pub fn new(
        config: &MessagingConfig,
        fabric: u64,
        ip: Ipv4Addr,
        mac: MacAddr,
        mtu: Mtu,
    ) -> Self {
        Self {
            fabric,
            ip,
            mac,
            mtu,
            receive_buffers: config.receive_buffers,
            receive_bytes: config.receive_bytes,
            message_max: config.message_max,
            channels_up: config.channels_up,
            channels_down: config.channels_down,
            word_last: config.word_last,
        }
    }
}

/// Why two nodes are not compatible.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    /// They belong to different racks.
    #[error("the peer belongs to rack {theirs:#018x}, this node to {mine:#018x}")]
    ForeignRack {
        /// This node's rack.
        mine: u64,
        /// The peer's rack.
        theirs: u64,
    },
    /// The peer has too few or too many receive buffers.
    #[error("the peer says that it has {0} receive buffers; there are 1 to {RECEIVE_BUFFERS_MAX}")]
    ReceiveBuffers(u8),
    /// The size of the peer's receive buffers is not allowed.
    #[error(
        "the peer says that its receive buffers have {0} bytes; they have a multiple of \
         {BUFFER_ALIGN} from {RECEIVE_BYTES_MIN} to {RECEIVE_BYTES_MAX}"
    )]
    ReceiveBytes(u32),
    /// The peer wants no channels, or too many.
    #[error("the peer wants {0} channels; there are 1 to {RECEIVE_BUFFERS_MAX} each way")]
    Channels(u8),
    /// A node has fewer receive buffers than there are channels towards it.
    #[error("{channels} channels towards a node with {buffers} receive buffers")]
    BuffersForChannels {
        /// The agreed number of channels.
        channels: u8,
        /// Receive buffers of the node at their receiving end.
        buffers: u8,
    },
    /// The peer accepts no messages.
    #[error("the peer takes messages of at most 0 bytes")]
    MessageMax,
}

/// The terms that two nodes have agreed on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Agreed {
    /// This node's role.
    pub role: Role,
    /// This node's terms.
    pub mine: NodeTerms,
    /// The peer's terms.
    pub theirs: NodeTerms,
    /// Channels from the compute to the storage node.
    pub channels_up: u8,
    /// Channels from the storage to the compute node.
    pub channels_down: u8,
    /// The longest message in bytes.
    pub message_max: u64,
    /// The path MTU.
    pub mtu: Mtu,
}

impl Agreed {
    /// The agreement that follows from the terms of both. Both nodes compute the same.
    ///
    /// # Errors
    /// If the peer's terms are not valid or not compatible with this node's.
    pub fn new(role: Role, mine: NodeTerms, theirs: NodeTerms) -> Result<Self, Refusal> {
        if mine.fabric != 0 && theirs.fabric != 0 && mine.fabric != theirs.fabric {
            return Err(Refusal::ForeignRack {
                mine: mine.fabric,
                theirs: theirs.fabric,
            });
        }
        if !(1..=RECEIVE_BUFFERS_MAX).contains(&theirs.receive_buffers) {
            return Err(Refusal::ReceiveBuffers(theirs.receive_buffers));
        }
        if !is_receive_bytes(theirs.receive_bytes) {
            return Err(Refusal::ReceiveBytes(theirs.receive_bytes));
        }
        for channels in [theirs.channels_up, theirs.channels_down] {
            if !(1..=RECEIVE_BUFFERS_MAX).contains(&channels) {
                return Err(Refusal::Channels(channels));
            }
        }
        if theirs.message_max == 0 {
            return Err(Refusal::MessageMax);
        }
        let agreed = Self {
            role,
            mine,
            theirs,
            channels_up: mine.channels_up.min(theirs.channels_up),
            channels_down: mine.channels_down.min(theirs.channels_down),
            message_max: mine.message_max.min(theirs.message_max),
            mtu: mine.mtu.min(theirs.mtu),
        };
        for (channels, terms) in [(agreed.incoming(), &mine), (agreed.outgoing(), &theirs)] {
            if channels > terms.receive_buffers {
                return Err(Refusal::BuffersForChannels {
                    channels,
                    buffers: terms.receive_buffers,
                });
            }
        }
        Ok(agreed)
    }

    /// Channels on which this node sends.
    pub fn outgoing(&self) -> u8 {
        match self.role {
            Role::Compute => self.channels_up,
            Role::Storage => self.channels_down,
        }
    }

    /// Channels on which this node receives.
    pub fn incoming(&self) -> u8 {
        match self.role {
            Role::Compute => self.channels_down,
            Role::Storage => self.channels_up,
        }
    }
}
