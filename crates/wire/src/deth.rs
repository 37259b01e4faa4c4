//! The datagram extended transport header (InfiniBand specification 1.4, 9.3.2).

use core::fmt;
use rackweave_base::Qpn;
use zerocopy::byteorder::network_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of the header.
pub const LEN: usize = 8;

/// The Q_Key of queue pair 1, the general services interface (10.2.4).
pub const QKEY_MANAGEMENT: u32 = 0x8001_0000;

/// The sender of a datagram, and the key that its receiver requires.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Deth {
    /// The key: a datagram with another one is dropped.
    pub qkey: u32,
    /// The queue pair that sent it, to which an answer goes.
    pub source_qp: Qpn,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct Layout {
    qkey: U32,
    /// 8 bits reserved, queue pair.
    source_qp: U32,
}
const _: () = assert!(size_of::<Layout>() == LEN);

impl Deth {
    #[inline]
    pub(crate) fn parse(layout: &Layout) -> Self {
        Self {
            qkey: layout.qkey.get(),
            source_qp: Qpn(layout.source_qp.get() & 0x00ff_ffff),
        }
    }

    #[inline]
    pub(crate) fn emit(&self) -> Layout {
        Layout {
            qkey: U32::new(self.qkey),
            source_qp: U32::new(self.source_qp.0 & 0x00ff_ffff),
        }
    }
}

impl fmt::Display for Deth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "from qp {} qkey {:#010x}", self.source_qp, self.qkey)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_goes_both_ways() {
        // Of a message of the connection manager.
        let bytes: [u8; LEN] = [0x80, 0x01, 0, 0, 0, 0, 0, 1];
        let header = Deth::parse(&zerocopy::transmute!(bytes));
        assert_eq!(
            header,
            Deth {
                qkey: QKEY_MANAGEMENT,
                source_qp: Qpn(1)
            }
        );
        assert_eq!(header.emit().as_bytes(), bytes);
        assert_eq!(header.to_string(), "from qp 0x1 qkey 0x80010000");
    }
}
