//! Planted bugs, which only builds with the feature `canary` have.

use crate::outcome::CliError;

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
    match Canary::ALL.into_iter().find(|canary| canary.name() == name) {
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
