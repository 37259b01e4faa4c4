//! Configurations, good and bad.

use super::*;

fn check(text: &str, expected: &str) {
    let error = RackConfig::parse(text, "rack.toml")
        .unwrap_err()
        .to_string();
    assert_eq!(error, expected);
    assert!(!error.contains('\n'), "one line");
}

#[test]
fn the_default_is_good_and_survives_its_own_text() {
    let config = RackConfig::default();
    config.check().unwrap();
    assert_eq!(
        RackConfig::parse(&config.to_toml(), "default").unwrap(),
        config
    );
    assert_eq!(RackConfig::parse("", "empty").unwrap(), config);
}

#[test]
fn mistakes_are_told_with_place_and_remedy() {
    check(
        "[swich]",
        "rack.toml:1: unknown setting `swich`; did you mean `switch`?",
    );
    check(
        "seed = 1\n[nic]\nmut = 1024",
        "rack.toml:3: unknown setting `mut`; did you mean `mtu`?",
    );
    check(
        "[faults]\ncolour = 1",
        "rack.toml:2: unknown setting `colour`; known settings here: loss, duplicate, reorder, corrupt, \
         reorder_delay_us",
    );
    check(
        "[nic]\nmtu = 1500",
        "nic.mtu is 1500: 256, 512, 1024, 2048 or 4096 is needed",
    );
    check(
        "[link]\npackets = 100",
        "link.packets is 100: a power of two from 16 to 65536 is needed",
    );
    check(
        "[faults]\nloss = 2",
        "faults.loss is 2: a probability from 0 to 0.5 is needed",
    );
    check(
        "[[node]]\nname = 'a'\nrole = 'storage'\n[[node]]\nname = 'a'\nrole = 'compute'",
        "two nodes are named \"a\"; give each [[node]] a name of its own",
    );
    check(
        "[switch]\nlanes = 100",
        "switch.lanes is 100, but 192 rings with 4 transfers each need 1152; raise switch.lanes or \
         lower switch.consumer_rings and switch.producer_rings",
    );
    check(
        "[switch]\nsequencer = 1",
        "rack.toml:2: unknown setting `sequencer`; did you mean `sequencers`?",
    );
    check(
        "[switch]\nsequencers = 5000",
        "switch.sequencers is 5000: 0 to 4096 are possible",
    );
    check(
        "[switch]\nsequencer_clients = 0",
        "switch.sequencer_clients is 0: 1 to 16384 are possible",
    );
    check(
        "[flow]\npoll_interval_us = 50\npoll_interval_max_us = 20",
        "flow.poll_interval_max_us is 20: 0 or flow.poll_interval_us to 1000000 is possible",
    );
}

#[test]
fn a_missing_file_is_told() {
    let error = RackConfig::read(Path::new("/nowhere/rack.toml"))
        .unwrap_err()
        .to_string();
    assert_eq!(
        error,
        "/nowhere/rack.toml: No such file or directory (os error 2); check the path given to --config"
    );
}

#[test]
fn errors_name_nodes_as_the_configuration_does() {
    let config = RackConfig::default();
    for (text, named) in [
        ("node2 has died", "compute0 has died"),
        ("on node0: node1", "on storage0: storage1"),
        (
            "node9 nodes node mynode1 node1x",
            "node9 nodes node mynode1 node1x",
        ),
        ("", ""),
    ] {
        assert_eq!(config.name_nodes(text), named);
    }
}
