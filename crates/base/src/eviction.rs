//! Selects the pending connection to close if there are too many.

use std::net::IpAddr;

/// The index of the oldest entry of the address with the most entries. `addresses` are in the order
/// of arrival. An honest peer finishes within milliseconds, so it is unlikely to be the oldest.
pub fn oldest_of_most(addresses: &[IpAddr]) -> Option<usize> {
    let count = |ip: &IpAddr| addresses.iter().filter(|&other| other == ip).count();
    let most = addresses.iter().map(count).max()?;
    addresses.iter().position(|ip| count(ip) == most)
}
