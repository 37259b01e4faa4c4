//! How RDMA CM names services: IP addresses and ports (annex A11).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The service identifiers of RDMA CM: the protocol and the port are the last three bytes.
const SERVICE_PREFIX: u64 = 0x0000_0000_0100_0000;
/// The IP protocol number of TCP, whose ports RDMA CM uses.
const PROTOCOL_TCP: u64 = 6;

/// The service at a port (A11.4.2).
pub const fn service_id(port: u16) -> u64 {
    SERVICE_PREFIX | PROTOCOL_TCP << 16 | port as u64
}

/// The port of a service, if it has one.
pub const fn service_port(service_id: u64) -> Option<u16> {
    let port = service_id as u16;
    if self::service_id(port) == service_id {
        Some(port)
    } else {
        None
    }
}

/// The GID of an address: the IPv4-mapped IPv6 address, or the IPv6 address itself (A17.6.2).
pub const fn gid(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

/// The address of a GID.
pub const fn gid_address(gid: [u8; 16]) -> IpAddr {
    Ipv6Addr::from_bits(u128::from_be_bytes(gid)).to_canonical()
}

/// What RDMA CM puts in front of the private data of a request (A11.4.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IpAddresses {
    /// The sender's port.
    pub source_port: u16,
    /// The sender's address.
    pub source: IpAddr,
    /// The receiver's address; of the same version.
    pub target: IpAddr,
}

/// Bytes of the addresses.
const LEN: usize = 36;

impl IpAddresses {
    /// Bytes that they take of the private data.
    pub const LEN: usize = LEN;

    /// Parses the front of a request's private data. Returns `None` if there are no addresses.
    pub fn parse(private: &[u8]) -> Option<Self> {
        let bytes: &[u8; LEN] = private.first_chunk()?;
        // Version 0.0 of the format; the version of IP is the upper half of the second byte.
        if bytes[0] != 0 {
            return None;
        }
        let address = |at: usize| -> Option<IpAddr> {
            let all: [u8; 16] = *bytes[at..].first_chunk()?;
            match bytes[1] >> 4 {
                4 => Some(Ipv4Addr::from(*all.last_chunk::<4>()?).into()),
                6 => Some(Ipv6Addr::from(all).into()),
                _ => None,
            }
        };
        Some(Self {
            source_port: u16::from_be_bytes([bytes[2], bytes[3]]),
            source: address(4)?,
            target: address(20)?,
        })
    }

    /// The bytes in front of the private data.
    ///
    /// # Panics
    /// If the addresses are of different versions.
    pub fn emit(&self) -> [u8; LEN] {
        let version = |address: IpAddr| if address.is_ipv4() { 4 } else { 6 };
        assert_eq!(version(self.source), version(self.target), "one version");
        let mut bytes = [0; LEN];
        bytes[1] = version(self.source) << 4;
        bytes[2..4].copy_from_slice(&self.source_port.to_be_bytes());
        for (at, address) in [(4, self.source), (20, self.target)] {
            match address {
                IpAddr::V4(v4) => bytes[at + 12..at + 16].copy_from_slice(&v4.octets()),
                IpAddr::V6(v6) => bytes[at..at + 16].copy_from_slice(&v6.octets()),
            }
        }
        bytes
    }
}
