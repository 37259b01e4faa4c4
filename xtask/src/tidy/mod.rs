//! The style rules that a machine can check, and the dependencies between crates.
//!
//! [`text`] checks files line by line, [`dependencies`] the manifests of crates against a table of
//! allowed dependencies. [`modules`] finds modules of a crate that import each other, [`programs`]
//! crates with several programs of integration tests, [`words`] names for which the field has
//! better ones. [`links`] checks the links of documents, [`catalogue`] whether their tables match
//! the code. Every finding has a location, the problem, and its remedy.

mod dependencies;
mod links;
mod modules;
mod programs;
mod text;
mod words;

#[cfg(test)]
mod tests;

use crate::process::root;
use crate::{Failure, catalogue};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// Folders without hand-written files.
const SKIPPED: [&str; 5] = ["target", ".git", "corpus", "artifacts", "node_modules"];
/// Suffixes of the names of files that are checked.
const KINDS: [&str; 8] = [
    ".rs", ".md", ".toml", ".sh", ".yml", ".snap", ".txt", ".ci/run",
];

/// A violation of a rule.
#[derive(PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Finding {
    path: String,
    /// Counted from one.
    line: usize,
    message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}

/// Checks the whole project.
pub fn run(arguments: &[String]) -> Result<(), Failure> {
    if let Some(argument) = arguments.first() {
        return Err(Failure::usage(format!(
            "tidy takes no arguments, not {argument}"
        )));
    }
    let (files, findings) = judge()?;
    if findings.is_empty() {
        println!("{files} files are tidy");
        return Ok(());
    }
    let lines: Vec<_> = findings.iter().map(Finding::to_string).collect();
    Err(Failure::check(format!(
        "{}\n{} findings",
        lines.join("\n"),
        lines.len()
    )))
}

/// The number of files, and all findings in order.
fn judge() -> Result<(usize, Vec<Finding>), Failure> {
    let mut files = Vec::new();
    collect(root(), &mut files)?;
    let mut findings = Vec::new();
    let (mut documents, mut sources) = (Vec::new(), Vec::new());
    for file in &files {
        let path = file.strip_prefix(root()).unwrap_or(file);
        let path = path.to_string_lossy().replace('\\', "/");
        let text = fs::read_to_string(file)
            .map_err(|error| Failure::check(format!("{path}:1: {error}")))?;
        text::check(&path, &text, &mut findings);
        if path.ends_with("Cargo.toml") {
            dependencies::check(&path, &text, &mut findings);
        }
        match path.rsplit_once('.') {
            Some((_, "md")) => documents.push((path, text)),
            Some((_, "rs")) => sources.push((path, text)),
            _ => {}
        }
    }
    let exists = |path: &Path| root().join(path).exists();
    links::check(&documents, &exists, &mut findings);
    modules::check(&sources, &mut findings);
    programs::check(&sources, &mut findings);
    for (path, line, message) in catalogue::check(&sources)? {
        findings.push(Finding {
            path: path.to_owned(),
            line,
            message,
        });
    }
    findings.sort();
    Ok((files.len(), findings))
}

/// The files under `folder` that are to be checked.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), Failure> {
    let failed = |error| Failure::check(format!("{}: {error}", folder.display()));
    let mut entries = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        entries.push(entry.map_err(failed)?.path());
    }
    entries.sort();
    for path in entries {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let kind = path.to_string_lossy();
        if path.is_dir() {
            // Build output may have the name of one of the project's crates.
            let is_crate = path.join("Cargo.toml").exists();
            if is_crate || !SKIPPED.contains(&name.as_ref()) {
                collect(&path, files)?;
            }
        } else if KINDS.iter().any(|end| kind.ends_with(end)) {
            files.push(path);
        }
    }
    Ok(())
}
