//! The state of a hosted rack.

use crate::outcome::CliError;
use crate::report::object;
use rackweave_base::NodeId;
use rackweave_rack::RackConfig;
use rackweave_rack::hosted::{Counters, HostedError, HostedRack, NodeStatus, RackStatus};
use serde_json::{Map, Value, json};

/// The state of the rack's processes as reported by the switch, or why it is unknown. A switch that
/// does not answer is not an error.
///
/// # Errors
/// If keys are missing for a rack that runs, or a process answers that is not this rack's switch.
pub fn ask(config: &RackConfig) -> Result<Value, CliError> {
    let hosted = config.hosted();
    let mut found = object(json!({
        "control": hosted.control.to_string(),
        "security": hosted.security,
        "running": false,
        "problem": null,
        "switch_pid": null,
        "switch_process": null,
        "term": null,
        "up_seconds": null,
        "lanes_used": null,
        "switch_counters": {},
        "refused": {},
        "nodes": [],
        "hosts": [],
    }));
    match HostedRack::connect(config) {
        Ok(mut rack) => found.extend(status(&mut rack)?),
        Err(error @ HostedError::NotRunning { .. }) => {
            found.insert("problem".into(), error.to_string().into());
        }
        Err(error) => return Err(error.into()),
    }
    Ok(found.into())
}

fn status(rack: &mut HostedRack) -> Result<Map<String, Value>, CliError> {
    let RackStatus {
        pid,
        process,
        term,
        up_seconds,
        nodes,
        hosts,
        switch_counters,
        refused,
        lanes_used,
    } = rack.status()?;
    let node = |(at, status): (usize, NodeStatus)| {
        let mut node = object(status);
        // A node that has just died has none.
        let counters = rack.node_counters(NodeId(at as u16)).unwrap_or_default();
        let some: Counters = counters.into_iter().filter(|&(_, n)| n > 0).collect();
        node.insert("counters".into(), json!(some));
        node
    };
    let nodes: Vec<_> = nodes.into_iter().enumerate().map(node).collect();
    Ok(object(json!({
        "running": true,
        "switch_pid": pid,
        "switch_process": process,
        "term": term,
        "up_seconds": up_seconds,
        "lanes_used": lanes_used,
        "switch_counters": switch_counters,
        "refused": refused,
        "nodes": nodes,
        "hosts": hosts,
    })))
}

/// Whether the switch answers and all nodes have joined, apart from guests.
pub fn is_whole(rack: &Value, config: &RackConfig) -> bool {
    let residents: Vec<&str> = config.residents().map(|node| &*node.name).collect();
    let is_missing = |node: &&Value| {
        let name = node["name"].as_str().unwrap_or_default();
        node["joined"] != true && residents.contains(&name)
    };
    let nodes = rack["nodes"].as_array();
    rack["running"] == true && nodes.is_some_and(|all| !all.iter().any(|node| is_missing(&node)))
}
