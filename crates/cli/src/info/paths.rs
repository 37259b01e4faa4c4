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
mod tests {
    use super::*;
    use crate::report::{self, COLUMNS};
    use rackweave_rack::RackConfig;

    fn text(config: &RackConfig) -> String {
        let paths = rackweave_rack::paths::describe(config).expect("it is good");
        report::text(by_rack(&paths))
    }

    #[test]
    fn the_text_of_the_default_rack_is_readable() {
        let text = text(&RackConfig::default());
        for line in text.lines() {
            assert!(line.chars().count() < COLUMNS, "{line}");
            assert_eq!(line, line.trim_end());
        }
        let nodes = "\n  nodes storage0, storage1, compute0, compute1:\n";
        assert!(text.contains(nodes), "{text}");
    }

    #[test]
    fn every_value_and_every_reason_is_told() {
        let mut config = RackConfig::default();
        config.hosted = Some(config.hosted());
        config.node[1].faults.loss = Some(0.02);
        config.node[2].name = "compute_0_s".to_owned();
        config.switch.page_entries = 3;
        config.store = vec![rackweave_rack::config::StoreConfig::in_memory(
            "orders",
            "storage0",
            1 << 20,
        )];
        let text = text(&config);
        let flat: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for path in rackweave_rack::paths::describe(&config).expect("it is good") {
            for words in [&path.value, &path.why] {
                assert!(flat.contains(words.as_str()), "{words:?} in\n{text}");
            }
        }
        let nodes = "  nodes storage0, compute_0_s, compute1:\n";
        assert!(text.contains(nodes), "{text}");
        assert!(text.contains("  node storage1:\n"), "{text}");
    }
}
