//! Captures of the demo, as read by another program: Wireshark's `tshark`, where it is installed.

use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A folder that is removed with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("rackweave-capture-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).expect("the folder for temporary files may be written to");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder that cannot be removed is left behind; the test itself is complete.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs the demo with a capture into `file`; it must verify its answers.
#[track_caller]
fn demo(file: &Path, more: &[&str]) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rackweave"));
    for name in ["RACKWEAVE_CONFIG", "RACKWEAVE_SEED", "RACKWEAVE_FORMAT"] {
        command.env_remove(name);
    }
    let output = command
        .args(["demo", "--systems", "flows", "--scale-factor", "0.01"])
        .args(["--format", "json"])
        .arg("--capture")
        .arg(file)
        .args(more)
        .output()
        .expect("the binary runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{error}");
    let report: Value =
        serde_json::from_slice(&output.stdout).expect("standard output is one JSON value");
    assert_eq!(report["verified"], true, "{report}");
    assert_eq!(report["problems"], Value::Array(Vec::new()), "{report}");
}

/// What `tshark` prints of a capture, or nothing if it is not installed.
#[track_caller]
fn tshark(file: &Path, args: &[&str]) -> Option<String> {
    let output = match Command::new("tshark")
        .arg("-r")
        .arg(file)
        .args(args)
        .output()
    {
        Ok(output) => output,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        Err(error) => panic!("tshark does not run: {error}"),
    };
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "tshark {args:?}: {error}");
    Some(String::from_utf8(output.stdout).expect("tshark prints text"))
}

/// Asserts that every packet of a capture is well-formed, and that it has packets from before the
/// switch rewrote them and from after.
#[track_caller]
fn check(name: &str, more: &[&str]) {
    let folder = Folder::new(name);
    let file = folder.0.join("demo.pcapng");
    demo(&file, more);
    let Some(malformed) = tshark(&file, &["-Y", "_ws.malformed"]) else {
        println!("tshark is not installed: the capture was written, but nobody has read it");
        return;
    };
    let some: Vec<&str> = malformed.lines().take(3).collect();
    assert!(some.is_empty(), "malformed, to begin with: {some:#?}");

    let fields = ["-T", "fields", "-e", "infiniband.bth.opcode"];
    let text = tshark(&file, &fields).expect("it was installed just now");
    let opcodes: BTreeSet<u8> = text
        .lines()
        .map(|line| line.parse().expect("every packet has one opcode"))
        .collect();
    // In the order of a row: the switch READs it from its producer, and the response becomes a
    // WRITE to its consumer.
    let kinds: [(&str, &[u8]); 4] = [
        ("READ request", &[12]),
        ("READ response", &[13, 14, 15, 16]),
        ("WRITE", &[6, 7, 8, 10]),
        ("acknowledgement", &[17]),
    ];
    for (kind, codes) in kinds {
        assert!(
            codes.iter().any(|code| opcodes.contains(code)),
            "there is no {kind} among the opcodes {opcodes:?}"
        );
    }
}

#[test]
fn a_capture_in_real_time_is_well_formed() {
    check("embedded", &[]);
}

#[test]
fn a_capture_in_virtual_time_is_well_formed() {
    check("simulated", &["--simulated"]);
}
