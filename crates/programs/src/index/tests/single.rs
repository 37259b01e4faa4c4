//! A single switch with the whole tree.

use super::*;

#[test]
fn a_query_is_led_to_the_deepest_tree_node_and_its_icrc_is_right() {
    for rewrite in [Rewrite::Update, Rewrite::Balance] {
        let mut rig = Rig::with(SMALL, rewrite);
        rig.lead();
        for (key, node) in [
            (0, 100),
            (99, 100),
            (100, 101),
            (199, 101),
            (200, 102),
            (999, 102),
        ] {
            assert_eq!(rig.ask(SERVER, key), Some(node), "{key}");
        }
        for key in [1000, u64::MAX] {
            assert_eq!(rig.ask(OTHER_SERVER, key), Some(20), "{key}");
        }
        let mut by_depth = [0; DEPTHS];
        by_depth[1] = 2;
        by_depth[2] = 6;
        let expect = IndexCounters {
            queries: 8,
            by_depth,
            ..IndexCounters::default()
        };
        assert_eq!(rig.counters(), expect);
        let index = rig.index();
        assert_eq!((index.range_hits(0, 0), index.range_hits(0, 1)), (6, 2));
        let hits = [0, 1, 2, 3].map(|at| index.child_hits(0, 1, 5, at));
        assert_eq!(hits, [2, 2, 2, 0]);
        assert_eq!(index.child_hits(1, 1, 5, 0), 0, "the other bank");
        index.clear_hits(0);
        assert_eq!(index.range_hits(0, 0) + index.child_hits(0, 1, 5, 1), 0);
        assert_eq!(index.child_hits(2, 7, 99, 16) + index.range_hits(2, 99), 0);
    }
}

#[test]
fn links_without_check_values_are_served_too() {
    let mut rig = Rig::new(SMALL);
    rig.lead();
    let packet = headers_to(SERVER, 150, Rkey(0)).packet(Payload::Empty);
    let (_, mut packet) = rig.send(CLIENT.into(), packet).unwrap();
    assert!(packet.check.is_none());
    assert!(icrc::seal(&mut packet, &Memory::new(1 << 12)));
    assert_eq!(node_of(&packet, SERVER, 150), 101);
}

#[test]
fn a_damaged_query_is_dropped() {
    for rewrite in [Rewrite::Update, Rewrite::Balance] {
        let mut rig = Rig::with(SMALL, rewrite);
        rig.lead();
        let mut packet = query_to(SERVER, 150);
        let at = packet.header().len() - 9;
        packet.header_mut()[at] ^= 1;
        assert!(rig.send(CLIENT.into(), packet).is_none());
        assert_eq!(rig.drops(DropReason::BadCheck), 1);
        assert_eq!(rig.counters().by_depth, [0; DEPTHS]);
    }
}

/// `chaos --system index --access in-network`, seed 2385: a bit of an address flipped before the
/// switch, which therefore did not recognise a valid query and passed the packet on; the bit
/// flipped again behind the switch. The server's NIC got a query that no switch had processed.
#[test]
fn a_query_with_damaged_headers_is_not_passed_on() {
    let mut rig = Rig::new(SMALL);
    rig.lead();
    // After the Ethernet header, 16 bytes into that of IPv4.
    let target = 14 + 16;
    for bit in 0..32 {
        let mut packet = query_to(SERVER, 150);
        packet.header_mut()[target + bit / 8] ^= 1 << (bit % 8);
        assert!(rig.send(CLIENT.into(), packet).is_none(), "bit {bit}");
    }
    assert_eq!(rig.drops(DropReason::Malformed), 32);
}

/// `chaos --system index --access in-network`, seed 7001673: a bit of the key flipped before the
/// switch, and the same bit of the address behind it. The switch had passed the query on with a
/// check value that was wrong by that bit, so the second flip made it right, and the server's NIC
/// refused an address that was never requested.
#[test]
fn a_bit_that_flips_before_and_behind_the_switch_does_not_go_unnoticed() {
    for rewrite in [Rewrite::Update, Rewrite::Balance] {
        let mut rig = Rig::with(SMALL, rewrite);
        rig.lead();
        let address = query_to(SERVER, 150).header().len() - 16;
        for bit in 0..64 {
            let flip =
                |packet: &mut Packet| packet.header_mut()[address + bit / 8] ^= 1 << (bit % 8);
            let mut packet = query_to(SERVER, 150);
            flip(&mut packet);
            let Some((_, mut packet)) = rig.send(CLIENT.into(), packet) else {
                continue;
            };
            flip(&mut packet);
            let verdict = icrc::verify(&packet, &Memory::new(1 << 12));
            assert_eq!(verdict, Verdict::Wrong, "{rewrite:?}, bit {bit}");
        }
    }
}

#[test]
fn a_query_on_an_unknown_queue_pair_is_dropped_and_counted() {
    let mut rig = Rig::new(SMALL);
    rig.load(0);
    rig.index().set_active(Some(0)).unwrap();
    assert_eq!(rig.ask(SERVER, 5), None);
    rig.register();
    assert_eq!(rig.ask(SERVER, 5), Some(100));
    rig.index().set_query(ip(SERVER), QPN, None).unwrap();
    assert_eq!(rig.ask(SERVER, 5), None);
    rig.register();
    rig.index().set_server(0, None).unwrap();
    assert_eq!(
        rig.ask(SERVER, 5),
        None,
        "a queue pair with a server that is gone"
    );
    assert_eq!(rig.counters().unknown_pair, 3);
    assert_eq!(rig.drops(DropReason::IndexUnknownPair), 3);
}

