//! Checks that need another compiler: a nightly one for Miri and ThreadSanitizer, and the oldest
//! supported one. All come with rustup; without it these checks are skipped.

use crate::Failure;
use crate::process::{self, in_root, target_dir};
use std::process::Command;

/// A compiler that is known to pass both.
const NIGHTLY: &str = "nightly-2026-05-20";

/// The tests that reach code with `unsafe`, and that Miri can run in a minute or two. Miri supports
/// neither memfd nor the sockets of links.
pub fn miri() -> Result<(), Failure> {
    if !is_installed(NIGHTLY, Some("miri,rust-src"))? {
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
    let commands = packages.map(|(package, which)| {
        let mut command = cargo_of(NIGHTLY);
        command
            .args(["miri", "test", "--package", package, "--lib"])
            .arg("--target-dir")
            .arg(target_dir().join("miri"))
            .arg("--")
            .args(which)
            .env("MIRIFLAGS", "-Zmiri-disable-isolation")
            .env("PROPTEST_CASES", "16");
        command
    });
    at_once(commands)
}

/// Runs commands at the same time, each of which keeps only one core busy. Prints the output of
/// each as a whole.
fn at_once<const N: usize>(commands: [Command; N]) -> Result<(), Failure> {
    let results = std::thread::scope(|scope| {
        commands
            .map(|mut command| scope.spawn(move || process::capture(&mut command)))
            .map(|run| run.join().expect("a thread that only waits for a process"))
    });
    let mut failed = Vec::new();
    for result in results {
        let (code, output) = result?;
        println!("{output}");
        if code != 0 {
            failed.push(code.to_string());
        }
    }
    if failed.is_empty() {
        return Ok(());
    }
    Err(Failure::check(format!("exit status {}", failed.join(", "))))
}

/// The tests in which threads share the memory of regions, rings, buffer frames and caches. All
/// packages are built at once; otherwise their dependencies are built again for each.
///
/// Racks are left out, because building them takes as long again as all the rest.
pub fn tsan() -> Result<(), Failure> {
    if !is_installed(NIGHTLY, Some("rust-src"))? {
        return Ok(());
    }
    let which = [
        "memory::",
        "packet::",
        "ring::",
        "shared_memory::",
        "messaging::columns::tests::cache_threads",
        "page_store::pool::",
        "page_store::tests::fixes",
        "page_store::tests::threads::threads_of_two_nodes",
        "sequencer::counter",
    ];
    let mut command = cargo_of(NIGHTLY);
    command.args([
        "test",
        "-Zbuild-std",
        "--target",
        "x86_64-unknown-linux-gnu",
    ]);
    for package in ["rackweave-base", "rackweave-link", "rackweave-endpoint"] {
        command.args(["--package", package]);
    }
    command
        .args(["--lib", "--target-dir"])
        .arg(target_dir().join("tsan"))
        .arg("--")
        .args(which)
        .env("RUSTFLAGS", TSAN_FLAGS)
        .env("TSAN_OPTIONS", "halt_on_error=1");
    process::run(&mut command)
}

/// Builds the library with all its features, by the oldest compiler that its manifest promises.
pub fn oldest() -> Result<(), Failure> {
    let manifest = std::fs::read_to_string(process::root().join("Cargo.toml"));
    let manifest = manifest.map_err(|error| Failure::check(format!("Cargo.toml: {error}")))?;
    let promised = manifest.lines().find_map(|line| {
        let value = line.strip_prefix("rust-version = ")?;
        Some(value.trim_matches('"').to_owned())
    });
    let oldest = promised.ok_or_else(|| Failure::check("Cargo.toml has no rust-version"))?;
    if !is_installed(&oldest, None)? {
        return Ok(());
    }
    let mut command = cargo_of(&oldest);
    command
        .args(["check", "--package", "rackweave", "--all-features"])
        .arg("--target-dir")
        .arg(target_dir().join("oldest"));
    process::run(&mut command)
}

/// Two things that ThreadSanitizer does not see, so that it reports races for memory that they
/// touch:
/// - copies in assembly: `rackweave_tsan` has regions copied by the portable code, as Miri does;
/// - memory that is mapped and unmapped by rustix's own system calls. ThreadSanitizer takes the
///   first write to a mapping for a second one to what was mapped there before. It sees the calls
///   of libc.
const TSAN_FLAGS: &str = "-Zsanitizer=thread --cfg rackweave_tsan --cfg rustix_use_libc";

/// The cargo of another compiler.
fn cargo_of(compiler: &str) -> Command {
    let mut command = in_root("cargo");
    command
        .arg(format!("+{compiler}"))
        // Not the cargo that runs this one: that is stable, and sets the toolchain of its children.
        .env_remove("CARGO")
        .env_remove("RUSTUP_TOOLCHAIN");
    command
}

/// Whether rustup is installed; if so, it installs the compiler with these components.
fn is_installed(compiler: &str, components: Option<&str>) -> Result<bool, Failure> {
    if in_root("rustup").arg("--version").output().is_err() {
        println!("skipped: rustup is not installed, and Rust {compiler} comes with it");
        return Ok(false);
    }
    let install = ["toolchain", "install", compiler, "--profile", "minimal"];
    let mut command = in_root("rustup");
    command.args(install).arg("--no-self-update");
    if let Some(components) = components {
        command.args(["--component", components]);
    }
    process::run(&mut command)?;
    Ok(true)
}
