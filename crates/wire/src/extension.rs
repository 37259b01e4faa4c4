//! The headers between BTH and payload: at most one kind of extended header per opcode (InfiniBand
//! specification 1.4, 9.2.1, table 38).

use crate::atomic::{self, AtomicEth};
use crate::{Aeth, Deth, Opcode, ParseError, Reth, aeth, cnp, deth, immediate, reth};
use core::fmt;
use rackweave_base::Rkey;
use zerocopy::byteorder::network_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The headers between BTH and payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extension {
    /// Nothing.
    None,
    /// The remote bytes.
    Reth(Reth),
    /// The remote bytes, then immediate data.
    RethImmediate(Reth, u32),
    /// Immediate data.
    Immediate(u32),
    /// The key to invalidate.
    Invalidate(Rkey),
    /// An acknowledgement.
    Aeth(Aeth),
    /// An atomic operation.
    AtomicEth(AtomicEth),
    /// An acknowledgement, then the word's value before the operation.
    AtomicAck(Aeth, u64),
    /// A datagram's sender.
    Deth(Deth),
    /// A datagram's sender, then immediate data.
    DethImmediate(Deth, u32),
    /// The reserved bytes of a congestion notification packet.
    Cnp,
}

/// The kind of headers between BTH and payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExtensionKind {
    /// [`Extension::None`].
    None,
    /// [`Extension::Reth`].
    Reth,
    /// [`Extension::RethImmediate`].
    RethImmediate,
    /// [`Extension::Immediate`].
    Immediate,
    /// [`Extension::Invalidate`].
    Invalidate,
    /// [`Extension::Aeth`].
    Aeth,
    /// [`Extension::AtomicEth`].
    AtomicEth,
    /// [`Extension::AtomicAck`].
    AtomicAck,
    /// [`Extension::Deth`].
    Deth,
    /// [`Extension::DethImmediate`].
    DethImmediate,
    /// [`Extension::Cnp`].
    Cnp,
}

/// Maximum bytes of an extension.
pub const LEN_MAX: usize = atomic::LEN;

impl ExtensionKind {
    /// Bytes of these headers, a multiple of four and at most [`LEN_MAX`].
    #[inline]
    pub const fn len(self) -> usize {
        match self {
            Self::None => 0,
            Self::Reth => reth::LEN,
            Self::RethImmediate => reth::LEN + immediate::LEN,
            Self::Immediate | Self::Invalidate => immediate::LEN,
            Self::Aeth => aeth::LEN,
            Self::AtomicEth => atomic::LEN,
            Self::AtomicAck => aeth::LEN + atomic::ACK_LEN,
            Self::Deth => deth::LEN,
            Self::DethImmediate => deth::LEN + immediate::LEN,
            Self::Cnp => cnp::LEN,
        }
    }

    /// Whether there are no headers.
    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }
}

impl Extension {
    /// The kind of these headers.
    #[inline]
    pub const fn kind(&self) -> ExtensionKind {
        match self {
            Self::None => ExtensionKind::None,
            Self::Reth(_) => ExtensionKind::Reth,
            Self::RethImmediate(..) => ExtensionKind::RethImmediate,
            Self::Immediate(_) => ExtensionKind::Immediate,
            Self::Invalidate(_) => ExtensionKind::Invalidate,
            Self::Aeth(_) => ExtensionKind::Aeth,
            Self::AtomicEth(_) => ExtensionKind::AtomicEth,
            Self::AtomicAck(..) => ExtensionKind::AtomicAck,
            Self::Deth(_) => ExtensionKind::Deth,
            Self::DethImmediate(..) => ExtensionKind::DethImmediate,
            Self::Cnp => ExtensionKind::Cnp,
        }
    }

    /// Checks the extension that `opcode` requires at the start of `bytes`; returns its length.
    #[inline(always)]
    pub(crate) fn check(opcode: Opcode, bytes: &[u8]) -> Result<usize, ParseError> {
        let kind = opcode.extension();
        if bytes.len() < kind.len() {
            return Err(ParseError::Truncated);
        }
        if matches!(kind, ExtensionKind::Aeth | ExtensionKind::AtomicAck) {
            Aeth::parse(layout_at(bytes, 0))?;
        }
        Ok(kind.len())
    }

