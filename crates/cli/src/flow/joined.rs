//! A script on a running rack of processes, whose own processes have its nodes: this process joins
//! it as one node for each that the script names, and the script is about these nodes from then on.

use super::Play;
use crate::globals::{Globals, RackArgs};
use crate::outcome::CliError;
use crate::programs::RealRack;
use std::collections::BTreeMap;

/// Joins as guests, or as the nodes that the user names, in the order in which the script first
/// names its own.
///
/// # Errors
/// As for [`RealRack::join`].
pub fn join(play: &mut Play, args: &RackArgs, globals: &Globals) -> Result<RealRack, CliError> {
    let mut named: Vec<String> = Vec::new();
    for node in play.script.nodes_mut() {
        if !named.contains(node) {
            named.push(node.clone());
        }
    }
    let rack = RealRack::join(&play.config, named.len(), (args, globals))?;
    let guests = rack.nodes().iter();
    let guests = guests.map(|node| play.config.node[usize::from(node.0)].name.clone());
    let joined = match args.join_as.is_empty() {
        true => guests.collect(),
        false => args.join_as.clone(),
    };
    let joined_as: BTreeMap<String, String> = named.into_iter().zip(joined).collect();
    for node in play.script.nodes_mut() {
        *node = joined_as[node].clone();
    }
    play.joined_as = Some(joined_as);
    Ok(rack)
}
