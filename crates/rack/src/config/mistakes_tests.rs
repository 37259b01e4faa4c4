//! Mistakes in configurations, and their error messages.

use super::nearest::nearest;
use super::syntax::{Section, sections};
use super::*;

fn refusal(text: &str) -> String {
    let error = RackConfig::parse(text, "rack.toml").unwrap_err();
    error.to_string()
}

#[track_caller]
fn check(text: &str, expected: &str) {
    let error = refusal(text);
    assert_eq!(error, expected, "of\n{text}");
    assert!(!error.contains('\n'), "one line");
}

const NODES: &str =
    "[[node]]\nname = 'a'\nrole = 'storage'\n[[node]]\nname = 'b'\nrole = 'compute'\n";

/// The sections match the types, found by querying the deserializer.
#[test]
fn all_sections_are_known() {
    let names: Vec<String> = sections().into_iter().map(|section| section.name).collect();
    let expected = [
        "",
        "node",
        "node.faults",
        "guest",
        "host",
        "store",
        "switch",
        "transfer",
        "flow",
        "nic",
        "link",
        "faults",
        "hosted",
        "hosted.standby",
    ];
    assert_eq!(names, expected);
}

/// Every existing key, with one letter changed, left out, doubled or swapped with the next: the
/// error asks whether that key was meant.
#[test]
fn a_key_with_a_slip_is_understood_everywhere() {
    let mut tried = 0;
    for Section { name, header, keys } in sections() {
        for key in &keys {
            for wrong in slips(key) {
                if keys.contains(&wrong) || wrong.is_empty() {
                    continue;
                }
                tried += 1;
                let error = refusal(&format!("{header}{wrong} = 0\n"));
                let line = header.lines().count() + 1;
                let start = format!("rack.toml:{line}:1: unknown setting `{wrong}`; did you mean ");
                let meant = error.strip_prefix(&start);
                let meant = meant.unwrap_or_else(|| panic!("{name}.{wrong}: {error}"));
                assert!(meant.contains(&format!("`{key}`")), "{name}.{key}: {error}");
                // If several names are suggested, each is as near as the right one.
                for other in meant.split('`').skip(1).step_by(2) {
                    assert!(nearest(&wrong, &[other]).is_some(), "{name}.{key}: {error}");
                }
            }
        }
    }
    assert!(tried > 2000, "{tried}");
}

fn slips(key: &str) -> Vec<String> {
    let mut slips = Vec::new();
    for at in 0..key.len() {
        let (before, rest) = key.split_at(at);
        let (letter, after) = rest.split_at(1);
        for other in ["a", "e", "x", "_", "s"] {
            slips.push(format!("{before}{other}{after}"));
        }
        slips.push(format!("{before}{after}"));
        slips.push(format!("{before}{letter}{letter}{after}"));
        if let Some(next) = after.chars().next() {
            slips.push(format!("{before}{next}{letter}{}", &after[1..]));
        }
    }
    slips.retain(|slip| slip != key);
    slips
}

/// The same for values from a list.
#[test]
fn a_value_with_a_slip_is_understood() {
    for (text, expected) in [
        (
            "[switch]\ntopology = 'tow'",
            "rack.toml:2:12: unknown variant `tow`; did you mean `two`?",
        ),
        (
            "[switch]\nbudget = 'tofino'",
            "rack.toml:2:10: unknown variant `tofino`; did you mean \
          `tofino1` or `tofino2`?",
        ),
        (
            "[switch]\nicrc = 'updat'",
            "rack.toml:2:8: unknown variant `updat`; did you mean `update`?",
        ),
        (
            "[link]\nicrc = 'allways'",
            "rack.toml:2:8: unknown variant `allways`; did you mean `always`?",
        ),
        (
            "[hosted]\nlink = 'shared_memory'",
            "rack.toml:2:8: unknown variant `shared_memory`; did \
          you mean `shared-memory`?",
        ),
        (
            "[hosted]\nsecurity = 'none'",
            "rack.toml:2:12: unknown variant `none`; known ones: tls, \
          plain",
        ),
        (
            "[[node]]\nname = 'a'\nrole = 'Storage'",
            "rack.toml:3:8: unknown variant `Storage`; did \
          you mean `storage`?",
        ),
        (
            "[[store]]\nname = 's'\nnode = 'a'\nmedium = 'disk'\nbytes = 1",
            "rack.toml:4:10: unknown \
          variant `disk`; known ones: memory, file",
        ),
    ] {
        check(text, expected);
    }
}

#[test]
fn keys_in_the_wrong_place_are_sent_to_the_right_one() {
    for (text, expected) in [
        (
            "[nic]\ngigabits_per_second = 10.0",
            "rack.toml:2:1: unknown setting `gigabits_per_second`; it belongs in [[node]] or \
             in [link]",
        ),
        (
            "[switch]\nseed = 4",
            "rack.toml:2:1: unknown setting `seed`; it belongs before all sections",
        ),
        (
            "[link]\ncorrupt = 0.1",
            "rack.toml:2:1: unknown setting `corrupt`; it belongs in [node.faults] or in [faults]",
        ),
        (
            "[[node]]\nname = 'a'\nrole = 'storage'\nfaults = { los = 0.1 }",
            "rack.toml:4:12: unknown setting `los`; did you mean `loss`?",
        ),
    ] {
        check(text, expected);
    }
}

