//! No circles inside a crate: a module imports what is below it, and nothing below imports it.
//!
//! A module is a file or folder directly under `src`. What its tests import does not count, and
//! neither does what the root of a crate imports, since it declares and re-exports all of them.

use super::Finding;
use super::text::Quotes;
use std::collections::{BTreeMap, BTreeSet};

/// The imports of a crate: where each module first imports each other one.
#[derive(Default)]
struct Modules {
    names: BTreeSet<String>,
    imports: BTreeMap<(String, String), Vec<(String, usize)>>,
}

/// Looks at all sources, paths from the root of the project on.
pub fn check(sources: &[(String, String)], findings: &mut Vec<Finding>) {
    let mut crates: BTreeMap<&str, Modules> = BTreeMap::new();
    for (path, text) in sources {
        let Some((folder, file)) = path.split_once("/src/") else {
            continue;
        };
        let parts: Vec<&str> = file.trim_end_matches(".rs").split('/').collect();
        let is_root = matches!(parts[..], ["lib" | "main"]);
        if is_root || parts.iter().any(|part| is_test(part)) {
            continue;
        }
        let module = parts[0].to_owned();
        let modules = crates.entry(folder).or_default();
        modules.names.insert(module.clone());
        // In a file at the top, `super` is the root of the crate.
        let roots: &[&str] = match parts.len() {
            1 => &["crate::", "super::"],
            _ => &["crate::"],
        };
        for (line, other) in imported(text, roots) {
            let import = (module.clone(), other);
            let places = modules.imports.entry(import).or_default();
            places.push((path.clone(), line));
        }
    }
    for modules in crates.values() {
        let circles = modules.circles();
        findings.extend(circles.iter().map(|circle| modules.finding(circle)));
    }
}

impl Modules {
    fn below(&self, module: &str) -> impl Iterator<Item = &str> {
        let imports = self.imports.keys().filter(move |(from, to)| {
            from == module && to != module && self.names.contains(to.as_str())
        });
        imports.map(|(_, to)| to.as_str())
    }

    /// All modules that `module` imports, directly or by way of others.
    fn reached(&self, module: &str) -> BTreeSet<&str> {
        let mut reached = BTreeSet::new();
        let mut open: Vec<&str> = self.below(module).collect();
        while let Some(next) = open.pop() {
            if reached.insert(next) {
                open.extend(self.below(next));
            }
        }
        reached
    }

    /// Groups of modules each of which reaches all of its group.
    fn circles(&self) -> BTreeSet<Vec<String>> {
        let reached: BTreeMap<&str, BTreeSet<&str>> = self
            .names
            .iter()
            .map(|name| (name.as_str(), self.reached(name)))
            .collect();
        let circle = |name: &String| {
            let back = |other: &&&str| reached[**other].contains(name.as_str());
            let members = reached[name.as_str()].iter().filter(back);
            members.map(|&member| member.to_owned()).collect()
        };
        let circles = self.names.iter().map(circle);
        circles
            .filter(|circle: &Vec<_>| !circle.is_empty())
            .collect()
    }

    /// A circle, reported at its thinnest import: the one to be turned round.
    fn finding(&self, circle: &[String]) -> Finding {
        let within = |(from, to): &(String, String)| {
            from != to && circle.contains(from) && circle.contains(to)
        };
        let imports = self.imports.iter().filter(|(import, _)| within(import));
        let thinnest = imports.min_by_key(|(_, places)| places.len());
        let ((from, to), places) = thinnest.expect("a circle has imports");
        let (path, line) = places[0].clone();
        Finding {
            path,
            line,
            message: format!(
                "{} import each other; the thinnest import is {from} -> {to}: move what both need \
                 below them",
                circle.join(", ")
            ),
        }
    }
}

/// Whether a folder or file of this name, without its suffix, has tests.
pub(super) fn is_test(part: &str) -> bool {
    let words = ["test", "tests"];
    part.split('_').any(|word| words.contains(&word))
}

/// The names behind each of `roots` in the code, with their lines, up to the tests at the end.
fn imported(text: &str, roots: &[&str]) -> Vec<(usize, String)> {
    let mut code = String::new();
    let mut quotes = Quotes::default();
    let mut last = "";
    for line in text.lines() {
        if last == "#[cfg(test)]" && line.starts_with("mod ") && line.ends_with('{') {
            break;
        }
        code.push_str(&quotes.code_of(line));
        code.push('\n');
        last = line;
    }
    let mut found = Vec::new();
    for root in roots {
        for (at, _) in code.match_indices(root) {
            let line = code[..at].matches('\n').count() + 1;
            let names = names(&code[at + root.len()..]);
            found.extend(names.into_iter().map(|name| (line, name)));
        }
    }
    found
}

/// The first segment of a path, or of each path in a group of braces.
fn names(rest: &str) -> Vec<String> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let first = |path: &str| {
        path.trim_start()
            .split(|c| !is_part(c))
            .next()
            .map(str::to_owned)
    };
    let Some(group) = rest.strip_prefix('{') else {
        return first(rest).into_iter().collect();
    };
    let mut depth = 1;
    let end = group.find(|c| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        depth == 0
    });
    let mut nested = 0;
    let paths = group[..end.unwrap_or(group.len())].split(|c| {
        nested += i32::from(c == '{') - i32::from(c == '}');
        c == ',' && nested == 0
    });
    paths.filter_map(first).collect()
}
