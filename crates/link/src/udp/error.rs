//! Errors of a hub or a peer.

use super::MTU_MAX;
use crate::MTU_MIN;
use rackweave_wire::vxlan::VNI_SPACE;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;

/// Why a hub or one of its ports could not be created.
#[derive(Debug, thiserror::Error)]
pub enum UdpError {
    /// The network identifier has more than 24 bits.
    #[error(
        "the VXLAN network identifier {vni} has more than 24 bits; choose one below {VNI_SPACE}"
    )]
    BadVni {
        /// The requested identifier.
        vni: u32,
    },
    /// The MTU is too small for any RDMA MTU, or larger than a datagram.
    #[error("an MTU of {mtu} bytes does not work over UDP; choose {MTU_MIN} to {MTU_MAX}")]
    BadMtu {
        /// The requested MTU.
        mtu: usize,
    },
    /// The system refused the address.
    #[error("cannot bind UDP {address}: {source}; {}", hint(source))]
    Bind {
        /// The address.
        address: SocketAddr,
        /// The error of the system.
        source: io::Error,
    },
    /// The address is not that of a single machine, or has no port.
    #[error("{peer} can be no peer; name the address and UDP port of one machine")]
    BadPeer {
        /// The address.
        peer: SocketAddr,
    },
    /// An IPv4 socket cannot reach an IPv6 address.
    #[error(
        "{peer} cannot be reached from a socket bound to {local}; bind it to an IPv6 address, \
         `[::]` for both kinds"
    )]
    OtherFamily {
        /// The peer.
        peer: SocketAddr,
        /// The address that the socket is bound to.
        local: SocketAddr,
    },
    /// The peer has a port already.
    #[error(
        "there is a port for {peer} already; each node needs an address and UDP port of its own"
    )]
    PeerTaken {
        /// The peer.
        peer: SocketAddr,
    },
    /// The path MTU to the peer is too small.
    #[error(
        "the way to {peer} carries packets of {path} bytes, too few for RDMA in VXLAN; raise the \
         MTU of the interface to {needed} or more"
    )]
    PathMtu {
        /// The peer.
        peer: SocketAddr,
        /// The path MTU in bytes.
        path: usize,
        /// The minimum path MTU.
        needed: usize,
    },
}

fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::AddrInUse => {
            "stop the process that has it (`ss -ulpn` names it) or choose another port"
        }
        ErrorKind::AddrNotAvailable => "no interface has this address (`ip address` lists them)",
        ErrorKind::PermissionDenied => "ports below 1024 take privileges; choose a higher one",
        _ => "check the address",
    }
}
