//! Checks for users of the crate `rackweave`: it builds with any choice of features and with the
//! promised compiler, and can be published with all crates that it depends on.

use crate::process::{self, cargo, in_root};
use crate::{Failure, toolchain};
use std::process::Command;

/// The crate that users depend on, and those that it needs: all published crates.
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

/// Not needed without features: TLS, and file I/O.
const HEAVY: [&str; 3] = ["rustls", "ring", "io-uring"];

pub fn run() -> Result<(), Failure> {
    // With clippy, which finds the rest of the workspace already built.
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

/// Without features, no heavy dependency is built.
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

/// Compares with the last release; before the first there is nothing to break.
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

/// Runs a cargo subcommand that has to be installed separately.
fn if_installed(tool: &str, arguments: &[&str]) -> Result<(), Failure> {
    let installed = |command: &mut Command| command.output().is_ok_and(|it| it.status.success());
    if !installed(in_root(format!("cargo-{tool}")).arg("--version")) {
        println!("skipped: cargo-{tool} is not installed; `cargo install cargo-{tool}`");
        return Ok(());
    }
    process::run(cargo(&[tool]).args(arguments))
}
