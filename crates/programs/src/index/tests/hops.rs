//! Several switches in a row; the tests pass packets from one to the next.

use super::*;

/// The port of each switch that leads to the other one.
const UPLINK: u16 = 14;
/// The same, of the core towards a second switch below.
const SECOND: u16 = 15;

/// An edge switch with layer 1 and a port up, and a core switch with the fat root. The client and
/// the server are at the edge, the other server is at the core.
fn edge_and_core() -> [Rig; 2] {
    let edge = IndexConfig {
        fat_ranges: 0,
        ..SMALL
    };
    let core = IndexConfig { layers: 0, ..SMALL };
    let mut edge = Rig::new(edge);
    edge.host(OTHER_SERVER, UPLINK);
    edge.index().set_up_port(Some(PortId(UPLINK))).unwrap();
    let mut core = Rig::new(core);
    core.host(CLIENT, UPLINK);
    core.host(SERVER, UPLINK);
    for rig in [&mut edge, &mut core] {
        rig.register();
        rig.index().set_trusted(PortId(UPLINK), true).unwrap();
    }
    for bank in [0, 1] {
        load(&mut edge, &mut core, bank);
    }
    edge.index().set_active(Some(0)).unwrap();
    [edge, core]
}

/// In bank 0 the tree node is in slot 5, with children from 100 on; in bank 1 it is in slot 6, with
/// children from 200 on. Slot 5 of bank 1 holds a decoy.
fn load(edge: &mut Rig, core: &mut Rig, bank: usize) {
    let slot = 5 + bank as u16;
    core.index()
        .load_fat_root(bank, &small_fat_root(slot))
        .unwrap();
    let node = small_node(100 * (bank as u32 + 1));
    edge.index().load_nodes(bank, 1, slot, &[node]).unwrap();
    if bank == 1 {
        edge.index()
            .load_nodes(bank, 1, 5, &[small_node(666)])
            .unwrap();
    }
}

fn hand_on(rig: &mut Rig, port: u16, packet: Packet, expect: u16) -> Packet {
    let (out, packet) = rig.send(port, packet).expect("it leaves");
    assert_eq!(out, expect);
    packet
}

/// The progress in the header, without removing it from the packet.
fn progress_of(packet: &Packet) -> Progress {
    assert_eq!(query::sort(packet.header()), Some(Kind::Carried));
    query::detach(&mut packet.clone()).unwrap()
}

#[test]
fn a_query_goes_up_to_the_fat_root_and_comes_down_to_its_server() {
    let [mut edge, mut core] = edge_and_core();
    let up = hand_on(&mut edge, 1, query_to(SERVER, 150), UPLINK);
    let expect = Progress {
        is_lookup: false,
        fat_root_met: false,
        bank: 0,
        hops: 1,
        layer: 0,
        depth: 0,
        slot: NO_SLOT,
        server: 0,
        node: ROOT,
    };
    assert_eq!(progress_of(&up), expect);
    let down = hand_on(&mut core, UPLINK, up, UPLINK);
    let expect = Progress {
        fat_root_met: true,
        hops: 2,
        layer: 1,
        depth: 1,
        slot: 5,
        node: 10,
        ..expect
    };
    assert_eq!(progress_of(&down), expect);
    let done = hand_on(&mut edge, UPLINK, down, SERVER.into());
    assert_eq!(node_of(&done, SERVER, 150), 101);
    assert_eq!(edge.counters().by_depth[2], 1);
    assert_eq!((edge.counters().queries, core.counters().queries), (1, 0));
}

