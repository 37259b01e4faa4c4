//! What those need who depend on the crate `rackweave`: it builds with the features that they want,
//! with the compiler that they have, and can be published with all that it stands on.

use crate::process::{self, cargo, in_root};
use crate::{Failure, toolchain};
use std::process::Command;

/// The crate that others depend on, and those that it needs: all that are published.
const PUBLISHED: [&str; 14] = [
    "rackweave",
    "rackweave-base",
    "rackweave-control",
    "rackweave-controller",
    "rackweave-endpoint",
    "rackweave-link",
    "rackweave-nic",
    "rackweave-programs",
    "rackweave-rack",
    "rackweave-sim",
    "rackweave-switch",
    "rackweave-target",
    "rackweave-verbs",
    "rackweave-wire",
];

/// Neither is needed by who uses no feature: TLS, and I/O of files.
const HEAVY: [&str; 3] = ["rustls", "ring", "io-uring"];

pub fn run() -> Result<(), Failure> {
    // With clippy, that finds the rest of the workspace built.
    for features in ["--no-default-features", "--all-features"] {
        let check = ["clippy", "--package", "rackweave", features, "--"];
        process::run(cargo(&check).args(["-D", "warnings"]))?;
    }
    lean()?;
    let mut package = cargo(&["package", "--no-verify", "--allow-dirty", "--quiet"]);
    for name in PUBLISHED {
        package.args(["--package", name]);
    }
    process::run(&mut package)?;
    toolchain::oldest()?;
    if_installed(
        "deny",
        &[
            "--offline",
            "--workspace",
            "check",
            "bans",
            "licenses",
            "sources",
        ],
    )?;
    semver()
}

/// Without features, nothing heavy is built.
fn lean() -> Result<(), Failure> {
    let tree = ["tree", "--package", "rackweave", "--no-default-features"];
    let mut tree = cargo(&tree);
    tree.args(["--edges", "normal", "--prefix", "none", "--format", "{p}"]);
    let (code, crates) = process::capture(&mut tree)?;
    let name = |line: &str| line.split(' ').next().unwrap_or_default().to_owned();
    let names: Vec<String> = crates.lines().map(name).collect();
    if code != 0 || names.is_empty() {
        return Err(Failure::check(format!(
            "{crates}\ncargo tree exits with {code}"
        )));
    }
    match HEAVY
        .iter()
        .find(|heavy| names.iter().any(|name| name == *heavy))
    {
        None => Ok(()),
        Some(heavy) => Err(Failure::check(format!(
            "rackweave without features depends on {heavy}"
        ))),
    }
}

/// Against the last release; before the first there is nothing to break.
fn semver() -> Result<(), Failure> {
    let mut tags = in_root("git");
    let (_, tags) = process::capture(tags.args(["tag", "--list", "v*", "--sort", "-v:refname"]))?;
    let Some(last) = tags.lines().next() else {
        println!("skipped: there is no release yet that cargo-semver-checks could compare with");
        return Ok(());
    };
    let against = ["--package", "rackweave", "--baseline-rev", last];
    if_installed("semver-checks", &against)
}

/// Runs a subcommand of cargo that others have to install.
fn if_installed(tool: &str, arguments: &[&str]) -> Result<(), Failure> {
    let installed = |command: &mut Command| command.output().is_ok_and(|it| it.status.success());
    if !installed(in_root(format!("cargo-{tool}")).arg("--version")) {
        println!("skipped: cargo-{tool} is not installed; `cargo install cargo-{tool}`");
        return Ok(());
    }
    process::run(cargo(&[tool]).args(arguments))
}
