//! Which waiting connection is closed when there are too many.

use std::net::IpAddr;

/// The index of the oldest entry of the address that has most entries. `addresses` are in the order
/// of arrival. An honest peer is done within milliseconds, so it is unlikely to be the oldest.
pub fn oldest_of_most(addresses: &[IpAddr]) -> Option<usize> {
    let count = |ip: &IpAddr| addresses.iter().filter(|&other| other == ip).count();
    let most = addresses.iter().map(count).max()?;
    addresses.iter().position(|ip| count(ip) == most)
}
