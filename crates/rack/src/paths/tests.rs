//! For each input of a choice: if it changes, the choice and its reason change with it.

use super::*;
use crate::config::choices;
use crate::config::{
    BudgetName, CheckPolicy, HostedSection, IcrcMethod, LinkKind, NodeConfig, Role, StoreConfig,
    TopologyName,
};
use rackweave_base::NodeId;

/// The value and reason of one path.
fn path(
    config: &RackConfig,
    rack: impl Into<Option<Kind>>,
    of: &str,
    what: &str,
) -> Option<(String, String)> {
    let rack = rack.into();
    let paths = describe(config).unwrap();
    let mut matching = paths
        .into_iter()
        .filter(|path| path.rack == rack && path.of == of && path.what == what);
    let found = matching.next()?;
    assert_eq!(matching.next(), None, "one {what} of {of}");
    Some((found.value, found.why))
}

/// Checks a path before and after a change.
#[track_caller]
fn check(
    (rack, of, what): (Option<Kind>, &str, &str),
    before: (&str, &str),
    change: impl FnOnce(&mut RackConfig),
    after: (&str, &str),
) {
    check_from(
        &RackConfig::default(),
        (rack, of, what),
        before,
        change,
        after,
    );
}

#[track_caller]
fn check_from(
    config: &RackConfig,
    (rack, of, what): (Option<Kind>, &str, &str),
    before: (&str, &str),
    change: impl FnOnce(&mut RackConfig),
    after: (&str, &str),
) {
    let mut config = config.clone();
    let holds = |config: &RackConfig, (value, why): (&str, &str)| {
        let found = path(config, rack, of, what);
        let found = found.unwrap_or_else(|| panic!("{what} of {of}"));
        assert_eq!(found.0, value, "{what} of {of}, because {}", found.1);
        assert!(found.1.contains(why), "{what} of {of}: {}", found.1);
    };
    holds(&config, before);
    change(&mut config);
    holds(&config, after);
}

const EMBEDDED: Option<Kind> = Some(Kind::Embedded);
const SIMULATED: Option<Kind> = Some(Kind::Simulated);
const HOSTED: Option<Kind> = Some(Kind::Hosted);

fn hosted() -> RackConfig {
    RackConfig {
        hosted: Some(HostedSection::default()),
        ..RackConfig::default()
    }
}

#[test]
fn links_and_their_reasons() {
    let link = |kind| (kind, "compute1", "link");
    let queue = ("in-process queue of 1024 packets", "one process");
    let longer = ("in-process queue of 64 packets", "one process");
    check(link(EMBEDDED), queue, |c| c.link.packets = 64, longer);
    let own = |c: &mut RackConfig| c.node[3].link = Some(LinkKind::Udp);
    let shared = ("shared-memory", "hosted.link");
    check_from(&hosted(), link(HOSTED), shared, own, ("udp", "node.link"));
    let all = |c: &mut RackConfig| c.hosted.as_mut().unwrap().link = LinkKind::Unix;
    check_from(
        &hosted(),
        link(HOSTED),
        shared,
        all,
        ("unix", "hosted.link"),
    );
    let rate = (SIMULATED, "compute1", "rate");
    let default = ("100 Gbit/s", "link.gigabits_per_second");
    let own = |c: &mut RackConfig| c.node[3].gigabits_per_second = Some(25.0);
    check(
        rate,
        default,
        own,
        ("25 Gbit/s", "node.gigabits_per_second"),
    );
    let dpu = |c: &mut RackConfig| c.node[3].role = Role::Dpu;
    let mut config = RackConfig::default();
    dpu(&mut config);
    let bits = choices::bits_per_second(&config, NodeId(3)).value;
    let expected = format!("{} Gbit/s", bits as f64 / 1e9);
    check(rate, default, dpu, (&expected, "DPU"));
}