#[test]
fn what_is_missing_or_of_another_kind_is_told() {
    for (text, expected) in [
        (
            "[[node]]\nname = 'a'\n",
            "rack.toml:1:1: `role` is missing; every one of these needs it",
        ),
        (
            "seed = 'seven'",
            "rack.toml:1:8: invalid type: string \"seven\", expected u64",
        ),
        (
            "seed = -1",
            "rack.toml:1:8: invalid value: integer `-1`, expected u64",
        ),
    ] {
        check(text, expected);
    }
    let error = refusal("größe = 1");
    assert!(error.starts_with("rack.toml:1:"), "{error}");
}

#[test]
fn a_wrong_value_has_a_place() {
    for (text, expected) in [
        (
            format!("{NODES}faults = {{ loss = 0.9 }}"),
            "rack.toml:7:19: node.faults.loss is 0.9: a probability from 0 to 0.5 is needed",
        ),
        (
            format!("{NODES}gigabits_per_second = 0"),
            "rack.toml:7:23: node.gigabits_per_second is 0: 0.1 to 10000 is possible",
        ),
        (
            "[[node]]\nname = 'a'\nrole = 'storage'\n[[node]]\nname = 'b c'\nrole = 'compute'"
                .into(),
            "rack.toml:5:8: node.name is b c: letters, digits, - and _ are allowed",
        ),
        // Values without a position in the text: a rule about the value and something else.
        (
            "[switch]\nindex_queries = 64".into(),
            "switch.index_servers is 0: at least 1 is needed beside the other settings of an index \
             in the network; or set those to 0",
        ),
    ] {
        check(&text, expected);
    }
}

#[test]
fn stores_are_checked() {
    let store = |rest: &str| format!("{NODES}[[store]]\nname = 's'\n{rest}");
    for (text, expected) in [
        (
            store("node = 'c'\nbytes = 65536"),
            "store \"s\" is to be on the unknown node \"c\"; did you mean `a` or `b`?",
        ),
        (
            store("node = 'b'\nbytes = 65536"),
            "store \"s\" is to be on b, which is a compute node; stores are on storage nodes: a",
        ),
        (
            store("node = 'a'\nbytes = 0"),
            "rack.toml:10:9: store.bytes is 0: a multiple of its page size is needed, at least \
             one page",
        ),
        (
            store("node = 'a'\nbytes = 70000"),
            "rack.toml:10:9: store.bytes is 70000: a multiple of its page size is needed, at \
             least one page",
        ),
        (
            store("node = 'a'\nbytes = 65536\npage_size = 4096"),
            "rack.toml:11:13: store.page_size is 4096: a power of two from switch.page_size to \
             1048576 is needed: lower switch.page_size, which is the smallest page size of the rack",
        ),
        (
            store("node = 'a'\nmedium = 'file'\nbytes = 65536"),
            "store \"s\" has the medium \"file\" and no file; say path = \"...\" in its [[store]]",
        ),
        (
            store("node = 'a'\npath = 'x'\nbytes = 65536"),
            "rack.toml:10:8: store.path is x: only the medium \"file\" has one; remove it, or say \
             medium = \"file\"",
        ),
        (
            store("node = 'a'\nbytes = 65536\ndouble_write = true"),
            "rack.toml:11:16: store.double_write is true: only the medium \"file\" has it; remove \
             it, or say medium = \"file\"",
        ),
        (
            store("node = 'a'\nbytes = 65536\ndrives = 0"),
            "rack.toml:11:10: store.drives is 0: 1 to 64 are possible",
        ),
        (
            store("node = 'a'\nbytes = 65536\n[[store]]\nname = 's'\nnode = 'a'\nbytes = 65536"),
            "two stores are named \"s\"; give each [[store]] a name of its own",
        ),
        (
            store(
                "node = 'a'\nbytes = 65536\nmedium = 'file'\npath = 'x'\n[[store]]\nname = 't'\n\
                 node = 'a'\nbytes = 65536\nmedium = 'file'\npath = './x'",
            ),
            "store \"t\": another store lies in ./x, too; give each a file of its own",
        ),
        (
            format!(
                "[switch]\npage_entries = 8\n{}",
                store(
                    "node = 'a'\nbytes = 65536\n[[store]]\nname = 't'\nnode = 'a'\nbytes = 65536"
                )
            ),
            "switch.page_stores is 1: more [[store]] are there than the page directory has room \
             for; raise it",
        ),
    ] {
        check(&text, expected);
    }
}

#[test]
fn what_a_message_quotes_is_one_line_too() {
    let store = "node = 'a'\nbytes = 65536\nmedium = 'file'\npath = \"x\\ny\"\n";
    for (text, expected) in [
        (
            "[[node]]\nname = 's'\nrole = \"ota\\rge\"".to_owned(),
            "rack.toml:3:8: unknown variant `ota\\rge`; known ones: compute, memory, storage, dpu, guest",
        ),
        (
            "\"se\\u001bed\" = 1".to_owned(),
            "rack.toml:1:1: unknown setting `se\\u{1b}ed`; did you mean `seed`?",
        ),
        (
            "[[node]]\nname = \"a\\nb\"\nrole = 'compute'".to_owned(),
            "rack.toml:2:8: node.name is a\\nb: letters, digits, - and _ are allowed",
        ),
        (
            format!("{NODES}[[store]]\nname = 's'\n{store}[[store]]\nname = 't'\n{store}"),
            "store \"t\": another store lies in x\\ny, too; give each a file of its own",
        ),
    ] {
        check(&text, expected);
    }
}
