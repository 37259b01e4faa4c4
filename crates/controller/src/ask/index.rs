//! Requests about the index in the network.

use crate::index::{IndexLoadError, PlanLimits};
use crate::{Controller, Site};
use rackweave_base::{Duration, NodeId, Qpn};
use rackweave_programs::index::entries::{IndexConfig, QueryEntry, ServerEntry};
use serde::{Deserialize, Serialize};
use std::net::Ipv4Addr;

/// The progress of a load.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum IndexLoading {
    /// Queries may be in flight in the bank for so long. It can be filled then.
    Wait(Duration),
    /// There is more to load.
    More,
    /// All switches have the complete plan.
    Done,
}

pub(super) fn set_server(
    controller: &mut Controller,
    site: &mut dyn Site,
    number: u16,
    node: NodeId,
    (address, node_shift): (u64, u8),
) -> Result<bool, IndexLoadError> {
    let Some(ip) = ip_of(site, node) else {
        return Ok(false);
    };
    let entry = ServerEntry {
        ip,
        address,
        node_shift,
    };
    let registry = controller.index_mut();
    registry.set_server(site, number, Some(entry))?;
    registry.set_udp_server(site, ip, Some(number))?;
    Ok(true)
}

pub(super) fn remove_server(
    controller: &mut Controller,
    site: &mut dyn Site,
    number: u16,
    node: NodeId,
) -> Result<(), IndexLoadError> {
    let registry = controller.index_mut();
    match ip_of(site, node) {
        Some(ip) if registry.is_at(number, ip) => registry.remove_server(site, number, ip),
        _ => Ok(()),
    }
}

pub(super) fn set_query(
    controller: &mut Controller,
    site: &mut dyn Site,
    (node, qpn): (NodeId, Qpn),
    entry: Option<QueryEntry>,
) -> Result<(), IndexLoadError> {
    let Some(ip) = ip_of(site, node) else {
        return Ok(());
    };
    let registry = controller.index_mut();
    match entry {
        Some(QueryEntry { server, .. }) if !registry.is_at(server, ip) => {
            Err(IndexLoadError::UnknownServer { server })
        }
        _ => registry.set_query(site, (ip, qpn), entry),
    }
}

fn ip_of(site: &dyn Site, node: NodeId) -> Option<Ipv4Addr> {
    let nodes = site.nodes();
    let place = nodes.iter().find(|(id, _)| *id == node);
    place.map(|(_, place)| place.ip)
}

/// The smallest capacity among the switches that hold a part of the index; `None` if none holds the
/// fat root.
pub(super) fn capacity_of(site: &mut dyn Site) -> Option<PlanLimits> {
    let mut configs: Vec<IndexConfig> = Vec::new();
    for at in 0..site.switches() {
        site.switch_at(at, &mut |_, switch| {
            configs.push(*switch.program().index.config());
        });
    }
    let here = || configs.iter().filter(|config| config.servers > 0);
    let ranges = here().map(|config| config.fat_ranges).filter(|&n| n > 0);
    let layers = here().filter(|config| config.layers > 0);
    let ends = layers.clone().map(|c| c.first_layer + c.layers - 1);
    Some(PlanLimits {
        ranges: ranges.min()?.into(),
        nodes_per_layer: layers.map(|c| c.nodes).min().unwrap_or(0).into(),
        layers: ends.max().unwrap_or(0).into(),
    })
}