#[test]
fn switches_and_their_reasons() {
    let switch = (EMBEDDED, "storage0", "switch");
    let one = ("0", "switch.topology is \"one\"");
    let two = |c: &mut RackConfig| c.switch.topology = TopologyName::Two;
    check(switch, one, two, ("1", "compute nodes hang at the first"));
    let own = |c: &mut RackConfig| {
        two(c);
        c.node[0].switch = Some(0);
    };
    check(switch, one, own, ("0", "node.switch"));
    let tree = |c: &mut RackConfig| c.switch.topology = TopologyName::FatTree;
    check(switch, one, tree, ("5", "fat tree"));
}

#[test]
fn packets_and_their_reasons() {
    let mtu = (EMBEDDED, "storage0", "MTU");
    let small = |c: &mut RackConfig| c.nic.mtu = 1024;
    check(
        mtu,
        ("4096 bytes", "nic.mtu"),
        small,
        ("1024 bytes", "nic.mtu"),
    );
    let icrc = (EMBEDDED, "storage0", "ICRC");
    let (no, yes) = (("not computed", "\"auto\""), "computed and checked");
    let always = |c: &mut RackConfig| c.link.icrc = CheckPolicy::Always;
    check(icrc, no, always, (yes, "link.icrc is \"always\""));
    let damaged = |c: &mut RackConfig| c.faults.corrupt = 0.1;
    check(icrc, no, damaged, (yes, "faults.corrupt is above 0"));
    let one = |c: &mut RackConfig| c.node[3].faults.corrupt = Some(0.1);
    check(icrc, no, one, (yes, "faults.corrupt of compute1"));
    let udp = |c: &mut RackConfig| c.node[3].link = Some(LinkKind::Udp);
    let hosted_icrc = (HOSTED, "storage0", "ICRC");
    check_from(
        &hosted(),
        hosted_icrc,
        no,
        udp,
        (yes, "the udp link of compute1"),
    );
    let rewritten = (EMBEDDED, "storage0", "rewritten");
    let alone = ("left alone", "none is there");
    check(rewritten, alone, always, ("trailer updated", "\"update\""));
    let balanced = |c: &mut RackConfig| {
        always(c);
        c.switch.icrc = IcrcMethod::Balance;
    };
    check(
        rewritten,
        alone,
        balanced,
        ("header balanced", "\"balance\""),
    );
    let packets = (EMBEDDED, "storage0", "packets");
    let trains = ("trains of up to 32", "no link loses");
    let lossy = |c: &mut RackConfig| c.faults.loss = 0.1;
    check(
        packets,
        trains,
        lossy,
        ("one by one", "the links have faults"),
    );
    let one = |c: &mut RackConfig| c.node[2].faults.loss = Some(0.1);
    check(
        packets,
        trains,
        one,
        ("one by one", "the link of compute0 has faults"),
    );
    check(packets, trains, always, ("one by one", "ICRC"));
    let cable = path(&RackConfig::default(), SIMULATED, "storage0", "packets").unwrap();
    assert!(cable.0 == "one by one" && cable.1.contains("modelled cable"));
    let reads = (HOSTED, "compute1", "READs");
    let mapped = ("by reference", "map the regions");
    check_from(
        &hosted(),
        reads,
        mapped,
        udp,
        ("copied", "leaves the process by udp"),
    );
    let faults = (EMBEDDED, "compute0", "faults");
    let none = ("none", "neither");
    check(faults, none, lossy, ("loss 0.1", "[faults]"));
    check(faults, none, one, ("loss 0.1", "node.faults"));
}

