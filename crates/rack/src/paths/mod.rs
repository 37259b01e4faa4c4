//! The paths that packets, pages and lookups take in the racks of a configuration, with reasons.
//!
//! The reasons come from the code that builds racks (`choices`), so the report always matches the
//! rack. `nodes` reports links, `stores` pages, `programs` the switches' programs, `settings`
//! values that the configuration leaves to the kind of rack.

mod nodes;
mod programs;
mod settings;
mod stores;
#[cfg(test)]
mod tests;

pub use crate::config::choices::Kind;

use crate::config::choices::Choice;
use crate::config::{ConfigError, RackConfig};
use serde::Serialize;

/// The subject of a path.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Group {
    /// A node's link.
    Node,
    /// A store's pages.
    Store,
    /// A program of the switches.
    Program,
    /// The access paths to an index.
    Index,
    /// A value that is left to the kind of rack, or the seed.
    Setting,
}

/// One choice.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Path {
    /// The kind of rack; `None` if it is the same in all kinds.
    pub rack: Option<Kind>,
    /// Its subject.
    pub group: Group,
    /// The name of the node, store, program, access path or setting.
    pub of: String,
    /// The choice to be made.
    pub what: &'static str,
    /// The chosen value.
    pub value: String,
    /// The reason: the rest of a sentence that begins with "because".
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

/// The kinds of rack that a configuration describes: hosted only if it has that section.
pub fn kinds(config: &RackConfig) -> Vec<Kind> {
    let hosted = config.hosted.as_ref().map(|_| Kind::Hosted);
    let own = [Kind::Embedded, Kind::Simulated];
    own.into_iter().chain(hosted).collect()
}

/// All paths of a configuration: for each kind of rack its nodes, then what is the same in all
/// kinds.
///
/// # Errors
/// If the configuration is invalid.
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
