//! Requests about the index in the network.

use crate::index::{IndexLoadError, PlanLimits};
use crate::{Controller, Site};
use rackweave_base::{Duration, NodeId};
use rackweave_programs::index::entries::{IndexConfig, ServerEntry};
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
) -> Result<Option<Ipv4Addr>, IndexLoadError> {
    let nodes = site.nodes();
    let Some((_, place)) = nodes.iter().find(|(id, _)| *id == node) else {
        return Ok(None);
    };
    let entry = ServerEntry {
        ip: place.ip,
        address,
        node_shift,
    };
    let registry = controller.index_mut();
    registry.set_server(site, number, Some(entry))?;
    registry.set_udp_server(site, place.ip, Some(number))?;
    Ok(Some(place.ip))
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