#[test]
fn the_switch_with_the_fat_root_may_be_the_last() {
    let [mut edge, mut core] = edge_and_core();
    let up = hand_on(&mut edge, 1, query_to(OTHER_SERVER, 5000), UPLINK);
    let done = hand_on(&mut core, UPLINK, up, OTHER_SERVER.into());
    assert_eq!(node_of(&done, OTHER_SERVER, 5000), 20);
    assert_eq!(core.counters().by_depth[1], 1);
    // Known to the first switch, but not to the last.
    let up = hand_on(&mut edge, 1, query_to(OTHER_SERVER, 5000), UPLINK);
    core.index().set_query(ip(OTHER_SERVER), QPN, None).unwrap();
    assert!(core.send(UPLINK, up).is_none());
    assert_eq!(core.drops(DropReason::IndexUnknownPair), 1);
    // The range now belongs to another server: the tree node found is one of the old server.
    let up = hand_on(&mut edge, 1, query_to(OTHER_SERVER, 5000), UPLINK);
    let entry = QueryEntry {
        server: 0,
        rkey: KEY,
    };
    core.index()
        .set_query(ip(OTHER_SERVER), QPN, Some(entry))
        .unwrap();
    assert!(core.send(UPLINK, up).is_none());
    assert_eq!(core.counters().unknown_pair, 2);
}

#[test]
fn the_first_switch_s_bank_holds_to_the_end() {
    let [mut edge, mut core] = edge_and_core();
    let up = hand_on(&mut edge, 1, query_to(SERVER, 150), UPLINK);
    for rig in [&mut edge, &mut core] {
        rig.index().set_active(Some(1)).unwrap();
    }
    let late = hand_on(&mut edge, 1, query_to(SERVER, 150), UPLINK);
    let down = hand_on(&mut core, UPLINK, up, UPLINK);
    let late = hand_on(&mut core, UPLINK, late, UPLINK);
    let done = hand_on(&mut edge, UPLINK, down, SERVER.into());
    assert_eq!(node_of(&done, SERVER, 150), 101);
    let late = hand_on(&mut edge, UPLINK, late, SERVER.into());
    assert_eq!(node_of(&late, SERVER, 150), 201);
}

#[test]
fn without_a_bank_a_query_goes_straight_to_its_server() {
    let [mut edge, mut core] = edge_and_core();
    edge.index().set_active(None).unwrap();
    let done = hand_on(&mut edge, 1, query_to(SERVER, 150), SERVER.into());
    assert_eq!(node_of(&done, SERVER, 150), 1);
    // The other server is behind the core, which must not walk the query.
    let up = hand_on(&mut edge, 1, query_to(OTHER_SERVER, 5000), UPLINK);
    let done = hand_on(&mut core, UPLINK, up, OTHER_SERVER.into());
    assert_eq!(node_of(&done, OTHER_SERVER, 5000), 1);
    assert_eq!(
        (edge.counters().no_bank, core.counters().by_depth[0]),
        (2, 1)
    );
}

#[test]
fn a_header_by_a_port_of_a_host_is_forged() {
    let [mut edge, mut core] = edge_and_core();
    let up = hand_on(&mut edge, 1, query_to(SERVER, 150), UPLINK);
    assert!(core.send(CLIENT.into(), up.clone()).is_none());
    assert_eq!(core.drops(DropReason::IndexForged), 1);
    core.index().set_trusted(PortId(UPLINK), false).unwrap();
    assert!(core.send(UPLINK, up).is_none());
    assert_eq!(core.counters().forged, 2);
}

#[test]
fn damaged_headers_are_dropped() {
    let [mut edge, mut core] = edge_and_core();
    let up = hand_on(&mut edge, 1, query_to(SERVER, 150), UPLINK);
    for at in 42..54 {
        let mut damaged = up.clone();
        damaged.header_mut()[at] ^= 0x10;
        assert!(core.send(UPLINK, damaged).is_none());
    }
    let mut cut = up.clone();
    cut.set_header(&up.header()[..60]);
    assert!(core.send(UPLINK, cut).is_none());
    let mut known = sealed(&headers_to(SERVER, 150, Rkey(1)));
    query::attach(&mut known, &progress_of(&up)).unwrap();
    assert!(
        core.send(UPLINK, known).is_none(),
        "it has a key of its own"
    );
    assert_eq!(core.drops(DropReason::Malformed), 14);
    assert_eq!(core.counters(), IndexCounters::default());
}