#[test]
fn values_that_are_left_open() {
    type Set = fn(&mut RackConfig);
    let settings: [(&str, [&str; 3], Set); 4] = [
        ("transfer.timeout_us", ["50000", "250", "50000"], |c| {
            c.transfer.timeout_us = 77
        }),
        ("flow.batch_bytes", ["1048576", "262144", "4194304"], |c| {
            c.flow.batch_bytes = 77
        }),
        ("flow.transfers", ["2", "4", "4"], |c| c.flow.transfers = 1),
        (
            "flow.poll_interval_max_us",
            ["4000", "200", "200000"],
            |c| {
                c.flow.poll_interval_max_us = 77;
            },
        ),
    ];
    for (name, values, set) in settings {
        for (kind, value) in [EMBEDDED, SIMULATED, HOSTED].into_iter().zip(values) {
            let said = if name == "flow.transfers" { "1" } else { "77" };
            let says = format!("{name} says so");
            let of = (kind, name, "value");
            check_from(&hosted(), of, (value, ""), set, (said, &says));
        }
    }
    let sockets = |c: &mut RackConfig| c.node[0].link = Some(LinkKind::Unix);
    let batch = (HOSTED, "flow.batch_bytes", "value");
    check_from(
        &hosted(),
        batch,
        ("4194304", "turns"),
        sockets,
        ("262144", "socket"),
    );
    let seed = (None, "seed", "value");
    check(
        seed,
        ("1", "all that is random"),
        |c| c.seed = 9,
        ("9", "all that is random"),
    );
    check(
        seed,
        ("1", "all that is random"),
        |c| *c = hosted(),
        ("1", "draw from the system"),
    );
}

#[test]
fn programs_and_how_to_turn_them_on() {
    let no_rings = |c: &mut RackConfig| {
        (c.switch.consumer_rings, c.switch.producer_rings) = (0, 0);
        c.switch.sequencers = 1;
    };
    let rings = "switch.consumer_rings is 64 and switch.producer_rings 128";
    let off = ("not loaded", "set both");
    check((None, "flows", "program"), ("loaded", rings), no_rings, off);
    for (program, key, set) in [
        (
            "pages",
            "switch.page_entries",
            (|c| c.switch.page_entries = 7) as fn(&mut RackConfig),
        ),
        ("sequencer", "switch.sequencers", |c| {
            c.switch.sequencers = 7
        }),
        ("index", "switch.index_servers", |c| {
            (c.switch.index_servers, c.switch.index_fat_ranges) = (7, 8);
        }),
    ] {
        let of = (None, program, "program");
        let how = format!("{key} is 0; set it");
        let is = format!("{key} is 7");
        check(of, ("not loaded", &how), set, ("loaded", &is));
        assert_eq!(path(&RackConfig::default(), None, program, "takes"), None);
        let mut config = RackConfig::default();
        set(&mut config);
        let takes = path(&config, None, program, "takes").unwrap();
        assert!(
            takes.0.ends_with("SRAM blocks") && takes.1.contains("tofino1"),
            "{takes:?}"
        );
        config.switch.budget = BudgetName::Software;
        let takes = path(&config, None, program, "takes").unwrap();
        assert!(
            takes.0.ends_with("bytes") && !takes.0.starts_with("0 "),
            "{takes:?}"
        );
        // The lack of capacity beside flows is reported only where it applies.
        let (_, why) = path(&RackConfig::default(), None, program, "program").unwrap();
        assert!(why.contains(" hold "), "{why}");
        let mut config = RackConfig::default();
        config.switch.budget = BudgetName::Software;
        let (_, why) = path(&config, None, program, "program").unwrap();
        assert!(!why.contains(" hold "), "{why}");
    }
}

/// Two stores of 4 and 2 pages in memory, and a switch with capacity for `entries`.
fn with_stores(entries: u32) -> RackConfig {
    let mut config = RackConfig::default();
    let page = u64::from(config.switch.page_size);
    config.switch.page_entries = entries;
    config.switch.page_stores = 2;
    config.store = vec![
        StoreConfig::in_memory("first", "storage0", 4 * page),
        StoreConfig::in_memory("second", "storage1", 2 * page),
    ];
    config
}

