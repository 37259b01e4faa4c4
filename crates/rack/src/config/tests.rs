//! Valid and invalid configurations.

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
        "rack.toml:1:2: unknown setting `swich`; did you mean `switch`?",
    );
    check(
        "seed = 1\n[nic]\nmut = 1024",
        "rack.toml:3:1: unknown setting `mut`; did you mean `mtu`?",
    );
    check(
        "[faults]\ncolour = 1",
        "rack.toml:2:1: unknown setting `colour`; known settings here: loss, duplicate, reorder, corrupt, \
         reorder_delay_us",
    );
    check(
        "[nic]\nmtu = 1500",
        "rack.toml:2:7: nic.mtu is 1500: 256, 512, 1024, 2048 or 4096 is needed",
    );
    check(
        "[link]\npackets = 100",
        "rack.toml:2:11: link.packets is 100: a power of two from 16 to 65536 is needed",
    );
    check(
        "[faults]\nloss = 2",
        "rack.toml:2:8: faults.loss is 2: a probability from 0 to 0.5 is needed",
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
        "rack.toml:2:1: unknown setting `sequencer`; did you mean `sequencers`?",
    );
    check(
        "[switch]\nsequencers = 5000",
        "rack.toml:2:14: switch.sequencers is 5000: 0 to 4096 are possible",
    );
    check(
        "[switch]\nsequencer_clients = 0",
        "rack.toml:2:21: switch.sequencer_clients is 0: 1 to 16384 are possible",
    );
    check(
        "[flow]\npoll_interval_us = 50\npoll_interval_max_us = 20",
        "rack.toml:3:24: flow.poll_interval_max_us is 20: 0 or flow.poll_interval_us to 1000000 is possible",
    );
}

#[test]
fn a_topology_is_read_and_checked() {
    let nodes = "[[node]]\nname = 'a'\nrole = 'compute'\n[[node]]\nname = 'b'\nrole = 'storage'\n";
    let text = format!(
        "[switch]\ntopology = 'two'\n{nodes}[[node]]\nname = 'c'\nrole = 'storage'\nswitch = 0"
    );
    let config = RackConfig::parse(&text, "rack.toml").unwrap();
    let topology = config.topology().unwrap();
    let switches: Vec<_> = topology.nodes().map(|(_, at)| at.switch).collect();
    assert_eq!(switches, [0, 1, 0], "clients first, unless it is said");
    assert_eq!(
        RackConfig::parse(&config.to_toml(), "again").unwrap(),
        config
    );
    check(
        "[switch]\ntopology = 'fat-three'",
        "rack.toml:2:12: unknown variant `fat-three`; did you mean `fat-tree`?",
    );
    check(
        "[switch]\ntopology = 'hypercube'",
        "rack.toml:2:12: unknown variant `hypercube`; known ones: one, two, fat-tree",
    );
    check(
        "[switch]\ntopology = 'fat-tree'\npods = 5",
        "rack.toml:3:8: switch.pods is 5: 2, 4, 6 or 8 is needed",
    );
    check(
        "[switch]\ntopology = 'fat-tree'\npods = 2",
        "switch.topology: 4 nodes are too many: the edge switches have 2 ports for them; take more \
         pods or fewer nodes",
    );
    check(
        "[[node]]\nname = 'a'\nrole = 'compute'\nswitch = 1",
        "switch.topology: a is to hang at switch 1; there are switches 0 to 0",
    );
    check(
        "[switch]\ntopology = 'fat-tree'\n[[node]]\nname = 'a'\nrole = 'compute'\nswitch = 0",
        "switch.topology: a is to hang at switch 0, which is core and has other switches only; \
         take one of 5 to 12",
    );
    check(
        "[switch]\ntopology = 'two'\n[hosted]\n",
        "rack.toml:2:12: switch.topology is two: a rack of processes has one switch; remove this setting or the \
         section [hosted]",
    );
}

#[test]
fn the_sizes_of_an_index_are_checked() {
    let switch = |rest: &str| format!("[switch]\n{rest}");
    for (rest, expected) in [
        (
            "index_queries = 64",
            "switch.index_servers is 0: at least 1 is needed beside the other settings of an index \
             in the network; or set those to 0",
        ),
        (
            "index_servers = 1",
            "switch.index_fat_ranges is 0: 1 to 65534 are needed for an index in the network",
        ),
        (
            "index_servers = 1\nindex_fat_ranges = 8\nindex_layers = 3",
            "rack.toml:4:16: switch.index_layers is 3: one switch has room for 0 to 2",
        ),
        (
            "index_servers = 1\nindex_fat_ranges = 8\nindex_layers = 4\ntopology = 'two'",
            "rack.toml:4:16: switch.index_layers is 4: two switches have room for 0 to 3",
        ),
        (
            "index_servers = 1\nindex_fat_ranges = 8\nindex_layers = 1",
            "switch.index_nodes is 0: 1 to 4096 are needed for each layer of an index in the \
             network, 0 without any",
        ),
        (
            "index_servers = 5000",
            "rack.toml:2:17: switch.index_servers is 5000: 0 to 4096 are possible",
        ),
    ] {
        check(&switch(rest), expected);
    }
}

#[test]
fn layers_are_shared_out_among_the_switches_of_a_way() {
    use rackweave_controller::topology::SwitchRole;
    let mut config = RackConfig::default();
    let layers = |config: &RackConfig, role| {
        let part = index_config(config, role);
        (part.fat_ranges > 0, part.first_layer, part.layers)
    };
    assert_eq!(
        index_config(&config, SwitchRole::Core),
        rackweave_programs::index::IndexConfig::NONE
    );
    config.switch.index_queries = 10;
    config.switch.index_servers = 1;
    config.switch.index_fat_ranges = 8;
    config.switch.index_nodes = 16;
    for (layers_all, expected) in [
        (0, [0, 0, 0]),
        (1, [0, 1, 0]),
        (3, [0, 2, 1]),
        (4, [0, 2, 2]),
    ] {
        config.switch.index_layers = layers_all;
        let [core, aggregation, edge] = expected;
        assert_eq!(layers(&config, SwitchRole::Core), (true, 1, core));
        assert_eq!(
            layers(&config, SwitchRole::Aggregation),
            (false, 1, aggregation)
        );
        assert_eq!(layers(&config, SwitchRole::Edge), (false, 3, edge));
    }
    config.switch.index_layers = 2;
    assert_eq!(layers(&config, SwitchRole::Only), (true, 1, 2));
    assert_eq!(layers(&config, SwitchRole::First), (true, 1, 1));
    assert_eq!(layers(&config, SwitchRole::Second), (false, 2, 1));
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
