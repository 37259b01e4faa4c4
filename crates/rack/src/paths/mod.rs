//! Which paths packets, pages and lookups take in the racks of a configuration, and why.
//!
//! The reasons come from where racks are built (`choices`), so that what is told is what is done.
//! `nodes` tells of links, `stores` of pages, `programs` of what the switches have, `settings` of
//! values that the configuration leaves to the kind of rack.

mod nodes;
mod programs;
mod settings;
mod stores;
#[cfg(test)]
mod tests;

pub use crate::choices::Kind;

use crate::choices::Choice;
use crate::config::{ConfigError, RackConfig};
use serde::Serialize;

/// What a path is of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Group {
    /// A node's link.
    Node,
    /// A store's pages.
    Store,
    /// A program of the switches.
    Program,
    /// The ways to an index.
    Index,
    /// A value that is left to the kind of rack, or the seed.
    Setting,
}

/// One thing that was chosen.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Path {
    /// The kind of rack; nothing if it is so in all kinds.
    pub rack: Option<Kind>,
    /// What it is of.
    pub group: Group,
    /// Which of these: the name of a node, a store, a program, a way or a setting.
    pub of: String,
    /// What was to be chosen.
    pub what: &'static str,
    /// What was chosen.
    pub value: String,
    /// Why: the rest of a sentence that begins with "because".
    pub why: String,
}

impl Path {
    fn new<T>(
        (rack, group, of): (Option<Kind>, Group, &str),
        what: &'static str,
        choice: Choice<T>,
        value: impl FnOnce(T) -> String,
    ) -> Self {
        Self {
            rack,
            group,
            of: of.to_owned(),
            what,
            value: value(choice.value),
            why: choice.why.into_owned(),
        }
    }
}

/// The kinds of rack that a configuration describes: hosted ones only with their section.
pub fn kinds(config: &RackConfig) -> Vec<Kind> {
    let hosted = config.hosted.as_ref().map(|_| Kind::Hosted);
    let own = [Kind::Embedded, Kind::Simulated];
    own.into_iter().chain(hosted).collect()
}

/// All paths of a configuration: for each kind of rack its nodes, then what is so in all kinds.
///
/// # Errors
/// If the configuration makes no sense.
pub fn describe(config: &RackConfig) -> Result<Vec<Path>, ConfigError> {
    config.check()?;
    let mut paths = Vec::new();
    for kind in kinds(config) {
        nodes::describe(config, kind, &mut paths)?;
        settings::describe(config, kind, &mut paths);
    }
    programs::describe(config, &mut paths)?;
    stores::describe(config, &mut paths);
    programs::describe_index(config, &mut paths)?;
    settings::describe_seed(config, &mut paths);
    Ok(paths)
}
