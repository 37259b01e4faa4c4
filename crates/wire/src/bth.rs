//! The base transport header (InfiniBand specification 1.4, 9.2).
//!
//! FECN and BECN are the two top bits of byte 4, as in RoCEv2 (annex A17.3.1.3).

use crate::{Opcode, ParseError, words};
use core::fmt;
use rackweave_base::{Psn, Qpn};
use zerocopy::byteorder::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of the header.
pub const LEN: usize = 12;
/// The default partition key, full member: every packet has it where no partitions are used.
pub const PKEY_DEFAULT: u16 = 0xffff;

const LOW_24: u32 = 0x00ff_ffff;

/// The base transport header. The pad count is derived from the payload when it is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bth {
    /// The operation of the packet.
    pub opcode: Opcode,
    /// The receiver should raise an event.
    pub solicited: bool,
    /// The migration state bit; RoCE gives it no meaning.
    pub migrated: bool,
    /// Partition key.
    pub pkey: u16,
    /// Forward congestion notification.
    pub fecn: bool,
    /// Backward congestion notification, set in a CNP.
    pub becn: bool,
    /// The queue pair that the packet is for.
    pub target_qp: Qpn,
    /// The responder must acknowledge this packet.
    pub ack_request: bool,
    /// Packet sequence number.
    pub psn: Psn,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct Layout {
    opcode: u8,
    /// Solicited event, migration state, pad count (2 bits), header version (4 bits).
    flags: u8,
    pkey: U16,
    /// FECN, BECN, 6 bits reserved, queue pair.
    congestion_and_qp: U32,
    /// Acknowledge request, 7 bits reserved, PSN.
    ack_and_psn: U32,
}
const _: () = assert!(size_of::<Layout>() == LEN);

impl Bth {
    /// A header with the default partition key and no flags set.
    pub const fn new(opcode: Opcode, target_qp: Qpn, psn: Psn) -> Self {
        Self {
            opcode,
            solicited: false,
            migrated: false,
            pkey: PKEY_DEFAULT,
            fecn: false,
            becn: false,
            target_qp,
            ack_request: false,
            psn,
        }
    }

    /// Checks a header; returns the opcode and the pad count in bytes.
    #[inline]
    pub(crate) fn check(layout: &Layout) -> Result<(Opcode, usize), ParseError> {
        let version = layout.flags & 0x0f;
        if version != 0 {
            return Err(ParseError::BadVersion(version));
        }
        let Some(opcode) = Opcode::from_u8(layout.opcode) else {
            return Err(ParseError::UnknownOpcode(layout.opcode));
        };
        Ok((opcode, usize::from(layout.flags >> 4 & 3)))
    }

    /// The contents of a header that [`Self::check`] has accepted, with the opcode that it
    /// returned.
    #[inline]
    pub(crate) fn of(layout: &Layout, opcode: Opcode) -> Self {
        let congestion_and_qp = layout.congestion_and_qp.get();
        let ack_and_psn = layout.ack_and_psn.get();
        Self {
            opcode,
            solicited: layout.flags & 0x80 != 0,
            migrated: layout.flags & 0x40 != 0,
            pkey: layout.pkey.get(),
            fecn: congestion_and_qp & 1 << 31 != 0,
            becn: congestion_and_qp & 1 << 30 != 0,
            target_qp: Qpn(congestion_and_qp & LOW_24),
            ack_request: ack_and_psn & 1 << 31 != 0,
            psn: Psn::new(ack_and_psn),
        }
    }

    /// The header without opcode, PSN and what is sent with them, as [`words`].
    #[inline]
    pub(crate) fn words(&self) -> [u32; LEN / 4] {
        let congestion = u32::from(self.fecn) << 31 | u32::from(self.becn) << 30;
        [
            words::pair(u16::from(self.migrated) << 6, self.pkey),
            (congestion | (self.target_qp.0 & LOW_24)).swap_bytes(),
            0,
        ]
    }
}

