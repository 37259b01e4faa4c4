//! Checks that need a nightly compiler: Miri. It comes with rustup, and is skipped where that is
//! not.

use crate::Failure;
use crate::process::{self, in_root, target_dir};
use std::process::Command;

/// A compiler that is known to pass.
const NIGHTLY: &str = "nightly-2026-05-20";

/// The tests that reach the code with `unsafe` in them, and that Miri can run in a minute or two.
/// It knows neither memfd nor the sockets of links.
pub fn miri() -> Result<(), Failure> {
    if !is_installed("miri,rust-src")? {
        return Ok(());
    }
    let packages = [
        ("rackweave-base", &["memory::", "packet::"][..]),
        ("rackweave-link", &["ring::"]),
        (
            "rackweave-endpoint",
            &[
                "messaging::tests::basics::a_message_is_written_in_place",
                "messaging::tests::garbage::a_message_that_changes_its_mind",
                "page_store::pool::",
            ],
        ),
    ];
    for (package, which) in packages {
        let mut command = nightly();
        command
            .args(["miri", "test", "--package", package, "--lib"])
            .arg("--target-dir")
            .arg(target_dir().join("miri"))
            .arg("--")
            .args(which)
            .env("MIRIFLAGS", "-Zmiri-disable-isolation")
            .env("PROPTEST_CASES", "16");
        process::run(&mut command)?;
    }
    Ok(())
}

/// Cargo of the nightly compiler.
fn nightly() -> Command {
    let mut command = in_root("cargo");
    command
        .arg(format!("+{NIGHTLY}"))
        // Not the cargo that runs this: that one is stable, and says so to its children.
        .env_remove("CARGO")
        .env_remove("RUSTUP_TOOLCHAIN");
    command
}

/// Whether rustup is there; if so, it installs the compiler with these components.
fn is_installed(components: &str) -> Result<bool, Failure> {
    if in_root("rustup").arg("--version").output().is_err() {
        println!("skipped: rustup is not installed, and the nightly compiler comes with it");
        return Ok(false);
    }
    let install = ["toolchain", "install", NIGHTLY, "--profile", "minimal"];
    let components = ["--component", components, "--no-self-update"];
    process::run(in_root("rustup").args(install).args(components))?;
    Ok(true)
}
