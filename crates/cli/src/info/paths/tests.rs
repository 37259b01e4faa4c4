//! Tests of `paths`.

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
