//! Links between documents: the file exists, and so does the heading.

use super::Finding;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

/// Checks all documents, given by their paths relative to the root of the project. `exists` returns
/// whether a path exists.
pub fn check(
    documents: &[(String, String)],
    exists: &dyn Fn(&Path) -> bool,
    findings: &mut Vec<Finding>,
) {
    let anchors: BTreeMap<&str, BTreeSet<String>> = documents
        .iter()
        .map(|(path, text)| (path.as_str(), anchors(text)))
        .collect();
    for (path, text) in documents {
        let folder = Path::new(path).parent().unwrap_or(Path::new(""));
        for (line, target) in links(text) {
            let mut find = |message: String| {
                findings.push(Finding {
                    path: path.clone(),
                    line,
                    message,
                });
            };
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let file = match file {
                "" => PathBuf::from(path),
                file => normal(&folder.join(file)),
            };
            let name = file.to_string_lossy().replace('\\', "/");
            if !exists(&file) {
                find(format!("the link leads to {name}, which is not there"));
            } else if !anchor.is_empty()
                && let Some(anchors) = anchors.get(name.as_str())
                && !anchors.contains(anchor)
            {
                find(format!("{name} has no heading for #{anchor}"));
            }
        }
    }
}

fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(normal.pop()),
            Component::CurDir => {}
            other => normal.push(other),
        }
    }
    normal
}

/// Lines outside of code blocks, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_code = false;
    text.lines().enumerate().filter_map(move |(at, line)| {
        let is_fence = line.trim_start().starts_with("```");
        in_code ^= is_fence;
        (!in_code && !is_fence).then_some((at + 1, line))
    })
}

/// Targets of links and pictures.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut links = Vec::new();
    for (number, line) in prose(text) {
        // Text in back quotes is no link.
        for part in line.split('`').step_by(2) {
            for rest in part.split("](").skip(1) {
                if let Some((target, _)) = rest.split_once(')') {
                    links.push((number, target.split(' ').next().unwrap_or(target)));
                }
            }
        }
    }
    links
}

/// The anchors of headings, as the usual readers of Markdown generate them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = prose(text).filter_map(|(_, line)| {
        let rest = line.trim_start_matches('#');
        (rest.len() < line.len())
            .then(|| rest.strip_prefix(' '))
            .flatten()
    });
    let mut all = BTreeSet::new();
    for heading in headings {
        let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
        let name: String = heading.trim().chars().filter(kept).collect();
        let name = name.to_lowercase().replace(' ', "-");
        let mut unique = name.clone();
        let mut number = 0;
        while !all.insert(unique.clone()) {
            number += 1;
            unique = format!("{name}-{number}");
        }
    }
    all
}
