//! Text and metrics of hand-made reports. A small parser checks the grammar of the metrics.

use super::{object, open_metrics, titled};
use crate::live::tests::samples::busy;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// Something of everything that reports have.
fn sample() -> Map<String, Value> {
    object(json!({
        "test": "read_bw",
        "parameters": {
            "size_bytes": 64,
            "ring_bytes": 4 << 20,
            "buffer_bytes": 49_896_000_000u64,
            "touch": false,
            "source": "storage0",
            "target": "compute0",
            "look_every_s": 0.001234,
        },
        "buffers": {"receive_bytes": 65536, "count": 2},
        "links": {
            "count": 4,
            "icrc_reason": "no link damages packets, and the text about it is longer than a line of \
                            the terminal",
        },
        "errors": {
            "the control address cannot be reached, because the switch was killed a moment ago": 3,
        },
        "messages": 200,
        "elapsed_s": 0.25,
        "messages_per_s": 1_310_000.0,
        "gigabytes_per_s": 8.5,
        "gigabits_per_s": 68.0,
        "memcpy_gigabytes_per_s": 9.25,
        "link_utilisation": 0.931,
        "percent_of_a_core": 0.75,
        "join_ms_max": 350,
        "latency_ns": {
            "samples": 200, "min": 990, "p50": 1500, "p90": 1800, "p99": 2100, "p99.9": 2250,
            "max": 2290, "mean": 1600.5,
        },
        "latency": [
            {"kind": "read", "count": 120, "mean_ns": 1100.0, "p50_ns": 1000, "p99_9_ns": 2000},
            {"kind": "update", "count": 80, "mean_ns": 2100.0, "p50_ns": 2000, "p99_9_ns": 4000},
        ],
        "sweep": {
            "rounds": 3,
            "points": [
                {"message_bytes": 65536, "below_neighbours": null},
                {"message_bytes": 131_072, "below_neighbours": 0.25},
            ],
        },
        "kinds": [
            {"kind": "switch", "combined": {"ranges": 9, "ranges_per_s": 9.5e6}, "ratio": 2.5},
            {"kind": "one-sided", "combined": {"ranges": 3, "ranges_per_s": 3.5e6}, "ratio": 1.5},
        ],
        "members": [
            {"role": "producer", "number": 0, "node": "storage0", "items": 7},
            {"role": "producer", "number": 1, "node": "storage0", "items": 8},
        ],
        "stages": [{"sram_blocks": 3, "tables": 1}, {"sram_blocks": 3, "tables": 2}],
        "curve": [[1, 2.5], [2, 3.5]],
        "queries_led": [30, 10],
        "switch_counters": {"packets_in": 12, "drop \"odd\"\\": 1},
        "failures": [
            {
                "seed": 4711,
                "violations": ["an item came twice, and the text about it is longer than a line of \
                                the terminal"],
                "replay": "rackweave chaos --system flows --seeds 1 --seed 4711 --config \
                           /a/path/that/is/quite/long.toml",
            },
        ],
        "left_out": null,
        "interrupted": true,
        "problems": ["it did not end"],
        "verified": false,
    }))
}

#[test]
fn an_object_reads_as_lines_with_units_and_tables() {
    let text = titled("read_bw, embedded rack", &["test"], sample());
    let is_long = |line: &&str| line.chars().count() >= 80 && !line.contains("rackweave chaos");
    assert_eq!(text.lines().find(is_long), None);
    insta::assert_snapshot!(text);
}

#[test]
fn an_object_has_metrics_in_base_units() {
    let text = open_metrics::text("perf", &sample());
    check(&text);
    insta::assert_snapshot!(text);
}

#[test]
fn the_state_of_a_rack_has_metrics() {
    let text = open_metrics::text("stat", &object(busy(10)));
    check(&text);
    for sample in [
        "rackweave_stat_rack_nodes_in_bytes_total{name=\"compute0\"} 49896000000\n",
        "rackweave_stat_rack_nodes_counters_total{name=\"compute0\",counter=\"sent_pkts\"} 4800000",
        "rackweave_stat_rack_flows_items_waiting{id=\"3\"} 12\n",
        "rackweave_stat_rack_nodes_dead{name=\"storage1\"} 1\n",
        "rackweave_stat_rack_index_by_depth{index=\"2\"} 6000000\n",
    ] {
        assert!(text.contains(sample), "{sample} in\n{text}");
    }
}

/// Checks the grammar of the text format: metrics in families, each family once, with type and unit
/// in front; names, labels and numbers; no sample twice; the end.
fn check(text: &str) {
    let body = text.strip_suffix("# EOF\n").expect("it has an end");
    let (mut families, mut samples) = (BTreeSet::new(), BTreeSet::new());
    let (mut family, mut kind) = ("", "");
    for line in body.lines() {
        let words: Vec<_> = line.splitn(4, ' ').collect();
        match words[..] {
            ["#", "TYPE", name, its_kind] => {
                assert!(is_name(name) && families.insert(name), "{line}");
                (family, kind) = (name, its_kind);
            }
            ["#", "UNIT", name, unit] => {
                assert!(
                    name == family && name.ends_with(&format!("_{unit}")),
                    "{line}"
                );
            }
            _ => {
                let (sample, number) = line.rsplit_once(' ').expect("a sample has a number");
                let number: f64 = number.parse().expect(line);
                assert!(number.is_finite() && samples.insert(sample), "{line}");
                let (name, labels) = sample.split_once('{').unwrap_or((sample, "}"));
                let names = check_labels(labels);
                let suffix = name.strip_prefix(family).expect(line);
                assert!(match kind {
                    "gauge" => suffix.is_empty(),
                    "counter" => suffix == "_total" && number >= 0.0,
                    "info" => suffix == "_info" && number == 1.0,
                    "summary" if suffix.is_empty() => names.contains("quantile"),
                    "summary" => ["_count", "_sum"].contains(&suffix),
                    _ => false,
                });
            }
        }
    }
    assert!(!samples.is_empty());
}

fn is_name(name: &str) -> bool {
    let mut letters = name.chars();
    letters
        .next()
        .is_some_and(|first| first.is_ascii_alphabetic())
        && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

/// The names of labels: `name="value",name="value"}`, with `\\`, `\"` and `\n` in values.
fn check_labels(text: &str) -> BTreeSet<&str> {
    let mut names = BTreeSet::new();
    let mut rest = text;
    while rest != "}" {
        let (name, value) = rest.split_once("=\"").expect(text);
        assert!(is_name(name) && names.insert(name), "{text}");
        let mut letters = value.char_indices();
        let end = loop {
            match letters.next() {
                Some((at, '"')) => break at,
                Some((_, '\\')) => {
                    let (_, escaped) = letters.next().expect(text);
                    assert!(['\\', '"', 'n'].contains(&escaped), "{text}");
                }
                Some(_) => {}
                None => panic!("{text} has no end"),
            }
        };
        rest = &value[end + 1..];
        rest = rest.strip_prefix(',').unwrap_or(rest);
    }
    names
}
