//! Tests of the configuration of foreign hosts.

use super::*;
use crate::Address;
use crate::config::choices::{self, Kind};
use rackweave_base::NodeId;

const HOSTED: &str = "[hosted]\nlink = 'udp'\n";

fn host(rest: &str) -> String {
    format!("[[host]]\nname = 'linux0'\n{rest}")
}

fn whole(udp: &str) -> String {
    host(&format!(
        "mac = '52:54:00:12:34:56'\nip = '10.77.1.1'\nudp = '{udp}'\n"
    ))
}

fn parse(text: &str) -> Result<RackConfig, String> {
    RackConfig::parse(text, "rack.toml").map_err(|error| error.to_string())
}

#[test]
fn a_foreign_host_is_read_and_written() {
    let text = format!("{HOSTED}{}", whole("127.0.0.1:4800"));
    let config = parse(&text).unwrap();
    let found = config.host_named("linux0").unwrap();
    assert_eq!(found.mac, MacAddr([0x52, 0x54, 0, 0x12, 0x34, 0x56]));
    assert_eq!(found.link_kind(), LinkKind::Udp);
    assert_eq!(found.reached_at(), "127.0.0.1:4800");
    assert!(config.node.iter().all(|node| node.name != "linux0"));
    assert_eq!(parse(&config.to_toml()).unwrap(), config);
    let packet = host("mac = '52:54:00:12:34:56'\nip = '192.0.2.1'\nswitch_interface = 'eth1'\n");
    let config = parse(&format!("{HOSTED}{packet}")).unwrap();
    assert_eq!(config.host[0].link_kind(), LinkKind::Packet);
    assert_eq!(config.host[0].reached_at(), "eth1");
}

#[test]
fn nodes_with_other_paths_to_a_host_agree() {
    let with = |text: String| parse(&format!("{HOSTED}{text}")).unwrap().agreement();
    let one = with(whole("127.0.0.1:4800"));
    assert_eq!(one, with(whole("127.0.0.2:4801")));
    assert_eq!(
        one,
        with(whole("127.0.0.1:4800") + "authenticate = false\n")
    );
    assert_ne!(
        one,
        with(whole("127.0.0.1:4800").replace("10.77.1.1", "10.77.1.2"))
    );
    assert_ne!(one, parse(HOSTED).unwrap().agreement());
}

/// The addresses that hosts must not have are those of nodes and switches.
#[test]
fn nodes_and_switches_have_reserved_addresses() {
    let nodes = (0..200).map(|at| Address::of_node(NodeId(at)));
    let nodes = nodes.map(|address| (address.mac, address.ip));
    let switches = (0..64).map(Address::of_switch);
    let switches = switches.map(|address| (address.mac, address.ip));
    for (mac, ip) in nodes.chain(switches) {
        let of = |mac: &str, ip: &str| {
            let text = format!("mac = '{mac}'\nip = '{ip}'\nudp = '127.0.0.1:4800'\n");
            parse(&format!("{HOSTED}{}", host(&text))).unwrap_err()
        };
        assert!(
            of(&mac.to_string(), "10.77.1.1").contains("belong to the rack's"),
            "{mac}"
        );
        assert!(
            of("52:54:00:12:34:56", &ip.to_string()).contains("belong to the rack's"),
            "{ip}"
        );
    }
}

/// The NIC of a foreign host checks the ICRC of each packet, whatever the links of nodes promise.
#[test]
fn beside_a_foreign_host_every_packet_has_its_icrc() {
    let with = |host: &str| parse(&format!("[hosted]\nlink = 'shared-memory'\n{host}")).unwrap();
    let both = |config: &RackConfig, kind| {
        let packets = choices::train_max(config, kind).value;
        (choices::icrc(config, kind).value, packets)
    };
    let (alone, beside) = (with(""), with(&whole("127.0.0.1:4800")));
    assert_eq!(both(&alone, Kind::Hosted), (false, 32));
    assert_eq!(both(&beside, Kind::Hosted), (true, 1));
    assert_eq!(both(&beside, Kind::Embedded), (false, 32));
    let why = choices::icrc(&beside, Kind::Hosted).why;
    assert_eq!(why, "the NIC of host linux0 checks it");
}

#[track_caller]
fn check(text: &str, says: &str) {
    let error = parse(text).unwrap_err();
    assert!(error.contains(says), "{text}\ngives {error}");
    assert!(!error.contains('\n'), "{error}");
}

#[test]
fn a_host_without_a_rack_of_processes_is_refused() {
    check(
        &whole("127.0.0.1:4800"),
        "add a section [hosted], or remove its [[host]]",
    );
}

