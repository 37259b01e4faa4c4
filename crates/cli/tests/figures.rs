//! The command `figures` from outside: files, claims, mistakes, interruption.

mod common;

use common::interrupted;
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

/// A folder of this name that is not there yet.
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
        ["claims.csv", "zero-sided-7.csv", "zero-sided-7.svg"]
    );
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
    assert!(files(&folder).is_empty());
}
