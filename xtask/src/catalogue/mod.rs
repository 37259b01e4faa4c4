//! Tables in docs/ that are generated from the code: `cargo xtask tables` writes them, and
//! [`tidy`](crate::tidy) reports where they differ, and which errors are missing.
//!
//! A table follows a comment that names its source, `<!-- from: FILE WHAT -->`. WHAT is the name of
//! an enum, a macro whose call makes one (`reasons!`), or an `impl` with constants (`impl Status`).
//! A row has the name, the documentation, and the message to a user. The text between the tables is
//! written by hand.

mod source;

use crate::Failure;
use crate::process::root;
use source::{Item, enums_of, items};
use std::fs;
use std::path::Path;

/// The catalogue of errors, relative to the root of the project.
const ERRORS: &str = "docs/errors.md";

/// All documents with generated tables.
const FILES: [&str; 3] = [ERRORS, "docs/faults.md", "docs/protocol.md"];

const MARKER: &str = "<!-- from: ";

/// Sources whose public errors can reach a user of the command line or the library.
const REACHABLE: [&str; 11] = [
    "crates/base/src",
    "crates/capi/src",
    "crates/cli/src",
    "crates/control/src",
    "crates/controller/src",
    "crates/endpoint/src",
    "crates/link/src",
    "crates/rack/src",
    "crates/rackweave/src",
    "crates/target/src",
    "crates/verbs/src",
];

/// Errors among them that stay between nodes, with how they are reported instead.
const INTERNAL: [(&str, &str); 5] = [
    ("crates/link/src/pcapng.rs", "CaptureError wraps it"),
    (
        "crates/link/src/shared_memory/handover.rs",
        "a hosted rack says it as HostedError::Link",
    ),
    (
        "crates/endpoint/src/index/message/mod.rs",
        "the server answers with a status",
    ),
    (
        "crates/endpoint/src/index/shard/handover/state.rs",
        "the coordinator learns it from a status",
    ),
    (
        "crates/base/src/memory/shared.rs",
        "a hosted rack says it as HostedError::Link",
    ),
];

/// Suffixes of names of enums that give the reason of a refusal or failure.
const ENDS: [&str; 5] = ["Error", "Reason", "Refusal", "Denied", "RefusalCode"];

/// Generates the tables.
pub fn run(arguments: &[String]) -> Result<(), Failure> {
    if let Some(argument) = arguments.first() {
        return Err(Failure::usage(format!(
            "tables takes no arguments, not {argument}"
        )));
    }
    let mut all = Vec::new();
    for file in FILES {
        let path = root().join(file);
        let text = read(&path)?;
        let (new, problems) = renew(&text, &read_source);
        if new != text {
            fs::write(&path, new).map_err(|error| Failure::check(format!("{file}: {error}")))?;
            println!("{file} was written anew");
        }
        let problems = problems.iter();
        all.extend(problems.map(|(line, problem)| format!("{file}:{line}: {problem}")));
    }
    match all.is_empty() {
        true => Ok(()),
        false => Err(Failure::check(all.join("\n"))),
    }
}

