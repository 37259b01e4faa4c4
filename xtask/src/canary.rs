//! Planted bugs: every checker must be able to fail.
//!
//! A build with debug assertions knows bugs by name; they are listed in `rackweave_base::canary`.
//! Each is planted in turn, and the chaos campaign of its system must report violations; without a
//! bug the same binary must report none. A user's build must not have the option at all.
//!
//! The binary is the one that the tests use, so that nothing is built for the planted bugs alone.

use crate::process::{self, binary, capture, cargo, in_root};
use crate::{Failure, json, steps};
use std::path::Path;

/// Numbers of seeds of the successive campaigns, until one catches the bug.
const SEEDS: [u32; 3] = [300, 1000, 3000];
/// The same of racks of processes, which take seconds each.
const HOSTED_SEEDS: [u32; 2] = [30, 300];
/// The system of such racks. Its bugs are planted only if they are asked for.
const HOSTED: &str = "hosted";
/// Exit statuses of `rackweave` for a failed verdict, and for wrong usage.
const FAILED: i32 = 1;
const REFUSED: i32 = 2;

/// A bug by name, with the system whose campaign must catch it.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Bug {
    system: String,
    name: String,
    /// How the clients of an index must read for the bug to have an effect; empty if any way will
    /// do.
    access: String,
}

/// Plants the bugs of one system or of all.
pub fn run(arguments: &[String]) -> Result<(), Failure> {
    let (system, seeds) = parse(arguments)?;
    let seeds_of = |system: &str| match system {
        HOSTED if seeds == SEEDS => &HOSTED_SEEDS[..],
        _ => &seeds[..],
    };
    steps::release()?;
    refused_by_users_build()?;
    process::run(&mut cargo(&["test", "--workspace", "--no-run", "--quiet"]))?;
    let binary = binary("debug");
    let bugs = bugs(&binary, system.as_deref())?;
    let mut campaigns: Vec<_> = bugs.iter().map(|bug| (&bug.system, &bug.access)).collect();
    campaigns.sort();
    campaigns.dedup();
    for (system, access) in campaigns {
        let (code, output) = campaign(&binary, (system, access), None, seeds_of(system)[0])?;
        if code != 0 {
            return Err(Failure::check(format!(
                "{output}\nwithout a bug, chaos of {system} {access} exits with {code}; mend that \
                 first"
            )));
        }
    }
    let mut lines = vec![format!("{:10} {:32} {}", "system", "bug", "verdict")];
    let mut missed = 0;
    for bug in &bugs {
        let verdict = plant(&binary, bug, seeds_of(&bug.system))?;
        missed += usize::from(verdict.is_none());
        let verdict = match verdict {
            Some(seeds) => format!("caught within {seeds} seeds"),
            None => "MISSED".to_owned(),
        };
        lines.push(format!("{:10} {:32} {verdict}", bug.system, bug.name));
    }
    println!("{}", lines.join("\n"));
    if missed == 0 {
        return Ok(());
    }
    Err(Failure::check(format!(
        "{missed} of {} planted bugs were not caught: the checkers or the fault schedules are blind",
        bugs.len()
    )))
}

fn parse(arguments: &[String]) -> Result<(Option<String>, Vec<u32>), Failure> {
    let (mut system, mut seeds) = (None, SEEDS.to_vec());
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        if argument == "--seeds" {
            let number = rest.next().and_then(|number| number.parse().ok());
            let most: u32 = number
                .filter(|&number| number > 0)
                .ok_or_else(|| Failure::usage("--seeds needs a number above zero"))?;
            seeds.retain(|&seeds| seeds < most);
            seeds.push(most);
        } else if argument.starts_with('-') || system.is_some() {
            return Err(Failure::usage(format!("canary does not know {argument}")));
        } else {
            system = Some(argument.clone());
        }
    }
    Ok((system, seeds))
}

