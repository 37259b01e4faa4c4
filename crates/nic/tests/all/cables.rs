//! Direct cables beside the one to the switch.

use crate::common::*;
use rackweave_base::{Packet, Payload};
use rackweave_nic::{CableId, NicConfig};
use rackweave_verbs::CompletionStatus::Success;
use rackweave_verbs::Verbs;

const SWITCH: CableId = CableId::SWITCH;
const DIRECT: CableId = CableId(1);

/// Two NICs with a cable to each other, beside that to the switch.
fn cabled() -> Pair {
    cabled_with(|_| {})
}

fn cabled_with(config: fn(&mut NicConfig)) -> Pair {
    let mut pair = Pair::with(&Setup {
        config,
        ..Setup::default()
    });
    let ips = [pair.a.config.ip, pair.b.config.ip];
    for (nic, peer) in [(&mut pair.a.nic, ips[1]), (&mut pair.b.nic, ips[0])] {
        nic.allow_direct_cables();
        nic.set_cable(DIRECT, Some(peer));
    }
    pair
}

/// The next packet of a side, and its cable.
fn next(pair: &mut Pair, from: Side) -> Option<(CableId, Packet)> {
    let now = pair.now;
    let nic = &mut pair.node(from).nic;
    let packet = nic.poll_transmit(now)?;
    Some((nic.cable(), packet))
}

fn deliver(pair: &mut Pair, to: Side, (cable, packet): (CableId, Packet)) {
    let now = pair.now;
    let nic = &mut pair.node(to).nic;
    match cable {
        SWITCH => nic.handle_packet(now, packet),
        cable => nic.handle_direct(now, cable, packet),
    }
}

/// Exchanges packets until there are no more. Returns the cables that they took.
fn exchange(pair: &mut Pair) -> Vec<(Side, CableId)> {
    let mut taken = Vec::new();
    loop {
        let before = taken.len();
        for from in [A, B] {
            while let Some(packet) = next(pair, from) {
                taken.push((from, packet.0));
                deliver(pair, from.other(), packet);
            }
        }
        if taken.len() == before {
            return taken;
        }
    }
}

fn write(pair: &mut Pair, id: u64, len: u32) {
    let target = write_to(&pair.b.region, 0);
    pair.a.post(id, target, 0, len);
}

#[test]
fn requests_and_their_responses_take_the_cable_to_the_peer() {
    let mut pair = cabled();
    write(&mut pair, 1, 3000);
    let region = pair.b.region.clone();
    pair.a.post(2, read_from(&region, 0), 4096, 3000);
    let taken = exchange(&mut pair);
    assert!(taken.len() > 6, "{taken:?}");
    assert!(taken.iter().all(|(_, cable)| *cable == DIRECT), "{taken:?}");
    assert_eq!(pair.a.statuses(), [(1, Success), (2, Success)]);
    assert!(pair.a.nic.take_wanted().is_empty());
}

#[test]
fn a_peer_without_a_cable_is_reported_once_it_is_sent_to() {
    let mut pair = Pair::new();
    let peer = pair.b.config.ip;
    write(&mut pair, 1, 8);
    exchange(&mut pair);
    assert!(pair.a.nic.take_wanted().is_empty(), "none is allowed");
    pair.a.nic.allow_direct_cables();
    for id in 2..4 {
        write(&mut pair, id, 8);
        let taken = exchange(&mut pair);
        assert_eq!(taken, [(A, SWITCH), (B, SWITCH)]);
        assert_eq!(pair.a.nic.take_wanted(), [peer]);
    }
    assert!(pair.a.nic.take_wanted().is_empty());
}

#[test]
fn a_requester_changes_its_cable_only_while_nothing_is_outstanding() {
    let mut pair = Pair::new();
    pair.a.nic.allow_direct_cables();
    write(&mut pair, 1, 3000);
    let first = next(&mut pair, A).unwrap();
    assert_eq!(first.0, SWITCH);
    let peer = pair.b.config.ip;
    pair.a.nic.set_cable(DIRECT, Some(peer));
    deliver(&mut pair, B, first);
    let taken = exchange(&mut pair);
    assert!(taken.iter().all(|(_, cable)| *cable == SWITCH), "{taken:?}");
    let peer = pair.a.config.ip;
    pair.b.nic.set_cable(DIRECT, Some(peer));
    write(&mut pair, 2, 8);
    assert_eq!(exchange(&mut pair), [(A, DIRECT), (B, DIRECT)]);
    assert_eq!(pair.a.statuses(), [(1, Success), (2, Success)]);
}

#[test]
fn a_requester_that_never_pauses_changes_its_cable() {
    let mut pair = Pair::new();
    let ips = [pair.a.config.ip, pair.b.config.ip];
    pair.a.nic.allow_direct_cables();
    write(&mut pair, 1, 8);
    let first = next(&mut pair, A).unwrap();
    for (nic, peer) in [(&mut pair.a.nic, ips[1]), (&mut pair.b.nic, ips[0])] {
        nic.set_cable(DIRECT, Some(peer));
    }
    // There is always one more before the last one is acknowledged.
    write(&mut pair, 2, 8);
    write(&mut pair, 3, 8);
    assert!(next(&mut pair, A).is_none(), "one is outstanding");
    deliver(&mut pair, B, first);
    let mut taken = exchange(&mut pair);
    assert_eq!(taken.remove(0), (B, SWITCH));
    assert!(taken.iter().all(|(_, cable)| *cable == DIRECT), "{taken:?}");
    assert_eq!(pair.a.statuses(), [1, 2, 3].map(|id| (id, Success)));
}