#[test]
fn a_key_of_another_server_leads_to_the_root() {
    let mut rig = Rig::new(SMALL);
    rig.lead();
    assert_eq!(rig.ask(SERVER, 1000), Some(1));
    assert_eq!(rig.ask(OTHER_SERVER, 999), Some(1));
    let counters = rig.counters();
    assert_eq!((counters.other_server, counters.by_depth[0]), (2, 2));
}

#[test]
fn what_is_not_there_leads_less_deep() {
    let mut rig = Rig::new(SMALL);
    rig.register();
    assert_eq!(rig.ask(SERVER, 5), Some(1));
    assert_eq!(rig.counters().no_bank, 1);
    rig.index().set_active(Some(1)).unwrap();
    assert_eq!(rig.ask(SERVER, 5), Some(1));
    assert_eq!(rig.counters().no_range, 1);
    rig.index().set_active(None).unwrap();
    rig.index().load_fat_root(1, &small_fat_root(5)).unwrap();
    rig.index().set_active(Some(1)).unwrap();
    assert_eq!(rig.ask(SERVER, 5), Some(10));
    assert_eq!(rig.counters().not_loaded, 1);
    let mut node = small_node(100);
    node.children[1] = Child::NONE;
    node.pivots = [99; BRANCHES];
    rig.index().set_active(None).unwrap();
    rig.index().load_nodes(1, 1, 5, &[node]).unwrap();
    rig.index().set_active(Some(1)).unwrap();
    assert_eq!(rig.ask(SERVER, 99), Some(100));
    assert_eq!(rig.ask(SERVER, 100), Some(10), "beyond the last pivot");
    assert_eq!(rig.counters().beyond, 1);
    rig.index().set_active(None).unwrap();
    rig.index().load_nodes(1, 1, 5, &[small_node(100)]).unwrap();
    let mut hole = small_fat_root(77);
    hole.ranges[1].child = Child::NONE;
    rig.index().load_fat_root(1, &hole).unwrap();
    rig.index().set_active(Some(1)).unwrap();
    assert_eq!(rig.ask(SERVER, 99), Some(10), "a slot that no layer has");
    assert_eq!(
        rig.ask(OTHER_SERVER, 5000),
        Some(1),
        "a range without tree node"
    );
    let counters = rig.counters();
    assert_eq!((counters.not_loaded, counters.beyond), (2, 2));
}

#[test]
fn other_traffic_is_left_alone() {
    let mut rig = Rig::new(SMALL);
    rig.lead();
    let mut write = headers_to(SERVER, 5, Rkey(0));
    write.bth.opcode = Opcode::WriteOnly;
    let mut write = write.packet(Payload::inline(b"four"));
    assert!(icrc::seal(&mut write, &Memory::new(1 << 12)));
    let mut response = headers_to(SERVER, 5, Rkey(0));
    response.bth.opcode = Opcode::ReadResponseMiddle;
    response.extension = Extension::None;
    let response = response.packet(Payload::inline(&[0; 32]));
    let mut plain = query_to(SERVER, 5);
    plain.header_mut()[37] = 53;
    let known = sealed(&headers_to(SERVER, 5, Rkey(9)));
    for packet in [write, response, plain, known] {
        let (port, after) = rig.send(CLIENT.into(), packet.clone()).unwrap();
        assert_eq!(port, u16::from(SERVER));
        assert_eq!(bytes(&after), bytes(&packet));
    }
    assert_eq!(rig.counters(), IndexCounters::default());
}

#[test]
fn a_switch_without_index_forwards_queries_as_they_are() {
    let mut rig = Rig::new(IndexConfig::NONE);
    let query = query_to(SERVER, 5);
    let (_, after) = rig.send(CLIENT.into(), query.clone()).unwrap();
    assert_eq!(bytes(&after), bytes(&query));
    let index = rig.index();
    assert!(index.set_active(Some(0)).is_err());
    assert!(index.set_up_port(Some(PortId(1))).is_err());
    assert!(index.set_active(None).is_ok() && index.set_up_port(None).is_ok());
    assert!(index.load_fat_root(0, &small_fat_root(5)).is_err());
    let entry = QueryEntry {
        server: 0,
        rkey: KEY,
    };
    assert!(index.set_query(ip(SERVER), QPN, Some(entry)).is_err());
}

#[test]
fn a_restart_forgets_everything() {
    let mut rig = Rig::new(SMALL);
    rig.lead();
    assert_eq!(rig.ask(SERVER, 5), Some(100));
    let program = Pipeline::new(&rig.config, Memory::new(1 << 20));
    rig.switch.restart(program).unwrap();
    for host in [CLIENT, SERVER] {
        rig.host(host, u16::from(host));
    }
    assert_eq!(rig.index().active(), None);
    assert_eq!(rig.index().child_hits(0, 1, 5, 0), 0);
    assert_eq!(rig.ask(SERVER, 5), None, "nobody knows the queue pair");
    rig.register();
    assert_eq!(rig.ask(SERVER, 5), Some(1));
}
