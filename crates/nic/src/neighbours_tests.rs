//! Requests, replies, and claims that must not be accepted.

use super::*;
use rackweave_base::{Payload, Rng};
use rackweave_wire::{Bth, Ethernet, Extension, Headers, Ipv4, Opcode, Udp};

const OWN: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const OWN_IP: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const PEER: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
const PEER_IP: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const THIEF: MacAddr = MacAddr([2, 0, 0, 0, 0, 3]);
const OTHER_IP: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 4);

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

fn neighbours(neighbours_max: usize) -> Neighbours {
    Neighbours::new(NeighbourConfig {
        neighbours_max,
        ..NeighbourConfig::new(OWN_IP, OWN)
    })
}

/// The effect of one packet: the counters that change, and the frames sent.
fn check(ours: &mut Neighbours, frame: ArpFrame) -> (NeighbourCounters, Vec<ArpFrame>) {
    let before = ours.counters;
    assert!(ours.handle_packet(at(0), &frame.packet()), "it is ARP");
    let sent = std::iter::from_fn(|| ours.poll_transmit(at(0)));
    let sent = sent.map(|packet| ArpFrame::of(&packet).unwrap()).collect();
    let after = ours.counters;
    let moved = NeighbourCounters {
        asked: after.asked - before.asked,
        answered: after.answered - before.answered,
        learned: after.learned - before.learned,
        drop_malformed: after.drop_malformed - before.drop_malformed,
        drop_not_for_us: after.drop_not_for_us - before.drop_not_for_us,
        drop_unasked: after.drop_unasked - before.drop_unasked,
        drop_busy: after.drop_busy - before.drop_busy,
    };
    (moved, sent)
}

/// The reply of `mac` to the request for `ip`.
fn answer(ip: Ipv4Addr, mac: MacAddr) -> ArpFrame {
    ArpFrame::request(OWN, OWN_IP, ip).reply(mac)
}

const LEARNED: NeighbourCounters = NeighbourCounters {
    asked: 0,
    answered: 0,
    learned: 1,
    drop_malformed: 0,
    drop_not_for_us: 0,
    drop_unasked: 0,
    drop_busy: 0,
};
const NONE: NeighbourCounters = NeighbourCounters {
    learned: 0,
    ..LEARNED
};
const UNASKED: NeighbourCounters = NeighbourCounters {
    drop_unasked: 1,
    ..NONE
};
const NOT_FOR_US: NeighbourCounters = NeighbourCounters {
    drop_not_for_us: 1,
    ..NONE
};
const ANSWERED: NeighbourCounters = NeighbourCounters {
    answered: 1,
    ..NONE
};

#[test]
fn a_question_for_us_is_answered_and_says_who_asks() {
    let mut ours = neighbours(4);
    let question = ArpFrame::request(PEER, PEER_IP, OWN_IP);
    let both = NeighbourCounters {
        answered: 1,
        ..LEARNED
    };
    let reply = question.reply(OWN);
    assert_eq!(check(&mut ours, question), (both, vec![reply]));
    assert_eq!(ours.resolve(PEER_IP), Resolution::Known(PEER));
    assert_eq!(ours.poll_event(), None, "nobody had asked");
    // A host that probes for its own address is answered, and has none yet.
    let probe = ArpFrame::request(PEER, Ipv4Addr::UNSPECIFIED, OWN_IP);
    assert_eq!(check(&mut ours, probe), (ANSWERED, vec![probe.reply(OWN)]));
    // A host that has the same address by mistake gets a reply, and is not accepted.
    let claim = ArpFrame::request(PEER, OWN_IP, OWN_IP);
    assert_eq!(check(&mut ours, claim), (ANSWERED, vec![claim.reply(OWN)]));
    assert_eq!(ours.resolve(OWN_IP), Resolution::Known(OWN));
}

#[test]
fn a_neighbour_is_asked_for_and_learned() {
    let mut ours = neighbours(4);
    assert_eq!(ours.resolve(PEER_IP), Resolution::Asked);
    assert_eq!(ours.resolve(PEER_IP), Resolution::Asked);
    assert_eq!(ours.poll_timeout(), None, "the question has not left yet");
    let sent = ours.poll_transmit(at(5)).unwrap();
    let question = ArpFrame::of(&sent).unwrap();
    assert_eq!(question, ArpFrame::request(OWN, OWN_IP, PEER_IP));
    assert!(ours.poll_transmit(at(5)).is_none(), "asked once");
    assert_eq!(ours.poll_timeout(), Some(at(1005)));
    let answered = check(&mut ours, answer(PEER_IP, PEER));
    assert_eq!(answered, (LEARNED, vec![]));
    assert_eq!(
        ours.poll_event(),
        Some(NeighbourEvent::Learned(PEER_IP, PEER))
    );
    assert_eq!(ours.poll_timeout(), None);
    assert_eq!(ours.resolve(PEER_IP), Resolution::Known(PEER));
}

