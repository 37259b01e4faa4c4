//! The fields that nodes exchange: terms and keys.

use super::{FieldError, HEADER_LEN, Kind, MessageError, RefusalCode};
use crate::fabric::message::{ENTRY_LEN, RECEIVE_BUFFERS_MAX};
use rackweave_base::{MacAddr, Psn, Qpn, Rkey};
use std::net::Ipv4Addr;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Maximum channels of a connection in each direction.
pub const CHANNELS_MAX: u8 = 7;
/// Maximum queue pairs of a connection at each node.
pub const QUEUE_PAIRS_MAX: usize = 2 * CHANNELS_MAX as usize;
/// Bytes of the smallest receive buffer.
pub const RECEIVE_BYTES_MIN: u32 = 1 << 10;
/// Bytes of the largest receive buffer.
pub const RECEIVE_BYTES_MAX: u32 = 1 << 30;

/// Minimum number of queue pairs: one channel in each direction.
const QUEUE_PAIRS_MIN: usize = 2;

/// The description of a node and its limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Terms {
    /// The rack that the node is in; zero means any rack.
    pub fabric: u64,
    /// Maximum length in bytes of a message that it receives or sends.
    pub message_max: u64,
    /// Bytes of each receive buffer.
    pub receive_bytes: u32,
    /// Its IP address in the rack.
    pub ip: Ipv4Addr,
    /// Its Ethernet address in the rack.
    pub mac: MacAddr,
    /// Its MTU in bytes.
    pub mtu_bytes: u16,
    /// Number of its receive buffers.
    pub receive_buffers: u8,
    /// Maximum channels from compute to storage node that it wants.
    pub channels_up: u8,
    /// Maximum channels from storage to compute node that it wants.
    pub channels_down: u8,
    /// Whether its NIC stores the last aligned word of a WRITE after the other bytes.
    pub word_last: bool,
}

/// One end of a queue pair, as the other end must know it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueuePair {
    /// Its number.
    pub qpn: Qpn,
    /// The PSN of the first request that it sends.
    pub psn: Psn,
}

/// A location where a peer may write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WriteTarget {
    /// The address of the first byte.
    pub address: u64,
    /// The key of its region.
    pub rkey: Rkey,
}

impl WriteTarget {
    /// The location `offset` bytes after this one, with the same key.
    pub const fn at(self, offset: u64) -> Self {
        let Self { address, rkey } = self;
        let address = address.wrapping_add(offset);
        Self { address, rkey }
    }
}

/// What a peer needs to write to a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Keys {
    /// A queue pair for each channel, those from compute to storage node first.
    pub queue_pairs: Vec<QueuePair>,
    /// Its buffer info.
    pub buffer_info: WriteTarget,
    /// Its receive buffers, one after the other.
    pub receive: WriteTarget,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct TermsBytes {
    fabric: U64,
    message_max: U64,
    receive_bytes: U32,
    ip: [u8; 4],
    mac: [u8; 6],
    mtu_bytes: U16,
    receive_buffers: u8,
    channels_up: u8,
    channels_down: u8,
    word_last: u8,
    zero: [u8; 4],
}

/// The part of the keys with a fixed length.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct KeysHead {
    info_address: U64,
    receive_address: U64,
    info_rkey: U32,
    receive_rkey: U32,
    queue_pairs: u8,
    zero: [u8; 7],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct QueuePairBytes {
    qpn: U32,
    psn: U32,
}

const _: () = assert!(size_of::<TermsBytes>() == 40);
const _: () = assert!(size_of::<KeysHead>() == 32);
const _: () = assert!(size_of::<QueuePairBytes>() == 8);

/// The check of a number: field, value, whether it is allowed, the allowed values, the code.
type Check = (&'static str, u64, bool, &'static str, RefusalCode);

fn check(checks: &[Check]) -> Result<(), FieldError> {
    match checks.iter().find(|(_, _, possible, _, _)| !possible) {
        None => Ok(()),
        Some(&(field, value, _, possible, code)) => Err(FieldError {
            field,
            value,
            possible,
            code,
        }),
    }
}

impl Terms {
    /// Checks that the values are valid for a node.
    ///
    /// # Errors
    /// If a field is out of range.
    pub fn check(&self) -> Result<(), MessageError> {
        let channels = 1..=CHANNELS_MAX;
        let (up, down) = (self.channels_up, self.channels_down);
        check(&[
            (
                "receive_buffers",
                self.receive_buffers.into(),
                (1..=RECEIVE_BUFFERS_MAX).contains(&self.receive_buffers),
                "1 to 7 are possible",
                RefusalCode::ReceiveBuffers,
            ),
            (
                "receive_bytes",
                self.receive_bytes.into(),
                (RECEIVE_BYTES_MIN..=RECEIVE_BYTES_MAX).contains(&self.receive_bytes)
                    && u64::from(self.receive_bytes).is_multiple_of(ENTRY_LEN),
                "1024 to 2^30 are possible, in multiples of 64",
                RefusalCode::BufferSize,
            ),
            (
                "channels_up",
                up.into(),
                channels.contains(&up),
                "1 to 7 are possible",
                RefusalCode::Channels,
            ),
            (
                "channels_down",
                down.into(),
                channels.contains(&down),
                "1 to 7 are possible",
                RefusalCode::Channels,
            ),
            (
                "message_max",
                self.message_max,
                self.message_max > 0,
                "it is at least 1",
                RefusalCode::MessageMax,
            ),
            (
                "the MTU",
                self.mtu_bytes.into(),
                self.mtu_bytes.is_power_of_two() && (256..=4096).contains(&self.mtu_bytes),
                "256, 512, 1024, 2048 and 4096 are possible",
                RefusalCode::Address,
            ),
        ])?;
        let (ip, mac) = (self.ip, self.mac);
        let is_one_host = !(ip.is_unspecified() || ip.is_multicast() || ip.is_broadcast());
        if !is_one_host || mac.0[0] & 1 == 1 || mac == MacAddr::default() {
            return Err(MessageError::Address { ip, mac });
        }
        Ok(())
    }

