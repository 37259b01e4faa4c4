//! The chosen paths with the reasons, as a report: what several nodes have in common is listed
//! once.

use rackweave_rack::paths::{Group, Kind, Path};
use serde_json::{Map, Value, json};

/// The paths of each kind of rack, and those that are the same in all kinds.
pub fn by_rack(paths: &[Path]) -> Map<String, Value> {
    let kinds = [Kind::Embedded, Kind::Simulated, Kind::Hosted];
    let titled = |kind: Option<Kind>| {
        let title = match kind {
            Some(Kind::Embedded) => "paths in an embedded rack, and why".to_owned(),
            Some(kind) => format!("paths in a {} rack, and why", kind.name()),
            None => "paths in every rack, and why".to_owned(),
        };
        let own = paths.iter().filter(|path| match path.group {
            Group::Node | Group::Setting => path.rack == kind,
            Group::Store | Group::Program | Group::Index => kind.is_none(),
        });
        (title, by_heading(own.collect()).into())
    };
    kinds
        .map(Some)
        .into_iter()
        .chain([None])
        .map(titled)
        .collect()
}

/// Paths below their headings. Nodes with the same paths share one.
fn by_heading(mut paths: Vec<&Path>) -> Map<String, Value> {
    paths.sort_by_key(|path| path.group);
    let of_nodes = paths.iter().take_while(|path| path.group == Group::Node);
    let count = of_nodes.count();
    let mut nodes: Vec<(Vec<String>, Value)> = Vec::new();
    for (name, rows) in rows(&paths[..count]) {
        match nodes.iter_mut().find(|(_, known)| *known == rows) {
            Some((names, _)) => names.push(name),
            None => nodes.push((vec![name], rows)),
        }
    }
    let nodes = nodes.into_iter().map(|(names, rows)| (title(&names), rows));
    nodes.chain(rows(&paths[count..])).collect()
}

/// A few nodes by name, many by number.
fn title(names: &[String]) -> String {
    match names {
        [only] => format!("node {only}"),
        [first, .., last] if names.len() > 8 => {
            let count = names.len();
            format!("nodes {first} to {last}, {count} of them alike")
        }
        names => format!("nodes {}", names.join(", ")),
    }
}

/// The rows of each heading.
fn rows(paths: &[&Path]) -> Map<String, Value> {
    let mut found = Map::new();
    for path in paths {
        let of = &*path.of;
        let (heading, what) = match (path.group, path.rack) {
            (Group::Node, _) => (of.to_owned(), path.what),
            (Group::Setting, None) => ("the numbers".to_owned(), of),
            (Group::Setting, Some(_)) => ("the settings".to_owned(), of),
            (Group::Program, _) => (format!("program {of}"), path.what),
            (Group::Index, _) => ("ways to an index".to_owned(), of),
            (Group::Store, kind) => {
                let heading = if of.is_empty() {
                    "all stores"
                } else {
                    "store "
                };
                // A store's medium differs between kinds of racks.
                let what = kind.map_or(path.what, Kind::name);
                (format!("{heading}{of}"), what)
            }
        };
        let rows = found.entry(heading).or_insert_with(|| json!([]));
        if let Value::Array(rows) = rows {
            rows.push(json!({"what": what, "value": path.value, "why": path.why}));
        }
    }
    found
}

#[cfg(test)]
mod tests;
