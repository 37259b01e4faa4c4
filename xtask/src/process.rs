//! Other programs: cargo, the project's own binary, tshark.

use crate::Failure;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The root of the project.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask lies in the root")
}

/// The target directory of cargo.
pub fn target_dir() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => root().join(dir),
        None => root().join("target"),
    }
}

/// The path of the project's binary in a profile's directory; `release` has the one that users get.
pub fn binary(profile: &str) -> PathBuf {
    target_dir()
        .join(profile)
        .join(format!("rackweave{}", std::env::consts::EXE_SUFFIX))
}

/// Cargo, in the root of the project.
pub fn cargo(arguments: &[&str]) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = in_root(cargo);
    command.args(arguments);
    command
}

/// A program that runs in the root of the project, without input.
pub fn in_root(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root()).stdin(Stdio::null());
    command
}

/// Runs it and passes its output through.
pub fn run(command: &mut Command) -> Result<(), Failure> {
    println!("$ {}", line(command));
    let status = command
        .status()
        .map_err(|error| Failure::check(format!("{}: {error}", line(command))))?;
    if status.success() {
        return Ok(());
    }
    Err(Failure::check(format!("{}: {status}", line(command))))
}

/// Runs it, keeps its output, and returns its exit status.
pub fn capture(command: &mut Command) -> Result<(i32, String), Failure> {
    println!("$ {}", line(command));
    let output: Output = command
        .output()
        .map_err(|error| Failure::check(format!("{}: {error}", line(command))))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let Some(code) = output.status.code() else {
        let said = text(&output.stderr);
        return Err(Failure::check(format!(
            "{}: {}\n{said}",
            line(command),
            output.status
        )));
    };
    if code > 1 {
        // A status above 1 is no verdict: only standard error says why there is none.
        eprint!("{}", text(&output.stderr));
    }
    Ok((code, text(&output.stdout)))
}

/// The command line as typed in a shell.
fn line(command: &Command) -> String {
    let mut line = String::new();
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            let (name, value) = (name.to_string_lossy(), value.to_string_lossy());
            line += &format!("{name}={value:?} ");
        }
    }
    let program = Path::new(command.get_program());
    let root = program.strip_prefix(root()).unwrap_or(program);
    let name = root.file_name().filter(|_| root.is_absolute());
    line += &name.unwrap_or(root.as_os_str()).to_string_lossy();
    for argument in command.get_args() {
        line += " ";
        line += &argument.to_string_lossy();
    }
    line
}
