//! Headers that are the same in many packets but for a few fields.

use super::view::FIXED_LEN;
use super::{CHECK_LEN, Headers, pad_len, write_with};
use crate::{Extension, Opcode, bth, ethernet, ipv4, udp, words};
use rackweave_base::packet::{HEADER_MAX, PAYLOAD_MAX};
use rackweave_base::{Packet, Psn};

/// Pairs of [`words`] from the IPv4 header to the end of the BTH.
const PAIRS: usize = FIXED_LEN / 8;
const _: () = assert!(PAIRS == 5 && FIXED_LEN.is_multiple_of(8));

const ETHERNET_MAX: usize = ethernet::LEN + ethernet::VLAN_LEN;

/// The headers of the packets of a connection, written once. A packet gets a copy of them with its
/// own [`PacketFields`], lengths and IPv4 checksum.
#[derive(Clone, Debug)]
pub struct Template {
    ethernet: [u8; ETHERNET_MAX],
    /// Bytes of the Ethernet header.
    at: usize,
    pairs: [u64; PAIRS],
    /// The sum of the IPv4 words.
    sum: u64,
}

/// The fields in which packets of the same [`Template`] differ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PacketFields {
    /// The operation.
    pub opcode: Opcode,
    /// Packet sequence number.
    pub psn: Psn,
    /// Whether the receiver shall acknowledge the packet.
    pub ack_request: bool,
    /// Whether the receiver shall raise an event.
    pub solicited: bool,
    /// The IPv4 identification.
    pub identification: u16,
    /// The extension that the opcode requires.
    pub extension: Extension,
}

impl Template {
    /// A template of `headers`, whose [`Headers::fields`] do not matter.
    pub fn new(headers: &Headers) -> Self {
        let mut ethernet = [0; ETHERNET_MAX];
        let at = headers.ethernet.emit(&mut ethernet);
        let (pairs, sum) = pairs(headers);
        Self {
            ethernet,
            at,
            pairs,
            sum,
        }
    }

    /// As [`Headers::write_to`].
    ///
    /// # Panics
    /// As [`Headers::emit`].
    #[inline]
    pub fn write_to(&self, fields: &PacketFields, packet: &mut Packet) {
        write_with(packet, |bytes, payload_len| {
            // The next header overwrites what is behind a header without a tag.
            bytes[..ETHERNET_MAX].copy_from_slice(&self.ethernet);
            emit(&self.pairs, self.sum, fields, self.at, bytes, payload_len)
        });
    }
}

/// The headers without [`PacketFields`] and lengths, and the sum of those of IPv4.
#[inline(always)]
pub(super) fn pairs(headers: &Headers) -> ([u64; PAIRS], u64) {
    let ip = headers.ipv4.words();
    let [udp0, udp1] = headers.udp.emit(0);
    let [bth0, bth1, bth2] = headers.bth.words();
    let pairs = [
        words::join(ip[0], ip[1]),
        words::join(ip[2], ip[3]),
        words::join(ip[4], udp0),
        words::join(udp1, bth0),
        words::join(bth1, bth2),
    ];
    (pairs, ipv4::sum_of(ip))
}

/// Writes the headers from byte `at` on; returns the length of all headers.
#[inline(always)]
pub(super) fn emit(
    fixed: &[u64; PAIRS],
    sum: u64,
    fields: &PacketFields,
    at: usize,
    bytes: &mut [u8; HEADER_MAX],
    payload_len: usize,
) -> usize {
    assert!(
        payload_len <= PAYLOAD_MAX,
        "a payload of {payload_len} bytes"
    );
    let kind = fields.extension.kind();
    assert!(
        kind == fields.opcode.extension(),
        "{kind:?} behind {}",
        fields.opcode
    );
    let pad_len = pad_len(payload_len);
    let udp_len = udp::LEN + bth::LEN + kind.len() + payload_len + pad_len + CHECK_LEN;
    let total_len = words::pair(0, (ipv4::LEN + udp_len) as u16);
    let identification = words::pair(fields.identification, 0);
    let checksum = ipv4::checksum(sum + u64::from(total_len) + u64::from(identification));
    let opcode = bth::opcode_word(fields.opcode, fields.solicited, pad_len);
    let psn = bth::psn_word(fields.psn, fields.ack_request);
    let udp_len = words::pair(udp_len as u16, 0);
    let pairs = [
        fixed[0] | words::join(total_len, identification),
        fixed[1] | words::join(checksum, 0),
        fixed[2],
        fixed[3] | words::join(udp_len, opcode),
        fixed[4] | words::join(0, psn),
    ];
    words::write(pairs, &mut bytes[at..]);
    let end = at + FIXED_LEN;
    match fields.extension {
        Extension::None => end,
        extension => end + extension.emit(&mut bytes[end..]),
    }
}
