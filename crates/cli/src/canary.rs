//! Planted bugs, which only builds with debug assertions have.

use crate::outcome::CliError;
use std::process::Command;

/// The environment variable by which processes get the bug of the process that starts them.
#[cfg(debug_assertions)]
const VARIABLE: &str = "RACKWEAVE_CANARY";

/// Plants the bug of the process that has started this one.
pub fn inherit() {
    #[cfg(debug_assertions)]
    if let Ok(name) = std::env::var(VARIABLE)
        && let Some(bug) = named(&name)
    {
        rackweave_base::canary::arm(bug);
    }
}

/// Has a process plant the bug that this one has.
pub fn hand_down(_to: &mut Command) {
    #[cfg(debug_assertions)]
    if let Some(bug) = rackweave_base::canary::armed() {
        _to.env(VARIABLE, bug.name());
    }
}

#[cfg(debug_assertions)]
fn named(name: &str) -> Option<rackweave_base::canary::Canary> {
    let mut all = rackweave_base::canary::Canary::ALL.into_iter();
    all.find(|canary| canary.name() == name)
}

/// The result of `--canary`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Prepared {
    /// The names were listed; nothing else is to be done.
    #[cfg_attr(
        not(debug_assertions),
        expect(dead_code, reason = "a release build has nothing to list")
    )]
    Listed,
    /// The bug is planted, or none was requested.
    Ready,
}

/// Plants the bug called `name`, if a name is given; `list` lists all with their systems.
///
/// # Errors
/// If no bug has this name, or this build has none.
#[cfg(debug_assertions)]
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

/// Refuses every name: a release build has no planted bugs.
///
/// # Errors
/// If a name is given.
#[cfg(not(debug_assertions))]
pub fn prepare(name: Option<&str>) -> Result<Prepared, CliError> {
    match name {
        None => Ok(Prepared::Ready),
        Some(_) => Err(CliError::usage(
            "a release build has no planted bugs; cargo xtask canary uses that of the tests",
        )),
    }
}
