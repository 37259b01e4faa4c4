//! Figures and their texts belong together.

use super::*;

#[test]
fn every_figure_has_a_text_and_every_text_a_figure() {
    let shared = TEXTS.values().flat_map(|text| &text.shared);
    let mut used: Vec<&str> = shared.map(String::as_str).collect();
    used.extend(ALL.iter().map(|one| one.name));
    used.sort_unstable();
    used.dedup();
    let named: Vec<&str> = TEXTS.keys().map(String::as_str).collect();
    assert_eq!(named, used);
    for one in ALL {
        let (text, about) = (one.text(), one.about());
        assert!(!text.title.is_empty() && !about.is_empty(), "{}", one.name);
    }
}

#[test]
fn the_longest_begin_and_none_is_lost() {
    let order = longest_first(ALL.iter().collect());
    assert_eq!(order.len(), ALL.len());
    let slow = order.iter().filter_map(|one| one.text().slow);
    assert!(slow.eq(1..=16), "each place is one experiment's");
    assert_eq!(order[0].name, "communication-6a");
    assert_eq!(order[16].name, ALL[0].name, "the others keep their order");
}
