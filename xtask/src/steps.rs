//! The steps of [`crate::ci`] that run the project's own programs, or its tests in another way than
//! `cargo test`.

use crate::process::{self, binary, capture, cargo, in_root, target_dir};
use crate::{Failure, json};
use std::process::Command;

/// Options of the demo on bad links.
pub const FAULTS: [&str; 11] = [
    "--simulated",
    "--loss",
    "0.01",
    "--duplicate",
    "0.01",
    "--reorder",
    "0.01",
    "--corrupt",
    "0.01",
    "--seed",
    "7",
];

/// Most of the time goes into building, so only the schedulers are optimised. With a target, the
/// flags are not those of procedural macros and build scripts, which then are built once for all.
pub fn loom() -> Result<(), Failure> {
    let models = [
        ("loom", "rackweave-link", &["--test", "all"][..]),
        ("loom", "rackweave-endpoint", &["--lib", "btree::model"]),
        ("shuttle", "rackweave-endpoint", &["--lib", "btree::model"]),
    ];
    for (scheduler, package, which) in models {
        let mut command = cargo(&["test", "--package", package, "--target", "host-tuple"]);
        command
            .args(which)
            .env("CARGO_PROFILE_DEV_OPT_LEVEL", "0")
            .env("RUSTFLAGS", format!("--cfg {scheduler}"));
        process::run(&mut command)?;
    }
    Ok(())
}

/// Builds the binary that users get.
pub fn release() -> Result<(), Failure> {
    process::run(&mut cargo(&[
        "build",
        "--release",
        "--package",
        "rackweave-cli",
    ]))
}

/// The binary that users get. After the first step that needs it, Cargo finds it up to date.
fn rackweave(arguments: &[&str]) -> Result<Command, Failure> {
    release()?;
    let mut command = in_root(binary("release"));
    command.args(arguments);
    Ok(command)
}

/// The demo compares its answers with a direct computation over the same rows, so two verified runs
/// have the same answers.
pub fn demo(options: &[&str]) -> Result<(), Failure> {
    let mut command = rackweave(&["demo", "--format", "json"])?;
    let (code, output) = capture(command.args(options))?;
    if code == 0 && json::is(&output, "verified", true) {
        return Ok(());
    }
    Err(Failure::check(format!(
        "{output}\nthe demo exits with {code}, or is not verified"
    )))
}

pub fn chaos() -> Result<(), Failure> {
    campaign("all", "3000")
}

/// Checks that the figures run to their end, with every item right. Their measurements are not
/// judged.
pub fn figures() -> Result<(), Failure> {
    let folder = target_dir().join("figures");
    let path = folder.to_string_lossy().into_owned();
    let options = ["figures", "--quick", "--out", &path, "--format", "json"];
    let (code, output) = capture(&mut rackweave(&options)?)?;
    if code == 0 && json::is(&output, "verified", true) {
        return Ok(());
    }
    Err(Failure::check(format!(
        "{output}\nfigures exits with {code}, or is not verified"
    )))
}

pub fn hosted_chaos() -> Result<(), Failure> {
    campaign("hosted", "30")
}

/// A chaos campaign with this many seeds.
fn campaign(system: &str, seeds: &str) -> Result<(), Failure> {
    let options = [
        "chaos", "--system", system, "--seeds", seeds, "--format", "json",
    ];
    let (code, output) = capture(&mut rackweave(&options)?)?;
    if code == 0 {
        return Ok(());
    }
    Err(Failure::check(format!("{output}\nchaos exits with {code}")))
}

pub fn repeat() -> Result<(), Failure> {
    let options = [
        "chaos", "--system", "flows", "--seeds", "1", "--seed", "7", "--format", "json",
    ];
    let mut hashes = Vec::new();
    for _ in 0..2 {
        let (_, output) = capture(&mut rackweave(&options)?)?;
        let found = json::members(&output, "trace_hash");
        if found.is_empty() {
            return Err(Failure::check(format!(
                "{output}\nno trace_hash in the output of chaos"
            )));
        }
        hashes.push(found);
    }
    if hashes[0] == hashes[1] {
        return Ok(());
    }
    Err(Failure::check(format!(
        "one seed, two trace hashes: {:?} and {:?}",
        hashes[0], hashes[1]
    )))
}

pub fn read_capture() -> Result<(), Failure> {
    if in_root("tshark").arg("--version").output().is_err() {
        println!("tshark is not installed; on Debian: apt-get install tshark");
        return Ok(());
    }
    let file = target_dir().join("ci.pcapng");
    let path = file.to_string_lossy().into_owned();
    // Wireshark takes some payloads of other systems (tree nodes, pages, packages) for encapsulated
    // packets of other protocols, which they are not.
    let options = [
        "demo",
        "--systems",
        "flows",
        "--scale-factor",
        "0.001",
        "--format",
        "json",
        "--capture",
        &path,
    ];
    let (code, output) = capture(&mut rackweave(&options)?)?;
    if code != 0 {
        return Err(Failure::check(format!(
            "{output}\nthe demo with --capture exits with {code}"
        )));
    }
    let roce = count(&path, "infiniband")?;
    if roce == 0 {
        return Err(Failure::check(format!(
            "tshark finds no RoCEv2 packet in {path}"
        )));
    }
    let malformed = count(&path, "_ws.malformed")?;
    if malformed != 0 {
        return Err(Failure::check(format!(
            "tshark finds {malformed} malformed packets in {path}"
        )));
    }
    println!("{roce} RoCEv2 packets, none malformed");
    Ok(())
}

/// The exit status of `interop/run` if a program that it needs is not installed.
const INTEROP_MISSING: i32 = 2;

pub fn interop() -> Result<(), Failure> {
    // Together with the command, most of which is built already: alone it has other features.
    let both = ["build", "--release", "--package", "rackweave-cli"];
    process::run(cargo(&both).args(["--package", "rackweave-interop"]))?;
    let status = in_root("interop/run")
        .arg("--built")
        .status()
        .map_err(|error| Failure::check(format!("interop/run: {error}")))?;
    match status.code() {
        Some(0) => Ok(()),
        Some(INTEROP_MISSING) => {
            println!("skipped: not everything is installed that the interop suite needs");
            Ok(())
        }
        _ => Err(Failure::check(format!("interop/run: {status}"))),
    }
}

/// The manifest of the workspace that needs DataFusion.
const SQL: [&str; 2] = ["--manifest-path", "sql/Cargo.toml"];

/// Its crates are many, and nothing else needs them: without them, the rest is checked.
pub fn sql() -> Result<(), Failure> {
    let (code, output) = capture(cargo(&["fetch", "--locked"]).args(SQL))?;
    if code != 0 {
        println!("{output}\nskipped: not all crates that sql/ needs can be fetched");
        return Ok(());
    }
    process::run(cargo(&["fmt", "--all", "--check"]).args(SQL))?;
    process::run(cargo(&["test", "--workspace", "--locked"]).args(SQL))
}

/// The number of packets in a capture that pass a display filter.
fn count(file: &str, filter: &str) -> Result<usize, Failure> {
    let mut tshark = in_root("tshark");
    tshark.args([
        "-n",
        "-r",
        file,
        "-Y",
        filter,
        "-T",
        "fields",
        "-e",
        "frame.number",
    ]);
    let (code, output) = capture(&mut tshark)?;
    if code != 0 {
        return Err(Failure::check(format!("tshark exits with {code}")));
    }
    Ok(output.lines().count())
}
