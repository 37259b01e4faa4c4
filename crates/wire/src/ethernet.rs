//! The Ethernet header, with or without one VLAN tag (IEEE 802.3 3.1.1, IEEE 802.1Q 9.6).

use core::fmt;
use rackweave_base::MacAddr;
use zerocopy::byteorder::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The Ethernet type of IPv4.
pub const ETHERTYPE_IPV4: u16 = 0x0800;
/// The Ethernet type of a VLAN tag.
pub const ETHERTYPE_VLAN: u16 = 0x8100;
/// Bytes of the header without a VLAN tag.
pub const LEN: usize = 14;
/// Bytes of a VLAN tag.
pub const VLAN_LEN: usize = 4;

/// The Ethernet header of a RoCEv2 packet; its Ethernet type is that of IPv4.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ethernet {
    /// The target address.
    pub target: MacAddr,
    /// The source address.
    pub source: MacAddr,
    /// The VLAN tag, if there is one.
    pub vlan: Option<Vlan>,
}

/// A VLAN tag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Vlan {
    /// Priority code point, 3 bits.
    pub priority: u8,
    /// Drop eligible indicator.
    pub drop_eligible: bool,
    /// VLAN identifier, 12 bits.
    pub id: u16,
}

/// The Ethernet header of any packet, for plain forwarding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EthernetView {
    /// The target address.
    pub target: MacAddr,
    /// The source address.
    pub source: MacAddr,
    /// The VLAN tag, if there is one.
    pub vlan: Option<Vlan>,
    /// The Ethernet type of the payload, after the VLAN tag if there is one.
    pub ethertype: u16,
    /// Bytes of the header, including the VLAN tag.
    pub len: usize,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Layout {
    target: [u8; 6],
    source: [u8; 6],
    ethertype: U16,
}
const _: () = assert!(size_of::<Layout>() == LEN);

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct TagLayout {
    control: U16,
    ethertype: U16,
}
const _: () = assert!(size_of::<TagLayout>() == VLAN_LEN);

/// The target address only: a switch needs no more to decide whether a packet is for itself.
#[inline]
pub fn target(bytes: &[u8]) -> Option<MacAddr> {
    bytes.first_chunk().map(|&mac| MacAddr(mac))
}

/// Parses the Ethernet header of any packet; `None` if the bytes end within it.
#[inline]
pub fn parse(bytes: &[u8]) -> Option<EthernetView> {
    let raw = Raw::of(bytes)?;
    let Ethernet {
        target,
        source,
        vlan,
    } = raw.header();
    Some(EthernetView {
        target,
        source,
        vlan,
        ethertype: raw.ethertype(),
        len: raw.len(),
    })
}

/// The bytes of an Ethernet header, from which fields are decoded when they are needed.
#[derive(Clone, Copy)]
pub(crate) struct Raw<'a> {
    layout: &'a Layout,
    tag: Option<&'a TagLayout>,
}

impl<'a> Raw<'a> {
    /// The header at the start of the bytes; `None` if they end within it.
    #[inline]
    pub(crate) fn of(bytes: &'a [u8]) -> Option<Self> {
        let (layout, rest) = Layout::ref_from_prefix(bytes).ok()?;
        let tag = match layout.ethertype.get() {
            ETHERTYPE_VLAN => Some(TagLayout::ref_from_prefix(rest).ok()?.0),
            _ => None,
        };
        Some(Self { layout, tag })
    }

    /// The Ethernet type of the payload.
    #[inline]
    pub(crate) fn ethertype(self) -> u16 {
        let last = self.tag.map_or(self.layout.ethertype, |tag| tag.ethertype);
        last.get()
    }

    /// Bytes of the header, including the VLAN tag.
    #[inline]
    pub(crate) fn len(self) -> usize {
        LEN + if self.tag.is_some() { VLAN_LEN } else { 0 }
    }

    /// Its fields.
    #[inline]
    pub(crate) fn header(self) -> Ethernet {
        Ethernet {
            target: MacAddr(self.layout.target),
            source: MacAddr(self.layout.source),
            vlan: self.tag.map(|tag| Vlan::parse(tag.control.get())),
        }
    }
}

