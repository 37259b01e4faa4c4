//! The ACK extended transport header (InfiniBand specification 1.4, 9.3.5 and 9.7.5.1.2).

use crate::ParseError;
use core::fmt;
use rackweave_base::Duration;
use zerocopy::byteorder::network_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of the header.
pub const LEN: usize = 4;
/// The credit count of a responder that does not count credits.
pub const CREDITS_UNUSED: u8 = 31;

const LOW_24: u32 = 0x00ff_ffff;

/// The answer of a responder to a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Aeth {
    /// Acknowledged, not ready, or refused.
    pub syndrome: Syndrome,
    /// Message sequence number, 24 bits: how many messages the responder has completed.
    pub msn: u32,
}

/// The result of a request: acknowledged, not ready, or refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Syndrome {
    /// Everything up to this PSN has arrived.
    Ack {
        /// 5 bits; [`CREDITS_UNUSED`] where credits are not used.
        credits: u8,
    },
    /// The responder has no receive request.
    ReceiverNotReady {
        /// 5 bits; see [`rnr_wait`].
        timer: u8,
    },
    /// The request is refused.
    Nak(NakCode),
}

/// Why a request is refused (table 46).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum NakCode {
    /// Packets before this PSN are missing.
    SequenceError = 0,
    /// A request that the specification or the QP's attributes forbid.
    InvalidRequest = 1,
    /// Key, range or permission does not allow the access.
    RemoteAccess = 2,
    /// The responder failed while it executed the request.
    RemoteOperation = 3,
    /// Reliable datagram service only.
    InvalidRdRequest = 4,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct Layout {
    syndrome_and_msn: U32,
}
const _: () = assert!(size_of::<Layout>() == LEN);

impl Aeth {
    #[inline]
    pub(crate) fn parse(layout: &Layout) -> Result<Self, ParseError> {
        let word = layout.syndrome_and_msn.get();
        Ok(Self {
            syndrome: Syndrome::parse((word >> 24) as u8)?,
            msn: word & LOW_24,
        })
    }

    #[inline]
    pub(crate) fn emit(&self) -> Layout {
        let word = u32::from(self.syndrome.emit()) << 24 | (self.msn & LOW_24);
        Layout {
            syndrome_and_msn: U32::new(word),
        }
    }
}

impl Syndrome {
    #[inline]
    fn parse(byte: u8) -> Result<Self, ParseError> {
        let value = byte & 0x1f;
        match byte >> 5 {
            0b000 => Ok(Self::Ack { credits: value }),
            0b001 => Ok(Self::ReceiverNotReady { timer: value }),
            0b011 => NakCode::from_bits(value)
                .map(Self::Nak)
                .ok_or(ParseError::BadSyndrome(byte)),
            _ => Err(ParseError::BadSyndrome(byte)),
        }
    }

    #[inline]
    const fn emit(self) -> u8 {
        match self {
            Self::Ack { credits } => credits & 0x1f,
            Self::ReceiverNotReady { timer } => 0b001 << 5 | (timer & 0x1f),
            Self::Nak(code) => 0b011 << 5 | code as u8,
        }
    }
}

impl NakCode {
    const fn from_bits(bits: u8) -> Option<Self> {
        Some(match bits {
            0 => Self::SequenceError,
            1 => Self::InvalidRequest,
            2 => Self::RemoteAccess,
            3 => Self::RemoteOperation,
            4 => Self::InvalidRdRequest,
            _ => return None,
        })
    }
}

/// RNR NAK timer values in units of 10 µs (table 45).
const RNR_WAITS: [u64; 32] = [
    65_536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1_024,
    1_536, 2_048, 3_072, 4_096, 6_144, 8_192, 12_288, 16_384, 24_576, 32_768, 49_152,
];

/// How long a requester waits after a receiver-not-ready with this timer value (its low 5 bits).
pub const fn rnr_wait(timer: u8) -> Duration {
    Duration::from_micros(10 * RNR_WAITS[(timer & 0x1f) as usize])
}

/// The timer value of the shortest wait that is at least `wait`; of the longest one, 655.36 ms, if
/// none is.
pub fn rnr_timer(wait: Duration) -> u8 {
    (1..32).find(|&timer| rnr_wait(timer) >= wait).unwrap_or(0)
}

impl fmt::Display for Aeth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.syndrome {
            Syndrome::Ack { .. } => write!(f, "ACK msn {}", self.msn),
            Syndrome::ReceiverNotReady { timer } => {
                write!(f, "RNR wait {} msn {}", rnr_wait(timer), self.msn)
            }
            Syndrome::Nak(code) => write!(f, "NAK {code} msn {}", self.msn),
        }
    }
}

impl fmt::Display for NakCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SequenceError => "sequence error",
            Self::InvalidRequest => "invalid request",
            Self::RemoteAccess => "remote access error",
            Self::RemoteOperation => "remote operational error",
            Self::InvalidRdRequest => "invalid RD request",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: [u8; LEN], header: Aeth, display: &str) {
        assert_eq!(Aeth::parse(&zerocopy::transmute!(bytes)), Ok(header));
        assert_eq!(header.emit().as_bytes(), bytes);
        assert_eq!(header.to_string(), display);
    }

    #[test]
    fn every_kind_goes_both_ways() {
        // Captured from Linux rdma_rxe.
        let ack = Syndrome::Ack {
            credits: CREDITS_UNUSED,
        };
        check(
            [0x1f, 0, 0, 1],
            Aeth {
                syndrome: ack,
                msn: 1,
            },
            "ACK msn 1",
        );
        // From the specification.
        let not_ready = Syndrome::ReceiverNotReady { timer: 14 };
        check(
            [0x2e, 0xab, 0xcd, 0xef],
            Aeth {
                syndrome: not_ready,
                msn: 0xab_cdef,
            },
            "RNR wait 1.280ms msn 11259375",
        );
        let nak = Syndrome::Nak(NakCode::RemoteAccess);
        check(
            [0x62, 0, 1, 0],
            Aeth {
                syndrome: nak,
                msn: 256,
            },
            "NAK remote access error msn 256",
        );
    }

    #[test]
    fn reserved_syndromes_are_refused() {
        let accepted = (0..=255u8).filter(|&byte| match Syndrome::parse(byte) {
            Ok(syndrome) => {
                assert_eq!(syndrome.emit(), byte);
                true
            }
            Err(error) => {
                assert_eq!(error, ParseError::BadSyndrome(byte));
                false
            }
        });
        assert_eq!(accepted.count(), 32 + 32 + 5);
    }

    #[test]
    fn waits_are_those_of_the_table() {
        assert_eq!(rnr_wait(0), Duration::from_micros(655_360));
        assert_eq!(rnr_wait(1), Duration::from_micros(10));
        assert_eq!(rnr_wait(12), Duration::from_micros(640));
        assert_eq!(rnr_wait(31), Duration::from_micros(491_520));
        for timer in 0..32 {
            assert_eq!(rnr_timer(rnr_wait(timer)), timer);
        }
        assert_eq!(rnr_timer(Duration::ZERO), 1);
        assert_eq!(rnr_timer(Duration::from_micros(50)), 5, "rounded up");
        assert_eq!(
            rnr_timer(Duration::from_secs(10)),
            0,
            "the longest there is"
        );
    }
}