#[test]
#[expect(clippy::too_many_lines, reason = "a list of cases")]
fn stores_and_their_directories() {
    let none = path(&RackConfig::default(), None, "", "store").unwrap();
    assert_eq!(none.0, "none");
    let second = |what| (None, "second", what);
    let nobody = ("none: nobody finds its pages", "switch.page_entries is 0");
    let room = |entries| move |c: &mut RackConfig| c.switch.page_entries = entries;
    let start = with_stores(0);
    let all = ("the switch", "it has room for all");
    check_from(&start, second("directory"), nobody, room(6), all);
    let start = with_stores(6);
    let indexed = ("2 of 2 pages", "room for all");
    check_from(
        &start,
        second("indexed"),
        indexed,
        room(5),
        ("1 of 2 pages", "in turn"),
    );
    check_from(
        &start,
        second("indexed"),
        indexed,
        room(3),
        ("0 of 2 pages", "in turn"),
    );
    assert_eq!(path(&start, None, "second", "others"), None);
    let start = with_stores(5);
    let refused = ("none: pages are refused", "no memory node");
    let memory = |c: &mut RackConfig| c.node.push(NodeConfig::new("memory0", Role::Memory));
    let server = "entries in the memory of memory0";
    let stays = (server, "first memory node; switch.page_promote_at is 0");
    check_from(&start, second("others"), refused, memory, stays);
    let promoted = |c: &mut RackConfig| {
        memory(c);
        c.switch.page_promote_at = 5;
    };
    check_from(
        &start,
        second("others"),
        refused,
        promoted,
        (server, "after 8 requests"),
    );
    let mut start = with_stores(5);
    memory(&mut start);
    let both = ("the switch, and memory of memory0", "in turn");
    check_from(
        &start,
        second("directory"),
        both,
        room(3),
        (server, "in turn"),
    );
    let drives = |c: &mut RackConfig| c.store[1].drives = 4;
    let medium = (SIMULATED, "second", "medium");
    let one = ("2 pages in memory, modelled drives: 1", "virtual time");
    let four = ("2 pages in memory, modelled drives: 4", "virtual time");
    check_from(&start, medium, one, drives, four);
    let file = |c: &mut RackConfig| {
        let bytes = c.store[1].bytes;
        c.store[1] = StoreConfig::in_file("second", "storage1", "/tmp/x", bytes);
    };
    let medium = (EMBEDDED, "second", "medium");
    let before = ("2 pages in memory", "store.medium");
    check_from(
        &start,
        medium,
        before,
        file,
        ("2 pages in /tmp/x", "store.medium"),
    );
    let memory = ("no", "memory does not survive");
    check_from(
        &start,
        second("double writes"),
        memory,
        file,
        ("yes", "the default"),
    );
    let single = |c: &mut RackConfig| {
        file(c);
        c.store[1].double_write = Some(false);
    };
    check_from(
        &start,
        second("double writes"),
        memory,
        single,
        ("no", "double_write says so"),
    );
    start.hosted = Some(HostedSection::default());
    let hosted = path(&start, HOSTED, "second", "medium").unwrap();
    assert_eq!(hosted.0, "2 pages in memory", "a process has it");
}

#[test]
fn ways_to_an_index() {
    let network = (None, "in-network", "access");
    let sizes = |c: &mut RackConfig| {
        let switch = &mut c.switch;
        (switch.index_servers, switch.index_fat_ranges) = (4, 64);
        (switch.index_layers, switch.index_nodes) = (2, 16);
    };
    let no = ("no", "switch.index_servers is 0");
    let one = "switch 0 has a fat root of 64 ranges and layers 1 to 2 of 16 tree nodes each";
    check(network, no, sizes, ("3 levels", one));
    let tree = |c: &mut RackConfig| {
        sizes(c);
        c.switch.topology = TopologyName::FatTree;
        c.switch.index_layers = 3;
    };
    let spread = "switch 0 has a fat root of 64 ranges; switches 1 to 4 have layers 1 to 2 of 16 \
                  tree nodes each; switches 5 to 12 have layer 3 of 16 tree nodes";
    check(network, no, tree, ("4 levels", spread));
    for way in ["rpc", "one-sided"] {
        assert_eq!(
            path(&RackConfig::default(), None, way, "access").unwrap().0,
            "yes"
        );
    }
}