#[test]
fn two_of_them_find_each_other() {
    let mut a = neighbours(4);
    let mut b = Neighbours::new(NeighbourConfig::new(PEER_IP, PEER));
    assert_eq!(a.resolve(PEER_IP), Resolution::Asked);
    for _ in 0..2 {
        while let Some(packet) = a.poll_transmit(at(0)) {
            assert!(b.handle_packet(at(0), &packet));
        }
        while let Some(packet) = b.poll_transmit(at(0)) {
            assert!(a.handle_packet(at(0), &packet));
        }
    }
    assert_eq!(a.resolve(PEER_IP), Resolution::Known(PEER));
    assert_eq!(b.resolve(OWN_IP), Resolution::Known(OWN));
}

#[test]
fn who_does_not_answer_is_asked_three_times() {
    let mut ours = neighbours(4);
    assert_eq!(ours.resolve(PEER_IP), Resolution::Asked);
    for round in 0..3 {
        assert!(ours.poll_transmit(at(1000 * round)).is_some());
        assert!(ours.poll_transmit(at(1000 * round)).is_none());
        ours.handle_timeout(at(1000 * round + 999));
        assert!(ours.poll_transmit(at(1000 * round + 999)).is_none());
        assert_eq!(ours.poll_event(), None);
        ours.handle_timeout(at(1000 * round + 1000));
    }
    assert!(ours.poll_transmit(at(3000)).is_none());
    assert_eq!(ours.poll_event(), Some(NeighbourEvent::Unanswered(PEER_IP)));
    assert_eq!((ours.poll_event(), ours.poll_timeout()), (None, None));
    assert_eq!(ours.counters().asked, 3);
    // A late reply counts as unasked; a new request is possible.
    assert_eq!(check(&mut ours, answer(PEER_IP, PEER)).0, UNASKED);
    assert_eq!(ours.resolve(PEER_IP), Resolution::Asked);
}

#[test]
fn an_unasked_answer_teaches_nothing() {
    let mut ours = neighbours(4);
    assert_eq!(check(&mut ours, answer(PEER_IP, THIEF)).0, UNASKED);
    assert_eq!(ours.resolve(PEER_IP), Resolution::Asked);
    check(&mut ours, answer(PEER_IP, PEER));
    // The address is known now, and neither replies nor requests change it.
    let mut to_all = answer(PEER_IP, THIEF);
    to_all.ethernet.target = arp::BROADCAST;
    for claim in [answer(PEER_IP, THIEF), to_all] {
        assert_eq!(check(&mut ours, claim).0, UNASKED);
    }
    let claim = ArpFrame::request(THIEF, PEER_IP, OWN_IP);
    assert_eq!(check(&mut ours, claim).0, ANSWERED);
    let announcement = ArpFrame::request(THIEF, PEER_IP, PEER_IP);
    assert_eq!(check(&mut ours, announcement).0, NOT_FOR_US);
    assert_eq!(ours.resolve(PEER_IP), Resolution::Known(PEER));
    // A peer with a new network card is requested again.
    ours.forget(PEER_IP);
    assert_eq!(ours.resolve(PEER_IP), Resolution::Asked);
    check(&mut ours, answer(PEER_IP, THIEF));
    assert_eq!(ours.resolve(PEER_IP), Resolution::Known(THIEF));
}

#[test]
fn what_is_not_for_us_is_left_alone() {
    let mut ours = neighbours(4);
    assert_eq!(ours.resolve(PEER_IP), Resolution::Asked);
    assert!(ours.poll_transmit(at(0)).is_some());
    let other_question = ArpFrame::request(PEER, PEER_IP, OTHER_IP);
    let answer_to_other = ArpFrame::request(THIEF, OTHER_IP, PEER_IP).reply(PEER);
    let mut other_mac = answer(PEER_IP, PEER);
    other_mac.arp.target_mac = THIEF;
    let mut other_target = answer(PEER_IP, PEER);
    other_target.ethernet.target = THIEF;
    let own_echo = ArpFrame::request(OWN, OWN_IP, OWN_IP);
    for frame in [
        other_question,
        answer_to_other,
        other_mac,
        other_target,
        own_echo,
    ] {
        assert_eq!(check(&mut ours, frame), (NOT_FOR_US, vec![]), "{frame:?}");
    }
    assert_eq!(ours.resolve(PEER_IP), Resolution::Asked, "still open");
}