/// Number of bytes before the IP header, according to the Ethernet type alone. Defined for any
/// bytes.
#[inline]
pub(crate) fn header_len(bytes: &[u8]) -> usize {
    if bytes.get(12..14) == Some(&ETHERTYPE_VLAN.to_be_bytes()) {
        LEN + VLAN_LEN
    } else {
        LEN
    }
}

impl Ethernet {
    /// A header without VLAN tag.
    pub const fn new(source: MacAddr, target: MacAddr) -> Self {
        Self {
            target,
            source,
            vlan: None,
        }
    }

    /// Bytes of the header, including the VLAN tag.
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "a header is never empty")]
    pub const fn len(&self) -> usize {
        if self.vlan.is_some() {
            LEN + VLAN_LEN
        } else {
            LEN
        }
    }

    /// Writes the header and returns its length. `bytes` must hold 18 bytes.
    #[inline]
    pub(crate) fn emit(&self, bytes: &mut [u8]) -> usize {
        let ethertype = if self.vlan.is_some() {
            ETHERTYPE_VLAN
        } else {
            ETHERTYPE_IPV4
        };
        bytes[..6].copy_from_slice(&self.target.0);
        bytes[6..12].copy_from_slice(&self.source.0);
        bytes[12..LEN].copy_from_slice(&ethertype.to_be_bytes());
        let Some(vlan) = self.vlan else { return LEN };
        let tag = TagLayout {
            control: U16::new(vlan.emit()),
            ethertype: U16::new(ETHERTYPE_IPV4),
        };
        bytes[LEN..LEN + VLAN_LEN].copy_from_slice(tag.as_bytes());
        LEN + VLAN_LEN
    }
}

impl Vlan {
    fn parse(control: u16) -> Self {
        Self {
            priority: (control >> 13) as u8,
            drop_eligible: control & 0x1000 != 0,
            id: control & 0x0fff,
        }
    }

    fn emit(self) -> u16 {
        u16::from(self.priority & 7) << 13
            | u16::from(self.drop_eligible) << 12
            | (self.id & 0x0fff)
    }
}

impl fmt::Display for Ethernet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} > {}", self.source, self.target)?;
        match self.vlan {
            Some(vlan) => write!(f, " vlan {}", vlan.id),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAGGED: [u8; 18] = [
        0x52, 0x54, 0, 0, 0, 2, 0x52, 0x54, 0, 0, 0, 1, 0x81, 0x00, 0xb0, 0x64, 0x08, 0x00,
    ];

    #[test]
    fn a_tagged_header_goes_both_ways() {
        let view = parse(&TAGGED).unwrap();
        assert_eq!(
            view.vlan,
            Some(Vlan {
                priority: 5,
                drop_eligible: true,
                id: 100
            })
        );
        assert_eq!((view.ethertype, view.len), (ETHERTYPE_IPV4, 18));
        let header = Ethernet {
            target: view.target,
            source: view.source,
            vlan: view.vlan,
        };
        assert_eq!(
            header.to_string(),
            "52:54:00:00:00:01 > 52:54:00:00:00:02 vlan 100"
        );
        let mut bytes = [0; 20];
        assert_eq!(header.emit(&mut bytes), 18);
        assert_eq!(bytes[..18], TAGGED);
        assert_eq!(header_len(&TAGGED), 18);
    }

    #[test]
    fn any_ethernet_type_is_viewed() {
        let mut arp = TAGGED;
        arp[12..14].copy_from_slice(&[0x08, 0x06]);
        let view = parse(&arp[..14]).unwrap();
        assert_eq!((view.vlan, view.ethertype, view.len), (None, 0x0806, 14));
        assert_eq!(header_len(&arp), 14);
    }

    #[test]
    fn short_bytes_are_nothing() {
        assert!((0..18).all(|len| parse(&TAGGED[..len]).is_none()));
    }
}
