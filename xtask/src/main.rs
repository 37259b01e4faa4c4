//! Checks and chores of the project, run as `cargo xtask`.
//!
//! [`ci`] runs every check, the same at home and in continuous integration; [`tidy`] checks the
//! rules of style and of dependencies between crates that a machine can check; [`canary`] proves
//! that the checkers of the simulator can fail; [`catalogue`] generates tables of docs/ from the
//! code; [`fuzz`] runs the fuzz targets under libFuzzer; [`toolchain`] has the checks by Miri and
//! ThreadSanitizer; [`install`] installs the library for C and C++; [`peers`] measures what others
//! offer beside ours. This program knows the project's files and commands, and none of its crates,
//! so that it builds when they do not.

mod canary;
mod catalogue;
mod ci;
mod fuzz;
mod install;
mod json;
mod library;
mod peers;
mod process;
mod steps;
mod tidy;
mod times;
mod toolchain;

use std::process::ExitCode;

const HELP: &str = "\
Checks and chores of Rackweave.

Usage: cargo xtask COMMAND

Commands:
  ci [STEP]... [--list]             every check in order, or only the steps named
  ci --record                       every check; their times become the table .ci/times.tsv
  tidy                              style and the arrows between crates
  canary [SYSTEM] [--seeds N]       plants bugs and demands that the checkers catch each of them
  tables                            writes the tables of docs/ anew that are made from the code
  fuzz [TARGET] [--seconds N] [--merge]
                                    fuzzes one target, or all in turn (60 seconds each)
  fuzz TARGET --input FILE          runs one input, for instance one that has failed
  header                            makes crates/capi/include/rackweave.h from its sources
  install [--prefix DIR] [--debug] [--uninstall] [--from DIR]
                                    the C and C++ headers, library and pkg-config file, to
                                    /usr/local by default; --from: a folder with built libraries
  peers [--rounds N] [--only ROW]... [--list]
                                    measures what a user would choose instead, beside ours;
                                    `peers --help` says more
  help                              this text

Examples:
  cargo xtask ci
  cargo xtask ci fmt clippy tidy
  cargo xtask canary flows
  cargo xtask fuzz nic --seconds 300 --merge
  cargo xtask install --prefix ~/.local
  cargo xtask peers --only tree

The exit status is 0 if all is well, 1 if a check failed, 2 for a wrong command line.";

/// Why a command failed.
#[derive(Debug)]
enum Failure {
    /// A check failed, with this message.
    Check(String),
    /// The command line is wrong, with this message.
    Usage(String),
}

impl Failure {
    fn check(text: impl Into<String>) -> Self {
        Self::Check(text.into())
    }

    fn usage(text: impl Into<String>) -> Self {
        Self::Usage(text.into())
    }
}

fn run(arguments: &[String]) -> Result<(), Failure> {
    let Some((command, rest)) = arguments.split_first() else {
        return Err(Failure::usage("a command is missing"));
    };
    match command.as_str() {
        "ci" => ci::run(rest),
        "tidy" => tidy::run(rest),
        "canary" => canary::run(rest),
        "tables" => catalogue::run(rest),
        "fuzz" => fuzz::run(rest),
        "header" => install::header(rest),
        "install" => install::run(rest),
        "peers" => peers::run(rest),
        "help" | "--help" | "-h" => {
            println!("{HELP}");
            Ok(())
        }
        other => Err(Failure::usage(format!("there is no command {other}"))),
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Check(text)) => {
            eprintln!("{text}");
            ExitCode::from(1)
        }
        Err(Failure::Usage(text)) => {
            eprintln!("xtask: {text}; `cargo xtask help` lists what there is");
            ExitCode::from(2)
        }
    }
}