    /// The extension that [`Self::check`] has accepted.
    #[inline]
    pub(crate) fn of(opcode: Opcode, bytes: &[u8]) -> Self {
        let aeth = || Aeth::parse(layout_at(bytes, 0)).expect("it is checked");
        match opcode.extension() {
            ExtensionKind::None => Self::None,
            ExtensionKind::Reth => Self::Reth(Reth::parse(layout_at(bytes, 0))),
            ExtensionKind::RethImmediate => Self::RethImmediate(
                Reth::parse(layout_at(bytes, 0)),
                immediate::parse(layout_at(bytes, reth::LEN)),
            ),
            ExtensionKind::Immediate => Self::Immediate(immediate::parse(layout_at(bytes, 0))),
            ExtensionKind::Invalidate => {
                Self::Invalidate(Rkey(immediate::parse(layout_at(bytes, 0))))
            }
            ExtensionKind::Aeth => Self::Aeth(aeth()),
            ExtensionKind::AtomicEth => Self::AtomicEth(AtomicEth::parse(layout_at(bytes, 0))),
            ExtensionKind::AtomicAck => {
                let ack: &atomic::AckLayout = layout_at(bytes, aeth::LEN);
                Self::AtomicAck(aeth(), ack.before.get())
            }
            ExtensionKind::Deth => Self::Deth(Deth::parse(layout_at(bytes, 0))),
            ExtensionKind::DethImmediate => Self::DethImmediate(
                Deth::parse(layout_at(bytes, 0)),
                immediate::parse(layout_at(bytes, deth::LEN)),
            ),
            ExtensionKind::Cnp => Self::Cnp,
        }
    }

    /// Writes the headers and returns their length. `bytes` must hold [`LEN_MAX`] bytes.
    #[inline]
    pub(crate) fn emit(&self, bytes: &mut [u8]) -> usize {
        match self {
            Self::None => 0,
            Self::Reth(reth) => put(bytes, 0, &reth.emit()),
            Self::RethImmediate(reth, value) => {
                let at = put(bytes, 0, &reth.emit());
                put(bytes, at, &immediate::emit(*value))
            }
            Self::Immediate(value) => put(bytes, 0, &immediate::emit(*value)),
            Self::Invalidate(rkey) => put(bytes, 0, &immediate::emit(rkey.0)),
            Self::Aeth(aeth) => put(bytes, 0, &aeth.emit()),
            Self::AtomicEth(atomic) => put(bytes, 0, &atomic.emit()),
            Self::AtomicAck(aeth, before) => {
                let at = put(bytes, 0, &aeth.emit());
                put(
                    bytes,
                    at,
                    &atomic::AckLayout {
                        before: U64::new(*before),
                    },
                )
            }
            Self::Deth(deth) => put(bytes, 0, &deth.emit()),
            Self::DethImmediate(deth, value) => {
                let at = put(bytes, 0, &deth.emit());
                put(bytes, at, &immediate::emit(*value))
            }
            Self::Cnp => put(bytes, 0, &[0_u8; cnp::LEN]),
        }
    }
}

/// The layout at `at`.
///
/// # Panics
/// If it is not all there: the length is checked.
#[inline]
fn layout_at<L: FromBytes + KnownLayout + Immutable + zerocopy::Unaligned>(
    bytes: &[u8],
    at: usize,
) -> &L {
    match L::ref_from_prefix(&bytes[at..]) {
        Ok((layout, _)) => layout,
        Err(_) => panic!("the length is checked"),
    }
}

/// Writes `layout` at `at` and returns the offset of its end.
#[inline]
fn put<L: IntoBytes + Immutable>(bytes: &mut [u8], at: usize, layout: &L) -> usize {
    let end = at + size_of::<L>();
    bytes[at..end].copy_from_slice(layout.as_bytes());
    end
}

impl fmt::Display for Extension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None | Self::Cnp => Ok(()),
            Self::Reth(reth) => write!(f, "{reth}"),
            Self::RethImmediate(reth, value) => write!(f, "{reth} immediate {value:#x}"),
            Self::Immediate(value) => write!(f, "immediate {value:#x}"),
            Self::Invalidate(rkey) => write!(f, "invalidate rkey {:#010x}", rkey.0),
            Self::Aeth(aeth) => write!(f, "{aeth}"),
            Self::AtomicEth(atomic) => write!(f, "{atomic}"),
            Self::Deth(deth) => write!(f, "{deth}"),
            Self::DethImmediate(deth, value) => write!(f, "{deth} immediate {value:#x}"),
            Self::AtomicAck(aeth, before) => write!(f, "{aeth} before {before:#x}"),
        }
    }
}
