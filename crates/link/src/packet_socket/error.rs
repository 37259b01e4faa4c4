//! Errors of an interface, with hints.

use super::system::Interface;
use crate::MTU_MIN;
use std::io::{self, ErrorKind};

/// Why an interface could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum PacketSocketError {
    /// No interface has this name.
    #[error("there is no network interface `{name}`; there are {known}")]
    NoSuchInterface {
        /// The requested name.
        name: String,
        /// The existing names, the most similar first.
        known: String,
    },
    /// The process lacks the permission.
    #[error(
        "no permission to open the interface `{name}`; run as root or with CAP_NET_RAW: \
         `setcap cap_net_raw+ep` on the program, as root"
    )]
    NotPermitted {
        /// The interface.
        name: String,
    },
    /// The interface is down.
    #[error("the interface `{name}` is down; `ip link set {name} up` starts it")]
    Down {
        /// The interface.
        name: String,
    },
    /// Its packets are not Ethernet packets.
    #[error("the interface `{name}` is no Ethernet; choose one that `ip link` calls link/ether")]
    NotEthernet {
        /// The interface.
        name: String,
    },
    /// The MTU is too small even for the smallest RDMA MTU.
    #[error(
        "the interface `{name}` has an MTU of {mtu} bytes, and RDMA packets take at least \
         {MTU_MIN}; `ip link set {name} mtu 4200` makes room for the largest"
    )]
    MtuTooSmall {
        /// The interface.
        name: String,
        /// Its MTU in bytes.
        mtu: usize,
    },
    /// The system refused.
    #[error("cannot open the interface `{name}`: {source}; `ip link show {name}` tells its state")]
    System {
        /// The interface.
        name: String,
        /// The error of the system.
        source: io::Error,
    },
}

/// Why an interface was not found among the `known` ones.
pub(super) fn not_found(name: &str, source: io::Error, known: &[String]) -> PacketSocketError {
    let name = name.to_owned();
    // ENODEV; a name that no interface can have also counts as not found.
    if !matches!(source.raw_os_error(), Some(libc::ENODEV | libc::EINVAL)) {
        return PacketSocketError::System { name, source };
    }
    let mut known: Vec<&str> = known.iter().map(String::as_str).collect();
    let common = |other: &str| {
        name.bytes()
            .zip(other.bytes())
            .take_while(|(a, b)| a == b)
            .count()
    };
    known.sort_by_key(|other| (core::cmp::Reverse(common(other)), *other));
    let known = match known.is_empty() {
        true => "none".to_owned(),
        false => known.join(", "),
    };
    PacketSocketError::NoSuchInterface { name, known }
}

/// Why the system did not open an interface.
pub(super) fn not_opened(name: &str, source: io::Error) -> PacketSocketError {
    let name = name.to_owned();
    match source.kind() {
        ErrorKind::PermissionDenied => PacketSocketError::NotPermitted { name },
        ErrorKind::NetworkDown => PacketSocketError::Down { name },
        _ => PacketSocketError::System { name, source },
    }
}

/// Checks that an interface can be used for a link.
pub(super) fn check(name: &str, interface: &Interface) -> Result<(), PacketSocketError> {
    let name = name.to_owned();
    if !interface.is_ethernet {
        return Err(PacketSocketError::NotEthernet { name });
    }
    if !interface.is_up {
        return Err(PacketSocketError::Down { name });
    }
    if crate::rdma_mtu(interface.mtu).is_none() {
        let mtu = interface.mtu;
        return Err(PacketSocketError::MtuTooSmall { name, mtu });
    }
    Ok(())
}
