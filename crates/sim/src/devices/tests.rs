//! The fields of the list agree with the texts of the constants.

use super::*;
use std::collections::HashSet;

#[test]
fn every_constant_tells_where_it_comes_from() {
    let mut names = HashSet::new();
    for one in all() {
        assert!(names.insert(one.name), "{} is there twice", one.name);
        assert!(
            !one.about().is_empty() && !one.testbeds.is_empty(),
            "{one:?}"
        );
        let source = one.source();
        assert_eq!(source.is_empty(), one.trust == Trust::Derived, "{one:?}");
        let words = source.to_lowercase();
        assert_eq!(
            words.contains("assumed"),
            one.trust == Trust::Assumed,
            "{one:?}"
        );
        let from_memory = words.contains("unchecked")
            || SOURCES
                .iter()
                .any(|source| !source.checked && words.contains(&source.name.to_lowercase()));
        if from_memory {
            assert!(one.trust >= Trust::Unchecked, "{one:?}");
        }
        if one.trust == Trust::Unchecked {
            assert!(from_memory || words.contains("host_"), "{one:?}");
        }
    }
}

#[test]
fn the_list_has_the_values_themselves() {
    let value = |name| all().find(|one| one.name == name).map(Constant::value);
    assert_eq!(
        value("LINK_BITS_PER_SECOND"),
        Some(LINK_BITS_PER_SECOND.to_string())
    );
    assert_eq!(value("SWITCH_DIGEST_LATENCY").as_deref(), Some("100000"));
    assert_eq!(value("DPU_TLB_ENTRIES").as_deref(), Some("[32, 1024]"));
    assert!(value("SSD_READ_LATENCY").is_some_and(|text| text.starts_with("[0: 55000, ")));
}

#[test]
fn the_text_has_a_line_for_each() {
    let text = as_text();
    assert_eq!(text.lines().count(), all().count());
    assert!(
        text.starts_with("LINK_BITS_PER_SECOND = 100000000000 bit/s\n"),
        "{text}"
    );
}

/// No constant can be defined in this folder without the macro, which alone makes entries.
#[test]
fn nothing_is_defined_outside_of_the_list() {
    let sources = [
        include_str!("network.rs"),
        include_str!("host.rs"),
        include_str!("bluefield.rs"),
        include_str!("fat_btree.rs"),
        include_str!("work.rs"),
        include_str!("ssd.rs"),
        include_str!("units.rs"),
        include_str!("communication.rs"),
    ];
    let defined: usize = sources
        .iter()
        .map(|text| text.matches("pub const ").count())
        .sum();
    assert_eq!(defined, all().count());
    for text in sources {
        assert_eq!(
            text.lines()
                .filter(|line| line.starts_with("pub const"))
                .count(),
            0
        );
    }
}
