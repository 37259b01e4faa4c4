//! Who has to go where too many wait.

use std::net::IpAddr;

/// The first of the address that has most, by its place among `addresses`, which are in the order
/// of their coming. Whoever means to come in takes milliseconds over it, so it is hardly he who has
/// waited longest.
pub fn oldest_of_most(addresses: &[IpAddr]) -> Option<usize> {
    let count = |ip: &IpAddr| addresses.iter().filter(|&other| other == ip).count();
    let most = addresses.iter().map(count).max()?;
    addresses.iter().position(|ip| count(ip) == most)
}