#[test]
fn mistakes_about_a_host_are_reported() {
    let good = whole("127.0.0.1:4800");
    for (from, to, says) in [
        (
            "'linux0'",
            "'compute0'",
            "rack.toml:4:8: host.name is compute0: a node or another host",
        ),
        ("'linux0'", "'operator'", "are reserved"),
        ("'linux0'", "'a b'", "letters, digits"),
        (
            "'52:54:00:12:34:56'",
            "'52:54:00:12:34'",
            "such as \"52:54:00:12:34:56\"",
        ),
        (
            "'52:54:00:12:34:56'",
            "'+2:54:00:12:34:56'",
            "expected an Ethernet address",
        ),
        (
            "'52:54:00:12:34:56'",
            "'53:54:00:12:34:56'",
            "rack.toml:5:7: host.mac is 53:54:00",
        ),
        ("'52:54:00:12:34:56'", "'00:00:00:00:00:00'", "a single NIC"),
        ("'10.77.1.1'", "'10.77.1'", "rack.toml:6:6: "),
        ("'10.77.1.1'", "'224.0.0.1'", "a single NIC"),
        ("'10.77.1.1'", "'127.0.0.1'", "a single NIC"),
        (
            "'127.0.0.1:4800'",
            "'0.0.0.0:4800'",
            "of its VXLAN device are needed",
        ),
        (
            "'127.0.0.1:4800'",
            "'127.0.0.1:0'",
            "of its VXLAN device are needed",
        ),
        (
            "'127.0.0.1:4800'",
            "'127.0.0.1:4789'",
            "that is hosted.udp, the switch's own",
        ),
        (
            "udp = '127.0.0.1:4800'",
            "",
            "host \"linux0\" has no link, or two: say udp = ",
        ),
        ("ip = '10.77.1.1'\n", "", "`ip` is missing"),
        ("udp", "upd", "did you mean `udp`?"),
    ] {
        check(&format!("{HOSTED}{}", good.replace(from, to)), says);
    }
    let two = format!("{HOSTED}{good}switch_interface = 'eth1'\n");
    check(&two, "has no link, or two");
}

#[test]
fn hosts_share_nothing_with_others() {
    let first = whole("127.0.0.1:4800");
    let second = "[[host]]\nname = 'linux1'\nmac = '52:54:00:12:34:57'\nip = '10.77.1.2'\n\
                  udp = '127.0.0.2:4800'\n";
    let both = |from, to| format!("{HOSTED}{first}{}", second.replace(from, to));
    assert_eq!(parse(&both("", "")).map(|config| config.host.len()), Ok(2));
    for (from, to, says) in [
        (
            "linux1",
            "linux0",
            "host.name is linux0: a node or another host has this name",
        ),
        (
            ":57",
            ":56",
            "host.mac is 52:54:00:12:34:56: another host has this address",
        ),
        (
            "10.77.1.2",
            "10.77.1.1",
            "host.ip is 10.77.1.1: another host has this address",
        ),
        (
            "127.0.0.2:4800",
            "127.0.0.1:4801",
            "distinguishes hosts by it",
        ),
        (
            "127.0.0.2:4800",
            "[::ffff:127.0.0.1]:4801",
            "distinguishes hosts by it",
        ),
    ] {
        check(&both(from, to), says);
    }
    let packet = "[[node]]\nname = 'a'\nrole = 'storage'\nlink = 'packet'\ninterface = 'eth0'\n\
                  switch_interface = 'eth1'\n";
    let host = first.replace("udp = '127.0.0.1:4800'", "switch_interface = 'eth1'");
    check(
        &format!("{HOSTED}{packet}{host}"),
        "leads to a node or to another host",
    );
    let many: String = (0..33u32)
        .map(|at| {
            let text = first.replace("linux0", &format!("linux{at}"));
            let text = text.replace(":56", &format!(":{at:02x}"));
            text.replace("1.1", &format!("1.{}", at + 1))
        })
        .collect();
    check(
        &format!("{HOSTED}{many}"),
        "the number of hosts is 33: at most 32 are possible",
    );
}

#[test]
fn a_host_cannot_make_codes() {
    let codes = "[hosted]\nlink = 'udp'\nudp = '10.0.0.1:4789'\n";
    let host = whole("10.0.0.9:4789");
    check(
        &format!("{codes}{host}"),
        "host \"linux0\" cannot make the codes of hosted.authenticate",
    );
    check(
        &format!("{HOSTED}{host}authenticate = true\n"),
        "only false is possible",
    );
    assert!(parse(&format!("{codes}{host}authenticate = false\n")).is_ok());
    assert!(parse(&format!("{codes}authenticate = false\n{host}")).is_ok());
    assert!(parse(&format!("{HOSTED}{host}")).is_ok());
}
