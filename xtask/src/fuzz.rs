//! The fuzz targets under libFuzzer.
//!
//! They are built here, with the compiler flags that libFuzzer needs, so that only a nightly
//! compiler is required. Failing inputs are written to `fuzz/artifacts`, new inputs to
//! `fuzz/target`; `--merge` adds those that reach new code to the corpus that is checked in.

use crate::Failure;
use crate::process::{self, capture, in_root, root};
use std::fs;
use std::path::PathBuf;

/// Targets; `crates/fuzz-harness` describes each.
const TARGETS: [&str; 17] = [
    "parse",
    "nic",
    "nic_ops",
    "switch",
    "programs",
    "handshake",
    "tree_node",
    "rpc",
    "superblock",
    "config",
    "nvme",
    "control",
    "shared_memory",
    "index",
    "messaging",
    "ask",
    "connections",
];
const SECONDS: u32 = 60;
/// Longer inputs reach no code that shorter ones do not.
const INPUT_MAX: u32 = 1536;

/// Coverage of edges, with comparisons traced, as cargo-fuzz passes it.
const FLAGS: &str = "--cfg fuzzing -Ccodegen-units=1 -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares";

#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    target: Option<String>,
    seconds: Option<u32>,
    merge: bool,
    input: Option<String>,
}

/// Fuzzes one target or all.
pub fn run(arguments: &[String]) -> Result<(), Failure> {
    let options = parse(arguments)?;
    let binaries = build()?;
    if let (Some(target), Some(input)) = (&options.target, &options.input) {
        return process::run(in_root(binaries.join(target)).arg(input));
    }
    let chosen = |target: &&&str| {
        options
            .target
            .as_deref()
            .is_none_or(|only| only == **target)
    };
    for target in TARGETS.iter().filter(chosen) {
        let seconds = options.seconds.unwrap_or(SECONDS);
        let (kept, found) = folders(target)?;
        let artifacts = root().join("fuzz/artifacts");
        fs::create_dir_all(&artifacts).map_err(|error| Failure::check(error.to_string()))?;
        let prefix = artifacts.join(format!("{target}-"));
        let mut command = in_root(binaries.join(target));
        command
            .arg(format!("-max_total_time={seconds}"))
            .arg(format!("-max_len={INPUT_MAX}"))
            .arg("-timeout=20")
            .arg(format!("-artifact_prefix={}", prefix.display()))
            .args([&found, &kept]);
        process::run(&mut command)?;
        if options.merge {
            let mut command = in_root(binaries.join(target));
            process::run(command.arg("-merge=1").args([&kept, &found]))?;
        }
    }
    Ok(())
}

fn parse(arguments: &[String]) -> Result<Options, Failure> {
    let mut options = Options::default();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--seconds" => {
                let number = rest.next().and_then(|number| number.parse().ok());
                let error = || Failure::usage("--seconds needs a number");
                options.seconds = Some(number.ok_or_else(error)?);
            }
            "--input" => {
                let error = || Failure::usage("--input needs a file");
                options.input = Some(rest.next().ok_or_else(error)?.clone());
            }
            "--merge" => options.merge = true,
            target if TARGETS.contains(&target) && options.target.is_none() => {
                options.target = Some(target.to_owned());
            }
            other => {
                let targets = TARGETS.join(", ");
                let text = format!("fuzz does not know {other}; targets are {targets}");
                return Err(Failure::usage(text));
            }
        }
    }
    if options.input.is_some() && options.target.is_none() {
        return Err(Failure::usage("--input needs a target too"));
    }
    Ok(options)
}

/// Builds all targets and returns their folder.
fn build() -> Result<PathBuf, Failure> {
    let (_, version) = capture(in_root("rustc").args(["+nightly", "-vV"]))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    let host = host.ok_or_else(|| {
        Failure::check("fuzzing needs a nightly compiler: rustup toolchain install nightly")
    })?;
    let target_dir = root().join("fuzz/target");
    // Not the cargo that runs this one: that is stable, and sets the toolchain of its children.
    let mut command = in_root("cargo");
    command
        .args([
            "+nightly",
            "build",
            "--release",
            "--manifest-path",
            "fuzz/Cargo.toml",
        ])
        .args(["--target", host, "--target-dir"])
        .arg(&target_dir)
        .env("RUSTFLAGS", FLAGS)
        .env_remove("CARGO")
        .env_remove("RUSTUP_TOOLCHAIN");
    process::run(&mut command)?;
    Ok(target_dir.join(host).join("release"))
}

/// The corpus that is checked in, and the folder of new inputs.
fn folders(target: &str) -> Result<(PathBuf, PathBuf), Failure> {
    let kept = root().join("fuzz/corpus").join(target);
    let found = root().join("fuzz/target/found").join(target);
    for folder in [&kept, &found] {
        fs::create_dir_all(folder)
            .map_err(|error| Failure::check(format!("{}: {error}", folder.display())))?;
    }
    Ok((kept, found))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn arguments_are_checked() {
        let options = parse(&arguments("nic --seconds 5 --merge")).expect("sound");
        assert_eq!(options.target.as_deref(), Some("nic"));
        assert_eq!((options.seconds, options.merge), (Some(5), true));
        for wrong in [
            "nik",
            "nic parse",
            "--seconds",
            "--seconds x",
            "--input file",
        ] {
            assert!(
                matches!(parse(&arguments(wrong)), Err(Failure::Usage(_))),
                "{wrong}"
            );
        }
    }

    #[test]
    fn every_target_has_its_binary_and_its_corpus() {
        let manifest = fs::read_to_string(root().join("fuzz/Cargo.toml")).expect("it is there");
        for target in TARGETS {
            assert!(
                manifest.contains(&format!("name = \"{target}\"")),
                "{target}"
            );
            assert!(root().join("fuzz/corpus").join(target).is_dir(), "{target}");
        }
    }
}