/// Found by the fuzz target `index`: the walk assumed that a query is at the root before it has met
/// the fat root. The check value of the header lets one damaged header in 65,536 through.
#[test]
fn a_header_that_is_below_the_root_before_the_fat_root_is_dropped() {
    let [mut edge, mut core] = edge_and_core();
    let up = hand_on(&mut edge, 1, query_to(SERVER, 150), UPLINK);
    let sound = progress_of(&up);
    for wrong in [Progress { node: 7, ..sound }, Progress { slot: 5, ..sound }] {
        let mut packet = query_to(SERVER, 150);
        query::attach(&mut packet, &wrong).unwrap();
        assert!(core.send(UPLINK, packet).is_none());
    }
    assert_eq!(core.drops(DropReason::Malformed), 2);
    assert_eq!(core.counters(), IndexCounters::default());
}

#[test]
fn a_way_up_to_nowhere_ends() {
    // Each assumes that the other has the fat root.
    let [mut edge, _] = edge_and_core();
    let [mut other, _] = edge_and_core();
    other.host(SERVER, UPLINK);
    let up = hand_on(&mut edge, 1, query_to(SERVER, 150), UPLINK);
    let down = hand_on(&mut other, UPLINK, up, UPLINK);
    let done = hand_on(&mut edge, UPLINK, down, SERVER.into());
    assert_eq!(node_of(&done, SERVER, 150), 1);
    // Forwarding forms a loop.
    edge.host(SERVER, UPLINK);
    let mut packet = hand_on(&mut edge, 1, query_to(SERVER, 150), UPLINK);
    let mut links = 1;
    loop {
        let rig = if links % 2 == 1 {
            &mut other
        } else {
            &mut edge
        };
        let Some((_, next)) = rig.send(UPLINK, packet) else {
            break;
        };
        packet = next;
        links += 1;
    }
    assert_eq!(links, HOPS_MAX);
    assert_eq!(edge.counters().hops + other.counters().hops, 1);
}

#[test]
fn layers_are_walked_in_turn_wherever_they_are() {
    let [mut edge, mut core] = edge_and_core();
    // Layer 2 is in a switch below the core, which the query has to pass.
    let lower = IndexConfig {
        fat_ranges: 0,
        first_layer: 2,
        ..SMALL
    };
    let mut lower = Rig::new(lower);
    lower.register();
    lower.index().set_trusted(PortId(UPLINK), true).unwrap();
    let mut node = small_node(100);
    node.children[1].slot = 9;
    edge.index().load_nodes(1, 1, 6, &[node]).unwrap();
    lower
        .index()
        .load_nodes(1, 2, 9, &[small_node(300)])
        .unwrap();
    edge.index().set_active(Some(1)).unwrap();
    core.index().set_trusted(PortId(SECOND), true).unwrap();
    // From the edge through the core, back to the edge, and on to the lower switch.
    edge.index().set_trusted(PortId(SECOND), true).unwrap();
    edge.host(SERVER, SECOND);
    let mut go = |key| {
        let up = hand_on(&mut edge, 1, query_to(SERVER, key), UPLINK);
        let down = hand_on(&mut core, UPLINK, up, UPLINK);
        let on = hand_on(&mut edge, UPLINK, down, SECOND);
        let done = hand_on(&mut lower, UPLINK, on, SERVER.into());
        node_of(&done, SERVER, key)
    };
    assert_eq!(go(150), 301);
    assert_eq!(go(50), 100, "its walk has ended above");
    assert_eq!(
        (lower.counters().by_depth[3], lower.counters().by_depth[2]),
        (1, 1)
    );
    // A query that does not pass the edge again misses layer 1, so it cannot use the layers below.
    core.host(SERVER, SECOND);
    let up = hand_on(&mut edge, 1, query_to(SERVER, 150), UPLINK);
    let on = hand_on(&mut core, UPLINK, up, SECOND);
    let done = hand_on(&mut lower, UPLINK, on, SERVER.into());
    assert_eq!(node_of(&done, SERVER, 150), 10);
}