#[test]
fn what_the_switch_has_to_see_passes_it() {
    let mut pair = cabled();
    pair.a.nic.keep_to_switch(pair.a.qpn);
    write(&mut pair, 1, 8);
    assert_eq!(exchange(&mut pair), [(A, SWITCH), (B, SWITCH)]);
    assert!(pair.a.nic.take_wanted().is_empty());
}

#[test]
fn what_was_on_a_cable_that_is_cut_is_resent_by_way_of_the_switch() {
    let mut pair = cabled();
    write(&mut pair, 1, 8);
    assert_eq!(next(&mut pair, A).unwrap().0, DIRECT);
    pair.a.nic.set_cable(DIRECT, None);
    pair.now = pair.a.nic.poll_timeout().unwrap();
    let now = pair.now;
    pair.a.nic.handle_timeout(now);
    assert_eq!(exchange(&mut pair), [(A, SWITCH), (B, SWITCH)]);
    assert_eq!(pair.a.statuses(), [(1, Success)]);
}

/// As between processes that share memory: a response takes its bytes when it arrives, so what may
/// change them is not sent before.
#[test]
fn nothing_that_changes_memory_is_sent_behind_a_read_by_reference() {
    let mut pair = cabled();
    let old = pattern(20_000, 1);
    pair.b.block.write(0, &old);
    let region = pair.b.region.clone();
    pair.b.post_receive(9, 0, 100);
    pair.a.post(1, read_from(&region, 0), 100_000, 20_000);
    pair.a.post(2, read_from(&region, 8), 200_000, 8);
    pair.a.post(3, SEND, 0, 100);
    write(&mut pair, 4, 20_000);
    let requests: Vec<_> = core::iter::from_fn(|| next(&mut pair, A)).collect();
    assert_eq!(requests.len(), 2, "the READs");
    for request in requests {
        deliver(&mut pair, B, request);
    }
    let responses: Vec<_> = core::iter::from_fn(|| next(&mut pair, B)).collect();
    let long = responses.iter().filter(|(_, it)| it.payload.len() > 8);
    for (cable, response) in long {
        assert_eq!(*cable, DIRECT);
        assert!(
            matches!(response.payload, Payload::Region(_)),
            "{response:?}"
        );
    }
    for response in responses {
        assert!(next(&mut pair, A).is_none(), "a READ is not answered yet");
        deliver(&mut pair, A, response);
    }
    exchange(&mut pair);
    assert_eq!(pair.a.bytes(100_000, 20_000), old);
    assert_eq!(pair.a.bytes(200_000, 8), old[8..16]);
    assert_eq!(pair.b.bytes(0, 20_000), [0; 20_000]);
    assert_eq!(pair.a.statuses(), [1, 2, 3, 4].map(|id| (id, Success)));
}

#[test]
fn the_middles_of_a_read_by_reference_travel_together() {
    let mut pair = cabled_with(|config| (config.train_max, config.check) = (4, false));
    let data = pattern(10_000, 1);
    pair.b.block.write(0, &data);
    let region = pair.b.region.clone();
    pair.a.post(1, read_from(&region, 0), 100_300, 10_000);
    pair.a.post(2, read_from(&region, 0), 200_000, 3000);
    let taken = exchange(&mut pair);
    let responses = taken.iter().filter(|(side, _)| *side == B).count();
    assert_eq!(responses, 4 + 3, "of 10 and 3 fragments: {taken:?}");
    assert_eq!(pair.a.bytes(100_300, 10_000), data);
    assert_eq!(pair.a.bytes(200_000, 3000), data[..3000]);
    assert_eq!(pair.a.statuses(), [(1, Success), (2, Success)]);
    assert_eq!(pair.a.counters(), [], "nothing was requested twice");
}

/// By way of the switch the bytes are taken when the response is made.
#[test]
fn a_read_that_goes_by_way_of_the_switch_again_is_copied() {
    let mut pair = cabled();
    pair.b.block.write(0, &pattern(3000, 1));
    let region = pair.b.region.clone();
    pair.a.post(1, read_from(&region, 0), 100_000, 3000);
    let request = next(&mut pair, A).unwrap();
    deliver(&mut pair, B, request);
    for nic in [&mut pair.a.nic, &mut pair.b.nic] {
        nic.set_cable(DIRECT, None);
    }
    write(&mut pair, 2, 3000);
    while let Some((cable, response)) = next(&mut pair, B) {
        assert_eq!(cable, SWITCH);
        assert!(
            matches!(response.payload, Payload::Pooled(_)),
            "{response:?}"
        );
        deliver(&mut pair, A, (cable, response));
    }
    exchange(&mut pair);
    assert_eq!(pair.a.bytes(100_000, 3000), pattern(3000, 1));
    assert_eq!(pair.a.statuses(), [(1, Success), (2, Success)]);
}

#[test]
fn only_the_peer_at_a_cable_is_heard_on_it() {
    let mut pair = cabled();
    let stranger = std::net::Ipv4Addr::new(10, 0, 0, 9);
    for peer in [Some(stranger), None] {
        pair.b.nic.set_cable(DIRECT, peer);
        let before = pair.b.counter("drop_not_from_peer");
        write(&mut pair, 1, 8);
        let packet = next(&mut pair, A).unwrap();
        deliver(&mut pair, B, packet);
        assert_eq!(pair.b.counter("drop_not_from_peer"), before + 1);
        assert!(next(&mut pair, B).is_none());
    }
}
