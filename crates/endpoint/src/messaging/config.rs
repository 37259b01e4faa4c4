//! What a unit brings to a connection, and what both agree on.

use core::fmt;
use rackweave_base::{Duration, MacAddr};
use rackweave_verbs::{Mtu, PdId};
use rackweave_wire::fabric::message::RECEIVE_BUFFERS_MAX;
use std::net::Ipv4Addr;

pub use rackweave_wire::fabric::message::handshake::{RECEIVE_BYTES_MAX, RECEIVE_BYTES_MIN};

/// What sizes of buffers are multiples of.
pub const BUFFER_ALIGN: u32 = 64;

/// What a unit is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Role {
    /// Comes to storage units and asks.
    Compute,
    /// Waits for compute units.
    Storage,
}

impl Role {
    /// The other end.
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
            Self::Compute => "compute unit",
            Self::Storage => "storage unit",
        })
    }
}

/// How a unit wants its connections. The peer's may be otherwise: sizes and numbers of buffers are
/// each unit's own, the rest is agreed on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MessagingConfig {
    /// Receive buffers of a connection, 1 to 7.
    pub receive_buffers: u8,
    /// Bytes of each: a multiple of 64 from 1 KiB to 1 GiB.
    pub receive_bytes: u32,
    /// Bytes of the send buffer, a multiple of 64; zero: as much as the peer's receive buffers hold
    /// together, which is what the paper proposes, but at most [`Self::send_bytes_auto_max`].
    pub send_bytes: u64,
    /// The longest message in bytes; the smaller of what both say holds.
    pub message_max: u64,
    /// Channels from the compute to the storage unit, 1 to 7: as many threads may send there. The
    /// smaller of what both say holds.
    pub channels_up: u8,
    /// Channels from the storage to the compute unit, 1 to 7.
    pub channels_down: u8,
    /// How long nothing is heard of a peer before it is asked for a sign of life; zero: never.
    pub keepalive: Duration,
    /// How long the NIC waits for an acknowledgement before it sends again.
    pub timeout: Duration,
    /// How often it sends again, 0 to 7, before the connection is broken.
    pub retries: u8,
    /// The protection domain to work in, for those who send from regions of their own; otherwise
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
            pd: None,
        }
    }
}

/// Why a configuration makes no sense.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConfigError {
    /// Too few or too many receive buffers.
    #[error("{0} receive buffers: a unit has 1 to {RECEIVE_BUFFERS_MAX} in a connection")]
    ReceiveBuffers(u8),
    /// Receive buffers of an impossible size.
    #[error(
        "receive buffers of {0} bytes: give a multiple of {BUFFER_ALIGN} from {RECEIVE_BYTES_MIN} \
         to {RECEIVE_BYTES_MAX}"
    )]
    ReceiveBytes(u32),
    /// A send buffer of an impossible size.
    #[error(
        "a send buffer of {bytes} bytes for {channels} channels: give a multiple of {BUFFER_ALIGN}, \
         at least {RECEIVE_BYTES_MIN} per channel, or 0 for what the peer's receive buffers hold"
    )]
    SendBytes {
        /// What was given.
        bytes: u64,
        /// Channels that share it.
        channels: u8,
    },
    /// No channel, or more than there can be receive buffers.
    #[error("{0} channels: there are 1 to {RECEIVE_BUFFERS_MAX} each way")]
    Channels(u8),
    /// A channel needs a receive buffer of its own.
    #[error("{channels} channels towards this unit share {buffers} receive buffers: give more")]
    BuffersForChannels {
        /// Channels towards the unit.
        channels: u8,
        /// Its receive buffers.
        buffers: u8,
    },
    /// Messages without bytes only.
    #[error("messages of at most 0 bytes: give a limit of at least 1")]
    MessageMax,
    /// More retries than a NIC counts.
    #[error("{0} retries: a NIC sends again 0 to 7 times")]
    Retries(u8),
}

impl MessagingConfig {
    /// The bytes of all receive buffers of a connection.
    pub fn receive_bytes_all(&self) -> u64 {
        u64::from(self.receive_buffers) * u64::from(self.receive_bytes)
    }

    /// The most bytes of a send buffer whose size follows from what the peer says: a peer shall not
    /// take more of this unit's memory than the unit itself has set aside for it.
    pub fn send_bytes_auto_max(&self) -> u64 {
        self.receive_bytes_all().max(1 << 20)
    }

    /// Whether it makes sense, for a unit of either role.
    ///
    /// # Errors
    /// The first thing that does not.
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

/// What a unit says of itself before anything is set up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnitTerms {
    /// Which rack it belongs to; zero: it does not mind.
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
}

impl UnitTerms {
    /// What a unit with this configuration says, at this NIC.
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
        }
    }
}

/// Why two units do not fit together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    /// They belong to different racks.
    #[error("the peer belongs to rack {theirs:#018x}, this unit to {mine:#018x}")]
    ForeignRack {
        /// This unit's.
        mine: u64,
        /// The peer's.
        theirs: u64,
    },
    /// The peer has too few or too many receive buffers.
    #[error("the peer says that it has {0} receive buffers; there are 1 to {RECEIVE_BUFFERS_MAX}")]
    ReceiveBuffers(u8),
    /// The peer's receive buffers have an impossible size.
    #[error(
        "the peer says that its receive buffers have {0} bytes; they have a multiple of \
         {BUFFER_ALIGN} from {RECEIVE_BYTES_MIN} to {RECEIVE_BYTES_MAX}"
    )]
    ReceiveBytes(u32),
    /// The peer wants no channel, or too many.
    #[error("the peer wants {0} channels; there are 1 to {RECEIVE_BUFFERS_MAX} each way")]
    Channels(u8),
    /// A unit has fewer receive buffers than there are channels towards it.
    #[error("{channels} channels towards a unit with {buffers} receive buffers")]
    BuffersForChannels {
        /// Channels that both want.
        channels: u8,
        /// Receive buffers of the unit that they lead to.
        buffers: u8,
    },
    /// The peer takes no messages.
    #[error("the peer takes messages of at most 0 bytes")]
    MessageMax,
}

/// What two units have agreed on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Agreed {
    /// What this unit is.
    pub role: Role,
    /// What this unit has said.
    pub mine: UnitTerms,
    /// What the peer has said.
    pub theirs: UnitTerms,
    /// Channels from the compute to the storage unit.
    pub channels_up: u8,
    /// Channels from the storage to the compute unit.
    pub channels_down: u8,
    /// The longest message in bytes.
    pub message_max: u64,
    /// The path MTU.
    pub mtu: Mtu,
}

impl Agreed {
    /// What follows from the terms of both. Both units come to the same.
    ///
    /// # Errors
    /// If the peer's terms make no sense or do not fit this unit's.
    pub fn new(role: Role, mine: UnitTerms, theirs: UnitTerms) -> Result<Self, Refusal> {
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

    /// Channels on which this unit sends.
    pub fn outgoing(&self) -> u8 {
        match self.role {
            Role::Compute => self.channels_up,
            Role::Storage => self.channels_down,
        }
    }

    /// Channels on which it receives.
    pub fn incoming(&self) -> u8 {
        match self.role {
            Role::Compute => self.channels_down,
            Role::Storage => self.channels_up,
        }
    }
}