    pub(super) fn emit(&self, bytes: &mut Vec<u8>) {
        let layout = TermsBytes {
            fabric: self.fabric.into(),
            message_max: self.message_max.into(),
            receive_bytes: self.receive_bytes.into(),
            ip: self.ip.octets(),
            mac: self.mac.0,
            mtu_bytes: self.mtu_bytes.into(),
            receive_buffers: self.receive_buffers,
            channels_up: self.channels_up,
            channels_down: self.channels_down,
            word_last: self.word_last.into(),
            zero: [0; 4],
        };
        bytes.extend_from_slice(layout.as_bytes());
    }

    pub(super) fn parse(kind: Kind, bytes: &TermsBytes) -> Result<Self, MessageError> {
        if bytes.zero != [0; 4] || bytes.word_last > 1 {
            return Err(MessageError::Reserved { kind });
        }
        let terms = Self {
            fabric: bytes.fabric.get(),
            message_max: bytes.message_max.get(),
            receive_bytes: bytes.receive_bytes.get(),
            ip: bytes.ip.into(),
            mac: MacAddr(bytes.mac),
            mtu_bytes: bytes.mtu_bytes.get(),
            receive_buffers: bytes.receive_buffers,
            channels_up: bytes.channels_up,
            channels_down: bytes.channels_down,
            word_last: bytes.word_last == 1,
        };
        terms.check()?;
        Ok(terms)
    }
}

impl Keys {
    pub(super) fn emit(&self, bytes: &mut Vec<u8>) {
        let head = KeysHead {
            info_address: self.buffer_info.address.into(),
            receive_address: self.receive.address.into(),
            info_rkey: self.buffer_info.rkey.0.into(),
            receive_rkey: self.receive.rkey.0.into(),
            queue_pairs: self.queue_pairs.len() as u8,
            zero: [0; 7],
        };
        bytes.extend_from_slice(head.as_bytes());
        for pair in &self.queue_pairs {
            let pair = QueuePairBytes {
                qpn: pair.qpn.0.into(),
                psn: pair.psn.get().into(),
            };
            bytes.extend_from_slice(pair.as_bytes());
        }
    }

    pub(super) fn parse(kind: Kind, body: &[u8]) -> Result<Self, MessageError> {
        let size = || MessageError::Size {
            kind,
            length: HEADER_LEN + body.len(),
        };
        let (head, pairs) = KeysHead::ref_from_prefix(body).map_err(|_| size())?;
        if head.zero != [0; 7] {
            return Err(MessageError::Reserved { kind });
        }
        let count = usize::from(head.queue_pairs);
        let place = |address: U64, rkey: U32| WriteTarget {
            address: address.get(),
            rkey: Rkey(rkey.get()),
        };
        let buffer_info = place(head.info_address, head.info_rkey);
        let receive = place(head.receive_address, head.receive_rkey);
        let address = |field, place: WriteTarget| {
            (
                field,
                place.address,
                place.address.is_multiple_of(ENTRY_LEN),
                "it is a multiple of 64",
                RefusalCode::BadKeys,
            )
        };
        check(&[
            (
                "the number of queue pairs",
                head.queue_pairs.into(),
                (QUEUE_PAIRS_MIN..=QUEUE_PAIRS_MAX).contains(&count),
                "2 to 14 are possible",
                RefusalCode::BadKeys,
            ),
            address("the address of the buffer info", buffer_info),
            address("the address of the receive buffers", receive),
        ])?;
        let pairs = <[QueuePairBytes]>::ref_from_bytes(pairs).map_err(|_| size())?;
        if pairs.len() != count {
            return Err(size());
        }
        let queue_pairs = pairs.iter().map(QueuePair::parse);
        Ok(Self {
            queue_pairs: queue_pairs.collect::<Result<_, _>>()?,
            buffer_info,
            receive,
        })
    }
}

impl QueuePair {
    fn parse(bytes: &QueuePairBytes) -> Result<Self, FieldError> {
        let (qpn, psn) = (bytes.qpn.get(), bytes.psn.get());
        check(&[
            (
                "the number of a queue pair",
                qpn.into(),
                // 0 and 1 are reserved for management (InfiniBand specification 1.4, 9.2.3).
                (2..0xff_ffff).contains(&qpn),
                "2 to 2^24 - 2 are possible",
                RefusalCode::BadKeys,
            ),
            (
                "the PSN of a queue pair",
                psn.into(),
                psn < Psn::SPACE,
                "it is below 2^24",
                RefusalCode::BadKeys,
            ),
        ])?;
        Ok(Self {
            qpn: Qpn(qpn),
            psn: Psn::new(psn),
        })
    }
}
