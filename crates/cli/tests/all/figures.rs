//! The command `figures` from outside: files, claims, errors, interruption.

use crate::common::interrupted;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rackweave"));
    for name in ["RACKWEAVE_CONFIG", "RACKWEAVE_SEED", "RACKWEAVE_FORMAT"] {
        command.env_remove(name);
    }
    command.arg("figures").args(args);
    command
}

fn run(args: &[&str]) -> Output {
    command(args).output().expect("the binary runs")
}

/// A folder of this name that does not exist yet.
fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&path);
    path
}

fn files(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("the folder is there");
    let name = |entry: std::io::Result<std::fs::DirEntry>| {
        entry.expect("it can be read").file_name().into_string()
    };
    let mut names: Vec<String> = entries.map(|entry| name(entry).expect("text")).collect();
    names.sort();
    names
}

#[test]
fn a_figure_is_written_and_its_claims_are_told() {
    let folder = folder("figures-written");
    let out = folder.to_str().expect("the path is text");
    let output = run(&[
        "zero-sided-7",
        "--quick",
        "--seed",
        "5",
        "--out",
        out,
        "--format",
        "json",
    ]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), error.as_str()), (Some(0), ""));
    let value: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    assert_eq!(value["schema"], "rackweave/figures/1");
    assert_eq!(
        (&value["seed"], &value["scale"]),
        (&5.into(), &"quick".into())
    );
    assert_eq!(
        (&value["verified"], &value["interrupted"]),
        (&true.into(), &false.into())
    );
    let figure = &value["figures"][0];
    assert_eq!(figure["name"], "zero-sided-7");
    let claim = &figure["claims"][0];
    let number = |name: &str| claim[name].as_f64().expect("a number");
    assert!((number("ours") / number("paper") - number("ratio")).abs() < 1e-9);
    assert_eq!(
        files(&folder),
        [
            "claims.csv",
            "report.html",
            "zero-sided-7.csv",
            "zero-sided-7.svg"
        ]
    );
    let hash = value["configuration_hash"].as_str().expect("text");
    let text = value["configuration"].as_str().expect("text");
    assert_eq!(hash, format!("{:016x}", fnv1a(text.as_bytes())));
    assert!(text.contains("\nscale = quick\nseed = 5\n"), "{text}");
    let constants = value["constants"].as_array().expect("constants");
    let line = |one: &Value| {
        let part = |name: &str| one[name].as_str().expect("text").to_owned();
        let line = format!("{} = {} {}", part("name"), part("value"), part("unit"));
        line.trim_end().to_owned()
    };
    assert!(constants.len() > 100);
    for constant in constants {
        assert!(text.lines().any(|one| one == line(constant)), "{constant}");
    }
    let page = std::fs::read_to_string(folder.join("report.html")).expect("it can be read");
    assert!(page.contains(hash) && page.contains("id=\"zero-sided-7\""));
    assert!(!page.contains("class=\"warning\"") && !page.contains("class=\"failure\""));
    let csv = std::fs::read_to_string(folder.join("zero-sided-7.csv")).expect("it can be read");
    let columns = figure["series"].as_array().expect("curves").len() + 1;
    let head = csv.lines().next().expect("a first row");
    assert!(head.starts_with("batch size [B],"), "{head}");
    assert!(
        csv.lines()
            .all(|row| row.matches(',').count() + 1 >= columns),
        "{csv}"
    );
    let claims = std::fs::read_to_string(folder.join("claims.csv")).expect("it can be read");
    assert_eq!(
        claims.lines().count(),
        figure["claims"].as_array().expect("claims").len() + 1
    );
}

/// A second implementation of 64-bit FNV-1a: docs/report.md says how to check the hash.
fn fnv1a(bytes: &[u8]) -> u64 {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in bytes {
        hash ^= u64::from(*byte);
        hash = hash.wrapping_mul(0x0000_0100_0000_01b3);
    }
    hash
}

#[test]
fn what_comes_out_does_not_depend_on_how_many_run_at_a_time() {
    let names = [
        "bluefield-5",
        "bluefield-6",
        "bluefield-11",
        "zero-sided-flows",
    ];
    let made = |jobs: &str| {
        let folder = folder(&format!("figures-jobs-{jobs}"));
        let out = folder.to_str().expect("the path is text");
        let mut args = names.to_vec();
        args.extend(["--quick", "--quiet", "--jobs", jobs, "--out", out]);
        let output = run(&args);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), error.as_str()), (Some(0), ""));
        let read = |name: &str| {
            let path = folder.join(name);
            std::fs::read_to_string(path).expect("it can be read")
        };
        let mut texts = vec![read("claims.csv")];
        texts.extend(names.map(|name| read(&format!("{name}.csv"))));
        texts
    };
    assert_eq!(made("1"), made("3"));
}

#[test]
fn a_scale_is_one_of_three_and_not_two_at_once() {
    for (args, reported) in [
        (&["--scale", "huge", "zero-sided-7"][..], "paper"),
        (
            &["--scale", "full", "--quick", "zero-sided-7"][..],
            "--quick",
        ),
        (&["--jobs", "0", "zero-sided-7"][..], "--jobs"),
    ] {
        let output = run(args);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(reported), "{error}");
    }
}

#[test]
fn the_list_has_every_figure() {
    let output = run(&["--list", "--format", "json"]);
    let value: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    assert_eq!(value["schema"], "rackweave/figures-list/1");
    let figures = value["figures"].as_array().expect("figures");
    assert!(
        figures
            .iter()
            .any(|figure| figure["name"] == "zero-sided-6")
    );
}

#[test]
fn a_slip_of_the_pen_is_answered_with_the_nearest_name() {
    let output = run(&["zero-side-6"]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2));
    assert!(
        error.contains("similar") && error.contains("'zero-sided-6'"),
        "{error}"
    );
}

#[test]
fn a_folder_that_cannot_be_is_told_before_anything_runs() {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("figures-file");
    std::fs::write(&file, "").expect("the tests' folder may be written to");
    for out in [file.join("below"), PathBuf::from("/proc/rackweave")] {
        let output = run(&["--out", out.to_str().expect("the path is text")]);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
        assert!(
            error.starts_with("error: figures cannot be written to") && error.contains("--out"),
            "{error}"
        );
    }
}

#[test]
fn an_interruption_leaves_no_half_figure() {
    let folder = folder("figures-interrupted");
    let mut command = command(&["zero-sided-6", "--out", folder.to_str().expect("text")]);
    command.args(["--format", "json"]);
    let output = interrupted(&mut command, std::time::Duration::from_millis(700));
    assert_eq!(output.status.code(), Some(130));
    let value: Value = serde_json::from_slice(&output.stdout).expect("JSON, whatever happens");
    assert_eq!(value["interrupted"], true);
    assert_eq!(value["figures"].as_array().map(Vec::len), Some(0));
    assert_eq!(files(&folder), ["report.html"]);
    let page = std::fs::read_to_string(folder.join("report.html")).expect("it can be read");
    assert!(page.contains("This run was interrupted."));
    assert!(page.contains("1 of 1 figures are missing: zero-sided-6."));
}
