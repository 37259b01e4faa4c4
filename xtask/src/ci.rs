//! Every check, cheap ones first, each with a line that reports its result and duration. At the end
//! all durations are printed beside those of the table in the repository ([`times`]).

use crate::process::{self, cargo};
use crate::times::{self, Time};
use crate::{Failure, canary, library, steps, tidy, toolchain};
use std::time::Instant;

/// A check.
struct Step {
    name: &'static str,
    about: &'static str,
    run: fn() -> Result<(), Failure>,
}

const STEPS: [Step; 20] = [
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
        run: || {
            // Tests of racks of processes wait more than they compute: two at a time use a fifth of
            // one core.
            let mut test = cargo(&["test", "--workspace"]);
            process::run(test.env("RUST_TEST_THREADS", "4"))
        },
    },
    Step {
        name: "library",
        about: "what others depend on: without features, by the oldest compiler, as packages",
        run: library::run,
    },
    Step {
        name: "loom",
        about: "models: the ring and the latch under every order of accesses, the tree under many",
        run: steps::loom,
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
        name: "release",
        about: "the binary that users get builds",
        run: steps::release,
    },
    Step {
        name: "demo",
        about: "the demo verifies its answers",
        run: || steps::demo(&[]),
    },
    Step {
        name: "faults",
        about: "the simulated demo does so under loss, duplication, reordering and corruption",
        run: || steps::demo(&steps::FAULTS),
    },
    Step {
        name: "chaos",
        about: "seeded fault schedules without a violation",
        run: steps::chaos,
    },
    Step {
        name: "figures",
        about: "every experiment of the papers runs, in its short form",
        run: steps::figures,
    },
    Step {
        name: "hosted",
        about: "racks of processes that are killed and restarted never report a wrong result",
        run: steps::hosted_chaos,
    },
    Step {
        name: "repeat",
        about: "a seed run twice gives the same trace hash",
        run: steps::repeat,
    },
    Step {
        name: "capture",
        about: "tshark finds no malformed packet in a capture, where it is installed",
        run: steps::read_capture,
    },
    Step {
        name: "canary",
        about: "the checkers catch planted bugs",
        run: || canary::run(&[]),
    },
    Step {
        name: "interop",
        about: "our NIC and switch with Linux's RoCE stack, where QEMU is installed",
        run: steps::interop,
    },
    Step {
        name: "sql",
        about: "distributed queries over streams, where the registry of crates is in reach",
        run: steps::sql,
    },
];

/// What the command line asks for.
struct Request<'a> {
    /// The steps to run, in order.
    steps: Vec<&'a Step>,
    /// Whether the times become the table of the repository.
    record: bool,
}

/// Runs all steps or those that `arguments` name.
pub fn run(arguments: &[String]) -> Result<(), Failure> {
    if arguments.iter().any(|argument| argument == "--list") {
        for step in &STEPS {
            println!("{:8} {}", step.name, step.about);
        }
        return Ok(());
    }
    let request = parse(arguments)?;
    let before = times::read()?;
    let begun = Instant::now();
    let (times, failed) = run_steps(&request.steps);
    println!("{}", times::table(&times, &before));
    let seconds = begun.elapsed().as_secs_f64();
    if !failed.is_empty() {
        return Err(Failure::check(format!(
            "Failed after {seconds:.0} s: {}. To repeat: cargo xtask ci {}",
            failed.join(", "),
            failed.join(" ")
        )));
    }
    if request.record {
        times::record(&times)?;
        println!("The times of this run are the table {} now.", times::TABLE);
    } else if request.steps.len() == STEPS.len() {
        let slower = times::slower(&times, &before);
        if !slower.is_empty() {
            return Err(Failure::check(format!(
                "All checks passed in {seconds:.0} s, but became slower:\n{}",
                slower.join("\n")
            )));
        }
    }
    println!("All checks passed in {seconds:.0} s.");
    Ok(())
}

fn parse(arguments: &[String]) -> Result<Request<'static>, Failure> {
    let record = arguments.iter().any(|argument| argument == "--record");
    let names: Vec<_> = arguments
        .iter()
        .filter(|name| *name != "--record")
        .collect();
    if record && !names.is_empty() {
        return Err(Failure::usage(
            "ci --record runs all steps, because it compares each with the others; leave their \
             names out",
        ));
    }
    let known = |name: &&&String| STEPS.iter().any(|step| step.name == name.as_str());
    if let Some(unknown) = names.iter().find(|name| !known(name)) {
        return Err(Failure::usage(format!(
            "ci has no step {unknown} (`cargo xtask ci --list` names them)"
        )));
    }
    let chosen = |step: &&Step| names.is_empty() || names.iter().any(|name| *name == step.name);
    let steps = STEPS.iter().filter(chosen).collect();
    Ok(Request { steps, record })
}

/// The times of all steps, and the names of those that failed.
fn run_steps(steps: &[&Step]) -> (Vec<Time>, Vec<&'static str>) {
    let (mut times, mut failed) = (Vec::new(), Vec::new());
    for step in steps {
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
        times.push(Time {
            step: step.name.to_owned(),
            seconds,
        });
    }
    (times, failed)
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

    #[test]
    fn only_a_run_of_all_steps_is_recorded() {
        let request = parse(&["--record".to_owned()]).expect("sound");
        assert_eq!((request.steps.len(), request.record), (STEPS.len(), true));
        let result = parse(&["--record".to_owned(), "fmt".to_owned()]);
        assert!(matches!(result, Err(Failure::Usage(text)) if text.contains("--record")));
    }

    #[test]
    fn every_row_of_the_table_is_a_step() {
        for Time { step, .. } in times::read().expect("the table can be read") {
            assert!(STEPS.iter().any(|other| other.name == step), "{step}");
        }
    }
}
