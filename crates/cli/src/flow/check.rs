//! Checks what a script says about nodes, flows and time, before anything runs.

use super::script::{Action, Leaver, Script, What};
use crate::outcome::CliError;
use rackweave_rack::RackConfig;
use rackweave_rack::config::nearest::hint;
use std::collections::BTreeMap;

/// Names and nodes of a flow as the script defines it.
type Flows<'a> = BTreeMap<&'a str, Vec<&'a str>>;

/// Checks the whole script against the rack of `config`.
///
/// # Errors
/// The first action that is impossible.
pub fn check(script: &Script, config: &RackConfig) -> Result<(), CliError> {
    let mut flows = Flows::new();
    let mut before = 0;
    for action in &script.actions {
        one(action, config, &mut flows)
            .and_then(|()| in_order(action.at, &mut before))
            .map_err(|problem| script.error(action.place, problem))?;
    }
    Ok(())
}

fn in_order(at: u64, before: &mut u64) -> Result<(), String> {
    if at < *before {
        return Err(format!(
            "its time, {} us, is before that of the action above it, {} us; sort them",
            at / 1000,
            *before / 1000
        ));
    }
    *before = at;
    Ok(())
}

fn one<'a>(action: &'a Action, config: &RackConfig, flows: &mut Flows<'a>) -> Result<(), String> {
    if let (What::Create(create), Some(flow)) = (&action.what, &action.flow) {
        for (nodes, what) in [
            (&create.producers, "producers"),
            (&create.consumers, "consumers"),
        ] {
            if nodes.is_empty() {
                return Err(format!("{what} is empty; name one node at least"));
            }
            nodes.iter().try_for_each(|node| known_node(node, config))?;
        }
        let (item, ring) = (create.item_bytes, create.ring_bytes);
        if u64::from(ring) < 2 * u64::from(item) && !action.expect_error {
            return Err(format!(
                "ring_bytes is {ring}: a ring holds two items of {item} bytes at least; raise it or \
                 lower item_bytes"
            ));
        }
        let consumers = create.consumers.iter().map(String::as_str).collect();
        if flow.is_empty() {
            return Err("a flow needs a name; say flow = \"...\"".into());
        }
        if flows.insert(flow, consumers).is_some() {
            return Err(format!(
                "there is a flow `{flow}` already; choose another name"
            ));
        }
        return Ok(());
    }
    let Some(flow) = &action.flow else {
        return Ok(());
    };
    let Some(consumers) = flows.get_mut(flow.as_str()) else {
        let known: Vec<&str> = flows.keys().copied().collect();
        return Err(match known.as_slice() {
            [] => format!("there is no flow `{flow}` yet; create it first"),
            known => format!(
                "there is no flow `{flow}` yet; {}",
                hint(flow, known, "flows")
            ),
        });
    };
    match &action.what {
        What::AddConsumer(joiner) => {
            known_node(&joiner.node, config)?;
            consumers.push(&joiner.node);
        }
        What::AddProducer(joiner) => known_node(&joiner.node, config)?,
        What::RemoveConsumer(Leaver::Node(node)) => {
            known_node(node, config)?;
            if !consumers.contains(&node.as_str()) {
                return Err(format!(
                    "flow `{flow}` has no consumer on `{node}`; its consumers: {}",
                    consumers.join(", ")
                ));
            }
        }
        _ => {}
    }
    Ok(())
}

fn known_node(name: &str, config: &RackConfig) -> Result<(), String> {
    let known: Vec<&str> = config.node.iter().map(|node| node.name.as_str()).collect();
    if known.contains(&name) {
        return Ok(());
    }
    let hint = hint(name, &known, "nodes");
    Err(format!("there is no node `{name}`; {hint}"))
}
