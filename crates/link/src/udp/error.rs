//! What can be wrong with a hub or a peer.

use super::MTU_MAX;
use crate::MTU_MIN;
use rackweave_wire::vxlan::VNI_SPACE;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;

/// Why a hub or one of its ports could not be made.
#[derive(Debug, thiserror::Error)]
pub enum UdpError {
    /// The network identifier has more than 24 bits.
    #[error(
        "the VXLAN network identifier {vni} has more than 24 bits; choose one below {VNI_SPACE}"
    )]
    BadVni {
        /// What was asked for.
        vni: u32,
    },
    /// The MTU carries no RDMA MTU, or is more than a datagram holds.
    #[error("an MTU of {mtu} bytes does not work over UDP; choose {MTU_MIN} to {MTU_MAX}")]
    BadMtu {
        /// What was asked for.
        mtu: usize,
    },
    /// The system refused the address.
    #[error("cannot bind UDP {address}: {source}; {}", hint(source))]
    Bind {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The address is not that of one machine, or has no port.
    #[error("{peer} can be no peer; name the address and UDP port of one machine")]
    BadPeer {
        /// The address.
        peer: SocketAddr,
    },
    /// A socket of IPv4 reaches no IPv6 address.
    #[error(
        "{peer} cannot be reached from a socket bound to {local}; bind it to an IPv6 address, \
         `[::]` for both kinds"
    )]
    OtherFamily {
        /// The peer.
        peer: SocketAddr,
        /// What the socket is bound to.
        local: SocketAddr,
    },
    /// There is a port for the peer already.
    #[error(
        "there is a port for {peer} already; each node needs an address and UDP port of its own"
    )]
    PeerTaken {
        /// The peer.
        peer: SocketAddr,
    },
    /// The way to the peer is too narrow.
    #[error(
        "the way to {peer} carries packets of {path} bytes, too few for RDMA in VXLAN; raise the \
         MTU of the interface to {needed} or more"
    )]
    PathMtu {
        /// The peer.
        peer: SocketAddr,
        /// The MTU of the way in bytes.
        path: usize,
        /// The least that works.
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