#[test]
fn a_full_table_keeps_what_was_asked_for() {
    let mut ours = neighbours(2);
    let ip = |host| Ipv4Addr::new(10, 0, 1, host);
    let hear = |ours: &mut Neighbours, time, host| {
        let question = ArpFrame::request(PEER, ip(host), OWN_IP);
        assert!(ours.handle_packet(at(time), &question.packet()));
        ours.poll_transmit(at(time));
    };
    hear(&mut ours, 1, 1);
    hear(&mut ours, 2, 2);
    hear(&mut ours, 3, 1);
    // A third neighbour known from a request finds no free entry; one that is requested replaces 2,
    // which was heard from longer ago.
    hear(&mut ours, 4, 3);
    assert_eq!(ours.resolve(ip(3)), Resolution::Asked);
    assert_eq!(ours.resolve(ip(1)), Resolution::Known(PEER));
    assert_eq!(ours.resolve(ip(2)), Resolution::Full);
    ours.forget(ip(3));
    assert!(ours.poll_transmit(at(5)).is_none(), "its question is gone");
    assert_eq!(ours.resolve(ip(2)), Resolution::Asked);
}

#[test]
fn answers_that_nobody_fetches_are_bounded() {
    let mut ours = neighbours(2);
    for _ in 0..5 {
        let question = ArpFrame::request(PEER, PEER_IP, OWN_IP).packet();
        assert!(ours.handle_packet(at(0), &question));
    }
    assert_eq!((ours.counters.answered, ours.counters.drop_busy), (2, 3));
}

#[test]
fn an_announcement_is_made_once_if_wanted() {
    let mut ours = Neighbours::new(NeighbourConfig {
        announce: true,
        ..NeighbourConfig::new(OWN_IP, OWN)
    });
    let frame = ArpFrame::of(&ours.poll_transmit(at(0)).unwrap()).unwrap();
    assert_eq!(frame, ArpFrame::request(OWN, OWN_IP, OWN_IP));
    assert!(ours.poll_transmit(at(0)).is_none());
    assert!(neighbours(4).poll_transmit(at(0)).is_none());
}

#[test]
fn other_packets_are_the_nics() {
    let headers = Headers {
        ethernet: Ethernet::new(PEER, OWN),
        ipv4: Ipv4::new(PEER_IP, OWN_IP),
        udp: Udp::new(0xc000),
        bth: Bth::new(
            Opcode::SendOnly,
            rackweave_base::Qpn(5),
            rackweave_base::Psn::new(6),
        ),
        extension: Extension::None,
    };
    let mut ours = neighbours(4);
    assert!(!ours.handle_packet(at(0), &headers.packet(Payload::inline(b"data"))));
    assert!(!ours.handle_packet(at(0), &Packet::new(b"", Payload::Empty)));
    assert_eq!(ours.counters, NONE);
}

/// Any sequence of frames, times and calls: nothing panics, every bound holds, and an address that
/// was requested and learned stays until it is forgotten.
#[test]
fn whatever_comes_what_was_asked_for_stays() {
    let seed = 826;
    let mut rng = Rng::new(seed);
    let mut ours = neighbours(3);
    let mut pinned = [None; 6];
    let (mut now, mut learned) = (Instant::ZERO, 0);
    for step in 0..50_000 {
        let which = rng.below(6) as usize;
        let ip = Ipv4Addr::new(10, 0, 0, which as u8 + 1);
        let mac = MacAddr([2, 0, 0, 0, 9, rng.below(4) as u8]);
        match rng.below(6) {
            0 => _ = ours.handle_packet(now, &answer(ip, mac).packet()),
            1 => _ = ours.handle_packet(now, &ArpFrame::request(mac, ip, OWN_IP).packet()),
            2 => {
                let mut packet = answer(ip, mac).packet();
                packet.header_mut()[14 + rng.below(28) as usize] ^= 1 << rng.below(8);
                ours.handle_packet(now, &packet);
            }
            3 => match ours.resolve(ip) {
                Resolution::Known(mac) if ip != OWN_IP => {
                    learned += 1;
                    let before = *pinned[which].get_or_insert(mac);
                    assert_eq!(mac, before, "seed {seed} step {step}");
                }
                resolution => assert_eq!(pinned[which], None, "{resolution:?}, seed {seed}"),
            },
            4 => {
                now += Duration::from_millis(rng.below(700));
                ours.handle_timeout(now);
                assert!(ours.poll_timeout().is_none_or(|next| next > now));
                while ours.poll_transmit(now).is_some() {}
            }
            _ if rng.chance(0.2) => {
                ours.forget(ip);
                pinned[which] = None;
            }
            _ => _ = ours.poll_event(),
        }
        assert!(ours.unsent.len() <= 3 && ours.outgoing.len() <= 3 && ours.events.len() <= 3);
    }
    assert!(learned > 1000, "seed {seed}: {learned}");
}
