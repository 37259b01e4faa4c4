//! Planted bugs, which only builds with the feature `canary` have.

use crate::outcome::CliError;
use std::process::Command;

/// The environment variable by which processes get the bug of the process that starts them.
#[cfg(feature = "canary")]
const VARIABLE: &str = "RACKWEAVE_CANARY";

/// Plants the bug of the process that has started this one.
pub fn inherit() {
    #[cfg(feature = "canary")]
    if let Ok(name) = std::env::var(VARIABLE)
        && let Some(bug) = named(&name)
    {
        rackweave_base::canary::arm(bug);
    }
}

/// Has a process plant the bug that this one has.
pub fn hand_down(_to: &mut Command) {
    #[cfg(feature = "canary")]
    if let Some(bug) = rackweave_base::canary::armed() {
        _to.env(VARIABLE, bug.name());
    }
}

#[cfg(feature = "canary")]
fn named(name: &str) -> Option<rackweave_base::canary::Canary> {
    let mut all = rackweave_base::canary::Canary::ALL.into_iter();
    all.find(|canary| canary.name() == name)
}

/// The result of `--canary`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Prepared {
    /// The names were listed; nothing else is to be done.
    #[cfg_attr(
        not(feature = "canary"),
        expect(dead_code, reason = "only a canary build lists")
    )]
    Listed,
    /// The bug is planted, or none was requested.
    Ready,
}

/// Plants the bug called `name`, if a name is given; `list` lists all with their systems.
///
/// # Errors
/// If no bug has this name, or this build has none.
#[cfg(feature = "canary")]
pub fn prepare(name: Option<&str>) -> Result<Prepared, CliError> {
    use rackweave_base::canary::{Canary, arm};
    let Some(name) = name else {
        return Ok(Prepared::Ready);
    };
    if name == "list" {
        let lines = Canary::ALL.map(|canary| {
            let access = canary.access().unwrap_or_default();
            format!("{} {} {access}\n", canary.system(), canary.name())
        });
        crate::output::line(&lines.concat())?;
        return Ok(Prepared::Listed);
    }
    match named(name) {
        Some(canary) => {
            arm(canary);
            Ok(Prepared::Ready)
        }
        None => Err(CliError::usage(format!(
            "there is no planted bug {name:?}; `--canary list` names them"
        ))),
    }
}

/// Refuses every name: this build has no planted bugs.
///
/// # Errors
/// If a name is given.
#[cfg(not(feature = "canary"))]
pub fn prepare(name: Option<&str>) -> Result<Prepared, CliError> {
    match name {
        None => Ok(Prepared::Ready),
        Some(_) => Err(CliError::usage(
            "this build has no planted bugs; cargo xtask canary builds one",
        )),
    }
}
