//! The switches of a rack, the attachment of its nodes, and the part of an index that each switch
//! can hold, with the resources of that part.

use super::{programs_use, switch_use};
use crate::report::joined;
use crate::switch_shape;
use rackweave_programs::index::Index;
use rackweave_rack::{ConfigError, RackConfig, switch_config_of};
use rackweave_switch::Ledger;
use serde_json::{Value, json};

/// The topology of a configuration. Switches of one role have the same programs, of which an index
/// is a part.
///
/// # Errors
/// If nodes cannot be attached as configured.
pub fn of(config: &RackConfig) -> Result<Value, ConfigError> {
    let topology = config.topology()?;
    let node = |(node, place): (_, rackweave_controller::topology::NodePlacement)| {
        let name = config.name_nodes(&format!("{node:?}"));
        json!({"name": name, "switch": place.switch, "port": place.port.0})
    };
    let mut roles: Vec<Value> = Vec::new();
    for at in 0..topology.switches() {
        let role = topology.role(at).to_string();
        match roles.last_mut() {
            Some(last) if last["role"] == role => last["last"] = at.into(),
            _ => {
                let all = switch_shape::pipeline_config(config);
                let programs = switch_config_of(all, config, &topology, at);
                roles.push(json!({
                    "role": role,
                    "first": at,
                    "last": at,
                    "programs": switch_use(config, &switch_shape::ledger(&programs)),
                    "index": index_use(config, Index::new(programs.index, programs.hosts)),
                }));
            }
        }
    }
    Ok(json!({
        "name": config.switch.topology.name(),
        "switches": topology.switches(),
        "cables": topology.cables().count(),
        "nodes": topology.nodes().map(node).collect::<Vec<_>>(),
        "roles": roles,
    }))
}

fn index_use(config: &RackConfig, index: Index) -> Option<Value> {
    if !index.is_present() {
        return None;
    }
    let mut ledger = Ledger::default();
    index.declare(&mut ledger);
    let sizes = index.config();
    let part = json!({
        "queries": sizes.queries,
        "servers": sizes.servers,
        "fat_ranges": sizes.fat_ranges,
        "first_layer": sizes.first_layer,
        "layers": sizes.layers,
        "nodes": sizes.nodes,
    });
    Some(joined([part, programs_use(config, &ledger)]))
}

#[cfg(test)]
mod tests;
