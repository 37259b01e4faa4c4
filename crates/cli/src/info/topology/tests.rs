//! Tests of `topology`.

use super::*;
use rackweave_rack::config::{TopologyName, index_config};

fn config(topology: TopologyName) -> RackConfig {
    let mut config = RackConfig::default();
    let switch = &mut config.switch;
    switch.topology = topology;
    (switch.consumer_rings, switch.producer_rings) = (0, 0);
    switch.index_queries = 1024;
    switch.index_servers = 4;
    switch.index_fat_ranges = 1024;
    switch.index_layers = if topology == TopologyName::One { 1 } else { 3 };
    switch.index_nodes = 4096;
    config
}

#[test]
fn every_switch_has_its_part_and_it_fits_the_budget() {
    for (topology, expected) in [
        (TopologyName::One, vec![(0, 0, true, 1)]),
        (TopologyName::Two, vec![(0, 0, true, 1), (1, 1, false, 2)]),
        (
            TopologyName::FatTree,
            vec![(0, 0, true, 0), (1, 4, false, 2), (5, 12, false, 1)],
        ),
    ] {
        let config = config(topology);
        config.check().unwrap();
        let report = of(&config).unwrap();
        let part = |role: &Value| {
            let count = |name: &str| role["index"][name].as_u64().unwrap();
            let ends = ["first", "last"].map(|end| role[end].as_u64().unwrap());
            (ends[0], ends[1], count("fat_ranges") > 0, count("layers"))
        };
        let roles = report["roles"].as_array().unwrap();
        let parts: Vec<_> = roles.iter().map(part).collect();
        assert_eq!(parts, expected);
        let topology = config.topology().unwrap();
        for at in 0..topology.switches() {
            let all = switch_shape::pipeline_config(&config);
            let programs = switch_config_of(all, &config, &topology, at);
            let ledger = switch_shape::ledger(&programs);
            switch_shape::budget(&config).check(&ledger).unwrap();
        }
    }
}

#[test]
fn a_rack_without_an_index_says_where_nodes_hang() {
    let mut config = RackConfig::default();
    config.switch.topology = TopologyName::Two;
    let report = of(&config).unwrap();
    let counts = ["name", "switches", "cables"].map(|key| report[key].clone());
    assert_eq!(json!(counts), json!(["two", 2, 1]));
    let at = |at: usize| {
        let node = &report["nodes"][at];
        (node["name"].as_str(), node["switch"].as_u64())
    };
    assert_eq!(at(0), (Some("storage0"), Some(1)));
    assert_eq!(at(2), (Some("compute0"), Some(0)));
    let roles = report["roles"].as_array().unwrap();
    assert!(roles.iter().all(|role| role["index"].is_null()));
    assert!(index_config(&config, rackweave_controller::topology::SwitchRole::First).servers == 0);
}
