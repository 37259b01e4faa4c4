//! Tells counters of drops from others.

use super::Counters;
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// All counters of a NIC that has dropped no malformed packets.
static NIC_NAMES: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| {
    let counters = rackweave_nic::Counters::default();
    counters.iter().map(|(name, _)| name).collect()
});

/// Whether a counter of a switch, or one of a NIC's for well-formed packets, counts drops.
pub(super) fn is_drop(name: &str) -> bool {
    name.starts_with("drop_")
}

/// A NIC's drops, and all other counters. Malformed packets are counted by their defect.
pub(super) fn split_nic(counters: Counters) -> (Counters, Counters) {
    let is_drop = |name: &str| is_drop(name) || !NIC_NAMES.contains(name);
    counters.into_iter().partition(|(name, _)| is_drop(name))
}
