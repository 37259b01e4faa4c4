//! Checks captures with programs that share no code with this project: tshark and `check-icrc`.

use crate::failure::{Doing, Failure, Outcome, expect};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Fails if tshark finds a malformed packet in one of `files`, or cannot read it.
pub fn well_formed(files: &[PathBuf]) -> Outcome {
    let guesses = guesses()?;
    for file in files {
        let mut command = Command::new("tshark");
        command.arg("-r").arg(file).args(["-Y", "_ws.malformed"]);
        for guess in &guesses {
            command.args(["--disable-protocol", guess]);
        }
        let output = run(&mut command)?;
        let found = String::from_utf8_lossy(&output.stdout);
        expect(output.status.success() && found.is_empty(), || {
            let text = String::from_utf8_lossy(&output.stderr);
            let first: Vec<&str> = found.lines().take(3).collect();
            let all = found.lines().count();
            format!("{}: {all} malformed: {first:?} {text}", file.display())
        })?;
    }
    Ok(())
}

/// The protocols that tshark might take a RoCEv2 packet for. It guesses from payloads: to tshark a
/// SEND of a few bytes is a malformed message of RPC over RDMA. It recognises UDP ports, including
/// the sender's, which is arbitrary. It needs Ethernet types for the packets themselves.
fn guesses() -> Outcome<Vec<String>> {
    let mut names = Vec::new();
    for report in ["heuristic-decodes", "decodes"] {
        let output = run(Command::new("tshark").args(["-G", report]))?;
        let text = String::from_utf8_lossy(&output.stdout);
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                ["infiniband.payload" | "udp", name, ..] if name != "ethertype" => {
                    names.push(name.to_owned());
                }
                ["udp.port", _, name] if name != "infiniband" => names.push(name.to_owned()),
                _ => {}
            }
        }
    }
    names.sort_unstable();
    names.dedup();
    expect(!names.is_empty(), || {
        "tshark -G lists no protocols".to_owned()
    })?;
    Ok(names)
}

/// Fails if a RoCEv2 packet in one of `files` has a wrong ICRC, or there are none.
pub fn icrc_right(interop: &Path, files: &[PathBuf]) -> Outcome {
    let output = run(Command::new("python3")
        .arg(interop.join("check-icrc"))
        .args(files))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    expect(output.status.success(), || format!("{text}{error}"))?;
    for line in text.lines() {
        println!("      {line}");
    }
    Ok(())
}

fn run(command: &mut Command) -> Result<Output, Failure> {
    let name = command.get_program().to_string_lossy().into_owned();
    command.output().doing(format!("running {name}"))
}