/// What an opcode adds to the first word of a header.
#[inline]
pub(crate) fn opcode_word(opcode: Opcode, solicited: bool, pad_len: usize) -> u32 {
    let flags = u8::from(solicited) << 7 | (pad_len as u8) << 4;
    words::pair(u16::from_be_bytes([opcode as u8, flags]), 0)
}

/// The last word of a header.
#[inline]
pub(crate) fn psn_word(psn: Psn, ack_request: bool) -> u32 {
    (u32::from(ack_request) << 31 | psn.get()).swap_bytes()
}

impl fmt::Display for Bth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} qp {} psn {}", self.opcode, self.target_qp, self.psn)?;
        let flags = [
            (self.solicited, " solicited"),
            (self.fecn, " fecn"),
            (self.becn, " becn"),
            (self.ack_request, " ack-request"),
        ];
        flags
            .into_iter()
            .filter(|(set, _)| *set)
            .try_for_each(|(_, name)| f.write_str(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn emitted(header: &Bth, pad_len: usize) -> [u8; LEN] {
        let [first, second, third] = header.words();
        let words = [
            first | opcode_word(header.opcode, header.solicited, pad_len),
            second,
            third | psn_word(header.psn, header.ack_request),
        ];
        zerocopy::transmute!(words::bytes(words))
    }

    fn check(bytes: [u8; LEN], header: Bth, pad_len: usize, display: &str) {
        let layout = zerocopy::transmute!(bytes);
        assert_eq!(Bth::check(&layout), Ok((header.opcode, pad_len)));
        assert_eq!(Bth::of(&layout, header.opcode), header);
        assert_eq!(emitted(&header, pad_len), bytes);
        assert_eq!(header.to_string(), display);
    }

    #[test]
    fn captured_headers_go_both_ways() {
        // The last packet of a SEND with three pad bytes (Linux rdma_rxe).
        let last = Bth {
            ack_request: true,
            ..Bth::new(Opcode::SendLast, Qpn(0x11), Psn::new(0x60_2020))
        };
        check(
            [
                0x02, 0x30, 0xff, 0xff, 0x00, 0x00, 0x00, 0x11, 0x80, 0x60, 0x20, 0x20,
            ],
            last,
            3,
            "SEND_LAST qp 0x11 psn 6299680 ack-request",
        );
        let ack = Bth::new(Opcode::Acknowledge, Qpn(0x19), Psn::new(0xf5_f1c7));
        check(
            [
                0x11, 0x00, 0xff, 0xff, 0x00, 0x00, 0x00, 0x19, 0x00, 0xf5, 0xf1, 0xc7,
            ],
            ack,
            0,
            "ACKNOWLEDGE qp 0x19 psn 16118215",
        );
    }

    #[test]
    fn every_flag_has_its_bit() {
        let all = Bth {
            solicited: true,
            migrated: true,
            pkey: 0x8001,
            fecn: true,
            becn: true,
            ..Bth::new(Opcode::SendOnly, Qpn(0xab_cdef), Psn::new(0x12_3456))
        };
        check(
            [
                0x04, 0xc0, 0x80, 0x01, 0xc0, 0xab, 0xcd, 0xef, 0x00, 0x12, 0x34, 0x56,
            ],
            all,
            0,
            "SEND_ONLY qp 0xabcdef psn 1193046 solicited fecn becn",
        );
    }

    #[test]
    fn reserved_values_are_refused() {
        let check = |opcode, flags| {
            let header = Bth::new(Opcode::SendOnly, Qpn(1), Psn::new(0));
            let mut layout: Layout = zerocopy::transmute!(emitted(&header, 0));
            (layout.opcode, layout.flags) = (opcode, flags);
            Bth::check(&layout)
        };
        assert_eq!(check(0x04, 0x01).unwrap_err(), ParseError::BadVersion(1));
        assert_eq!(
            check(0x15, 0x00).unwrap_err(),
            ParseError::UnknownOpcode(0x15)
        );
        assert_eq!(
            check(0x63, 0x00).unwrap_err(),
            ParseError::UnknownOpcode(0x63)
        );
    }
}