/// A document, a line number, and the problem there.
pub type Problem = (&'static str, usize, String);

/// Returns the problems of the documents. `sources` are the project's Rust files.
pub fn check(sources: &[(String, String)]) -> Result<Vec<Problem>, Failure> {
    let find = |path: &str| {
        let source = sources.iter().find(|(known, _)| known == path);
        source.map(|(_, text)| text.clone())
    };
    let mut all = Vec::new();
    for file in FILES {
        let text = read(&root().join(file))?;
        let wanted = if file == ERRORS { sources } else { &[] };
        let problems = judge(&text, wanted, &find).into_iter();
        all.extend(problems.map(|(line, problem)| (file, line, problem)));
    }
    Ok(all)
}

fn judge(
    text: &str,
    sources: &[(String, String)],
    find: &dyn Fn(&str) -> Option<String>,
) -> Vec<(usize, String)> {
    let (new, mut problems) = renew(text, find);
    let differs = text.lines().zip(new.lines()).position(|(a, b)| a != b);
    let ends = text.lines().count().min(new.lines().count());
    if text != new {
        let line = differs.unwrap_or(ends) + 1;
        problems.push((
            line,
            "the table is not what the code says: cargo xtask tables writes it anew".to_owned(),
        ));
    }
    for (path, source) in sources {
        let is_test = path.contains("test");
        if is_test || !REACHABLE.iter().any(|prefix| path.starts_with(prefix)) {
            continue;
        }
        if INTERNAL.iter().any(|(internal, _)| internal == path) {
            continue;
        }
        for name in enums_of(source) {
            let is_error = ENDS.iter().any(|end| name.ends_with(end));
            if is_error && !text.contains(&format!("{MARKER}{path} {name} -->")) {
                problems.push((
                    1,
                    format!(
                        "{name} of {path} is missing: write a section with the line \
                         `{MARKER}{path} {name} -->` and run cargo xtask tables"
                    ),
                ));
            }
        }
    }
    problems
}

/// The text with tables generated from the code, and the tables that could not be generated.
fn renew(text: &str, find: &dyn Fn(&str) -> Option<String>) -> (String, Vec<(usize, String)>) {
    let mut new = String::new();
    let mut problems = Vec::new();
    let mut lines = text.lines().enumerate().peekable();
    while let Some((at, line)) = lines.next() {
        new.push_str(line);
        new.push('\n');
        let marked = line.strip_prefix(MARKER);
        let Some(marked) = marked.and_then(|rest| rest.strip_suffix(" -->")) else {
            continue;
        };
        while lines.next_if(|(_, line)| is_made(line)).is_some() {}
        let (path, what) = marked.split_once(' ').unwrap_or((marked, ""));
        let found = find(path).and_then(|source| items(&source, what));
        match found {
            Some(items) if !items.is_empty() => {
                let name = what.trim_start_matches("impl ");
                new.push_str(&format!("\n{TITLE}{name}`](../{path})**\n"));
                new.push_str(&table(&items));
            }
            _ => problems.push((at + 1, format!("there is no such source: {marked}"))),
        }
        if lines.peek().is_some() {
            new.push('\n');
        }
    }
    (new, problems)
}

/// The beginning of the lines above tables.
const TITLE: &str = "**[`";

fn is_made(line: &str) -> bool {
    line.is_empty() || line.starts_with('|') || line.starts_with(TITLE)
}

fn table(items: &[Item]) -> String {
    let says = items.iter().any(|item| item.says.is_some());
    let values = items.iter().any(|item| item.value.is_some());
    let mut titles = vec!["name"];
    titles.extend(values.then_some("number or name"));
    titles.push("means");
    titles.extend(says.then_some("says"));
    let mut table = format!("\n| {} |\n", titles.join(" | "));
    table.push_str(&format!("|{}\n", "---|".repeat(titles.len())));
    for item in items {
        let mut cells = vec![format!("`{}`", item.name)];
        if values {
            let value = item.value.as_deref();
            cells.push(value.map_or(String::new(), |value| format!("`{value}`")));
        }
        cells.push(item.means.clone());
        if says {
            cells.push(item.says.clone().unwrap_or_default());
        }
        let cells: Vec<_> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
        table.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    table
}

fn read(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path).map_err(|error| Failure::check(format!("{}: {error}", path.display())))
}

fn read_source(path: &str) -> Option<String> {
    fs::read_to_string(root().join(path)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "\
//! A crate.

/// Why not.
pub enum GoError {
    /// There is no [`Way`]; see
    /// elsewhere.
    ///
    /// More of it.
    #[error(\"no way to {0}; \\
             build one\")]
    NoWay(String),
    /// Somebody else's fault.
    #[error(transparent)]
    Other(#[from] Other),
}
";

    fn find(path: &str) -> Option<String> {
        (path == "crates/rack/src/go.rs").then(|| SOURCE.to_owned())
    }

    fn check(text: &str, expect: &[&str]) {
        let sources = [("crates/rack/src/go.rs".to_owned(), SOURCE.to_owned())];
        let problems = judge(text, &sources, &find);
        let listed: Vec<_> = problems.iter().map(|(_, problem)| problem).collect();
        assert_eq!(listed.len(), expect.len(), "{listed:#?}");
        for (problem, part) in listed.iter().zip(expect) {
            assert!(problem.contains(part), "{problem}");
        }
    }

    #[test]
    fn tables_are_what_the_code_says() {
        let begin = "# Errors\n\n<!-- from: crates/rack/src/go.rs GoError -->\n";
        let (new, problems) = renew(&format!("{begin}\nThe end.\n"), &find);
        assert_eq!(problems, []);
        let table = "\
\n**[`GoError`](../crates/rack/src/go.rs)**\n
| name | means | says |
|---|---|---|
| `NoWay` | There is no `Way`; see elsewhere. | no way to {0}; build one |
| `Other` | Somebody else's fault. | what its cause says |
";
        assert_eq!(new, format!("{begin}{table}\nThe end.\n"));
        assert_eq!(renew(&new, &find).0, new, "once is enough");
        check(&new, &[]);
        check(&new.replace("build one", "go"), &["cargo xtask tables"]);
    }

    #[test]
    fn what_is_missing_or_gone_is_found() {
        check(
            "# Errors\n",
            &["GoError of crates/rack/src/go.rs is missing"],
        );
        let gone = "<!-- from: crates/rack/src/go.rs GoneError -->\n";
        check(gone, &["no such source", "is missing"]);
    }
}
