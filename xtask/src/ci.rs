//! Every check, cheap ones first, each with a line that reports its result and duration.

use crate::process::{self, capture, cargo, in_root, release_binary, target_dir};
use crate::{Failure, canary, json, library, tidy, toolchain};
use std::process::Command;
use std::time::Instant;

/// A check.
struct Step {
    name: &'static str,
    about: &'static str,
    run: fn() -> Result<(), Failure>,
}

const STEPS: [Step; 18] = [
    Step {
        name: "fmt",
        about: "the code is formatted",
        run: || process::run(&mut cargo(&["fmt", "--all", "--check"])),
    },
    Step {
        name: "tidy",
        about: "style and the arrows between crates",
        run: || tidy::run(&[]),
    },
    Step {
        name: "clippy",
        about: "no warning of compiler or clippy, in tests and benchmarks neither",
        run: || {
            let all = ["clippy", "--workspace", "--all-targets", "--"];
            process::run(cargo(&all).args(["-D", "warnings"]))
        },
    },
    Step {
        name: "doc",
        about: "the documentation builds without a warning",
        run: || {
            let mut doc = cargo(&["doc", "--workspace", "--no-deps"]);
            process::run(doc.env("RUSTDOCFLAGS", "-D warnings"))
        },
    },
    Step {
        name: "test",
        about: "every test, fuzz corpora included",
        run: || process::run(&mut cargo(&["test", "--workspace"])),
    },
    Step {
        name: "library",
        about: "what others depend on: without features, by the oldest compiler, as packages",
        run: library::run,
    },
    Step {
        name: "loom",
        about: "models: the ring and the latch under every order of accesses, the tree under many",
        run: loom,
    },
    Step {
        name: "miri",
        about: "no undefined behaviour in memory, rings, messages and pools, where rustup is",
        run: toolchain::miri,
    },
    Step {
        name: "tsan",
        about: "no data race of threads over memory, rings, pools and caches, where rustup is",
        run: toolchain::tsan,
    },
    Step {
        name: "demo",
        about: "the demo verifies its answers",
        run: || demo(&[]),
    },
    Step {
        name: "faults",
        about: "the simulated demo does so under loss, duplication, reordering and corruption",
        run: || demo(&FAULTS),
    },
    Step {
        name: "chaos",
        about: "seeded fault schedules without a violation",
        run: chaos,
    },
    Step {
        name: "figures",
        about: "every experiment of the papers runs, in its short form",
        run: figures,
    },
    Step {
        name: "hosted",
        about: "racks of processes that are killed and restarted never report a wrong result",
        run: hosted_chaos,
    },
    Step {
        name: "repeat",
        about: "a seed run twice gives the same trace hash",
        run: repeat,
    },
    Step {
        name: "capture",
        about: "tshark finds no malformed packet in a capture, where it is installed",
        run: read_capture,
    },
    Step {
        name: "canary",
        about: "the checkers catch planted bugs",
        run: || canary::run(&[]),
    },
    Step {
        name: "interop",
        about: "our NIC and switch with Linux's RoCE stack, where QEMU is installed",
        run: interop,
    },
];

const FAULTS: [&str; 11] = [
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

/// Runs all steps or those that `arguments` name.
pub fn run(arguments: &[String]) -> Result<(), Failure> {
    if arguments.iter().any(|argument| argument == "--list") {
        for step in &STEPS {
            println!("{:8} {}", step.name, step.about);
        }
        return Ok(());
    }
    let known = |name: &String| STEPS.iter().any(|step| step.name == name);
    if let Some(unknown) = arguments.iter().find(|name| !known(name)) {
        return Err(Failure::usage(format!(
            "ci has no step {unknown} (`cargo xtask ci --list` names them)"
        )));
    }
    let chosen = |step: &&Step| arguments.is_empty() || arguments.iter().any(|a| a == step.name);
    let begun = Instant::now();
    let mut failed = Vec::new();
    for step in STEPS.iter().filter(chosen) {
        println!("==> {}: {}", step.name, step.about);
        let begun = Instant::now();
        let result = (step.run)();
        let seconds = begun.elapsed().as_secs_f64();
        match result {
            Ok(()) => println!("<== {}: ok ({seconds:.1} s)", step.name),
            Err(Failure::Check(text) | Failure::Usage(text)) => {
                println!("{text}\n<== {}: FAILED ({seconds:.1} s)", step.name);
                failed.push(step.name);
            }
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    if failed.is_empty() {
        println!("All checks passed in {seconds:.0} s.");
        return Ok(());
    }
    Err(Failure::check(format!(
        "Failed after {seconds:.0} s: {}. To repeat: cargo xtask ci {}",
        failed.join(", "),
        failed.join(" ")
    )))
}

/// Other compiler flags need target directories of their own, or everything is built again.
fn loom() -> Result<(), Failure> {
    let models = [
        ("loom", "rackweave-link", &["--test", "loom_ring"][..]),
        ("loom", "rackweave-endpoint", &["--lib", "btree::model"]),
        ("shuttle", "rackweave-endpoint", &["--lib", "btree::model"]),
    ];
    for (scheduler, package, which) in models {
        let mut command = cargo(&["test", "--package", package, "--release"]);
        command
            .args(which)
            .arg("--target-dir")
            .arg(target_dir().join(scheduler));
        process::run(command.env("RUSTFLAGS", format!("--cfg {scheduler}")))?;
    }
    Ok(())
}

/// The binary that users get. After the first step that needs it, Cargo finds it up to date.
fn rackweave(arguments: &[&str]) -> Result<Command, Failure> {
    let build = ["build", "--release", "--package", "rackweave-cli"];
    process::run(&mut cargo(&build))?;
    let mut command = in_root(release_binary());
    command.args(arguments);
    Ok(command)
}

/// The demo compares its answers with a direct computation over the same rows, so two verified runs
/// have the same answers.
fn demo(options: &[&str]) -> Result<(), Failure> {
    let mut command = rackweave(&["demo", "--format", "json"])?;
    let (code, output) = capture(command.args(options))?;
    if code == 0 && json::is(&output, "verified", true) {
        return Ok(());
    }
    Err(Failure::check(format!(
        "{output}\nthe demo exits with {code}, or is not verified"
    )))
}

fn chaos() -> Result<(), Failure> {
    campaign("all", "3000")
}

/// Checks that the figures run to their end, with every item right. Their measurements are not
/// judged.
fn figures() -> Result<(), Failure> {
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

fn hosted_chaos() -> Result<(), Failure> {
    campaign("hosted", "4")
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

fn repeat() -> Result<(), Failure> {
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

fn read_capture() -> Result<(), Failure> {
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

fn interop() -> Result<(), Failure> {
    let status = in_root("interop/run")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_steps_are_told_apart() {
        for (at, step) in STEPS.iter().enumerate() {
            assert!(STEPS[..at].iter().all(|other| other.name != step.name));
        }
    }

    #[test]
    fn an_unknown_step_is_refused() {
        let result = run(&["clipy".to_owned()]);
        assert!(matches!(result, Err(Failure::Usage(text)) if text.contains("clipy")));
    }
}