fn refused_by_users_build() -> Result<(), Failure> {
    let mut command = in_root(binary("release"));
    let (code, _) = capture(command.args(["chaos", "--system", "flows", "--canary", "list"]))?;
    if code == REFUSED {
        return Ok(());
    }
    Err(Failure::check(format!(
        "a user's build takes --canary (it exits with {code}, not {REFUSED}); planted bugs may only \
         be in builds with debug assertions"
    )))
}

fn bugs(binary: &Path, system: Option<&str>) -> Result<Vec<Bug>, Failure> {
    let (code, output) = capture(in_root(binary).args(["chaos", "--canary", "list"]))?;
    if code != 0 {
        return Err(Failure::check(format!(
            "{output}\n--canary list exits with {code}"
        )));
    }
    let mut bugs = listed(&output);
    bugs.retain(|bug| system.map_or(bug.system != HOSTED, |system| bug.system == system));
    if bugs.is_empty() {
        let which = system.unwrap_or("any system");
        return Err(Failure::usage(format!(
            "there is no planted bug for {which}"
        )));
    }
    Ok(bugs)
}

/// One bug per line: system, name, and how clients must read, if that matters.
fn listed(output: &str) -> Vec<Bug> {
    let mut bugs: Vec<_> = output
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace().map(str::to_owned);
            Some(Bug {
                system: words.next()?,
                name: words.next()?,
                access: words.next().unwrap_or_default(),
            })
        })
        .collect();
    bugs.sort_by(|a, b| a.system.cmp(&b.system));
    bugs
}

fn campaign(
    binary: &Path,
    (system, access): (&str, &str),
    bug: Option<&str>,
    seeds: u32,
) -> Result<(i32, String), Failure> {
    let seeds = seeds.to_string();
    let mut command = in_root(binary);
    command.args([
        "chaos",
        "--system",
        system,
        "--seeds",
        &seeds,
        "--fail-fast",
        "--format",
        "json",
    ]);
    if !access.is_empty() {
        command.args(["--access", access]);
    }
    if let Some(bug) = bug {
        command.args(["--canary", bug]);
    }
    capture(&mut command)
}

/// What a verdict about a bug says at least, where several systems are judged at once.
fn shows(bug: &str) -> &'static str {
    match bug {
        "hosted-early-range" => "Sequencer: ",
        _ => "",
    }
}

/// Number of seeds within which the bug was caught, if it was.
fn plant(binary: &Path, bug: &Bug, seeds: &[u32]) -> Result<Option<String>, Failure> {
    for &seeds in seeds {
        match campaign(binary, (&bug.system, &bug.access), Some(&bug.name), seeds)? {
            (0, _) => {}
            // A verdict about something else is none about the bug.
            (FAILED, output) if !output.contains(shows(&bug.name)) => {
                return Err(Failure::check(format!(
                    "{output}\nwith {} planted, the verdict does not say {}",
                    bug.name,
                    shows(&bug.name)
                )));
            }
            (FAILED, output) => {
                let run = json::members(&output, "seeds_run");
                return Ok(run.first().map(ToString::to_string));
            }
            (code, output) => {
                return Err(Failure::check(format!(
                    "{output}\nwith {} planted, chaos exits with {code}; only a checker's verdict \
                     ({FAILED}) counts as caught",
                    bug.name
                )));
            }
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn the_list_is_sorted_by_system() {
        let bug = |system: &str, name: &str, access: &str| Bug {
            system: system.to_owned(),
            name: name.to_owned(),
            access: access.to_owned(),
        };
        let bugs = listed("flows early-head\n\nindex torn in-network\nflows  early-tail \n");
        let expect = [
            bug("flows", "early-head", ""),
            bug("flows", "early-tail", ""),
            bug("index", "torn", "in-network"),
        ];
        assert_eq!(bugs, expect);
    }

    #[test]
    fn arguments_are_checked() {
        let parsed = parse(&arguments("flows --seeds 500")).expect("sound");
        assert_eq!(parsed, (Some("flows".to_owned()), vec![300, 500]));
        for wrong in ["--seeds", "--seeds none", "flows pages", "--fast"] {
            assert!(
                matches!(parse(&arguments(wrong)), Err(Failure::Usage(_))),
                "{wrong}"
            );
        }
    }
}
