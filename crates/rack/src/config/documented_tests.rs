//! Checks the page about the configuration: its examples are valid, and it lists every key with its
//! default.

use super::syntax::{Section, sections};
use super::*;
use std::collections::BTreeMap;

fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The blocks of TOML in a page, with the lines at which they begin.
fn examples(page: &str) -> Vec<(usize, String)> {
    let mut examples = Vec::new();
    let mut block: Option<(usize, String)> = None;
    for (number, line) in (1..).zip(page.lines()) {
        match (&mut block, line) {
            (None, "```toml") => block = Some((number, String::new())),
            (Some(_), "```") => examples.extend(block.take()),
            (Some((_, text)), line) => {
                text.push_str(line);
                text.push('\n');
            }
            (None, _) => {}
        }
    }
    assert!(block.is_none(), "the last block is not closed");
    examples
}

/// The tables of a page, by the heading that they follow: key and default of each row.
fn tables(page: &str) -> BTreeMap<String, Vec<(String, String)>> {
    let mut tables: BTreeMap<String, Vec<_>> = BTreeMap::new();
    let mut heading = String::new();
    for line in page.lines() {
        if let Some(text) = line.strip_prefix("### ") {
            heading = text.to_owned();
        }
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let ["", key, default, _, ""] = cells[..] else {
            continue;
        };
        if let Some(key) = key.strip_prefix('`').and_then(|key| key.strip_suffix('`')) {
            let row = (key.to_owned(), default.trim_matches('`').to_owned());
            tables.entry(heading.clone()).or_default().push(row);
        }
    }
    tables
}

/// The default settings of a section, including those of one node, one store and a hosted rack.
fn defaults(section: &str) -> toml::Table {
    let node = NodeConfig {
        faults: NodeFaults::default(),
        ..NodeConfig::new("a", Role::Storage)
    };
    let config = RackConfig {
        node: vec![node],
        guest: vec![GuestConfig::new(1)],
        host: vec![HostConfig {
            name: "h".into(),
            mac: rackweave_base::MacAddr([0x52, 0, 0, 0, 0, 1]),
            ip: std::net::Ipv4Addr::new(10, 77, 1, 1),
            udp: None,
            switch_interface: None,
            authenticate: None,
        }],
        store: vec![StoreConfig::in_memory("s", "a", 65_536)],
        hosted: Some(HostedSection {
            standby: Some(StandbySection::default()),
            ..HostedSection::default()
        }),
        ..RackConfig::default()
    };
    let mut all: toml::Table = config.to_toml().parse().unwrap();
    if section.is_empty() {
        return all;
    }
    if section == "node.faults" || section == "hosted.standby" {
        return toml::Table::new();
    }
    match all.remove(section).unwrap() {
        toml::Value::Table(table) => table,
        toml::Value::Array(mut array) => array.remove(0).try_into().unwrap(),
        other => panic!("{section} is {other}"),
    }
}

/// Settings that a node, guests, a host or a store cannot do without.
const NEEDED: [(&str, &str); 9] = [
    ("node", "name"),
    ("node", "role"),
    ("guest", "count"),
    ("host", "name"),
    ("host", "mac"),
    ("host", "ip"),
    ("store", "name"),
    ("store", "node"),
    ("store", "bytes"),
];

#[test]
fn every_example_is_a_good_configuration() {
    let examples = examples(&page());
    assert!(examples.len() >= 5);
    for (line, text) in examples {
        let name = format!("docs/configuration.md, the example at line {line}");
        let config = RackConfig::parse(&text, &name).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(RackConfig::parse(&config.to_toml(), &name).unwrap(), config);
    }
}

#[test]
fn every_key_is_described_with_its_default() {
    let tables = tables(&page());
    for Section { name, header, keys } in sections() {
        let heading = match header.lines().last() {
            None => "Before all sections".to_owned(),
            Some(header) => format!("`{header}`"),
        };
        let rows = tables.get(&heading);
        let rows = rows.unwrap_or_else(|| panic!("no table below the heading {heading}"));
        let described: Vec<&String> = rows.iter().map(|(key, _)| key).collect();
        let values = |key: &&String| !matches!(defaults(&name).get(*key), Some(v) if is_section(v));
        let inner = |key: &&String| name.is_empty() && key.as_str() == "hosted";
        let keys: Vec<&String> = keys
            .iter()
            .filter(values)
            .filter(|key| !inner(key))
            .collect();
        assert_eq!(described, keys, "the keys of {heading}, in their order");
        for (key, shown) in rows {
            let is_needed = NEEDED.contains(&(&*name, &**key));
            let expected = match defaults(&name).get(key) {
                _ if is_needed => "needed".to_owned(),
                None => "none".to_owned(),
                Some(value) => value.to_string(),
            };
            assert_eq!(shown, &expected, "the default of {key} below {heading}");
        }
    }
}

/// Whether it has a heading of its own.
fn is_section(value: &toml::Value) -> bool {
    let tables = |all: &Vec<toml::Value>| all.iter().any(toml::Value::is_table);
    value.is_table() || value.as_array().is_some_and(tables)
}
